package oncelake;

import java.io.IOException;
import java.io.InputStream;
import java.security.MessageDigest;
import java.security.NoSuchAlgorithmException;
import java.util.Arrays;
import java.util.HexFormat;
import org.apache.spark.sql.catalyst.expressions.GenericInternalRow;
import org.apache.spark.sql.catalyst.util.ArrayData;
import org.apache.spark.unsafe.types.UTF8String;

/**
 * Reads lines that end at \n; of a line that is longer than a bound, it keeps a few bytes and what identifies the others.
 *
 * Each call of `next` reads one of these:
 *
 * - a line, without its line end.
 * - a line of more than `maxLine` bytes. It is a stand-in: its first bytes, its length and its SHA-256.
 * - the NUL bytes before a line, however many. They are a stand-in too: some of them, and their number. The line behind
 *   them comes next, unless the line has nothing else.
 *
 * A byte order mark at the beginning of the file is left out.
 *
 * It stands on Spark's internals: `GenericInternalRow`, `ArrayData`, `UTF8String`.
 */
public final class BoundedLines {
  /** How many bytes a stand-in keeps; stand_in.py has the same number. */
  private static final int HEAD = 1024;
  private static final int BUFFER = 65536;
  private static final byte LINE_END = (byte) '\n';
  private static final UTF8String BYTES = UTF8String.fromString("oncelake.bytes");
  private static final UTF8String SHA256 = UTF8String.fromString("oncelake.sha256");

  private final InputStream bytes;
  private final long maxLine;
  private byte[] buffer = new byte[BUFFER];
  private int at;
  private int limit;
  private long lineStart;
  private long position;
  private long following;
  private boolean isWithin;
  private boolean isMarkAlone;
  private byte[] text;
  private int first;
  private int size;
  private ArrayData headers;

  /**
   * @param bytes the bytes of the uncompressed file from a position on
   * @param position the byte of the file at which they start
   */
  public BoundedLines(InputStream bytes, long position, long maxLine) {
    this.bytes = bytes;
    this.maxLine = maxLine;
    this.following = position;
  }

  /** Skips to the byte after the next line end; returns false if no line starts there before the byte `end`. */
  public boolean skipLine(long end) throws IOException {
    while (following < end && (at < limit || fill())) {
      int found = lineEnd(at);
      int count = Math.min(found + 1, limit) - at;
      following += count;
      at += count;
      if (found < limit) {
        return following < end;
      }
    }
    return false;
  }

  /** Reads the next line or stand-in; returns false at the end of the file. */
  public boolean next() throws IOException {
    headers = null;
    isMarkAlone = false;
    if (!isWithin) {
      lineStart = following;
    }
    if (at == limit && !fill()) {
      return false;
    }
    if (following == 0L && !isWithin && skipMark() && at == limit && !fill()) {
      isMarkAlone = true;
      endLine(0);
      return true;
    }
    position = following;
    if (buffer[at] == 0) {
      readNuls();
    } else {
      readLine();
    }
    return true;
  }

  private void readLine() throws IOException {
    int found = at;
    while (true) {
      found = lineEnd(found);
      int count = found - at;
      if (count > maxLine) {
        readLongLine();
        return;
      }
      if (found < limit) {
        endLine(count);
        at = found + 1;
        return;
      }
      boolean isMore = fill();
      found = at + count;
      if (!isMore) {
        endLine(count);
        at = found;
        return;
      }
    }
  }

  /** Returns the place of the next line end from a place in the buffer on; where the bytes end if there is none. */
  private int lineEnd(int from) {
    byte[] searched = buffer;
    int until = limit;
    int found = from;
    while (found < until && searched[found] != LINE_END) {
      found++;
    }
    return found;
  }

