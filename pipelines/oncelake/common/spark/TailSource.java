package oncelake;

import java.io.IOException;
import java.io.InputStream;
import java.net.URLDecoder;
import java.nio.ByteBuffer;
import java.nio.channels.Channels;
import java.nio.channels.FileChannel;
import java.nio.file.NoSuchFileException;
import java.nio.file.OpenOption;
import java.nio.file.Paths;
import java.nio.file.StandardOpenOption;
import java.security.MessageDigest;
import java.util.Collections;
import java.util.HexFormat;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.function.Function;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.io.compress.CompressionCodec;
import org.apache.hadoop.io.compress.CompressionCodecFactory;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.GenericInternalRow;
import org.apache.spark.sql.connector.catalog.SupportsRead;
import org.apache.spark.sql.connector.catalog.Table;
import org.apache.spark.sql.connector.catalog.TableCapability;
import org.apache.spark.sql.connector.catalog.TableProvider;
import org.apache.spark.sql.connector.expressions.Transform;
import org.apache.spark.sql.connector.read.InputPartition;
import org.apache.spark.sql.connector.read.PartitionReader;
import org.apache.spark.sql.connector.read.PartitionReaderFactory;
import org.apache.spark.sql.connector.read.Scan;
import org.apache.spark.sql.connector.read.ScanBuilder;
import org.apache.spark.sql.connector.read.streaming.MicroBatchStream;
import org.apache.spark.sql.connector.read.streaming.Offset;
import org.apache.spark.sql.connector.read.streaming.ReadLimit;
import org.apache.spark.sql.connector.read.streaming.SupportsTriggerAvailableNow;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;
import org.apache.spark.unsafe.types.UTF8String;

/**
 * Reads ranges of bytes of growing files as a stream: `value`, `start` and `headers` of `Records`, `file_id` bigint,
 * `file` string, and `modified` bigint, the file's modification time in milliseconds when the batch was planned.
 *
 * A planner in the process that started this JVM decides what each batch reads (sources/tail/source.py). It answers requests:
 *
 * - `initial`: the position before all input.
 * - `stop`: from now on, plan only what is there now; for a query that ends.
 * - `latest`, position: the end of the next batch; the same position if there is nothing to read, empty if there was
 *   never anything to read.
 * - `slices`, position, position: the slices between two positions, one in a line; a number is a task's. There are none
 *   if a position only remembers copies.
 * - `find`, slice: the same slice, with the path and check that the file has now; empty if it is gone.
 *
 * An answer that begins with `!` is the reason why there is none.
 *
 * A request and a slice are fields with tabs between them. A slice has the number of its task, the file's ID, its path
 * with % escapes, `1` if it is compressed, the bytes at which its range and the slice itself begin and end, a check of
 * the file: a length and a hash, see `check`, and the file's modification time. It is checked before and after the file is read, through the handle
 * that reads it: so the bytes are those that were planned, whatever was renamed, cut or written meanwhile.
 *
 * It stands on Spark's internals: `GenericInternalRow`, `UTF8String`. The interfaces of a source are public.
 */
public final class TailSource implements TableProvider {
  private static final Map PLANNERS = new ConcurrentHashMap();
  private static final String[] COLUMNS = {"value", "start", "headers"};

  /** Registers what plans the batches of a stream. */
  public static void register(String name, Function planner) {
    PLANNERS.put(name, planner);
  }

  private static String ask(String name, String request) {
    String answer = (String) ((Function) PLANNERS.get(name)).apply(request);
    if (answer.startsWith("!")) {
      throw new IllegalStateException(answer.substring(1));
    }
    return answer;
  }

  @Override
  public StructType inferSchema(CaseInsensitiveStringMap options) {
    return StructType.fromDDL(
        "value binary, start bigint, file_id bigint, file string, headers array<struct<key: string, value: binary>>, "
        + "modified bigint");
  }

  @Override
  public Table getTable(StructType schema, Transform[] partitioning, Map properties) {
    return new Tail(schema, new CaseInsensitiveStringMap(properties));
  }

  private static final class Tail implements SupportsRead, ScanBuilder, Scan {
    private final StructType schema;
    private final CaseInsensitiveStringMap options;

    Tail(StructType schema, CaseInsensitiveStringMap options) {
      this.schema = schema;
      this.options = options;
    }

    @Override
    public String name() {
      return "tail";
    }

    @Override
    public StructType schema() {
      return schema;
    }

    @Override
    public Set capabilities() {
      return Collections.singleton(TableCapability.MICRO_BATCH_READ);
    }

    @Override
    public ScanBuilder newScanBuilder(CaseInsensitiveStringMap given) {
      return this;
    }

    @Override
    public Scan build() {
      return this;
    }

