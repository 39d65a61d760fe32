package oncelake;

import java.io.ByteArrayOutputStream;
import java.io.Closeable;
import java.io.IOException;
import java.io.Serializable;
import java.util.Arrays;
import java.util.Iterator;
import java.util.NoSuchElementException;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import org.apache.spark.sql.catalyst.expressions.GenericInternalRow;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;
import org.apache.spark.unsafe.Platform;
import org.apache.spark.unsafe.types.UTF8String;

/**
 * Puts the lines of a file together to records: rows of `value` binary, a record without its last line end, `start`
 * bigint, the byte of the uncompressed file at which it starts, and `headers`, which only a stand-in has.
 *
 * A record starts at a line in which the pattern is found, and ends before the next such line. Lines before the first
 * start are a record too. A record that is longer than a bound ends there, and its rest is one more record or several:
 * so no byte is lost, and memory is bounded. Without a pattern, each line is a record. A stand-in (see `BoundedLines`) is
 * a row of its own, and the record before it ends there. A part of a file has the records that start in it, and reads
 * the last one to its end; NUL bytes and the line behind them are in the same part.
 *
 * Another pattern is for lines that a runtime has cut. A line in which its group `more` is found goes on in the next
 * line, if the group `of` has the same text in both. Only the line before shows whether a line starts a record, so such
 * a file is read from its beginning.
 *
 * It stands on Spark's internals: `GenericInternalRow`, `UTF8String`, `Platform`.
 */
public final class Records implements Iterator, Closeable {
  /** The lines of a part of a file, one after the other. */
  public interface Lines extends Closeable {
    /** Reads the next line or stand-in; returns false if there is none. */
    boolean next() throws IOException;

    /** Returns what was read last. */
    BoundedLines line();

    /** Returns the byte of the uncompressed file at which it starts. */
    long position();
  }

  /** What a record is, and how long it may be. */
  public static final class Bounds implements Serializable {
    final String starts;
    final String part;
    final String content;
    final String inside;
    final long maxLines;
    final long maxBytes;
    final long maxLine;

    /**
     * @param options `starts`, the pattern that is found in a record's first line, or `part`, the pattern with the groups
     *     `of` and `more`, and with it perhaps `content` and `inside`: what stands before the content of a line, and the
     *     pattern that is found at the start of the content of a record's first line; `maxlines` and `maxbytes` of a record; `maxline`, the bytes of a line
     */
    public Bounds(CaseInsensitiveStringMap options) {
      this.starts = options.get("starts");
      this.part = options.get("part");
      this.content = options.get("content");
      this.inside = options.get("inside");
      this.maxLines = options.getLong("maxlines", 0L);
      this.maxBytes = options.getLong("maxbytes", 0L);
      this.maxLine = options.getLong("maxline", 0L);
    }
  }

  /** How many characters of a line are searched for a start; records.py has the same number. */
  private static final int SEARCHED = 1024;
  private static final byte LINE_END = (byte) '\n';

  private final Lines lines;
  private final Object[] values;
  private final GenericInternalRow reused;
  private final boolean isText;
  private final int valueAt;
  private final int startAt;
  private final int headersAt;
  private final Pattern starts;
  private final Pattern part;
  private final Pattern content;
  private final Pattern inside;
  private final long maxLines;
  private final long maxBytes;
  private final long end;
  private final ByteArrayOutputStream record = new ByteArrayOutputStream();
  private boolean isOpen = true;
  private boolean isTaken = true;
  private boolean hasLine;
  private boolean isStart;
  private boolean isWithin;
  private String open;
  private String before;
  private GenericInternalRow row;

  /**
   * @param columns those of `value`, `start` and `headers` that the rows have, in their order
   * @param isText whether a value is a string, which is valid until the next row is asked for, or a copy of its bytes
   * @param bounds what a record is; without a pattern, each line is one
   * @param isFirst whether the part begins with a record, even if no start is found in its first line
   * @param end the byte after the last one at which a record of this part can start
   */
  public Records(
      Lines lines, String[] columns, boolean isText, Bounds bounds, boolean isFirst, long end) throws IOException {
    this.lines = lines;
    this.values = new Object[columns.length];
    this.reused = new GenericInternalRow(values);
    this.isText = isText;
    this.valueAt = Arrays.asList(columns).indexOf("value");
    this.startAt = Arrays.asList(columns).indexOf("start");
    this.headersAt = Arrays.asList(columns).indexOf("headers");
    this.starts = bounds.starts == null ? null : Pattern.compile(bounds.starts);
    this.part = bounds.part == null ? null : Pattern.compile(bounds.part);
    this.content = bounds.inside == null ? null : beginning(bounds.content);
    this.inside = bounds.inside == null ? null : Pattern.compile(bounds.inside);
    this.maxLines = bounds.maxLines;
    this.maxBytes = bounds.maxBytes;
    this.isWithin = isFirst;
    this.end = end;
  }

