package oncelake;

import com.fasterxml.jackson.databind.ObjectMapper;
import java.nio.charset.StandardCharsets;
import java.text.Normalizer;
import java.util.ArrayList;
import java.util.HexFormat;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.concurrent.ConcurrentHashMap;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import javax.crypto.Mac;
import javax.crypto.spec.SecretKeySpec;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.RowFactory;
import org.apache.spark.sql.api.java.UDF3;
import org.apache.spark.sql.expressions.UserDefinedFunction;
import org.apache.spark.sql.functions;
import org.apache.spark.sql.types.StructType;

/**
 * Masks a record's value, key and header values: the columns `value`, `key`, `headers` and `masked`, the number of
 * matches of each rule, null if there are none.
 *
 * The rules are applied in order, each to the result of the one before. A rule sees UTF-8 text; a byte that is not
 * UTF-8 is a character of its own, and no byte outside a match changes.
 *
 * A rule sees what a reader of the text sees, in this order: the content of each string with its escapes read, and of the
 * strings within it; the text around the strings; and the whole text with everything read that can be an escape. Where
 * two matches overlap, both are replaced by the text of the first. JSON stays JSON: of a match that goes over the strings
 * and values of an object, only these are replaced, and a number that is masked becomes a string. Parts that a container
 * runtime has cut are joined, as silver joins them; what is between two parts stays there. A terminal's control sequences
 * are not seen.
 *
 * The function holds the rules and the key's identity, not the key: each JVM has the key from `hold` or from its own
 * environment. An error names a rule, and never the text.
 */
public final class Mask implements UDF3 {
  private static final Map KEYS = new ConcurrentHashMap();
  private static final byte[] OF_A_KEY = "oncelake mask key".getBytes(StandardCharsets.UTF_8);
  private static final int ID_LENGTH = 16;
  private static final int HEADER_KEY = 0;
  private static final int HEADER_VALUE = 1;
  // How many characters a rule may look at: a pattern that backtracks must not hold up the source for hours.
  private static final long STEPS = 1000000L;
  private static final long STEPS_PER_BYTE = 1000L;
  private static final int AS_BYTES = 1;
  private static final int[] NO_JOINTS = new int[0];

  private final String json;
  private final String variable;
  private final String keyId;
  private final int way;
  private final String joint;
  private final String part;
  private transient Rule[] rules;
  private transient Pattern joints;
  private transient Pattern parts;
  private transient Mac mac;

  private Mask(String json, String variable, String keyId, int way, String joint, String part) {
    this.json = json;
    this.variable = variable;
    this.keyId = keyId;
    this.way = way;
    this.joint = joint;
    this.part = part;
  }

  /**
   * Returns the rules.
   *
   * @param json the rules, as `Masking` in mask.py writes them
   * @param variable the environment variable with the key; null if no rule needs one
   * @param keyId the key's identity, see `idOf`
   * @param way 1: a rule sees the text as it is written, as oncelake did at first; 2: as its readers see it
   * @param joint the pattern of what is between two parts of a value; null if values have no parts
   * @param part the pattern of a part, with the groups `of` and `more`; null if values have no parts
   */
  public static Mask of(String json, String variable, String keyId, int way, String joint, String part) {
    return new Mask(json, variable, keyId, way, joint, part);
  }

  /** Returns the rules as a function of Spark; Spark calls it once for each row. */
  public UserDefinedFunction function(String returns) {
    return functions.udf((UDF3) this, StructType.fromDDL(returns)).asNondeterministic();
  }

  /** Returns why the rules cannot work, null if they can. */
  public String problem() {
    try {
      rules();
      return null;
    } catch (IllegalArgumentException error) {
      return error.getMessage().split("\n")[0];
    }
  }

  /** Returns true if this JVM has a key, from `hold` or in its environment. */
  public static boolean has(String variable, String keyId) {
    String text = System.getenv(variable);
    return KEYS.containsKey(keyId) || (text != null && idOf(text.getBytes(StandardCharsets.UTF_8)).equals(keyId));
  }

  /** Keeps a key in this JVM's memory. */
  public static void hold(String text) {
    byte[] key = text.getBytes(StandardCharsets.UTF_8);
    KEYS.put(idOf(key), key);
  }

