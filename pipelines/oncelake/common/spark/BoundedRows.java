package oncelake;

import java.util.ArrayList;
import java.util.Iterator;
import java.util.List;
import java.util.NoSuchElementException;
import org.apache.spark.TaskContext;
import org.apache.spark.api.java.JavaRDD;
import org.apache.spark.api.java.function.FlatMapFunction;
import org.apache.spark.sql.Dataset;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.UnsafeRow;
import org.apache.spark.sql.execution.arrow.ArrowConverters$;
import org.apache.spark.sql.types.StructType;

/**
 * Turns a partition's rows into Arrow record batches, and stops at a bound of rows and bytes.
 *
 * Nothing else in Spark can stop at a number of bytes, and neither a compressed file nor a Kafka offset range says how
 * many bytes it holds. An empty array after the record batches means that the partition has more rows than the bound.
 *
 * It stands on Spark's internals: `ArrowConverters.toBatchIterator`, `QueryExecution`, `UnsafeRow`.
 */
public final class BoundedRows implements FlatMapFunction {
  private static final long ROWS_PER_RECORD_BATCH = 10000L;

  private final StructType schema;
  private final long maxRows;
  private final long maxBytes;

  private BoundedRows(StructType schema, long maxRows, long maxBytes) {
    this.schema = schema;
    this.maxRows = maxRows;
    this.maxBytes = maxBytes;
  }

  /** Returns the record batches of a frame, each as bytes; the bound holds for each partition. */
  public static JavaRDD recordBatches(Dataset frame, long maxRows, long maxBytes) {
    return frame.queryExecution().toRdd().toJavaRDD().mapPartitions(new BoundedRows(frame.schema(), maxRows, maxBytes));
  }

  @Override
  public Iterator call(Object rows) {
    Bounded bounded = new Bounded((Iterator) rows, maxRows, maxBytes);
    scala.collection.Iterator batches = ArrowConverters$.MODULE$.toBatchIterator(
        scala.jdk.javaapi.CollectionConverters.asScala((Iterator) bounded),
        schema, ROWS_PER_RECORD_BATCH, "UTC", true, false, TaskContext.get());
    List found = new ArrayList();
    while (batches.hasNext()) {
      found.add(batches.next());
    }
    if (bounded.isOver) {
      found.clear();
      found.add(new byte[0]);
    }
    return found.iterator();
  }

  private static final class Bounded implements Iterator {
    private final Iterator rows;
    private long rowsLeft;
    private long bytesLeft;
    private boolean isOver;

    Bounded(Iterator rows, long maxRows, long maxBytes) {
      this.rows = rows;
      this.rowsLeft = maxRows;
      this.bytesLeft = maxBytes;
    }

    @Override
    public boolean hasNext() {
      if (isOver || !rows.hasNext()) {
        return false;
      }
      isOver = rowsLeft <= 0 || bytesLeft <= 0;
      return !isOver;
    }

    @Override
    public Object next() {
      if (isOver) {
        throw new NoSuchElementException();
      }
      InternalRow row = (InternalRow) rows.next();
      rowsLeft--;
      bytesLeft -= row instanceof UnsafeRow ? ((UnsafeRow) row).getSizeInBytes() : 1L;
      return row;
    }
  }
}
