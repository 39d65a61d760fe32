package oncelake;

import io.delta.storage.CloseableIterator;
import io.delta.storage.HadoopFileSystemLogStore;
import io.delta.storage.LineCloseableIterator;
import java.io.BufferedReader;
import java.io.ByteArrayOutputStream;
import java.io.FileNotFoundException;
import java.io.IOException;
import java.io.InterruptedIOException;
import java.io.StringReader;
import java.net.URI;
import java.nio.charset.StandardCharsets;
import java.nio.file.FileAlreadyExistsException;
import java.util.Arrays;
import java.util.Iterator;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.UUID;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.EtagSource;
import org.apache.hadoop.fs.FSDataInputStream;
import org.apache.hadoop.fs.FSDataOutputStream;
import org.apache.hadoop.fs.FSDataOutputStreamBuilder;
import org.apache.hadoop.fs.FileStatus;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.util.functional.FutureIO;

/**
 * Delta's log store on S3: put a commit only if its name is free, in one request.
 *
 * Delta's own log store asks whether the name is free, and then puts the commit: of two drivers, the later one replaces
 * the commit of the other. S3 itself can refuse a put of a name that exists (`If-None-Match: *`), and Hadoop's S3A asks
 * for that from 3.4.2 on.
 *
 * The answer to a put can get lost after its effect, so after each failure the name is read: it is free, or holds this
 * commit, or that of another driver. A commit holds an ID that no other one has, so equal bytes are its own.
 *
 * Of two appends, Delta lets the later one take the next version. A batch must not: what was looked at before it is
 * the version before. So a session can say which version of a table its next commit is, and each other one is taken.
 *
 * A stream reads each commit four times. The second time, the store is only asked whether it is still the same.
 */
public class S3LogStore extends HadoopFileSystemLogStore {
  private static final String CONDITIONAL = "fs.option.create.conditional.overwrite";
  private static final String NEXT = "spark.oncelake.next.";
  private static final Pattern COMMIT = Pattern.compile("(\\d{20})\\.json");
  private static final int TRIES = 6;
  private static final long FIRST_PAUSE_MS = 50;
  private static final int KEPT = 32;
  private static final long LONGEST_KEPT = 1 << 20;

  /** The last commits that were read, by path; static, as Delta makes a log store for each of its own logs. */
  private static final Map<Path, Commit> READ =
      new LinkedHashMap<Path, Commit>(KEPT, 0.75f, true) {
        @Override
        protected boolean removeEldestEntry(Map.Entry<Path, Commit> eldest) {
          return size() > KEPT;
        }
      };

  private static final class Commit {
    private final String tag;
    private final String text;

    Commit(String tag, String text) {
      this.tag = tag;
      this.text = text;
    }
  }

  public S3LogStore(Configuration conf) {
    super(conf);
  }

  @Override
  public void write(Path path, Iterator<String> actions, Boolean overwrite, Configuration conf) throws IOException {
    ByteArrayOutputStream text = new ByteArrayOutputStream();
    while (actions.hasNext()) {
      text.write(((String) actions.next() + "\n").getBytes(StandardCharsets.UTF_8));
    }
    FileSystem store = path.getFileSystem(conf);
    if (overwrite.booleanValue()) {
      put(store.create(path, true), text.toByteArray());
    } else {
      checkVersion(path, conf);
      putIfAbsent(store, path, text.toByteArray());
    }
  }

  @Override
  public CloseableIterator<String> read(Path path, Configuration conf) throws IOException {
    if (!COMMIT.matcher(path.getName()).matches()) {
      return super.read(path, conf);
    }
    FileSystem store = path.getFileSystem(conf);
    FileStatus status = store.getFileStatus(path);
    String tag = status instanceof EtagSource ? ((EtagSource) status).getEtag() : null;
    if (tag == null || status.getLen() > LONGEST_KEPT) {
      return super.read(path, conf);
    }
    Commit commit;
    synchronized (READ) {
      commit = (Commit) READ.get(path);
    }
    if (commit == null || !commit.tag.equals(tag)) {
      FSDataInputStream in = (FSDataInputStream) FutureIO.awaitFuture(store.openFile(path).withFileStatus(status).build());
      commit = new Commit(tag, new String(all(in), StandardCharsets.UTF_8));
      synchronized (READ) {
        READ.put(path, commit);
      }
    }
    return new LineCloseableIterator(new BufferedReader(new StringReader(commit.text)));
  }

