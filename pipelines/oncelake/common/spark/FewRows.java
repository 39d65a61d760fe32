package oncelake;

import java.util.ArrayList;
import java.util.Collections;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.atomic.AtomicLong;
import org.apache.spark.TaskContext;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.api.java.UDF2;
import org.apache.spark.sql.expressions.UserDefinedFunction;
import org.apache.spark.sql.functions;
import org.apache.spark.sql.types.DataTypes;

/**
 * A filter that counts the rows of a frame, and keeps those that it takes out in this JVM, up to a bound.
 *
 * It is called once for each row, with the names to count for the row, and with the row itself if it is to be taken out,
 * otherwise null. So one job writes the other rows, counts all, and collects these. The tasks have to run in this JVM. If
 * a task runs again, what it counted and kept replaces what its earlier run did.
 */
public final class FewRows implements UDF2 {
  private static final Map KEPT = Collections.synchronizedMap(new HashMap());

  private final String name;
  private transient Part part;

  private FewRows(String name) {
    this.name = name;
  }

  /** Returns the filter; Spark calls it once for each row and moves no other filter past it. */
  public static UserDefinedFunction filter(String name, long maxRows, long maxBytes) {
    KEPT.put(name, new Kept(maxRows, maxBytes));
    return functions.udf((UDF2) new FewRows(name), DataTypes.BooleanType).asNondeterministic();
  }

  /** Returns what was counted and kept, once; null if it was returned before. */
  public static Kept take(String name) {
    return (Kept) KEPT.remove(name);
  }

  @Override
  public Object call(Object names, Object row) {
    if (part == null) {
      Kept kept = (Kept) KEPT.get(name);
      if (kept == null) {
        throw new IllegalStateException("the tasks of this job do not run in the JVM that planned it");
      }
      part = kept.partOf(TaskContext.get());
    }
    part.add(names, (Row) row);
    return row == null ? Boolean.TRUE : Boolean.FALSE;
  }

  static void raise(Map counts, Object name, long more) {
    Long before = (Long) counts.get(name);
    counts.put(name, Long.valueOf(before == null ? more : before.longValue() + more));
  }

  /** The rows of one partition of a frame. */
  private static final class Part {
    private final Kept kept;
    private final long task;
    private long all;
    private long out;
    private final Map<Object, Long> named = new HashMap<Object, Long>();
    private final List rows = new ArrayList();

    Part(Kept kept, long task) {
      this.kept = kept;
      this.task = task;
    }

    void add(Object names, Row row) {
      all += 1L;
      if (names != null) {
        Set different = new HashSet();
        scala.collection.Iterator each = ((scala.collection.Iterable) names).iterator();
        while (each.hasNext()) {
          Object name = each.next();
          if (different.add(name)) {
            FewRows.raise(named, name, 1L);
          }
        }
      }
      if (row != null) {
        out += 1L;
        if (kept.hasRoomFor(row)) {
          rows.add(row);
        } else {
          rows.clear();
        }
      }
    }
  }

  /** What the filter counted and kept. */
  public static final class Kept {
    private static final long OF_A_ROW = 200L;

    private final Map<Integer, Part> parts = new HashMap<Integer, Part>();
    private final AtomicLong rowsLeft;
    private final AtomicLong bytesLeft;

    Kept(long maxRows, long maxBytes) {
      this.rowsLeft = new AtomicLong(maxRows);
      this.bytesLeft = new AtomicLong(maxBytes);
    }

    /** Returns the part of a task, null outside of tasks; a task that runs again begins a new one. */
    synchronized Part partOf(TaskContext context) {
      Integer partition = Integer.valueOf(context == null ? -1 : context.partitionId());
      long task = context == null ? -1L : context.taskAttemptId();
      Part part = (Part) parts.get(partition);
      if (part == null || part.task != task) {
        part = new Part(this, task);
        parts.put(partition, part);
      }
      return part;
    }

    boolean hasRoomFor(Row row) {
      return rowsLeft.decrementAndGet() >= 0L & bytesLeft.addAndGet(-size(row)) >= 0L;
    }

    /** Returns the number of all rows, or of those that were taken out. */
    public synchronized long count(boolean isOut) {
      long sum = 0L;
      for (Part part : parts.values()) {
        sum += isOut ? part.out : part.all;
      }
      return sum;
    }

    /** Returns how many rows had each name. */
    public synchronized Map named() {
      Map sums = new HashMap();
      for (Part part : parts.values()) {
        for (Map.Entry<Object, Long> count : part.named.entrySet()) {
          FewRows.raise(sums, count.getKey(), ((Long) count.getValue()).longValue());
        }
      }
      return sums;
    }

    /** Returns the rows that were taken out; null if there were more than the bound. */
    public synchronized List rows() {
      if (rowsLeft.get() < 0L || bytesLeft.get() < 0L) {
        return null;
      }
      List rows = new ArrayList();
      for (Part part : parts.values()) {
        rows.addAll(part.rows);
      }
      return rows;
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