  private static String idOf(byte[] key) {
    return hex(mac(key).doFinal(OF_A_KEY), ID_LENGTH);
  }

  @Override
  public Object call(Object value, Object key, Object headers) {
    if (keyId != null) {
      mac();  // also where no rule matches, so that a missing key is seen at once
    }
    Map counts = new TreeMap();
    Object made = headers == null ? null : headers((scala.collection.Iterable) headers, counts);
    Row row = RowFactory.create(new Object[] {
      masked((byte[]) value, "value", null, counts), masked((byte[]) key, "key", null, counts), made,
      counts.isEmpty() ? null : counts
    });
    return row;
  }

  private List headers(scala.collection.Iterable headers, Map counts) {
    List made = new ArrayList();
    scala.collection.Iterator each = headers.iterator();
    while (each.hasNext()) {
      Row header = (Row) each.next();
      String name = header.getString(HEADER_KEY);
      byte[] value = masked((byte[]) header.get(HEADER_VALUE), "headers", name, counts);
      made.add(RowFactory.create(new Object[] {name, value}));
    }
    return made;
  }

  /** Masks a value. */
  public byte[] value(byte[] value) {
    return masked(value, "value", null, new TreeMap());
  }

  private byte[] masked(byte[] bytes, String field, String header, Map counts) {
    if (bytes == null) {
      return null;
    }
    TextView text = null;
    int[] between = NO_JOINTS;
    byte[] now = bytes;
    for (Rule rule : rules()) {
      if (!rule.isFor(field, header)) {
        continue;
      }
      if (text == null) {
        text = TextView.of(now, 0, now.length);
        between = field.equals("value") ? joints(now, text) : NO_JOINTS;
        text = between.length == 0 ? text : TextView.joined(now, between);
      }
      byte[] made = applied(rule, now, text, between, counts);
      if (made != null) {
        now = made;
        text = null;
      }
    }
    return now;
  }

  /**
   * Returns the bytes between the parts of a value, as silver leaves them out: firsts and afters.
   *
   * Behind a line that was not cut, its end stays, if the line end is not within the text of the joint.
   */
  private int[] joints(byte[] bytes, TextView text) {
    if (joint == null || way == AS_BYTES || text.chars.indexOf('\n') < 0) {
      return NO_JOINTS;
    }
    if (joints == null) {
      joints = Pattern.compile("(?m:" + joint + ")");
      parts = Pattern.compile(part);
    }
    int[] found = text.bytesOf(joints.matcher(text.chars));
    for (int at = 0; at < found.length; at += 2) {
      int end = found[at];
      int afterEnd = bytes[end] == (byte) '\n' ? end + 1 : end + 2;
      if (bytes[end] == (byte) '\n' || (bytes[end] == (byte) '\r' && bytes[end + 1] == (byte) '\n')) {
        int first = Records.firstOf(bytes, end);
        found[at] = Records.isCut(bytes, first, end - first, parts) ? end : afterEnd;
      }
    }
    return found;
  }

  /** Returns the record with a rule's matches replaced; null if nothing matches. */
  private byte[] applied(Rule rule, byte[] bytes, TextView text, int[] between, Map counts) {
    Search search = new Search(this, rule, bytes);
    Search within = new Search(this, rule, bytes);
    try {
      if (way != AS_BYTES && search.isWhole(text)) {
        search.changeAll(text);
        return counted(rule, search.count, counts, search.edits.applied(bytes, NO_JOINTS, within.edits));
      }
      search.lookAt(text);
      for (int at = 0; at < between.length; at += 2) {
        within.lookAt(TextView.of(bytes, between[at], between[at + 1]));
      }
    } catch (StackOverflowError error) {
      throw tooMany(rule, bytes);
    } catch (BoundedPattern.TooManySteps error) {
      throw tooMany(rule, bytes);
    }
    if (search.edits.isEmpty() && within.edits.isEmpty()) {
      return null;
    }
    return counted(rule, search.count + within.count, counts, search.edits.applied(bytes, between, within.edits));
  }

