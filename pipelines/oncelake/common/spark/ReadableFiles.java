package oncelake;

import java.io.Serializable;
import java.util.Arrays;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.function.Function;
import org.apache.hadoop.conf.Configurable;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.fs.PathFilter;

/**
 * Leaves files out of the listing of a stream that reads files, as the process that started this JVM decides.
 *
 * Spark makes a filter for each listing. It asks about a file once: one that is read stays in Spark's own list.
 * A file that is left out is asked about again in the next listing.
 * The answer is empty for a file that is left out, `1` for one that is read, and begins with `!` if the listing fails.
 * The files of a batch are listed again when it runs. They are not filtered then, but compared with the plan.
 *
 * It stands on Spark's internals: the option `__globpaths__`, and the names that a listing leaves out.
 */
public final class ReadableFiles implements PathFilter, Configurable, Serializable {
  private static final Map JUDGES = new ConcurrentHashMap();
  private static final Map READ = new ConcurrentHashMap();

  private transient Configuration conf;
  private String name;

  /** Registers what decides about the files of a stream, and those that its list has already, by `\0`. */
  public static void register(String name, Function judge, String listed) {
    Set read = ConcurrentHashMap.newKeySet();
    read.addAll(Arrays.asList(listed.split("\0")));
    READ.put(name, read);
    JUDGES.put(name, judge);
  }

  @Override
  public void setConf(Configuration given) {
    conf = given;
    name = "false".equals(given.get("__globpaths__")) ? null : given.get("oncelake.files");
  }

  @Override
  public Configuration getConf() {
    return conf;
  }

  @Override
  public boolean accept(Path path) {
    Function judge = name == null ? null : (Function) JUDGES.get(name);
    String text = path.toString();
    if (judge == null || isHidden(path.getName()) || ((Set) READ.get(name)).contains(text)) {
      return true;
    }
    String answer = ask(judge, text);
    if (answer.startsWith("!")) {
      throw new IllegalStateException(answer.substring(1));
    }
    if (answer.isEmpty()) {
      return false;
    }
    ((Set) READ.get(name)).add(text);
    return true;
  }

  /**
   * Asks once more after an error: it says that the connection was closed, and py4j then opens another one.
   * An error of the judge itself is an answer, not an exception.
   */
  private static String ask(Function judge, String text) {
    try {
      return (String) judge.apply(text);
    } catch (RuntimeException closed) {
      return (String) judge.apply(text);
    }
  }

  /** Spark leaves out what has such a name itself. */
  private static boolean isHidden(String name) {
    return name.startsWith(".") || name.startsWith("_") && name.indexOf('=') < 0;
  }
}
