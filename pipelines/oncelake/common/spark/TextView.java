package oncelake;

import java.text.Normalizer;
import java.util.regex.Matcher;

/**
 * A text as one of its readers sees it, and the bytes of the record that each of its characters stands for.
 *
 * The first view is the record's UTF-8 text, with the parts joined that a container runtime has cut; a byte that is not
 * UTF-8 is a character of its own. Other views are made of it: the content of a string literal with its escapes read, a
 * text with its letters and marks composed. A view keeps the view that it was made of, and the characters there.
 */
public final class TextView {
  /** Stands for a quote within a string, in a view in which the quotes around strings are seen as well. */
  public static final char INNER_QUOTE = (char) 0xFDD0;
  /** How many times a text can be escaped and still be read. */
  public static final int DEPTH = 8;
  /** Stands for a control sequence in a view. */
  public static final char SEQUENCE = (char) 0xFDD1;
  private static final char FIRST_MARK = (char) 0x300;

  final String chars;
  /** How many times a text is escaped that is written here. */
  final int level;
  private final TextView source;
  private final int[] firsts;
  private final int[] afters;
  private final int shift;
  private JsonParts parts;
  private TextView[] contents;
  private TextView composed;
  private boolean isComposed;
  private TextView[] uncoloured;
  private boolean isUncoloured;

  private TextView(String chars, TextView source, int[] firsts, int[] afters, int shift, int level) {
    this.chars = chars;
    this.source = source;
    this.firsts = firsts;
    this.afters = afters;
    this.shift = shift;
    this.level = level;
  }

  /** Returns the text of some of a record's bytes. */
  static TextView of(byte[] bytes, int from, int to) {
    boolean isPlain = true;
    for (int at = from; at < to && isPlain; at++) {
      isPlain = bytes[at] >= 0;
    }
    if (isPlain) {
      return new TextView(
          new String(bytes, from, to - from, java.nio.charset.StandardCharsets.ISO_8859_1), null, null, null, from, 0);
    }
    char[] made = new char[to - from];
    int[] firsts = new int[to - from];
    int[] afters = new int[to - from];
    int count = 0;
    int at = from;
    while (at < to) {
      int size = size(bytes, at, to);
      firsts[count] = at;
      afters[count] = at + size;
      if (size == 4) {
        int point = ((bytes[at] & 7) << 18) | (low(bytes, at + 1) << 12) | (low(bytes, at + 2) << 6)
            | low(bytes, at + 3);
        made[count] = Character.highSurrogate(point);
        count++;
        firsts[count] = at;
        afters[count] = at + size;
        made[count] = Character.lowSurrogate(point);
      } else if (size == 3) {
        made[count] = (char) (((bytes[at] & 15) << 12) | (low(bytes, at + 1) << 6) | low(bytes, at + 2));
      } else if (size == 2) {
        made[count] = (char) (((bytes[at] & 31) << 6) | low(bytes, at + 1));
      } else {
        made[count] = bytes[at] >= 0 ? (char) bytes[at] : (char) (0xDC00 + (bytes[at] & 255));
      }
      count++;
      at += size;
    }
    return new TextView(new String(made, 0, count), null, firsts, afters, 0, 0);
  }

  /** Returns the text of a record without the bytes of its joints: their firsts and afters, one after the other. */
  static TextView joined(byte[] bytes, int[] joints) {
    byte[] kept = new byte[bytes.length];
    int[] places = new int[bytes.length];
    int count = 0;
    int joint = 0;
    for (int at = 0; at < bytes.length; at++) {
      while (joint < joints.length && at >= joints[joint + 1]) {
        joint += 2;
      }
      if (joint >= joints.length || at < joints[joint]) {
        kept[count] = bytes[at];
        places[count] = at;
        count++;
      }
    }
    TextView text = of(kept, 0, count);
    int[] firsts = new int[text.chars.length()];
    int[] afters = new int[text.chars.length()];
    for (int at = 0; at < firsts.length; at++) {
      firsts[at] = places[text.first(at)];
      afters[at] = places[text.after(at) - 1] + 1;
    }
    return new TextView(text.chars, null, firsts, afters, 0, 0);
  }

  /** Returns the bytes of the matches of a pattern: their firsts and afters, one after the other. */
  int[] bytesOf(Matcher matcher) {
    int[] found = new int[8];
    int count = 0;
    while (matcher.find()) {
      if (matcher.end() > matcher.start()) {
        found = count + 2 > found.length ? java.util.Arrays.copyOf(found, 2 * count) : found;
        found[count] = byteAt(matcher.start());
        found[count + 1] = byteAfter(matcher.end());
        count += 2;
      }
    }
    return java.util.Arrays.copyOf(found, count);
  }