    @Override
    public StructType readSchema() {
      return schema;
    }

    @Override
    public MicroBatchStream toMicroBatchStream(String checkpoint) {
      return new Stream(
          options.get("planner"),
          new ReaderFactory(options.get("planner"), new Records.Bounds(options)));
    }
  }

  private static final class Stream implements MicroBatchStream, SupportsTriggerAvailableNow {
    private final String planner;
    private final ReaderFactory factory;

    Stream(String planner, ReaderFactory factory) {
      this.planner = planner;
      this.factory = factory;
    }

    @Override
    public Offset initialOffset() {
      return new Position(ask(planner, "initial"));
    }

    @Override
    public void prepareForTriggerAvailableNow() {
      ask(planner, "stop");
    }

    @Override
    public Offset latestOffset() {
      throw new UnsupportedOperationException("the planner limits each batch");
    }

    @Override
    public Offset latestOffset(Offset start, ReadLimit limit) {
      String latest = ask(planner, "latest\t" + start.json());
      return latest.isEmpty() ? null : new Position(latest);  // otherwise Spark would make an empty first batch
    }

    @Override
    public Offset deserializeOffset(String json) {
      return new Position(json);
    }

    @Override
    public InputPartition[] planInputPartitions(Offset start, Offset end) {
      String answer = ask(planner, "slices\t" + start.json() + "\t" + end.json());
      if (answer.isEmpty()) {
        return new InputPartition[0];
      }
      String[] slices = answer.split("\n");
      int count = Integer.parseInt(slices[slices.length - 1].split("\t")[0]) + 1;
      String[] tasks = new String[count];
      for (int at = 0; at < slices.length; at++) {
        int task = Integer.parseInt(slices[at].split("\t")[0]);
        tasks[task] = tasks[task] == null ? slices[at] : tasks[task] + "\n" + slices[at];
      }
      InputPartition[] partitions = new InputPartition[count];
      for (int task = 0; task < count; task++) {
        partitions[task] = new Slices(tasks[task].split("\n"));
      }
      return partitions;
    }

    @Override
    public PartitionReaderFactory createReaderFactory() {
      return factory;
    }

    @Override
    public void commit(Offset end) {}

    @Override
    public void stop() {}
  }

  private static final class Position extends Offset {
    private final String json;

    Position(String json) {
      this.json = json;
    }

    @Override
    public String json() {
      return json;
    }
  }

  private static final class Slices implements InputPartition {
    final String[] slices;

    Slices(String[] slices) {
      this.slices = slices;
    }
  }

  private static final class ReaderFactory implements PartitionReaderFactory {
    final String planner;
    final Records.Bounds bounds;

    ReaderFactory(String planner, Records.Bounds bounds) {
      this.planner = planner;
      this.bounds = bounds;
    }

    @Override
    public PartitionReader createReader(InputPartition partition) {
      return new Reader(((Slices) partition).slices, this);
    }
  }

  private static final class Reader implements PartitionReader {
    private final String[] slices;
    private final ReaderFactory factory;
    private int next;
    private Slice slice;
    private Records records;
    private Object[] row;

    Reader(String[] slices, ReaderFactory factory) {
      this.slices = slices;
      this.factory = factory;
    }

    @Override
    public boolean next() throws IOException {
      while (records == null || !records.hasNext()) {
        if (records != null) {
          slice.finish();
          records = null;
        }
        if (next == slices.length) {
          return false;
        }
        slice = Slice.open(slices[next], factory);
        next++;
        records = new Records(slice, COLUMNS, false, factory.bounds, slice.isFirst(), slice.end);
      }
      Object[] record = ((GenericInternalRow) records.next()).values();
      row = new Object[] {
        record[0], record[1], Long.valueOf(slice.fileId), slice.file, record[2], Long.valueOf(slice.modified)
      };
      return true;
    }

    @Override
    public Object get() {
      return new GenericInternalRow(row);
    }

    @Override
    public void close() throws IOException {
      if (slice != null) {
        slice.release();
      }
    }
  }

  /** The lines of one slice. */
  private static final class Slice implements Records.Lines {
    private static final int BUFFER = 65536;

    final long fileId;
    final long end;
    final UTF8String file;
    final long modified;
    private final String path;
    private final FileChannel channel;
    private final long from;
    private final long to;
    private final long begin;
    private final long length;
    private final String hash;
    private final BoundedLines lines;
    private final boolean isEmpty;

    /** Opens the file of a slice; asks where it is now if another one is at its path. */
    static Slice open(String told, ReaderFactory factory) throws IOException {
      long maxLine = factory.bounds.maxLine;
      Slice slice = at(told, maxLine);
      if (slice == null) {
        String now = ask(factory.planner, "find\t" + told);
        slice = now.isEmpty() ? null : at(now, maxLine);
      }
      if (slice == null) {
        throw new IOException(
            "tail: " + decoded(told.split("\t")[2]) + ": the bytes that this batch was planned for are gone");
      }
      return slice;
    }

