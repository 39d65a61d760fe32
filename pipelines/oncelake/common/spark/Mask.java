package oncelake;

import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.ByteArrayOutputStream;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
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

  private final String json;
  private final String variable;
  private final String keyId;
  private transient Rule[] rules;
  private transient Mac mac;

  private Mask(String json, String variable, String keyId) {
    this.json = json;
    this.variable = variable;
    this.keyId = keyId;
  }

  /**
   * Returns the rules.
   *
   * @param json the rules, as `Masking` in mask.py writes them
   * @param variable the environment variable with the key; null if no rule needs one
   * @param keyId the key's identity, see `idOf`
   */
  public static Mask of(String json, String variable, String keyId) {
    return new Mask(json, variable, keyId);
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
    Text text = null;
    byte[] now = bytes;
    Rule[] all = rules();
    for (int at = 0; at < all.length; at++) {
      if (!all[at].isFor(field, header)) {
        continue;
      }
      text = text == null ? new Text(now) : text;
      byte[] made = applied(all[at], text, counts);
      if (made != null) {
        now = made;
        text = null;
      }
    }
    return now;
  }

  /** Returns the text with a rule's matches replaced; null if nothing matches. */
  private byte[] applied(Rule rule, Text text, Map counts) {
    try {
      return replaced(rule, text, counts);
    } catch (StackOverflowError error) {
      throw tooMany(rule, text);
    }
  }

  private byte[] replaced(Rule rule, Text text, Map counts) {
    Counted chars = new Counted(text.chars, STEPS + STEPS_PER_BYTE * text.bytes.length);
    Matcher matcher = rule.pattern.matcher(chars);
    ByteArrayOutputStream out = null;
    int done = 0;
    int from = 0;
    int count = 0;
    while (from <= text.chars.length() && matcher.find(from)) {
      if (chars.left < 0L) {
        throw tooMany(rule, text);
      }
      int start = matcher.start(rule.group);
      int end = matcher.end(rule.group);
      from = Math.max(matcher.end(), matcher.start() + 1);
      if (start >= 0 && rule.check != null) {
        end = Checks.end(rule.check, text.chars, start, end);
        from = end < 0 ? matcher.start() + 1 : Math.max(end, matcher.start() + 1);
      }
      if (start < 0 || end <= start || text.at(start) < done) {
        continue;
      }
      out = out == null ? new ByteArrayOutputStream(text.bytes.length + 64) : out;
      out.write(text.bytes, done, text.at(start) - done);
      byte[] instead = instead(rule, text.bytes, text.at(start), text.at(end));
      out.write(instead, 0, instead.length);
      done = text.at(end);
      count++;
    }
    if (chars.left < 0L) {
      throw tooMany(rule, text);
    }
    if (out == null) {
      return null;
    }
    out.write(text.bytes, done, text.bytes.length - done);
    Integer before = (Integer) counts.get(rule.name);
    counts.put(rule.name, Integer.valueOf(count + (before == null ? 0 : before.intValue())));
    return out.toByteArray();
  }

  private byte[] instead(Rule rule, byte[] bytes, int start, int end) {
    if (rule.hashed == 0) {
      return rule.text;
    }
    Mac own = mac();
    byte[] hash;
    synchronized (own) {
      own.update(bytes, start, end - start);
      hash = own.doFinal();
    }
    return hex(hash, rule.hashed).getBytes(StandardCharsets.ISO_8859_1);
  }

  private static IllegalStateException tooMany(Rule rule, Text text) {
    return new IllegalStateException(
        "mask rule " + rule.name + " takes too many steps on a record of " + text.bytes.length + " bytes");
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
    StringBuilder text = new StringBuilder();
    for (int at = 0; at < bytes.length && text.length() < length; at++) {
      text.append(Character.forDigit((bytes[at] >> 4) & 15, 16)).append(Character.forDigit(bytes[at] & 15, 16));
    }
    return text.substring(0, length);
  }

  private static final class Rule {
    final String name;
    final Pattern pattern;
    final int group;
    final String check;
    final byte[] text;
    final int hashed;
    private final boolean isForValue;
    private final boolean isForKey;
    private final boolean isForHeaders;
    private final List headers = new ArrayList();

    Rule(Map rule) {
      this.name = (String) rule.get("name");
      this.group = ((Number) rule.get("group")).intValue();
      this.check = (String) rule.get("check");
      this.text = ((String) rule.get("text")).getBytes(StandardCharsets.UTF_8);
      this.hashed = ((Number) rule.get("hashed")).intValue();
      boolean value = false;
      boolean key = false;
      boolean every = false;
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

  /** A text of which at most a number of characters may be looked at. */
  private static final class Counted implements CharSequence {
    long left;
    private final String chars;

    Counted(String chars, long left) {
      this.chars = chars;
      this.left = left;
    }

    @Override
    public int length() {
      return chars.length();
    }

    @Override
    public char charAt(int at) {
      left -= 1L;
      if (left < 0L) {
        throw new StackOverflowError();  // ends the matching; the caller says why
      }
      return chars.charAt(at);
    }

    @Override
    public CharSequence subSequence(int start, int end) {
      return chars.subSequence(start, end);
    }

    @Override
    public String toString() {
      return chars;
    }
  }

  /** Bytes as characters, and the byte at which each character begins. */
  private static final class Text {
    final byte[] bytes;
    final String chars;
    private final int[] places;

    Text(byte[] bytes) {
      this.bytes = bytes;
      boolean isPlain = true;
      for (int at = 0; at < bytes.length && isPlain; at++) {
        isPlain = bytes[at] >= 0;
      }
      if (isPlain) {
        this.chars = new String(bytes, StandardCharsets.ISO_8859_1);
        this.places = null;
        return;
      }
      char[] made = new char[bytes.length];
      int[] begins = new int[bytes.length + 1];
      int count = 0;
      int at = 0;
      while (at < bytes.length) {
        int size = size(bytes, at);
        begins[count] = at;
        if (size == 4) {
          int point = ((bytes[at] & 7) << 18) | (low(bytes, at + 1) << 12) | (low(bytes, at + 2) << 6)
              | low(bytes, at + 3);
          made[count] = Character.highSurrogate(point);
          count++;
          begins[count] = at;
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
      begins[count] = bytes.length;
      this.chars = new String(made, 0, count);
      this.places = begins;
    }

    int at(int index) {
      return places == null ? index : places[index];
    }

    private static int low(byte[] bytes, int at) {
      return bytes[at] & 63;
    }

    /** Returns how many bytes the character has that begins at a byte; 1 if it is not UTF-8. */
    private static int size(byte[] bytes, int at) {
      int first = bytes[at] & 255;
      int size = first < 0xC2 ? 1 : first < 0xE0 ? 2 : first < 0xF0 ? 3 : first < 0xF5 ? 4 : 1;
      if (size == 1 || at + size > bytes.length) {
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
        isQuad = !parts[at].isEmpty() && parts[at].length() <= 3 && parts[at].chars().allMatch(new Digit())
            && Integer.parseInt(parts[at]) < 256;
      }
      return isQuad;
    }
  }

  private static final class Digit implements java.util.function.IntPredicate {
    @Override
    public boolean test(int each) {
      return each >= '0' && each <= '9';
    }
  }
}