  /** Check that a commit is the one that the session has announced, if it has. */
  private static void checkVersion(Path path, Configuration conf) throws IOException {
    URI table = path.getParent().getParent().toUri();
    String next = conf.get(NEXT + "//" + table.getAuthority() + table.getPath());
    Matcher commit = COMMIT.matcher(path.getName());
    if (next != null && commit.matches() && Long.parseLong(commit.group(1)) != Long.parseLong(next)) {
      // Delta tries again at the next version if the file exists, and at no other error
      throw new IOException("VersionTakenError: another driver has committed version " + next + " of " + table);
    }
  }

  /**
   * Put a file if its name is free.
   *
   * Two drivers that put at the same moment can both be refused before one has won, so a free name is tried again.
   */
  static void putIfAbsent(FileSystem store, Path path, byte[] text) throws IOException {
    for (int tries = 1; true; tries++) {
      try {
        FSDataOutputStreamBuilder builder = store.createFile(path);
        builder.must(CONDITIONAL, true);
        put((FSDataOutputStream) builder.build(), text);
        return;
      } catch (IOException refused) {
        byte[] there = read(store, path);
        if (there == null) {
          if (tries == TRIES) {
            throw refused;
          }
          pause(FIRST_PAUSE_MS << tries);
        } else if (Arrays.equals(there, text)) {
          return;
        } else {
          FileAlreadyExistsException taken = new FileAlreadyExistsException(path.toString());
          taken.initCause(refused);
          throw taken;
        }
      }
    }
  }

  /** Put a text if its name is free; return false if it is not. */
  public static boolean putsIfAbsent(String name, String text, Configuration conf) throws IOException {
    Path path = new Path(name);
    try {
      putIfAbsent(path.getFileSystem(conf), path, text.getBytes(StandardCharsets.UTF_8));
    } catch (FileAlreadyExistsException taken) {
      return false;
    }
    return true;
  }

  /** Put a file whole: what S3A has of it when it is closed, it puts, so after a failed write nothing may be put. */
  static void put(FSDataOutputStream out, byte[] text) throws IOException {
    try {
      out.write(text);
    } catch (IOException cut) {
      out.abort();
      throw cut;
    }
    out.close();
  }

  /** Return the content of a file; null if there is none. */
  private static byte[] read(FileSystem store, Path path) throws IOException {
    try {
      return all(store.open(path));
    } catch (FileNotFoundException absent) {
      return null;
    }
  }

  private static byte[] all(FSDataInputStream in) throws IOException {
    try {
      ByteArrayOutputStream all = new ByteArrayOutputStream();
      byte[] part = new byte[65536];
      for (int count = in.read(part); count > 0; count = in.read(part)) {
        all.write(part, 0, count);
      }
      return all.toByteArray();
    } finally {
      in.close();
    }
  }

  private static void pause(long ms) throws IOException {
    try {
      Thread.sleep(ms);
    } catch (InterruptedException stopped) {
      Thread.currentThread().interrupt();
      throw new InterruptedIOException("interrupted while a file was put");
    }
  }

  @Override
  public Boolean isPartialWriteVisible(Path path, Configuration conf) {
    return Boolean.FALSE;
  }

  /**
   * Return whether a store refuses the second of two files under one name, as two drivers put their commits; the name
   * is removed after that.
   */
  public static boolean refusesSecond(String directory, Configuration conf) throws IOException {
    Path name = new Path(directory, "_conditional-put-" + UUID.randomUUID());
    FileSystem store = name.getFileSystem(conf);
    if (!store.hasPathCapability(name, CONDITIONAL)) {
      throw new UnsupportedOperationException(
          "this Hadoop cannot put a file only if its name is free; 3.4.2 can, which is in Spark 4.1");
    }
    putIfAbsent(store, name, new byte[] {1});
    boolean refuses = false;
    try {
      putIfAbsent(store, name, new byte[] {2});
    } catch (FileAlreadyExistsException refused) {
      refuses = true;
    }
    try {
      store.delete(name, false);
    } catch (IOException kept) {
      return refuses; // who may put and not delete can run a chain
    }
    return refuses;
  }
}