    /** Opens the file of a slice; returns null if another file, or none, is at its path. */
    private static Slice at(String told, long maxLine) throws IOException {
      String[] fields = told.split("\t");
      FileChannel channel;
      try {
        channel = FileChannel.open(Paths.get(decoded(fields[2])), new OpenOption[] {StandardOpenOption.READ});
      } catch (NoSuchFileException error) {
        return null;
      }
      if (!check(channel, Long.parseLong(fields[8])).equals(fields[9])) {
        channel.close();
        return null;
      }
      return new Slice(fields, channel, maxLine);
    }

    private Slice(String[] fields, FileChannel channel, long maxLine) throws IOException {
      this.channel = channel;
      this.fileId = Long.parseLong(fields[1]);
      this.path = decoded(fields[2]);
      this.file = UTF8String.fromString(Paths.get(path).toUri().toString());
      this.from = Long.parseLong(fields[4]);
      this.to = Long.parseLong(fields[5]);
      this.begin = Long.parseLong(fields[6]);
      this.end = Long.parseLong(fields[7]);
      this.length = Long.parseLong(fields[8]);
      this.hash = fields[9];
      this.modified = Long.parseLong(fields[10]);
      boolean isPacked = fields[3].equals("1");
      boolean isWithin = begin > from;  // perhaps within a line, which another slice reads
      if (!isPacked) {
        channel.position(isWithin ? begin - 1L : begin);
      }
      InputStream bytes = Channels.newInputStream(channel);
      if (isPacked) {
        CompressionCodec codec =
            new CompressionCodecFactory(new Configuration()).getCodec(new Path("file." + suffix(path)));
        bytes = Unpacked.of(codec, bytes, codec.createDecompressor());
        skip(bytes, isWithin ? begin - 1L : begin);
      }
      this.lines = new BoundedLines(bytes, isWithin ? begin - 1L : begin, maxLine);
      this.isEmpty = isWithin && !lines.skipLine(end);
    }

    private void skip(InputStream bytes, long count) throws IOException {
      byte[] buffer = new byte[BUFFER];
      long left = count;
      while (left > 0L) {
        int read;
        try {
          read = bytes.read(buffer, 0, (int) Math.min(left, BUFFER));
        } catch (IOException error) {
          throw named(error);
        }
        if (read < 0) {
          throw changed();
        }
        left -= read;
      }
    }

    private static String suffix(String path) {
      return path.substring(path.lastIndexOf('.') + 1).toLowerCase();
    }

    private static String decoded(String text) throws IOException {
      return URLDecoder.decode(text, "UTF-8");
    }

    boolean isFirst() {
      return begin == from;
    }

    @Override
    public boolean next() throws IOException {
      if (isEmpty || lines.following() >= to) {
        return false;
      }
      boolean found;
      try {
        found = lines.next();
      } catch (IOException error) {
        throw named(error);
      }
      if (!found) {
        throw changed();
      }
      return true;
    }

    @Override
    public BoundedLines line() {
      return lines;
    }

    @Override
    public long position() {
      return lines.position();
    }

    /** The records are read: nothing is to be done before `finish`. */
    @Override
    public void close() {}

    /** Checks that the file still begins with the bytes that were planned, and closes it. */
    void finish() throws IOException {
      if (!check(channel, length).equals(hash)) {
        throw changed();
      }
      release();
    }

    void release() throws IOException {
      channel.close();
    }

    /** Returns an error with the file's path in its message. */
    private IOException named(IOException error) {
      return new IOException("tail: " + path + ": " + error.getMessage(), error);
    }

    private IOException changed() {
      return new IOException("tail: " + path + ": it was cut or overwritten while this batch read it");
    }

    /** Returns a hash of the first and the last kilobyte of the first bytes of a file; empty if it is shorter. */
    private static String check(FileChannel channel, long length) throws IOException {
      if (channel.size() < length) {
        return "";
      }
      MessageDigest digest = BoundedLines.sha256();
      int size = (int) Math.min(length, 1024L);
      add(digest, channel, 0L, size);
      add(digest, channel, length - size, size);
      return HexFormat.of().formatHex(digest.digest(), 0, 8);
    }

    private static void add(MessageDigest digest, FileChannel channel, long from, int size) throws IOException {
      ByteBuffer buffer = ByteBuffer.allocate(size);
      long at = from;
      while (buffer.hasRemaining()) {
        int count = channel.read(buffer, at);
        if (count < 0) {
          return;
        }
        at += count;
      }
      digest.update(buffer.array());
    }
  }
}