  boolean hasEscapes() {
    return chars.indexOf('\\') >= 0;
  }

  /** Returns true if the text can hold strings or objects. */
  boolean hasParts() {
    return chars.indexOf('"') >= 0 || chars.indexOf('{') >= 0 || chars.indexOf('[') >= 0;
  }

  JsonParts parts() {
    if (parts == null) {
      parts = new JsonParts(chars);
      contents = new TextView[parts.size()];
    }
    return parts;
  }

  /** Returns the content of one of the strings as its reader sees it. */
  TextView content(int part) {
    if (contents[part] == null) {
      contents[part] = unescaped(parts.start(part), parts.end(part), true);
    }
    return contents[part];
  }

  /** Returns the record's byte at which a character begins. */
  int byteAt(int at) {
    return source == null ? first(at) : source.byteAt(first(at));
  }

  /** Returns the record's byte behind the character that is before a place. */
  int byteAfter(int end) {
    return source == null ? after(end - 1) : source.byteAfter(after(end - 1));
  }

  /** Returns where a character begins in a view that this one was made of. */
  int placeIn(TextView view, int at) {
    if (this == view) {
      return at;
    }
    return at < chars.length() ? source.placeIn(view, first(at)) : placeAfterIn(view, at);
  }

  /** Returns the place behind a character, in a view that this one was made of; `end` is the place behind it here. */
  int placeAfterIn(TextView view, int end) {
    if (this == view) {
      return end;
    }
    if (end == 0) {
      return chars.isEmpty() ? source.placeIn(view, shift) : source.placeIn(view, first(0));
    }
    return source.placeAfterIn(view, after(end - 1));
  }

  /** Returns the first character here that begins at a place of a view, or behind it. */
  int indexOf(TextView view, int place) {
    int low = 0;
    int high = chars.length();
    while (low < high) {
      int middle = (low + high) >>> 1;
      if (placeIn(view, middle) < place) {
        low = middle + 1;
      } else {
        high = middle;
      }
    }
    return low;
  }

  private int first(int at) {
    return firsts == null ? at + shift : firsts[at];
  }

  private int after(int at) {
    return afters == null ? at + shift + 1 : afters[at];
  }

  /**
   * Returns a part of the text with its escapes read.
   *
   * @param isJson whether the escapes are those of JSON; otherwise \n and \t, and a backslash before any other character
   *     is left out, as in logfmt
   */
  TextView unescaped(int from, int to, boolean isJson) {
    boolean isPlain = true;
    for (int at = from; at < to && isPlain; at++) {
      isPlain = chars.charAt(at) != '\\';
    }
    if (isPlain) {
      return new TextView(chars.substring(from, to), this, null, null, from, level + 1);
    }
    Made made = new Made(to - from);
    read(from, to, isJson, false, made);
    return made.view(this, level + 1);
  }

  /** Returns the text with the escapes in the strings of its objects read; a quote there is an `INNER_QUOTE`. */
  TextView inPlace() {
    JsonParts of = parts();
    Made made = new Made(chars.length());
    int done = 0;
    for (int part = 0; part < of.size(); part++) {
      if (of.isString(part) && of.isInObject(part)) {
        made.copy(chars, done, of.start(part));
        read(of.start(part), of.end(part), true, true, made);
        done = of.end(part);
      }
    }
    made.copy(chars, done, chars.length());
    return made.view(this, level);
  }

  private void read(int from, int to, boolean isJson, boolean isInPlace, Made made) {
    int at = from;
    while (at < to) {
      int size = chars.charAt(at) == '\\' ? JsonParts.sizeOfEscape(chars, at, to, isJson) : 1;
      char read = size == 1 ? chars.charAt(at) : size == 6 ? unicode(at + 2) : meant(chars.charAt(at + 1), isJson);
      made.add(isInPlace && read == '"' ? INNER_QUOTE : read, at, at + size);
      at += size;
    }
  }

  private char unicode(int at) {
    return (char) Integer.parseInt(chars.substring(at, at + 4), 16);
  }

  private static char meant(char escaped, boolean isJson) {
    switch (escaped) {
      case 'n':
        return '\n';
      case 't':
        return '\t';
      case 'r':
        return isJson ? '\r' : escaped;
      case 'b':
        return isJson ? '\b' : escaped;
      case 'f':
        return isJson ? '\f' : escaped;
      default:
        return escaped;
    }
  }

