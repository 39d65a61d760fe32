package oncelake;

import com.fasterxml.jackson.core.JsonFactory;
import com.fasterxml.jackson.core.JsonParser;
import com.fasterxml.jackson.core.JsonToken;
import com.fasterxml.jackson.core.json.JsonReadFeature;
import java.io.IOException;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.RowFactory;
import org.apache.spark.sql.api.java.UDF1;
import org.apache.spark.sql.expressions.UserDefinedFunction;
import org.apache.spark.sql.functions;
import org.apache.spark.sql.types.StructType;

/**
 * Reads a line that is one JSON object: the texts of its keys, and those at some paths.
 *
 * A number, a boolean and a nested value are as the line has them, a string is without its escapes, and null is null.
 * Of equal keys the last one wins. Any other line is null, also one beyond Jackson's limits.
 */
public final class JsonLine implements UDF1 {
  // Without the table of names that all parsers share: there, names with one hash in a line make it and later lines fail.
  private static final JsonFactory FACTORY = JsonFactory.builder()
      .enable(JsonReadFeature.ALLOW_NON_NUMERIC_NUMBERS)
      .disable(JsonFactory.Feature.CANONICALIZE_FIELD_NAMES)
      .build();
  private static final int FIRST_SURROGATE = 0xD800;

  private final String[][] paths;
  private final String eventsKey;

  private JsonLine(String[][] paths, String eventsKey) {
    this.paths = paths;
    this.eventsKey = eventsKey;
  }

  /**
   * Returns a function of a line: `object` map of string, string and `paths` array of string, the texts at the paths.
   *
   * @param paths separated by U+001E, their steps by U+001F: `.key` or `[number`
   */
  public static UserDefinedFunction of(String paths) {
    String[] all = paths.isEmpty() ? new String[0] : paths.split("\u001e");
    String[][] steps = new String[all.length][];
    for (int at = 0; at < all.length; at++) {
      steps[at] = all[at].split("\u001f");
    }
    return functions.udf(
        (UDF1) new JsonLine(steps, null), StructType.fromDDL("object map<string,string>, paths array<string>"));
  }

  /**
   * Returns a function of a line with events: `outer` map of string, string, the texts of its other keys, `events`
   * array of string, their texts, and `fault` string. If there are no events, or not all are objects, `events` is null
   * and `fault` is what stands there.
   *
   * @param key the key of the list of events; empty if the line is the list
   */
  public static UserDefinedFunction events(String key) {
    return functions.udf(
        (UDF1) new JsonLine(new String[0][], key),
        StructType.fromDDL("outer map<string,string>, events array<string>, fault string"));
  }

  @Override
  public Object call(Object line) {
    if (line == null) {
      return null;
    }
    try {
      return eventsKey == null ? read((String) line) : events((String) line, eventsKey);
    } catch (IOException error) {
      return null;
    }
  }

  private Row read(String line) throws IOException {
    JsonParser parser = FACTORY.createParser(line);
    try {
      if (parser.nextToken() != JsonToken.START_OBJECT) {
        return null;
      }
      Map object = new LinkedHashMap();
      String[] found = new String[paths.length];
      while (parser.nextToken() == JsonToken.FIELD_NAME) {
        String key = whole(parser.getCurrentName());
        JsonToken token = parser.nextToken();
        String text = text(parser, token, line);
        object.put(key, text);
        for (int at = 0; at < found.length; at++) {
          if (paths[at][0].substring(1).equals(key) && paths[at][0].charAt(0) == '.') {
            found[at] = paths[at].length == 1 ? text : isNested(token) ? inside(text, paths[at]) : null;
          }
        }
      }
      return parser.nextToken() == null ? RowFactory.create(new Object[] {object, Arrays.asList((Object[]) found)}) : null;
    } finally {
      parser.close();
    }
  }

