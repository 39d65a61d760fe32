package oncelake;

import java.io.IOException;
import java.io.InputStream;
import java.io.Serializable;
import java.util.Iterator;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FSDataInputStream;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.io.compress.CodecPool;
import org.apache.hadoop.io.compress.CompressionCodec;
import org.apache.hadoop.io.compress.CompressionCodecFactory;
import org.apache.hadoop.io.compress.Decompressor;
import org.apache.spark.TaskContext;
import org.apache.spark.broadcast.Broadcast;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.execution.datasources.PartitionedFile;
import org.apache.spark.sql.execution.datasources.text.TextFileFormat;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.StringType;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;
import org.apache.spark.unsafe.Platform;
import org.apache.spark.util.SerializableConfiguration;
import org.apache.spark.util.TaskCompletionListener;

/**
 * Reads the lines of files, or records that have several lines, with the columns of `Records`.
 *
 * It stands on Spark's internals: `TextFileFormat`, `PartitionedFile`, `SerializableConfiguration`.
 */
public final class RecordFormat extends TextFileFormat {
  @Override
  public boolean isSplitable(SparkSession spark, scala.collection.immutable.Map options, Path path) {
    boolean isPacked = new CompressionCodecFactory(spark.sparkContext().hadoopConfiguration()).getCodec(path) != null;
    return !isPacked && !options.contains("part");
  }

  @Override
  public boolean supportDataType(DataType type) {
    return true;
  }

  @Override
  public scala.Function1 buildReader(
      SparkSession spark, StructType data, StructType partition, StructType required,
      scala.collection.immutable.Seq filters, scala.collection.immutable.Map options, Configuration configuration) {
    return new Reader(
        required.fieldNames(),
        required.getFieldIndex("value").isDefined() && required.apply("value").dataType() instanceof StringType,
        new Records.Bounds(new CaseInsensitiveStringMap(scala.jdk.javaapi.CollectionConverters.asJava(options))),
        spark.sparkContext().broadcast(
            new SerializableConfiguration(configuration),
            scala.reflect.ClassTag$.MODULE$.apply(SerializableConfiguration.class)));
  }

  private static final class Reader extends scala.runtime.AbstractFunction1 implements Serializable {
    private final String[] columns;
    private final boolean isText;
    private final Records.Bounds bounds;
    private final Broadcast configuration;

    Reader(String[] columns, boolean isText, Records.Bounds bounds, Broadcast configuration) {
      this.columns = columns;
      this.isText = isText;
      this.bounds = bounds;
      this.configuration = configuration;
    }

    @Override
    public Object apply(Object file) {
      PartitionedFile part = (PartitionedFile) file;
      try {
        SplitLines lines =
            new SplitLines(part, ((SerializableConfiguration) configuration.value()).value(), bounds.maxLine);
        Records records = new Records(lines, columns, isText, bounds, part.start() == 0L, lines.end);
        return scala.jdk.javaapi.CollectionConverters.asScala((Iterator) records);
      } catch (IOException error) {
        Platform.throwException(error);
        return null;
      }
    }
  }

  /** The lines of a file from a split on: those that start after the split's first byte, or at the file's first. */
  private static final class SplitLines implements Records.Lines, TaskCompletionListener {
    final long end;
    private final InputStream bytes;
    private final Decompressor decompressor;
    private final BoundedLines lines;
    private final long last;
    private boolean isOver;
    private boolean isClosed;

    SplitLines(PartitionedFile file, Configuration configuration, long maxLine) throws IOException {
      Path path = file.toPath();
      CompressionCodec codec = new CompressionCodecFactory(configuration).getCodec(path);
      FSDataInputStream stored = path.getFileSystem(configuration).open(path);
      this.decompressor = codec == null ? null : CodecPool.getDecompressor(codec);
      this.bytes = codec == null ? stored : opened(codec, stored, decompressor);
      if (TaskContext.get() != null) {
        TaskContext.get().addTaskCompletionListener((TaskCompletionListener) this);
      }
      this.lines = new BoundedLines(bytes, file.start(), maxLine);
      this.end = codec == null ? file.start() + file.length() + 1L : Long.MAX_VALUE;
      this.last = codec == null ? Math.max(file.fileSize(), file.start() + file.length()) : Long.MAX_VALUE;
      if (file.start() > 0L) {
        stored.seek(file.start());
        this.isOver = !lines.skipLine(end);
      }
    }

    private static InputStream opened(
        CompressionCodec codec, FSDataInputStream stored, Decompressor decompressor) throws IOException {
      try {
        return Unpacked.of(codec, stored, decompressor);
      } catch (IOException error) {
        stored.close();
        throw error;
      }
    }

    @Override
    public boolean next() throws IOException {
      return !isOver && lines.following() <= last && lines.next() && !lines.isMarkAlone();
    }

    @Override
    public BoundedLines line() {
      return lines;
    }

    /** The first line starts at byte 0, also behind a byte order mark. */
    @Override
    public long position() {
      return lines.lineStart() == 0L && lines.position() == 3L ? 0L : lines.position();
    }

    @Override
    public void onTaskCompletion(TaskContext context) {
      try {
        close();
      } catch (IOException error) {
        Platform.throwException(error);
      }
    }

    @Override
    public void close() throws IOException {
      if (isClosed) {
        return;
      }
      isClosed = true;
      bytes.close();
      if (decompressor != null) {
        CodecPool.returnDecompressor(decompressor);
      }
    }
  }
}
