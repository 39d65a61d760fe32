package oncelake;

import java.util.ArrayList;
import java.util.List;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import org.apache.spark.sql.api.java.UDF1;
import org.apache.spark.sql.expressions.UserDefinedFunction;
import org.apache.spark.sql.functions;
import org.apache.spark.sql.types.DataTypes;

/**
 * A regular expression with a bound on the steps of its search in a text, as functions of Spark.
 *
 * A step is a look at one character. A search that overflows the stack is done again on a stack that is large enough
 * for about a million characters: so the result hardly depends on the thread or on what Java has compiled.
 */
public final class BoundedPattern implements UDF1 {
  /** A search that takes more steps than the bound, or a larger stack than there is. */
  public static final class TooManySteps extends RuntimeException {
    TooManySteps() {
      super("the pattern takes too many steps", null, false, false);
    }
  }

  private static final long STEPS = 1000000L;
  private static final long STEPS_PER_CHARACTER = 1000L;
  private static final long LARGE_STACK = 1L << 28;
  private static final Object ONE_LARGE_STACK = new Object();

  private final String regex;
  private final int[] groups;
  private final String replacement;
  private final int searched;
  private final boolean isForTail;
  private transient Pattern pattern;

  private BoundedPattern(String regex, int[] groups, String replacement, int searched, boolean isForTail) {
    this.regex = regex;
    this.groups = groups;
    this.replacement = replacement;
    this.searched = searched;
    this.isForTail = isForTail;
  }

  /**
   * Returns a function of a text: an empty text and then the texts of groups, null if the pattern is not found, and an
   * empty list if it takes too many steps. A group that did not match is empty.
   *
   * @param numbers the groups' numbers, separated by commas
   */
  public static UserDefinedFunction groups(String regex, String numbers) {
    String[] each = numbers.split(",");
    int[] groups = new int[each.length];
    for (int at = 0; at < each.length; at++) {
      groups[at] = Integer.parseInt(each[at]);
    }
    return functions.udf(
        (UDF1) new BoundedPattern(regex, groups, null, 0, false), DataTypes.createArrayType(DataTypes.StringType));
  }

  /** Returns a function of a text: whether the pattern is found; null if it takes too many steps. */
  public static UserDefinedFunction found(String regex) {
    return functions.udf((UDF1) new BoundedPattern(regex, null, null, 0, false), DataTypes.BooleanType);
  }

  /**
   * Returns a function of a record: whether the pattern is found in its first line; null if it takes too many steps.
   *
   * @param searched how many characters of the line are searched
   * @param isForTail whether that many at its end are searched too, if the pattern is not found before
   */
  public static UserDefinedFunction foundInLine(String regex, int searched, boolean isForTail) {
    return functions.udf((UDF1) new BoundedPattern(regex, null, null, searched, isForTail), DataTypes.BooleanType);
  }

  /** Returns a function of a text: the text with all matches replaced; null if the pattern takes too many steps. */
  public static UserDefinedFunction replaced(String regex, String replacement) {
    return functions.udf((UDF1) new BoundedPattern(regex, null, replacement, 0, false), DataTypes.StringType);
  }

  @Override
  public Object call(Object given) {
    if (given == null) {
      return null;
    }
    if (pattern == null) {
      pattern = Pattern.compile(regex);
    }
    try {
      return searched > 0
          ? (Object) Boolean.valueOf(isInLine((String) given)) : result(new Search(pattern, (String) given, replacement));
    } catch (TooManySteps error) {
      return groups == null ? null : new ArrayList();
    }
  }

  private boolean isInLine(String record) {
    int end = record.indexOf('\n');
    end = end < 0 ? record.length() : end;
    end = end > 0 && record.charAt(end - 1) == '\r' ? end - 1 : end;
    int head = end <= searched || record.codePointCount(0, end) <= searched ? end : record.offsetByCodePoints(0, searched);
    String text = record.substring(0, head);
    if (find(pattern, isForTail ? text : Colours.visible(text)) != null) {
      return true;
    }
    return isForTail && head < end
        && find(pattern, record.substring(record.offsetByCodePoints(end, -searched), end)) != null;
  }

  private Object result(Search search) {
    search.finish();
    if (replacement != null) {
      return search.replaced;
    }
    if (groups == null) {
      return Boolean.valueOf(search.isFound);
    }
    if (!search.isFound) {
      return null;
    }
    List texts = new ArrayList(groups.length + 1);
    texts.add("");
    for (int at = 0; at < groups.length; at++) {
      int start = search.matcher.start(groups[at]);
      texts.add(start < 0 ? "" : search.chars.text.substring(start, search.matcher.end(groups[at])));
    }
    return texts;
  }

  /**
   * Returns the first match of a pattern in a text; null if there is none.
   *
   * @throws TooManySteps if the search takes too many
   */
  public static Matcher find(Pattern pattern, String text) {
    Search search = new Search(pattern, text, null);
    search.finish();
    return search.isFound ? search.matcher : null;
  }

  /** One search in a text. */
  private static final class Search implements Runnable {
    final Counted chars;
    Matcher matcher;
    boolean isFound;
    String replaced;
    private final Pattern pattern;
    private final String replacement;
    private boolean isDone;

    Search(Pattern pattern, String text, String replacement) {
      this.pattern = pattern;
      this.replacement = replacement;
      this.chars = new Counted(text, 0L);
    }

    void finish() {
      try {
        search();
      } catch (StackOverflowError error) {
        onLargeStack();
      }
      if (!isDone) {
        throw new TooManySteps();
      }
    }

    private void search() {
      chars.left = STEPS + STEPS_PER_CHARACTER * chars.text.length();
      matcher = pattern.matcher(chars);
      if (replacement == null) {
        isFound = matcher.find();
      } else {
        replaced = matcher.replaceAll(replacement);
      }
      isDone = true;
    }

    @Override
    public void run() {
      try {
        search();
      } catch (StackOverflowError error) {
        isDone = false;
      } catch (TooManySteps error) {
        isDone = false;
      }
    }

    private void onLargeStack() {
      synchronized (ONE_LARGE_STACK) {
        Thread thread = new Thread(null, this, "oncelake-pattern", LARGE_STACK);
        thread.setDaemon(true);
        thread.start();
        try {
          thread.join();
        } catch (InterruptedException error) {
          chars.left = 0L;  // ends the search
          Thread.currentThread().interrupt();
          throw new IllegalStateException("the search was interrupted");
        }
      }
    }
  }

  /** A text of which at most a number of characters may be looked at. */
  static final class Counted implements CharSequence {
    long left;
    final String text;

    Counted(String text, long left) {
      this.text = text;
      this.left = left;
    }

    @Override
    public int length() {
      return text.length();
    }

    @Override
    public char charAt(int at) {
      left -= 1L;
      if (left < 0L) {
        throw new TooManySteps();
      }
      return text.charAt(at);
    }

    @Override
    public CharSequence subSequence(int start, int end) {
      return text.substring(start, end);
    }

    @Override
    public String toString() {
      return text;
    }
  }
}
