package oncelake;

import java.io.ByteArrayOutputStream;
import java.util.Map;
import java.util.TreeMap;

/** What one rule changes in a record: ranges of bytes with the bytes in their place, and quotes around numbers. */
final class MaskEdits {
  private final TreeMap<Integer, Range> ranges = new TreeMap<Integer, Range>();
  private final TreeMap quotes = new TreeMap();

  boolean isEmpty() {
    return ranges.isEmpty();
  }

  /** Adds a range; where others overlap with it, they become one, with their own text. Returns true if none does. */
  boolean add(int start, int end, byte[] text) {
    Range made = new Range(start, end, null);
    Map.Entry before = ranges.lowerEntry(Integer.valueOf(end));
    while (before != null && ((Range) before.getValue()).end > made.start) {
      Range other = (Range) before.getValue();
      ranges.remove(before.getKey());
      made = new Range(
          Math.min(made.start, other.start), Math.max(made.end, other.end), both(other.text, made.text));
      before = ranges.lowerEntry(Integer.valueOf(made.end));
    }
    boolean isNew = made.text == null;
    ranges.put(Integer.valueOf(made.start), isNew ? new Range(start, end, text) : made);
    return isNew;
  }

  boolean overlaps(int start, int end) {
    Map.Entry before = ranges.lowerEntry(Integer.valueOf(end));
    return before != null && ((Range) before.getValue()).end > start;
  }

  /** Adds a quote before a byte. */
  void quote(int place, byte[] quote) {
    quotes.put(Integer.valueOf(place), quote);
  }

  private static byte[] both(byte[] one, byte[] other) {
    if (other == null) {
      return one;
    }
    byte[] both = java.util.Arrays.copyOf(one, one.length + other.length);
    System.arraycopy(other, 0, both, one.length, other.length);
    return both;
  }

  /**
   * Returns a record with the changes.
   *
   * @param joints the ranges of bytes that stay between parts of the record, also within a changed range
   * @param within what changes in the joints
   */
  byte[] applied(byte[] bytes, int[] joints, MaskEdits within) {
    ByteArrayOutputStream out = new ByteArrayOutputStream(bytes.length + 64);
    int done = 0;
    int joint = 0;
    for (Range range : ranges.values()) {
      copy(out, bytes, done, range.start, within);
      out.write(range.text, 0, range.text.length);
      quotes.headMap(Integer.valueOf(range.end)).clear();
      while (joint < joints.length && joints[joint] < range.end) {
        if (joints[joint] >= range.start) {
          copy(out, bytes, joints[joint], joints[joint + 1], within);
        }
        joint += 2;
      }
      done = range.end;
    }
    copy(out, bytes, done, bytes.length, within);
    return out.toByteArray();
  }

  private void copy(ByteArrayOutputStream out, byte[] bytes, int from, int to, MaskEdits within) {
    int at = from;
    while (!quotes.isEmpty() && ((Integer) quotes.firstKey()).intValue() <= to) {
      Map.Entry quote = quotes.pollFirstEntry();
      int place = ((Integer) quote.getKey()).intValue();
      copyJoints(out, bytes, at, place, within);
      out.write((byte[]) quote.getValue(), 0, ((byte[]) quote.getValue()).length);
      at = place;
    }
    copyJoints(out, bytes, at, to, within);
  }

  private static void copyJoints(ByteArrayOutputStream out, byte[] bytes, int from, int to, MaskEdits within) {
    int done = from;
    for (Range range : within.ranges.subMap(Integer.valueOf(from), Integer.valueOf(to)).values()) {
      out.write(bytes, done, range.start - done);
      out.write(range.text, 0, range.text.length);
      done = range.end;
    }
    out.write(bytes, done, to - done);
  }

  private static final class Range {
    final int start;
    final int end;
    final byte[] text;

    Range(int start, int end, byte[] text) {
      this.start = start;
      this.end = end;
      this.text = text;
    }
  }
}
