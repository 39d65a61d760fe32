package oncelake;

import java.io.ByteArrayOutputStream;
import java.io.Closeable;
import java.io.IOException;
import java.io.Serializable;
import java.io.UncheckedIOException;
import java.util.Arrays;
import java.util.Iterator;
import java.util.NoSuchElementException;
import java.util.regex.Pattern;
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
import org.apache.spark.sql.catalyst.expressions.GenericInternalRow;
import org.apache.spark.sql.execution.datasources.PartitionedFile;
import org.apache.spark.sql.execution.datasources.text.TextFileFormat;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.unsafe.types.UTF8String;
import org.apache.spark.util.SerializableConfiguration;
import org.apache.spark.util.TaskCompletionListener;

/**
 * Reads files of records that have several lines: `value` binary, a record without its last line end, and `start`
 * bigint, the byte of the uncompressed file at which it starts.
 *
 * A record starts at a line in which the pattern is found, and ends before the next such line. Lines before the first
 * start are a record too. A record that is longer than a bound ends there, and its rest is one more record or several:
 * so no byte is lost, and memory is bounded. A split of a file has the records that start in it, and reads the last one
 * to its end.
 */
public final class RecordFormat extends TextFileFormat {
  @Override
  public boolean isSplitable(SparkSession spark, scala.collection.immutable.Map options, Path path) {
    return new CompressionCodecFactory(spark.sparkContext().hadoopConfiguration()).getCodec(path) == null;
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
        required.fieldNames(), (String) options.apply("starts"), Long.parseLong((String) options.apply("maxlines")),
        Long.parseLong((String) options.apply("maxbytes")), spark.sparkContext().broadcast(
            new SerializableConfiguration(configuration),
            scala.reflect.ClassTag$.MODULE$.apply(SerializableConfiguration.class)));
  }

  private static final class Reader extends scala.runtime.AbstractFunction1 implements Serializable {
    private final String[] columns;
    private final String starts;
    private final long maxLines;
    private final long maxBytes;
    private final Broadcast configuration;

    Reader(String[] columns, String starts, long maxLines, long maxBytes, Broadcast configuration) {
      this.columns = columns;
      this.starts = starts;
      this.maxLines = maxLines;
      this.maxBytes = maxBytes;
      this.configuration = configuration;
    }

    @Override
    public Object apply(Object file) {
      try {
        Configuration known = ((SerializableConfiguration) configuration.value()).value();
        Records records = new Records((PartitionedFile) file, known, this);
        return scala.jdk.javaapi.CollectionConverters.asScala((Iterator) records);
      } catch (IOException error) {
        throw new UncheckedIOException(error);
      }
    }
  }

  private static final class Records implements Iterator, Closeable, TaskCompletionListener {
    /** How many characters of a line are searched for a start: a pattern can overflow the stack on a long text. */
    private static final int SEARCHED = 1024;

    private final String[] columns;
    private final Pattern starts;
    private final long maxLines;
    private final long maxBytes;
    private final long splitStart;
    private final long splitEnd;
    private final LineRecordReader lines;
    private final ByteArrayOutputStream record = new ByteArrayOutputStream();
    private boolean isOpen = true;
    private boolean hasLine;
    private boolean isStart;
    private boolean isWithin;
    private GenericInternalRow row;

    Records(PartitionedFile file, Configuration configuration, Reader reader) throws IOException {
      this.columns = reader.columns;
      this.starts = Pattern.compile(reader.starts);
      this.maxLines = reader.maxLines;
      this.maxBytes = reader.maxBytes;
      this.splitStart = file.start();
      this.splitEnd = file.start() + file.length();
      boolean isCompressed = new CompressionCodecFactory(configuration).getCodec(file.toPath()) != null;
      long length = isCompressed ? file.length() : Math.max(file.fileSize() - splitStart, file.length());
      this.lines = new LineRecordReader(new byte[] {(byte) '\n'});
      if (TaskContext.get() != null) {
        TaskContext.get().addTaskCompletionListener((TaskCompletionListener) this);
      }
      TaskAttemptID attempt = new TaskAttemptID(new TaskID(new JobID("oncelake", 0), TaskType.MAP, 0), 0);
      lines.initialize(
          new FileSplit(file.toPath(), splitStart, length, new String[0]),
          new TaskAttemptContextImpl(configuration, attempt));
      advance();
    }

    @Override
    public boolean hasNext() {
      try {
        if (row == null && isOpen && !collect()) {
          close();
        }
      } catch (IOException error) {
        throw new UncheckedIOException(error);
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

    /** Collects the next record of this split into `row`; returns false if there is none. */
    private boolean collect() throws IOException {
      while (hasLine && splitStart > 0 && !isWithin && !isStart) {
        if (position() > splitEnd) {
          return false;
        }
        advance();
      }
      if (!hasLine || (position() > splitEnd && isStart)) {
        return false;
      }
      isWithin = true;
      record.reset();
      long start = position();
      long count = 0L;
      while (hasLine && count <= maxLines && record.size() <= maxBytes && (count == 0L || !isStart)) {
        if (count > 0L) {
          record.write('\n');
        }
        Text line = lines.getCurrentValue();
        record.write(line.getBytes(), 0, line.getLength());
        count++;
        advance();
      }
      Object[] values = new Object[columns.length];
      for (int at = 0; at < values.length; at++) {
        values[at] = columns[at].equals("value") ? (Object) record.toByteArray() : (Object) Long.valueOf(start);
      }
      row = new GenericInternalRow(values);
      return true;
    }

    private long position() {
      return lines.getCurrentKey().get();
    }

    private void advance() throws IOException {
      hasLine = lines.nextKeyValue();
      isStart = hasLine && hasStart();
    }

    private boolean hasStart() {
      Text line = lines.getCurrentValue();
      int length = line.getLength();
      if (length > 0 && line.getBytes()[length - 1] == (byte) '\r') {
        length--;
      }
      byte[] searched = Arrays.copyOf(line.getBytes(), Math.min(length, SEARCHED * 4));
      String text = UTF8String.fromBytes(searched).makeValid().toString();
      int characters = Math.min(text.codePointCount(0, text.length()), SEARCHED);
      return starts.matcher(text.substring(0, text.offsetByCodePoints(0, characters))).find();
    }

    @Override
    public void onTaskCompletion(TaskContext context) {
      close();
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
        throw new UncheckedIOException(error);
      }
    }
  }
}
