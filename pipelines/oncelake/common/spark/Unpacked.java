package oncelake;

import java.io.IOException;
import java.io.InputStream;
import java.util.Arrays;
import org.apache.hadoop.io.compress.CompressionCodec;
import org.apache.hadoop.io.compress.Decompressor;
import org.apache.hadoop.io.compress.GzipCodec;

/** Unpacks compressed files as Hadoop does. But zeros behind the end of gzip, at which Hadoop stops, are ignored. */
public final class Unpacked {
  private Unpacked() {}

  /** Returns the content of a compressed file. */
  static InputStream of(CompressionCodec codec, InputStream packed, Decompressor decompressor) throws IOException {
    InputStream bytes = codec instanceof GzipCodec ? new Padded(packed, decompressor) : packed;
    return codec.createInputStream(bytes, decompressor);
  }

  /**
   * The bytes of a gzip file without the zeros behind its end.
   *
   * The end of gzip may itself be zeros. So the last zeros of the file are given one by one, until the end is complete.
   */
  private static final class Padded extends InputStream {
    private static final int BUFFER = 65536;

    private final InputStream packed;
    private final Decompressor decompressor;
    private final byte[] block = new byte[BUFFER];
    private int at;
    private int limit;
    private int zerosBehind;
    private long zeros;
    private boolean isOver;

    Padded(InputStream packed, Decompressor decompressor) {
      this.packed = packed;
      this.decompressor = decompressor;
    }

    @Override
    public int read() throws IOException {
      byte[] one = new byte[1];
      return read(one, 0, 1) < 0 ? -1 : one[0] & 0xFF;
    }

    @Override
    public int read(byte[] target, int first, int count) throws IOException {
      while (at == limit && !isOver) {
        fill();
      }
      if (zeros > 0L && at == limit) {
        if (decompressor.finished()) {
          return -1;
        }
        zeros--;
        target[first] = 0;
        return 1;
      }
      if (zeros > 0L) {
        int given = (int) Math.min(zeros, count);
        Arrays.fill(target, first, first + given, (byte) 0);
        zeros -= given;
        return given;
      }
      if (at == limit) {
        return -1;
      }
      int given = Math.min(limit - at, count);
      System.arraycopy(block, at, target, first, given);
      at += given;
      if (at == limit) {
        zeros = zerosBehind;
      }
      return given;
    }

    /** Reads a block, without the zeros at its end, which are given only if something stands behind them. */
    private void fill() throws IOException {
      int size = packed.read(block, 0, BUFFER);
      isOver = size < 0;
      int end = Math.max(size, 0);
      while (end > 0 && block[end - 1] == 0) {
        end--;
      }
      if (end == 0) {
        zeros += Math.max(size, 0);
      } else {
        at = 0;
        limit = end;
        zerosBehind = size - end;
      }
    }

    @Override
    public void close() throws IOException {
      packed.close();
    }
  }
}
