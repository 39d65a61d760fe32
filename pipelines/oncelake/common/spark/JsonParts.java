package oncelake;

import java.util.Arrays;

/**
 * The objects of JSON in a text, with their strings and other values, and the strings in double quotes elsewhere.
 *
 * An object is found wherever one begins and is complete; a list only if it is the whole text. A string has no line end. A
 * value without quotes is any word, and strings may have single quotes, as Spark's from_json accepts both. A text is read
 * once from its beginning to its end: where no JSON can go on, the objects that are open are none.
 */
public final class JsonParts {
  private static final int VALUE = 0;
  private static final int VALUE_OR_END = 1;
  private static final int KEY = 2;
  private static final int KEY_OR_END = 3;
  private static final int COLON = 4;
  private static final int NEXT = 5;

  private final String chars;
  private int count;
  private int[] starts = new int[16];
  private int[] ends = new int[16];
  private boolean[] areStrings = new boolean[16];
  private boolean[] haveEscapes = new boolean[16];
  private boolean[] areInObjects;
  private int objects;
  private int[] objectStarts = new int[4];
  private int[] objectEnds = new int[4];

  JsonParts(String chars) {
    this.chars = chars;
    boolean isBlank = true;
    int at = 0;
    while (at < chars.length()) {
      char each = chars.charAt(at);
      if (each == '{' || (each == '[' && isBlank)) {
        at = readContainer(at);
      } else if (each == '"') {
        at = Math.max(at + 1, readString(at));
      } else {
        at += each == '\\' ? 2 : 1;
      }
      isBlank &= isSpace(each);
    }
    leaveOutValuesElsewhere();
  }

  /** Reads an object or list; returns where it ends, or where it cannot go on. */
  private int readContainer(int from) {
    int[] open = new int[8];
    int depth = 0;
    int state = VALUE;
    int at = from;
    while (at < chars.length()) {
      char each = chars.charAt(at);
      if (isSpace(each)) {
        at++;
        continue;
      }
      boolean isValue = state == VALUE || state == VALUE_OR_END;
      if (isValue && (each == '{' || each == '[')) {
        open = depth == open.length ? Arrays.copyOf(open, 2 * depth) : open;
        open[depth] = at;
        depth++;
        at++;
        state = each == '{' ? KEY_OR_END : VALUE_OR_END;
      } else if (depth > 0 && each == (chars.charAt(open[depth - 1]) == '{' ? '}' : ']')
          && (state == NEXT || state == KEY_OR_END || state == VALUE_OR_END)) {
        depth--;
        at++;
        state = NEXT;
        addObject(open[depth], at);
        if (depth == 0) {
          return at;
        }
      } else if ((isValue || state == KEY || state == KEY_OR_END) && (each == '"' || each == '\'')) {
        int end = readString(at);
        if (end < 0) {
          return at;
        }
        at = end;
        state = isValue ? NEXT : COLON;
      } else if (isValue) {
        int end = at;
        while (end < chars.length() && isWord(chars.charAt(end))) {
          end++;
        }
        if (end == at) {
          return at;
        }
        add(at, end, false, false);
        at = end;
        state = NEXT;
      } else if (state == COLON && each == ':') {
        at++;
        state = VALUE;
      } else if (state == NEXT && each == ',') {
        at++;
        state = chars.charAt(open[depth - 1]) == '{' ? KEY : VALUE;
      } else {
        return at;
      }
    }
    return at;
  }

  /** Reads the string that begins at a quote; returns the place behind its other quote, -1 if there is none. */
  private int readString(int from) {
    char quote = chars.charAt(from);
    int at = from + 1;
    boolean hasEscapes = false;
    while (at < chars.length() && chars.charAt(at) != quote && chars.charAt(at) != '\n') {
      boolean isEscape = chars.charAt(at) == '\\';
      hasEscapes |= isEscape;
      at += isEscape ? 2 : 1;
    }
    if (at >= chars.length() || chars.charAt(at) != quote) {
      return -1;
    }
    add(from + 1, at, true, hasEscapes);
    return at + 1;
  }

  private void add(int start, int end, boolean isString, boolean hasEscapes) {
    if (count == starts.length) {
      starts = Arrays.copyOf(starts, 2 * count);
      ends = Arrays.copyOf(ends, 2 * count);
      areStrings = Arrays.copyOf(areStrings, 2 * count);
      haveEscapes = Arrays.copyOf(haveEscapes, 2 * count);
    }
    starts[count] = start;
    ends[count] = end;
    areStrings[count] = isString;
    haveEscapes[count] = hasEscapes;
    count++;
  }

  private void addObject(int start, int end) {
    if (chars.charAt(start) == '[' && !(isBlank(0, start) && isBlank(end, chars.length()))) {
      return;
    }
    while (objects > 0 && objectStarts[objects - 1] >= start) {
      objects--;
    }
    if (objects == objectStarts.length) {
      objectStarts = Arrays.copyOf(objectStarts, 2 * objects);
      objectEnds = Arrays.copyOf(objectEnds, 2 * objects);
    }
    objectStarts[objects] = start;
    objectEnds[objects] = end;
    objects++;
  }

