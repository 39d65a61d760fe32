package oncelake;

import java.util.regex.Matcher;
import java.util.regex.Pattern;

/** A terminal's control sequences in a text, such as colours: nobody who reads the text sees them. */
public final class Colours {
  /** ansi.py has the same expression. */
  public static final String SEQUENCES =
      "\\x1B(?:\\[[0-?]*+[ -/]*+[@-~]|\\][^\\x07\\x1B]*+(?:\\x07|\\x1B\\\\)|[@-Z\\\\^_])";
  private static final Pattern PATTERN = Pattern.compile(SEQUENCES);
  private static final char ESCAPE = (char) 27;
  private static final char MARK = (char) 0xFEFF;

  private Colours() {
  }

  static boolean has(String text) {
    return text.indexOf(ESCAPE) >= 0;
  }

  static Matcher in(String text) {
    return PATTERN.matcher(text);
  }

  /** Returns a line without a byte order mark before it, and without colours: in it, a record's start is looked for. */
  static String visible(String line) {
    String text = line.length() > 0 && line.charAt(0) == MARK ? line.substring(1) : line;
    return has(text) ? in(text).replaceAll("") : text;
  }
}