  @Override
  public boolean hasNext() {
    try {
      if (row == null && isOpen && !collect()) {
        close();
      }
    } catch (IOException error) {
      Platform.throwException(error);
    }
    return row != null;
  }

  @Override
  public Object next() {
    if (!hasNext()) {
      throw new NoSuchElementException();
    }
    GenericInternalRow next = row;
    row = null;
    return next;
  }

  /** Collects the next record of this part into `row`, the same object each time; returns false if there is none. */
  private boolean collect() throws IOException {
    if (isTaken) {
      advance();
    }
    while (hasLine && !isWithin && !isStart) {
      if (lines.line().lineStart() >= end) {
        return false;
      }
      advance();
    }
    if (!hasLine || (isStart && lines.line().lineStart() >= end)) {
      return false;
    }
    isWithin = true;
    if (startAt >= 0) {
      values[startAt] = Long.valueOf(lines.position());
    }
    BoundedLines line = lines.line();
    if (headersAt >= 0) {
      values[headersAt] = line.headers();
    }
    if (line.headers() != null || (starts == null && part == null)) {
      setValue(line.bytes(), line.first(), line.size());
      isTaken = true;
    } else {
      record.reset();
      long count = 0L;
      while (hasLine && count <= maxLines && record.size() <= maxBytes && (count == 0L || !isStart)) {
        if (count > 0L) {
          record.write(LINE_END);
        }
        record.write(line.bytes(), line.first(), line.size());
        count++;
        advance();
      }
      byte[] whole = record.toByteArray();
      setValue(whole, 0, whole.length);
    }
    row = reused;
    return true;
  }

  private void setValue(byte[] bytes, int first, int size) {
    if (valueAt >= 0) {
      values[valueAt] = isText
          ? (Object) UTF8String.fromBytes(bytes, first, size) : (Object) Arrays.copyOfRange(bytes, first, first + size);
    }
  }

  private void advance() throws IOException {
    isTaken = false;
    hasLine = lines.next();
    if (!hasLine) {
      isStart = false;
      return;
    }
    BoundedLines line = lines.line();
    if (line.headers() != null) {
      isStart = true;
      open = null;
      before = null;
    } else if (part != null) {
      Matcher found = partOf(line.bytes(), line.first(), line.size(), part);
      isStart = open == null || !open.equals(of(found));
      if (isStart && inside != null && of(found).equals(before)) {
        isStart = hasStartInside(line.bytes(), line.first(), line.size(), content, inside);
      }
      before = of(found);
      open = goesOn(found) ? of(found) : null;
    } else {
      isStart = starts == null || hasStart(line.bytes(), line.first(), line.size(), starts);
    }
  }

  /** Returns the end of a text's last line, without its line end. */
  private static int endOf(byte[] text) {
    return text.length > 0 && text[text.length - 1] == LINE_END ? text.length - 1 : text.length;
  }

  /** Returns the first byte of the line that ends before a byte. */
  static int firstOf(byte[] text, int end) {
    int first = end;
    while (first > 0 && text[first - 1] != LINE_END) {
      first--;
    }
    return first;
  }

  /** Returns the last byte of a text at which no record goes on; -1 if there is none, but perhaps at its first byte. */
  public static int lastWhole(byte[] text, String part) {
    Pattern pattern = Pattern.compile(part);
    int end = endOf(text);
    int following = text.length;
    String next = null;
    while (end >= 0) {
      int first = firstOf(text, end);
      Matcher found = partOf(text, first, end - first, pattern);
      if (!goesOn(found) || (following < text.length && !of(found).equals(next))) {
        return following;
      }
      next = of(found);
      following = first;
      end = first - 1;
    }
    return -1;
  }