  private static IllegalStateException tooMany(Rule rule, byte[] bytes) {
    return new IllegalStateException(
        "mask rule " + rule.name + " takes too many steps on a record of " + bytes.length + " bytes");
  }

  private static byte[] counted(Rule rule, int count, Map counts, byte[] made) {
    Integer before = (Integer) counts.get(rule.name);
    counts.put(rule.name, Integer.valueOf(count + (before == null ? 0 : before.intValue())));
    return made;
  }

  private Rule[] rules() {
    if (rules == null) {
      try {
        List all = (List) new ObjectMapper().readValue(json, List.class);
        Rule[] made = new Rule[all.size()];
        for (int at = 0; at < made.length; at++) {
          made[at] = new Rule((Map) all.get(at));
        }
        rules = made;
      } catch (java.io.IOException error) {
        throw new IllegalArgumentException(error);
      }
    }
    return rules;
  }

  private Mac mac() {
    if (mac == null) {
      byte[] key = (byte[]) KEYS.get(keyId);
      if (key == null) {
        String text = System.getenv(variable);
        key = text == null ? new byte[0] : text.getBytes(StandardCharsets.UTF_8);
        if (key.length == 0 || !idOf(key).equals(keyId)) {
          throw new IllegalStateException(
              "environment variable " + variable + " with the key of the mask rules is "
                  + (key.length == 0 ? "not set here" : "another key here than on the driver"));
        }
      }
      mac = mac(key);
    }
    return mac;
  }

  private static Mac mac(byte[] key) {
    try {
      Mac made = Mac.getInstance("HmacSHA256");
      made.init(new SecretKeySpec(key, "HmacSHA256"));
      return made;
    } catch (java.security.GeneralSecurityException error) {
      throw new IllegalStateException("this Java has no HmacSHA256");
    }
  }

  private static String hex(byte[] bytes, int length) {
    return HexFormat.of().formatHex(bytes).substring(0, length);
  }

  /** Looks for a rule's matches in a record. */
  private static final class Search {
    final MaskEdits edits = new MaskEdits();
    int count;
    private final Mask mask;
    private final Rule rule;
    private final byte[] bytes;
    private final boolean isAsBytes;

    Search(Mask mask, Rule rule, byte[] bytes) {
      this.mask = mask;
      this.rule = rule;
      this.bytes = bytes;
      this.isAsBytes = mask.way == AS_BYTES;
    }

    /** Adds what to change in a text, and in the texts that are written in it. */
    void lookAt(TextView text) {
      boolean isPlain = isAsBytes || !text.hasEscapes();
      if (isPlain && (isAsBytes || !text.hasParts())) {
        find(text, text, null);
        return;
      }
      if (isPlain && !rule.isAnchored && !isFound(text)) {
        return;
      }
      if (text.level > 0 && isWhole(text)) {
        changeAll(text);
        return;
      }
      JsonParts parts = text.parts();
      for (int part = 0; part < parts.size() && text.level < TextView.DEPTH; part++) {
        if (parts.isEscaped(part) || (parts.isString(part) && parts.hasEscapes(part))) {
          lookAt(text.content(part));
        }
        if (parts.isAssigned(part) && parts.hasEscapes(part)) {
          TextView otherwise = text.unescaped(parts.start(part), parts.end(part), false);
          find(otherwise, otherwise, null);
        }
      }
      if (parts.hasEscapesInObjects()) {
        find(text.inPlace(), text, parts);
      }
      find(text, text, parts);
      TextView read = parts.hasOtherEscapes() ? text : null;
      while (read != null && read.level < TextView.DEPTH && read.hasEscapes()) {
        read = read.unescaped(0, read.chars.length(), true);
        find(read, text, parts);
      }
    }

    /** Returns true if the first match is the whole text. */
    boolean isWhole(TextView text) {
      Matcher matcher = rule.pattern.matcher(new BoundedPattern.Counted(text.chars, STEPS + STEPS_PER_BYTE * bytes.length));
      return rule.check == null && !text.chars.isEmpty() && matcher.lookingAt() && matcher.start(rule.group) == 0
          && matcher.end(rule.group) == text.chars.length();
    }

    void changeAll(TextView text) {
      change(text, 0, text.chars.length(), text.level, text.chars);
    }