  private static Row events(String line, String key) throws IOException {
    JsonParser parser = FACTORY.createParser(line);
    try {
      Map outer = new LinkedHashMap();
      List events = null;
      String fault = "no key " + key;
      JsonToken token = parser.nextToken();
      if (token == null) {
        return null;
      }
      boolean isObject = token == JsonToken.START_OBJECT && !key.isEmpty();
      if (token == JsonToken.START_ARRAY && key.isEmpty()) {
        events = new ArrayList();
        fault = collect(parser, line, events);
      } else if (!isObject) {
        fault = shown(parser, token, line);
      }
      while (isObject && parser.nextToken() == JsonToken.FIELD_NAME) {
        String name = whole(parser.getCurrentName());
        token = parser.nextToken();
        if (!name.equals(key)) {
          outer.put(name, text(parser, token, line));
        } else if (events != null) {
          parser.skipChildren();
          fault = "two keys " + key;
        } else {
          events = new ArrayList();
          fault = token == JsonToken.START_ARRAY ? collect(parser, line, events) : shown(parser, token, line);
        }
      }
      if (parser.nextToken() != null) {
        return null;
      }
      return RowFactory.create(new Object[] {outer, fault == null ? events : null, fault});
    } finally {
      parser.close();
    }
  }

  /** Adds the objects of the list at which a parser is; returns what stands there instead of some, or null. */
  private static String collect(JsonParser parser, String line, List events) throws IOException {
    String fault = null;
    for (JsonToken token = parser.nextToken(); token != JsonToken.END_ARRAY; token = parser.nextToken()) {
      String text = shown(parser, token, line);
      if (token != JsonToken.START_OBJECT && fault == null) {
        fault = "event " + events.size() + ": " + text;
      }
      events.add(text);
    }
    return events.isEmpty() ? "[]" : fault;
  }

  private static String shown(JsonParser parser, JsonToken token, String line) throws IOException {
    return token == JsonToken.VALUE_NULL ? "null" : text(parser, token, line);
  }

  /** Returns the text at a path, whose first step leads to a nested value; null if there is none. */
  private static String inside(String nested, String[] path) throws IOException {
    String text = nested;
    for (int step = 1; step < path.length; step++) {
      if (text == null) {
        return null;
      }
      JsonParser parser = FACTORY.createParser(text);
      try {
        boolean isKey = path[step].charAt(0) == '.';
        String wanted = path[step].substring(1);
        JsonToken outer = parser.nextToken();
        if (outer != (isKey ? JsonToken.START_OBJECT : JsonToken.START_ARRAY)) {
          return null;
        }
        String found = null;
        boolean isFoundNested = false;
        JsonToken token = parser.nextToken();
        for (int at = 0; token != JsonToken.END_OBJECT && token != JsonToken.END_ARRAY; at++) {
          boolean isWanted = isKey ? whole(parser.getCurrentName()).equals(wanted) : wanted.equals(String.valueOf(at));
          token = isKey ? parser.nextToken() : token;
          if (isWanted) {
            isFoundNested = isNested(token);
            found = text(parser, token, text);
          } else {
            parser.skipChildren();
          }
          token = parser.nextToken();
        }
        if (step + 1 < path.length && !isFoundNested) {
          return null;
        }
        text = found;
      } finally {
        parser.close();
      }
    }
    return text;
  }

  private static boolean isNested(JsonToken token) {
    return token == JsonToken.START_OBJECT || token == JsonToken.START_ARRAY;
  }

  /** Returns the text of the value at which a parser is, which is then at the value's end. */
  private static String text(JsonParser parser, JsonToken token, String source) throws IOException {
    if (isNested(token)) {
      int start = (int) parser.getTokenLocation().getCharOffset();
      parser.skipChildren();
      return source.substring(start, (int) parser.getTokenLocation().getCharOffset() + 1);
    }
    return token == JsonToken.VALUE_NULL ? null : whole(parser.getText());
  }

  /** Returns a text with U+FFFD for each half of a character that has no other half. */
  private static String whole(String text) {
    StringBuilder made = null;
    for (int at = 0; at < text.length(); at++) {
      char each = text.charAt(at);
      if (each < FIRST_SURROGATE || !Character.isSurrogate(each)) {
        continue;
      }
      if (Character.isHighSurrogate(each) && at + 1 < text.length() && Character.isLowSurrogate(text.charAt(at + 1))) {
        at++;
        continue;
      }
      made = made == null ? new StringBuilder(text) : made;
      made.setCharAt(at, (char) 0xFFFD);
    }
    return made == null ? text : made.toString();
  }
}