  /** Returns the first byte of the last line that starts a record inside the lines; -1 if none is known to do. */
  public static int lastInside(byte[] text, String part, String content, String inside) {
    Pattern pattern = Pattern.compile(part);
    Pattern before = beginning(content);
    Pattern starts = Pattern.compile(inside);
    int end = endOf(text);
    int following = -1;
    boolean isStart = false;
    String next = null;
    while (end >= 0) {
      int first = firstOf(text, end);
      Matcher found = partOf(text, first, end - first, pattern);
      boolean isSame = of(found).equals(next);
      if (following >= 0 && !(isSame && goesOn(found)) && (!isSame || isStart)) {
        return following;
      }
      isStart = hasStartInside(text, first, end - first, before, starts);
      next = of(found);
      following = first;
      end = first - 1;
    }
    return isStart ? following : -1;
  }

  /** Returns true if the content of a line starts a record, or if the line has no content. */
  private static boolean hasStartInside(byte[] bytes, int first, int size, Pattern content, Pattern inside) {
    int length = lengthOf(bytes, first, size);
    try {
      Matcher found = BoundedPattern.find(content, head(bytes, first, length));
      if (found == null) {
        return true;
      }
      int before = found.group().getBytes(java.nio.charset.StandardCharsets.UTF_8).length;
      return hasStart(bytes, first + before, length - before, inside);
    } catch (BoundedPattern.TooManySteps error) {
      return true;  // a record of its own, which silver refuses
    }
  }

  /** Returns a pattern that is found at the beginning of a text and nowhere else. */
  private static Pattern beginning(String pattern) {
    return Pattern.compile("\\A(?:" + pattern + ")");
  }

  /** Returns true if a line was cut, so that the next one goes on. */
  static boolean isCut(byte[] bytes, int first, int size, Pattern part) {
    return goesOn(partOf(bytes, first, size, part));
  }

  /** Finds the pattern at the beginning of a line or at its end; returns null if it is at neither. */
  private static Matcher partOf(byte[] bytes, int first, int size, Pattern part) {
    int length = lengthOf(bytes, first, size);
    try {
      Matcher found = BoundedPattern.find(part, head(bytes, first, length));
      int from = Math.max(0, length - SEARCHED);
      if (found != null || from == 0) {
        return found;
      }
      return BoundedPattern.find(
          part,
          UTF8String.fromBytes(Arrays.copyOfRange(bytes, first + from, first + length)).makeValid().toString());
    } catch (BoundedPattern.TooManySteps error) {
      return null;  // a record of its own, which silver refuses
    }
  }

  private static boolean goesOn(Matcher found) {
    return found != null && found.group("more") != null;
  }

  private static String of(Matcher found) {
    String text = found == null ? null : found.group("of");
    return text == null ? "" : text;
  }

  /** Returns the first byte of the last line that starts a record; -1 if none of the lines does. */
  public static int lastStart(byte[] text, String starts) {
    Pattern pattern = Pattern.compile(starts);
    int end = endOf(text);
    while (end >= 0) {
      int first = firstOf(text, end);
      if (hasStart(text, first, end - first, pattern)) {
        return first;
      }
      end = first - 1;
    }
    return -1;
  }

  private static boolean hasStart(byte[] bytes, int first, int size, Pattern starts) {
    try {
      return BoundedPattern.find(starts, Colours.visible(head(bytes, first, lengthOf(bytes, first, size)))) != null;
    } catch (BoundedPattern.TooManySteps error) {
      return true;  // a record of its own, which silver refuses
    }
  }

  /** Returns the length of a line without the \\r at its end. */
  private static int lengthOf(byte[] bytes, int first, int size) {
    return size > 0 && bytes[first + size - 1] == (byte) '\r' ? size - 1 : size;
  }

  private static String head(byte[] bytes, int first, int length) {
    byte[] searched = Arrays.copyOfRange(bytes, first, first + Math.min(length, SEARCHED * 4));
    String text = UTF8String.fromBytes(searched).makeValid().toString();
    int characters = Math.min(text.codePointCount(0, text.length()), SEARCHED);
    return text.substring(0, text.offsetByCodePoints(0, characters));
  }

  @Override
  public void close() {
    if (!isOpen) {
      return;
    }
    isOpen = false;
    try {
      lines.close();
    } catch (IOException error) {
      Platform.throwException(error);
    }
  }
}
