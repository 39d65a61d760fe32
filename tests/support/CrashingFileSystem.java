package oncelake;

import java.io.File;
import java.io.IOException;
import java.net.URI;
import java.net.URISyntaxException;
import java.util.ArrayList;
import java.util.List;
import java.util.regex.Pattern;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.ChecksumFs;
import org.apache.hadoop.fs.DelegateToFileSystem;
import org.apache.hadoop.fs.FSDataOutputStream;
import org.apache.hadoop.fs.FsConstants;
import org.apache.hadoop.fs.FsServerDefaults;
import org.apache.hadoop.fs.LocalFileSystem;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.fs.local.LocalConfigKeys;
import org.apache.hadoop.fs.permission.FsPermission;
import org.apache.hadoop.util.Progressable;

/**
 * A file system that fails before or after a chosen file gets its name, and then refuses every further write.
 *
 * To Spark and Delta this is what a kill at that moment is to the disk: what came before it is there, nothing after it.
 */
public class CrashingFileSystem extends LocalFileSystem {
  private static Pattern at = null;
  private static boolean before = false;
  private static boolean crashed = false;
  private static final List<String> named = new ArrayList<String>();

  public CrashingFileSystem() {
    super(new Raw());
  }

  /** Crash when a file whose whole path matches gets its name, or right before. */
  public static synchronized void crashAt(String pattern, boolean beforeIt) {
    at = Pattern.compile(pattern);
    before = beforeIt;
  }

  /** Accept writes again; return whether a crash had happened. */
  public static synchronized boolean revive() {
    boolean was = crashed;
    at = null;
    crashed = false;
    return was;
  }

  /** Return, and forget, the files that got a name so far, one a line, in their order. */
  public static synchronized String named() {
    String all = String.join("\n", named);
    named.clear();
    return all;
  }

  private static synchronized void alive() throws IOException {
    if (crashed) {
      throw new IOException("crashed by the test");
    }
  }

  /** What a writer outside this JVM asks before it gives a file its name. */
  public static void naming(String name) throws IOException {
    naming(new File(name));
  }

  /** What a writer outside this JVM says once a file has its name. */
  public static void wasNamed(String name) throws IOException {
    wasNamed(new File(name));
  }

  private static synchronized void naming(File name) throws IOException {
    alive();
    if (before && at != null && at.matcher(name.toString()).matches()) {
      crashed = true;
      alive();
    }
  }

  private static synchronized void wasNamed(File name) throws IOException {
    named.add(name.toString());
    if (!before && at != null && at.matcher(name.toString()).matches()) {
      crashed = true;
      alive();
    }
  }

  public static class Raw extends DirectFileSystem.Raw {
    @Override
    public FSDataOutputStream create(Path path, boolean overwrite, int buffer, short copies, long block, Progressable on)
        throws IOException {
      naming(pathToFile(path));
      FSDataOutputStream out = super.create(path, overwrite, buffer, copies, block, on);
      wasNamed(pathToFile(path));
      return out;
    }

    @Override
    public FSDataOutputStream create(
        Path path, FsPermission mode, boolean overwrite, int buffer, short copies, long block, Progressable on)
        throws IOException {
      naming(pathToFile(path));
      FSDataOutputStream out = super.create(path, mode, overwrite, buffer, copies, block, on);
      wasNamed(pathToFile(path));
      return out;
    }

    @Override
    public boolean rename(Path from, Path to) throws IOException {
      naming(pathToFile(to));
      boolean done = super.rename(from, to);
      wasNamed(pathToFile(to));
      return done;
    }

    @Override
    public boolean delete(Path path, boolean recursive) throws IOException {
      alive();
      return super.delete(path, recursive);
    }

    @Override
    public boolean mkdirs(Path path) throws IOException {
      alive();
      return super.mkdirs(path);
    }
  }

  public static class RawContext extends DelegateToFileSystem {
    public RawContext(URI uri, Configuration conf) throws IOException, URISyntaxException {
      super(uri, new Raw(), conf, FsConstants.LOCAL_FS_URI.getScheme(), false);
    }

    @Override
    public int getUriDefaultPort() {
      return -1;
    }

    @Override
    public FsServerDefaults getServerDefaults(Path path) throws IOException {
      return LocalConfigKeys.getServerDefaults();
    }

    @Override
    public FsServerDefaults getServerDefaults() throws IOException {
      return LocalConfigKeys.getServerDefaults();
    }

    @Override
    public boolean isValidName(String name) {
      return true;
    }
  }

  public static class Context extends ChecksumFs {
    public Context(URI uri, Configuration conf) throws IOException, URISyntaxException {
      super(new RawContext(uri, conf));
    }
  }

  public static class Log extends DirectFileSystem.Log {
    public Log(Configuration conf) {
      super(conf);
    }

    @Override
    protected void link(File name, File there) throws IOException {
      naming(name);
      super.link(name, there);
      wasNamed(name);
    }
  }
}