    private boolean isFound(TextView text) {
      for (TextView view : views(text)) {
        if (findIn(view, null, null)) {
          return true;
        }
      }
      return false;
    }

    private void find(TextView seen, TextView text, JsonParts parts) {
      for (TextView view : views(seen)) {
        findIn(view, text, parts);
      }
    }

    /** Returns a text as its readers see it: without colours, and also with its letters and marks composed. */
    private List<TextView> views(TextView text) {
      TextView[] seen = isAsBytes ? null : text.uncoloured();
      if (seen == null) {
        seen = new TextView[] {text};
      }
      List<TextView> found = new ArrayList<TextView>(2);
      for (TextView each : seen) {
        found.add(each);
        TextView composed = isAsBytes ? null : each.composed();
        if (composed != null) {
          found.add(composed);
        }
      }
      return found;
    }

    /**
     * Adds the changes of the matches in a view, and returns true if there is a match.
     *
     * @param seen the view
     * @param text the text that the view is of; null to look for the first match only
     * @param parts the parts of the text; null if it has none
     */
    private boolean findIn(TextView seen, TextView text, JsonParts parts) {
      String chars = seen.chars;
      BoundedPattern.Counted counted = new BoundedPattern.Counted(chars, STEPS + STEPS_PER_BYTE * bytes.length);
      Matcher matcher = rule.pattern.matcher(counted);
      boolean isFound = false;
      int done = 0;
      int from = 0;
      while (from <= chars.length() && matcher.find(from)) {
        int start = matcher.start(rule.group);
        int end = matcher.end(rule.group);
        from = Math.max(matcher.end(), matcher.start() + 1);
        if (start >= 0 && rule.check != null) {
          end = Checks.end(rule.check, chars, start, end);
          from = end < 0 ? matcher.start() + 1 : Math.max(end, matcher.start() + 1);
        }
        if (start < 0 || end <= start || (isAsBytes && start < done)) {
          continue;
        }
        isFound = true;
        if (text == null) {
          return true;
        }
        done = end;
        int again = take(seen, text, parts, matcher, start, end);
        from = again < 0 ? from : Math.max(matcher.start() + 1, again);
      }
      return isFound;
    }

    /** Adds the changes of one match; returns where to look on in the view, -1: behind the match. */
    private int take(TextView seen, TextView text, JsonParts parts, Matcher matcher, int start, int end) {
      int first = seen.placeIn(text, start);
      int after = seen.placeAfterIn(text, end);
      String value = seen.chars.substring(start, end);
      if (parts == null) {
        change(text, first, after, text.level, value);
        return -1;
      }
      int own = parts.partAt(first);
      boolean isOwn = own >= 0 && parts.isEscaped(own) && after <= parts.end(own);
      boolean isWhole = isOwn && seen.placeIn(text, matcher.start()) >= parts.start(own)
          && seen.placeAfterIn(text, matcher.end()) <= parts.end(own);
      if (isWhole && text.level < TextView.DEPTH) {
        return -1;  // its content has been looked at
      }
      boolean isFirst = true;
      int at = first;
      while (at < after) {
        int cut = parts.endOfCut(at, first, after);
        int to = cut < 0 ? parts.startOfCut(at, after) : Math.min(after, cut);
        if (cut < 0) {
          int level = isOwn ? text.level + 1 : seen.level;
          change(text, parts.aroundEscape(at, false), parts.aroundEscape(to, true), level, isFirst ? value : null);
          isFirst = false;
        }
        for (int part = parts.firstAfter(at); cut >= 0 && part < parts.size() && parts.start(part) < to; part++) {
          int one = parts.aroundEscape(Math.max(at, parts.start(part)), false);
          int other = parts.aroundEscape(Math.min(to, parts.end(part)), true);
          if (other <= one) {
            continue;
          }
          boolean isKnown = edits.overlaps(text.byteAt(one), text.byteAfter(other));
          change(text, one, other, text.level + 1, isFirst ? value : null);
          if (!parts.isString(part)) {
            byte[] quote = utf8(written("\"", text.level));
            edits.quote(text.byteAt(parts.start(part)), quote);
            edits.quote(text.byteAfter(parts.end(part)), quote);
          }
          if (isFirst && isKnown && after > parts.end(part)) {
            return seen.indexOf(text, parts.end(part));  // a match that begins in a string ends in it
          }
          isFirst = false;
        }
        at = to;
      }
      return -1;
    }

