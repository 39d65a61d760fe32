package oncelake;

import java.io.IOException;
import java.io.Serializable;
import java.io.UncheckedIOException;
import java.util.Iterator;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.io.Text;
import org.apache.hadoop.io.compress.CompressionCodecFactory;
import org.apache.hadoop.mapreduce.JobID;
import org.apache.hadoop.mapreduce.TaskAttemptID;
import org.apache.hadoop.mapreduce.TaskID;
import org.apache.hadoop.mapreduce.TaskType;
import org.apache.hadoop.mapreduce.lib.input.FileSplit;
import org.apache.hadoop.mapreduce.lib.input.LineRecordReader;
import org.apache.hadoop.mapreduce.task.TaskAttemptContextImpl;
import org.apache.spark.TaskContext;
import org.apache.spark.broadcast.Broadcast;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.execution.datasources.PartitionedFile;
import org.apache.spark.sql.execution.datasources.text.TextFileFormat;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.util.SerializableConfiguration;
import org.apache.spark.util.TaskCompletionListener;

/** Reads files of records that have several lines, with the columns of `Records`. */
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
        new Records.Bounds(
            text(options, "starts"), text(options, "part"), Long.parseLong((String) options.apply("maxlines")),
            Long.parseLong((String) options.apply("maxbytes"))),
        spark.sparkContext().broadcast(
            new SerializableConfiguration(configuration),
            scala.reflect.ClassTag$.MODULE$.apply(SerializableConfiguration.class)));
  }

  private static String text(scala.collection.immutable.Map options, String name) {
    return options.contains(name) ? (String) options.apply(name) : null;
  }

  private static final class Reader extends scala.runtime.AbstractFunction1 implements Serializable {
    private final String[] columns;
    private final Records.Bounds bounds;
    private final Broadcast configuration;

    Reader(String[] columns, Records.Bounds bounds, Broadcast configuration) {
      this.columns = columns;
      this.bounds = bounds;
      this.configuration = configuration;
    }

    @Override
    public Object apply(Object file) {
      PartitionedFile part = (PartitionedFile) file;
      try {
        SplitLines lines = new SplitLines(part, ((SerializableConfiguration) configuration.value()).value());
        long end = lines.isCompressed ? Long.MAX_VALUE : part.start() + part.length() + 1L;
        Records records = new Records(lines, columns, bounds, part.start() == 0L, end);
        return scala.jdk.javaapi.CollectionConverters.asScala((Iterator) records);
      } catch (IOException error) {
        throw new UncheckedIOException(error);
      }
    }
  }

  /** The lines of a file from a split on: those that start after the split's first byte, or at the file's first. */
  private static final class SplitLines implements Records.Lines, TaskCompletionListener {
    final boolean isCompressed;
    private final LineRecordReader lines = new LineRecordReader(new byte[] {(byte) '\n'});

    SplitLines(PartitionedFile file, Configuration configuration) throws IOException {
      this.isCompressed = new CompressionCodecFactory(configuration).getCodec(file.toPath()) != null;
      long length = isCompressed ? file.length() : Math.max(file.fileSize() - file.start(), file.length());
      if (TaskContext.get() != null) {
        TaskContext.get().addTaskCompletionListener((TaskCompletionListener) this);
      }
      TaskAttemptID attempt = new TaskAttemptID(new TaskID(new JobID("oncelake", 0), TaskType.MAP, 0), 0);
      lines.initialize(
          new FileSplit(file.toPath(), file.start(), length, new String[0]),
          new TaskAttemptContextImpl(configuration, attempt));
    }

    @Override
    public boolean next() throws IOException {
      return lines.nextKeyValue();
    }

    @Override
    public Text line() {
      return lines.getCurrentValue();
    }

    @Override
    public long position() {
      return lines.getCurrentKey().get();
    }

    @Override
    public void onTaskCompletion(TaskContext context) {
      try {
        close();
      } catch (IOException error) {
        throw new UncheckedIOException(error);
      }
    }

    @Override
    public void close() throws IOException {
      lines.close();
    }
  }
}