  /**
   * Returns the text without a terminal's control sequences, and with a character that nothing matches in the place of
   * each: a reader may see the one or the other. Null if it has none.
   */
  TextView[] uncoloured() {
    if (!isUncoloured) {
      uncoloured = Colours.has(chars) ? uncolour() : null;
      isUncoloured = true;
    }
    return uncoloured;
  }

  private TextView[] uncolour() {
    Made without = new Made(chars.length());
    Made apart = new Made(chars.length());
    Matcher matcher = Colours.in(chars);
    int done = 0;
    while (matcher.find()) {
      without.copy(chars, done, matcher.start());
      apart.copy(chars, done, matcher.start());
      apart.add(SEQUENCE, matcher.start(), matcher.end());
      done = matcher.end();
    }
    without.copy(chars, done, chars.length());
    apart.copy(chars, done, chars.length());
    return done == 0 ? null : new TextView[] {without.view(this, level), apart.view(this, level)};
  }

  /** Returns the text in Unicode's composed form, NFC; null if it is in this form. */
  TextView composed() {
    if (!isComposed) {
      composed = compose();
      isComposed = true;
    }
    return composed;
  }

  private TextView compose() {
    boolean hasMarks = false;
    for (int at = 0; at < chars.length() && !hasMarks; at++) {
      hasMarks = chars.charAt(at) >= FIRST_MARK;
    }
    if (!hasMarks || Normalizer.isNormalized(chars, Normalizer.Form.NFC)) {
      return null;
    }
    Made made = new Made(2 * chars.length());
    int at = 0;
    while (at < chars.length()) {
      int end = at + Character.charCount(chars.codePointAt(at));
      while (end < chars.length() && goesOn(chars.codePointAt(end))) {
        end += Character.charCount(chars.codePointAt(end));
      }
      String own = chars.substring(at, end);
      String other = Normalizer.normalize(own, Normalizer.Form.NFC);
      if (other.equals(own)) {
        made.copy(chars, at, end);
      } else {
        for (int each = 0; each < other.length(); each++) {
          made.add(other.charAt(each), at, end);
        }
      }
      at = end;
    }
    return made.view(this, level);
  }

  /** Returns true if a character can be composed with the one before it: a mark, or a later part of a Hangul syllable. */
  private static boolean goesOn(int point) {
    int type = Character.getType(point);
    return type == Character.NON_SPACING_MARK || type == Character.COMBINING_SPACING_MARK
        || type == Character.ENCLOSING_MARK || (point >= 0x1160 && point <= 0x11FF);
  }

  private static int low(byte[] bytes, int at) {
    return bytes[at] & 63;
  }

  /** Returns how many bytes the character has that begins at a byte; 1 if it is not UTF-8. */
  private static int size(byte[] bytes, int at, int to) {
    int first = bytes[at] & 255;
    int size = first < 0xC2 ? 1 : first < 0xE0 ? 2 : first < 0xF0 ? 3 : first < 0xF5 ? 4 : 1;
    if (size == 1 || at + size > to) {
      return 1;
    }
    int least = first == 0xE0 ? 0xA0 : first == 0xF0 ? 0x90 : 0x80;
    int most = first == 0xED ? 0x9F : first == 0xF4 ? 0x8F : 0xBF;
    int second = bytes[at + 1] & 255;
    boolean isWhole = second >= least && second <= most;
    for (int next = at + 2; next < at + size; next++) {
      isWhole &= (bytes[next] & 0xC0) == 0x80;
    }
    return isWhole ? size : 1;
  }

  /** Characters of a view that is being made, and their places in the one that it is made of. */
  private static final class Made {
    private char[] made;
    private int[] firsts;
    private int[] afters;
    private int count;

    Made(int size) {
      this.made = new char[size];
      this.firsts = new int[size];
      this.afters = new int[size];
    }

    void add(char each, int first, int after) {
      if (count == made.length) {
        int size = 2 * count + 16;
        made = java.util.Arrays.copyOf(made, size);
        firsts = java.util.Arrays.copyOf(firsts, size);
        afters = java.util.Arrays.copyOf(afters, size);
      }
      made[count] = each;
      firsts[count] = first;
      afters[count] = after;
      count++;
    }

    void copy(String chars, int from, int to) {
      for (int at = from; at < to; at++) {
        add(chars.charAt(at), at, at + 1);
      }
    }

    TextView view(TextView of, int level) {
      return new TextView(new String(made, 0, count), of, firsts, afters, 0, level);
    }
  }
}