    /** Adds a change; `value` is what the rule has matched, null for a later part of it. */
    private void change(TextView text, int first, int after, int level, String value) {
      int start = text.byteAt(first);
      int end = text.byteAfter(after);
      byte[] instead = value == null ? new byte[0] : instead(start, end, level, value);
      count += edits.add(start, end, instead) && value != null ? 1 : 0;
    }

    private byte[] instead(int start, int end, int level, String value) {
      if (rule.hashed == 0) {
        return level == 0 || isAsBytes ? rule.text : utf8(written(rule.words, level));
      }
      byte[] matched = isAsBytes ? java.util.Arrays.copyOfRange(bytes, start, end) : bytesOf(value);
      Mac own = mask.mac();
      byte[] hash;
      synchronized (own) {
        hash = own.doFinal(matched);
      }
      return hex(hash, rule.hashed).getBytes(StandardCharsets.ISO_8859_1);
    }

    /** Returns the bytes of a text in Unicode's composed form; what was no UTF-8 is the byte that it was. */
    private static byte[] bytesOf(String value) {
      String seen = value.replace(TextView.INNER_QUOTE, '"').replace(String.valueOf(TextView.SEQUENCE), "");
      String text = Normalizer.normalize(seen, Normalizer.Form.NFC);
      java.io.ByteArrayOutputStream out = new java.io.ByteArrayOutputStream(text.length() + 16);
      int at = 0;
      while (at < text.length()) {
        int point = text.codePointAt(at);
        byte[] each = new byte[] {(byte) point};
        if (point < 0xDC80 || point > 0xDCFF) {
          each = utf8(new String(Character.toChars(point)));
        }
        out.write(each, 0, each.length);
        at += Character.charCount(point);
      }
      return out.toByteArray();
    }

    private static byte[] utf8(String text) {
      return text.getBytes(StandardCharsets.UTF_8);
    }

    /** Returns a text as it is written in a string of JSON, which itself is in another one, and so on. */
    private static String written(String text, int level) {
      String now = text;
      for (int each = 0; each < level; each++) {
        StringBuilder out = new StringBuilder();
        for (int at = 0; at < now.length(); at++) {
          char next = now.charAt(at);
          int known = "\"\\\n\t\r".indexOf(next);
          if (known >= 0) {
            out.append('\\').append("\"\\ntr".charAt(known));
          } else if (next < ' ') {
            out.append(String.format("\\u%04x", new Object[] {Integer.valueOf(next)}));
          } else {
            out.append(next);
          }
        }
        now = out.toString();
      }
      return now;
    }
  }

  private static final class Rule {
    // Such a pattern can match in a string of a text and nowhere in the text itself.
    private static final Pattern ANCHOR = Pattern.compile("(?<![\\[\\\\])[\\^$]|\\\\[AzZG]");

    final String name;
    final Pattern pattern;
    final int group;
    final String check;
    final byte[] text;
    final String words;
    final int hashed;
    final boolean isAnchored;
    private final boolean isForValue;
    private final boolean isForKey;
    private final boolean isForHeaders;
    private final List headers = new ArrayList();

    Rule(Map rule) {
      this.name = (String) rule.get("name");
      this.group = ((Number) rule.get("group")).intValue();
      this.check = (String) rule.get("check");
      this.words = (String) rule.get("text");
      this.text = words.getBytes(StandardCharsets.UTF_8);
      this.hashed = ((Number) rule.get("hashed")).intValue();
      boolean value = false;
      boolean key = false;
      boolean every = false;
      this.isAnchored = ANCHOR.matcher((String) rule.get("pattern")).find();
      List fields = (List) rule.get("fields");
      for (int at = 0; at < fields.size(); at++) {
        String field = (String) fields.get(at);
        value |= field.equals("value");
        key |= field.equals("key");
        every |= field.equals("headers");
        if (field.startsWith("headers.")) {
          headers.add(field.substring("headers.".length()));
        }
      }
      this.isForValue = value;
      this.isForKey = key;
      this.isForHeaders = every;
      try {
        this.pattern = Pattern.compile((String) rule.get("pattern"));
      } catch (RuntimeException error) {
        throw new IllegalArgumentException(
            "rule " + name + ": Java does not accept the pattern: " + error.getMessage().split("\n")[0]);
      } catch (StackOverflowError error) {
        throw new IllegalArgumentException("rule " + name + ": the pattern is too long");
      }
      if (pattern.matcher("").groupCount() < group) {
        throw new IllegalArgumentException("rule " + name + ": the pattern has no group " + group);
      }
    }

