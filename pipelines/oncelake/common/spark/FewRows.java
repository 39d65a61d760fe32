package oncelake;

import java.util.ArrayList;
import java.util.Collections;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.api.java.UDF1;
import org.apache.spark.sql.expressions.UserDefinedFunction;
import org.apache.spark.sql.functions;
import org.apache.spark.sql.types.DataTypes;

/**
 * A function that keeps the rows that it is called with in this JVM, up to a bound, and returns false.
 *
 * As a filter it takes rows out of a frame, so that one job writes the others and collects these. The tasks have to run in
 * this JVM, and a task that runs twice keeps its rows twice: compare their number with a count of the same job.
 */
public final class FewRows implements UDF1 {
  private static final Map KEPT = Collections.synchronizedMap(new HashMap());

  private final String name;

  private FewRows(String name) {
    this.name = name;
  }

  /** Returns the function; Spark calls it once for each row and moves no filter past it. */
  public static UserDefinedFunction keep(String name, long maxRows, long maxBytes) {
    KEPT.put(name, new Kept(maxRows, maxBytes));
    return functions.udf((UDF1) new FewRows(name), DataTypes.BooleanType).asNondeterministic();
  }

  /** Returns the kept rows and forgets them; null if there were more than the bound. */
  public static List take(String name) {
    Kept kept = (Kept) KEPT.remove(name);
    return kept == null ? null : kept.rows;
  }

  @Override
  public Object call(Object row) {
    Kept kept = (Kept) KEPT.get(name);
    if (kept != null) {
      kept.add((Row) row);
    }
    return Boolean.FALSE;
  }

  private static final class Kept {
    private static final long OF_A_ROW = 200L;

    private List rows = new ArrayList();
    private long rowsLeft;
    private long bytesLeft;

    Kept(long maxRows, long maxBytes) {
      this.rowsLeft = maxRows;
      this.bytesLeft = maxBytes;
    }

    synchronized void add(Row row) {
      if (rows == null) {
        return;
      }
      rowsLeft -= 1L;
      bytesLeft -= size(row);
      if (rowsLeft < 0L || bytesLeft < 0L) {
        rows = null;
        return;
      }
      rows.add(row);
    }

    private static long size(Object value) {
      if (value instanceof byte[]) {
        return (long) ((byte[]) value).length;
      }
      if (value instanceof String) {
        return 2L * (long) ((String) value).length();
      }
      long sum = 0L;
      if (value instanceof Row) {
        Row row = (Row) value;
        sum = OF_A_ROW;
        for (int i = 0; i < row.size(); i++) {
          sum += size(row.get(i));
        }
      } else if (value instanceof scala.collection.Iterable) {
        scala.collection.Iterator values = ((scala.collection.Iterable) value).iterator();
        while (values.hasNext()) {
          sum += size(values.next());
        }
      }
      return sum;
    }
  }
}