  /** Reads a line that is longer than the bound on to its end. */
  private void readLongLine() throws IOException {
    byte[] head = Arrays.copyOfRange(buffer, at, at + (int) Math.min(HEAD, maxLine));
    MessageDigest digest = sha256();
    long length = 0L;
    boolean isEnded = false;
    while (!isEnded && (at < limit || fill())) {
      int found = lineEnd(at);
      digest.update(buffer, at, found - at);
      length += found - at;
      isEnded = found < limit;
      at = isEnded ? found + 1 : found;
    }
    String sum = HexFormat.of().formatHex(digest.digest());
    standIn(head, length + 1L, new Object[] {entry(BYTES, Long.toString(length + 1L)), entry(SHA256, sum)});
    isWithin = false;
  }

  private void readNuls() throws IOException {
    long count = 0L;
    boolean isMore = true;
    while (isMore) {
      int found = at;
      while (found < limit && buffer[found] == 0) {
        found++;
      }
      count += found - at;
      at = found;
      isMore = at == limit && fill();
    }
    byte[] head = new byte[(int) Math.min(count, HEAD)];
    isWithin = at < limit && buffer[at] != LINE_END;
    if (!isWithin) {
      count++;
      at = Math.min(at + 1, limit);
    }
    standIn(head, count, new Object[] {entry(BYTES, Long.toString(count))});
  }

  /** Sets the line to bytes of the buffer; as its end counts also the end of the file. */
  private void endLine(int count) {
    position = following;
    text = buffer;
    first = at;
    size = count;
    following += count + 1L;
    isWithin = false;
  }

  private void standIn(byte[] head, long count, Object[] entries) {
    text = head;
    first = 0;
    size = head.length;
    headers = ArrayData.toArrayData((Object) entries);
    following += count;
  }

  private static Object entry(UTF8String key, String value) {
    return new GenericInternalRow(new Object[] {key, UTF8String.fromString(value).getBytes()});
  }

  static MessageDigest sha256() throws IOException {
    try {
      return MessageDigest.getInstance("SHA-256");
    } catch (NoSuchAlgorithmException error) {
      throw new IOException(error);
    }
  }

  private boolean skipMark() throws IOException {
    boolean isMore = true;
    while (limit - at < 3 && isMore) {
      isMore = fill();
    }
    boolean isMark = limit - at >= 3 && buffer[at] == (byte) 0xEF && buffer[at + 1] == (byte) 0xBB
        && buffer[at + 2] == (byte) 0xBF;
    if (isMark) {
      at += 3;
      following = 3L;
    }
    return isMark;
  }

  /** Reads more bytes behind those from `at` on, which it keeps; returns false at the end of the file. */
  private boolean fill() throws IOException {
    int kept = limit - at;
    byte[] target = buffer;
    if (kept == buffer.length) {
      target = new byte[(int) Math.min(2L * kept, Math.max(maxLine, kept) + BUFFER)];
    } else if (buffer.length > BUFFER && kept < BUFFER / 2) {
      target = new byte[BUFFER];
    }
    System.arraycopy(buffer, at, target, 0, kept);
    buffer = target;
    at = 0;
    limit = kept;
    int count = bytes.read(buffer, limit, buffer.length - limit);
    limit += Math.max(count, 0);
    return count > 0;
  }

  /** Returns the bytes among which those of the line are; they change with the next call of `next`. */
  public byte[] bytes() {
    return text;
  }

  /** Returns where the line starts in `bytes`. */
  public int first() {
    return first;
  }

  /** Returns how many bytes the line has. */
  public int size() {
    return size;
  }

  /** Returns what a stand-in stands for, as bronze's headers: its bytes in the file with a line end; null for a line. */
  public ArrayData headers() {
    return headers;
  }

  /** Returns the byte of the file at which the line or the stand-in starts. */
  public long position() {
    return position;
  }

  /** Returns the byte after the last line end before it: the NUL bytes before a line, and that line, have the same. */
  public long lineStart() {
    return lineStart;
  }

  /** Returns the byte of the file at which the next one starts. */
  public long following() {
    return following;
  }

  /** Returns true if the file holds nothing but a byte order mark; its line is empty. */
  public boolean isMarkAlone() {
    return isMarkAlone;
  }
}