  private void leaveOutValuesElsewhere() {
    areInObjects = new boolean[count];
    int kept = 0;
    int object = 0;
    for (int part = 0; part < count; part++) {
      while (object < objects && objectEnds[object] <= starts[part]) {
        object++;
      }
      boolean isInObject = object < objects && objectStarts[object] < starts[part];
      if (areStrings[part] || isInObject) {
        starts[kept] = starts[part];
        ends[kept] = ends[part];
        areStrings[kept] = areStrings[part];
        haveEscapes[kept] = haveEscapes[part];
        areInObjects[kept] = isInObject;
        kept++;
      }
    }
    count = kept;
  }

  private boolean isBlank(int from, int to) {
    int at = from;
    while (at < to && isSpace(chars.charAt(at))) {
      at++;
    }
    return at >= to;
  }

  private static boolean isSpace(char each) {
    return each == ' ' || each == '\t' || each == '\n' || each == '\r';
  }

  private static boolean isWord(char each) {
    return each > ' ' && ",:{}[]\"'\\".indexOf(each) < 0;
  }

  int size() {
    return count;
  }

  int start(int part) {
    return starts[part];
  }

  int end(int part) {
    return ends[part];
  }

  boolean isString(int part) {
    return areStrings[part];
  }

  boolean isInObject(int part) {
    return areInObjects[part];
  }

  /** Returns true for a string whose escapes are surely escapes: it is in an object, or is the value of a key: `a="b"`. */
  boolean isEscaped(int part) {
    return areStrings[part] && (areInObjects[part] || isAssigned(part));
  }

  /** Returns true for a string outside of objects that is the value of a key. */
  boolean isAssigned(int part) {
    int before = starts[part] - 2;
    return areStrings[part] && !areInObjects[part] && before >= 0 && chars.charAt(before) == '=';
  }

  boolean hasEscapes(int part) {
    return haveEscapes[part];
  }

  /** Returns true if a string of an object has an escape. */
  boolean hasEscapesInObjects() {
    boolean found = false;
    for (int part = 0; part < count && !found; part++) {
      found = areInObjects[part] && areStrings[part] && hasEscapes(part);
    }
    return found;
  }

  /** Returns true if there is a backslash that is not in a string whose escapes are surely escapes. */
  boolean hasOtherEscapes() {
    int at = chars.indexOf('\\');
    while (at >= 0) {
      int part = partAt(at);
      if (part < 0 || !isEscaped(part)) {
        return true;
      }
      at = chars.indexOf('\\', ends[part]);
    }
    return false;
  }

  /** Returns the string or value around a character; -1 if there is none. */
  int partAt(int at) {
    int part = firstAfter(at);
    return part < count && starts[part] <= at ? part : -1;
  }

  /** Returns the first string or value that does not end before a character. */
  int firstAfter(int at) {
    int low = 0;
    int high = count;
    while (low < high) {
      int middle = (low + high) >>> 1;
      if (ends[middle] <= at) {
        low = middle + 1;
      } else {
        high = middle;
      }
    }
    return low;
  }

  /** Returns the end of the object around a character, if it is not wholly within a range; -1 if there is none. */
  int endOfCut(int at, int first, int after) {
    int object = objectBefore(at + 1);
    boolean isAround = object >= 0 && objectEnds[object] > at;
    return isAround && (objectStarts[object] < first || objectEnds[object] > after) ? objectEnds[object] : -1;
  }

  /** Returns the start of the object behind a place that a range ends in; the range's end if it ends in none. */
  int startOfCut(int at, int after) {
    int object = objectBefore(after);
    boolean isCut = object >= 0 && objectStarts[object] > at && objectEnds[object] > after;
    return isCut ? objectStarts[object] : after;
  }

  /** Returns the last object that starts before a place; -1 if there is none. */
  private int objectBefore(int place) {
    int found = Arrays.binarySearch(objectStarts, 0, objects, place);
    return (found < 0 ? -found - 1 : found) - 1;
  }

  /** Returns a place; if it is within an escape of a string, the beginning of the escape, or its end. */
  int aroundEscape(int place, boolean isEnd) {
    int part = partAt(place);
    if (part < 0 || !haveEscapes[part]) {
      return place;
    }
    for (int at = place - 1; at >= Math.max(starts[part], place - 5); at--) {
      if (chars.charAt(at) == '\\') {
        int first = at;
        while (first > starts[part] && chars.charAt(first - 1) == '\\') {
          first--;
        }
        int size = (at - first) % 2 == 0 ? sizeOfEscape(chars, at, ends[part], true) : 1;
        if (at + size > place) {
          return isEnd ? at + size : at;
        }
      }
    }
    return place;
  }

  /** Returns how many characters the escape has that begins at a backslash; 1 if there is nothing behind it. */
  static int sizeOfEscape(String chars, int at, int to, boolean isJson) {
    if (at + 1 >= to) {
      return 1;
    }
    if (!isJson || chars.charAt(at + 1) != 'u' || at + 6 > to) {
      return 2;
    }
    for (int digit = at + 2; digit < at + 6; digit++) {
      if (chars.charAt(digit) > 'f' || Character.digit(chars.charAt(digit), 16) < 0) {
        return 2;
      }
    }
    return 6;
  }
}