    boolean isFor(String field, String header) {
      if (!field.equals("headers")) {
        return field.equals("value") ? isForValue : isForKey;
      }
      boolean isNamed = isForHeaders;
      for (int at = 0; at < headers.size() && !isNamed; at++) {
        isNamed = ((String) headers.get(at)).equalsIgnoreCase(header);
      }
      return isNamed;
    }
  }

  /** What a pattern alone cannot check: where the longest valid part of a match ends; -1 if there is none. */
  private static final class Checks {
    private static final int LONGEST_ADDRESS = 45;

    static int end(String check, String text, int start, int end) {
      boolean isCard = check.equals("luhn");
      for (int last = end; last > start; last--) {
        if (isCard ? isCard(text, start, last) : isAddress(text, start, last)) {
          return last;
        }
        if (!isCard && text.charAt(last - 1) != '.' && text.charAt(last - 1) != ':') {
          return -1;  // only the punctuation after an address is not part of it
        }
      }
      return -1;
    }

    /** Returns true if digits, with spaces or hyphens between them, are 13 to 19 with the right check digit. */
    private static boolean isCard(String text, int start, int end) {
      if (!isDigit(text, end - 1) || isDigit(text, end)) {
        return false;
      }
      int sum = 0;
      int count = 0;
      for (int at = end - 1; at >= start; at--) {
        if (isDigit(text, at)) {
          int digit = text.charAt(at) - '0';
          int twice = count % 2 == 1 ? 2 * digit : digit;
          sum += twice > 9 ? twice - 9 : twice;
          count++;
        }
      }
      return count >= 13 && count <= 19 && sum % 10 == 0;
    }

    private static boolean isDigit(String text, int at) {
      return at < text.length() && text.charAt(at) >= '0' && text.charAt(at) <= '9';
    }

    /** Returns true if a text of hexadecimal digits, colons and dots is an IPv6 address. */
    private static boolean isAddress(String all, int start, int end) {
      if (end - start > LONGEST_ADDRESS) {
        return false;
      }
      String text = all.substring(start, end);
      int gap = text.indexOf("::");
      if (gap >= 0 && text.indexOf("::", gap + 1) >= 0) {
        return false;
      }
      if (gap < 0) {
        return groups(text) == 8;
      }
      int before = groups(text.substring(0, gap));
      int after = groups(text.substring(gap + 2));
      boolean isEnd = text.substring(0, gap).indexOf('.') < 0;
      return isEnd && before >= 0 && after >= 0 && before + after > 0 && before + after < 8;
    }

    /** Returns the number of groups of 16 bits; -1 if one of them is not valid. */
    private static int groups(String text) {
      if (text.isEmpty()) {
        return 0;
      }
      String[] parts = text.split(":", -1);
      int count = 0;
      for (int at = 0; at < parts.length; at++) {
        if (parts[at].indexOf('.') >= 0) {
          if (at < parts.length - 1 || !isQuad(parts[at])) {
            return -1;
          }
          count += 2;
        } else if (parts[at].isEmpty() || parts[at].length() > 4) {
          return -1;
        } else {
          count++;
        }
      }
      return count;
    }

    private static boolean isQuad(String text) {
      String[] parts = text.split("\\.", -1);
      boolean isQuad = parts.length == 4;
      for (int at = 0; at < parts.length && isQuad; at++) {
        isQuad = parts[at].matches("[0-9]{1,3}") && Integer.parseInt(parts[at]) < 256;
      }
      return isQuad;
    }
  }
}
