package oncelake;

import io.delta.storage.HDFSLogStore;
import java.io.File;
import java.io.FileNotFoundException;
import java.io.IOException;
import java.net.URI;
import java.net.URISyntaxException;
import java.nio.charset.StandardCharsets;
import java.nio.file.CopyOption;
import java.nio.file.FileAlreadyExistsException;
import java.nio.file.FileSystemException;
import java.nio.file.Files;
import java.nio.file.LinkOption;
import java.nio.file.StandardCopyOption;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Iterator;
import java.util.List;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.ChecksumFileSystem;
import org.apache.hadoop.fs.ChecksumFs;
import org.apache.hadoop.fs.DelegateToFileSystem;
import org.apache.hadoop.fs.FSDataOutputStream;
import org.apache.hadoop.fs.FileContext;
import org.apache.hadoop.fs.FileStatus;
import org.apache.hadoop.fs.FileUtil;
import org.apache.hadoop.fs.FsConstants;
import org.apache.hadoop.fs.FsServerDefaults;
import org.apache.hadoop.fs.LocalFileSystem;
import org.apache.hadoop.fs.Options;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.fs.RawLocalFileSystem;
import org.apache.hadoop.fs.local.LocalConfigKeys;
import org.apache.hadoop.fs.permission.FsPermission;

/**
 * Hadoop's local file system, without a process for each file.
 *
 * PySpark is shipped without Hadoop's native library. Hadoop then runs chmod for each file that it creates and readlink
 * for each file that it renames. This class does the same with system calls; nothing else differs. It is the value of
 * `fs.file.impl`; `Context` is for `fs.AbstractFileSystem.file.impl`, `Log` for `spark.delta.logStore.file.impl`.
 *
 * It stands on Hadoop's internals, `RawLocalFileSystem` and `LocalConfigKeys`, and on Delta's `HDFSLogStore`.
 */
public class DirectFileSystem extends LocalFileSystem {
  private static final String MODE = "unix:mode";
  /** The bits of a directory's mode that chmod keeps if its argument has four digits: set user ID and set group ID. */
  private static final int KEPT = 06000;

  public DirectFileSystem() {
    super(new Raw());
  }

  public static class Raw extends RawLocalFileSystem {
    @Override
    public void setPermission(Path path, FsPermission permission) throws IOException {
      File file = pathToFile(path);
      try {
        int mode = permission.toShort();
        if (file.isDirectory()) {
          mode |= ((Integer) Files.getAttribute(file.toPath(), MODE, new LinkOption[0])).intValue() & KEPT;
        }
        Files.setAttribute(file.toPath(), MODE, Integer.valueOf(mode), new LinkOption[0]);
      } catch (UnsupportedOperationException notUnix) {
        super.setPermission(path, permission);
      }
    }

    @Override
    public FileStatus getFileLinkStatus(Path path) throws IOException {
      return Files.isSymbolicLink(pathToFile(path).toPath()) ? super.getFileLinkStatus(path) : getFileStatus(path);
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

  /**
   * Delta's log store: put a commit if absent, and list the log from a name on without reading the earlier files.
   *
   * Hadoop checks whether a commit's name is free, and then renames the file. If two processes check at the same moment,
   * the later rename replaces the other's commit. A hard link needs only one system call, which fails if the name is
   * taken.
   *
   * Delta lists a table's log several times per batch, to find its newest few files. Hadoop makes several system calls
   * for each file of the log, so each batch would take longer than the one before.
   */
  public static class Log extends HDFSLogStore {
    public Log(Configuration conf) {
      super(conf);
    }

    @Override
    public void write(Path path, Iterator<String> actions, Boolean overwrite, Configuration conf) throws IOException {
      if (overwrite.booleanValue()) {
        super.write(path, actions, overwrite, conf);
        return;
      }
      LocalFileSystem files = (LocalFileSystem) path.getFileSystem(conf);
      File name = files.pathToFile(path);
      if (name.exists()) {
        throw new FileAlreadyExistsException(path.toString());
      }
      if (!name.getParentFile().isDirectory()) {
        throw new FileNotFoundException("File " + path.getParent() + " does not exist");
      }
      Path whole = createTempPath(path);
      try {
        FSDataOutputStream out = files.create(whole, false);
        try {
          while (actions.hasNext()) {
            out.write((actions.next() + "\n").getBytes(StandardCharsets.UTF_8));
          }
        } finally {
          out.close();
        }
        putIfAbsent(files, whole, path, conf);
      } finally {
        files.pathToFile(whole).delete();
        checksum(files, whole).delete();
      }
    }

    /** Create a hard link; without hard links, file systems throw different exceptions. */
    protected void link(File name, File there) throws IOException {
      Files.createLink(name.toPath(), there.toPath());
    }

    private void putIfAbsent(LocalFileSystem files, Path whole, Path path, Configuration conf) throws IOException {
      File name = files.pathToFile(path);
      // A checksum file left by a removed commit would count as the new commit's as soon as the link exists.
      Files.deleteIfExists(checksum(files, path).toPath());
      try {
        link(name, files.pathToFile(whole));
      } catch (FileAlreadyExistsException taken) {
        throw new FileAlreadyExistsException(path.toString());
      } catch (UnsupportedOperationException noLinks) {
        rename(whole, path, conf);
        return;
      } catch (FileSystemException noLinks) {
        rename(whole, path, conf);
        return;
      }
      try {
        CopyOption[] replace = new CopyOption[] {StandardCopyOption.REPLACE_EXISTING};
        Files.move(checksum(files, whole).toPath(), checksum(files, path).toPath(), replace);
      } catch (IOException withoutChecksum) {
        return; // the commit exists: an error would report that it does not
      }
    }

    /** Rename the file as Hadoop itself does, on a file system without hard links. */
    private void rename(Path whole, Path path, Configuration conf) throws IOException {
      try {
        FileContext context = FileContext.getFileContext(path.toUri(), conf);
        context.rename(whole, path, new Options.Rename[] {Options.Rename.NONE});
      } catch (org.apache.hadoop.fs.FileAlreadyExistsException taken) {
        throw new FileAlreadyExistsException(path.toString());
      }
    }

    private File checksum(LocalFileSystem files, Path path) {
      return files.pathToFile(files.getChecksumFile(path));
    }

    @Override
    public Iterator<FileStatus> listFrom(Path from, Configuration conf) throws IOException {
      LocalFileSystem files = (LocalFileSystem) from.getFileSystem(conf);
      Path log = files.makeQualified(from.getParent());
      File directory = files.pathToFile(log);
      if (!directory.exists()) {
        throw new FileNotFoundException("File " + log + " does not exist");
      }
      String[] names = FileUtil.list(directory);
      Arrays.sort(names);
      List<FileStatus> found = new ArrayList<FileStatus>();
      for (int i = 0; i < names.length; i++) {
        if (names[i].compareTo(from.getName()) < 0) {
          continue;
        }
        Path path = new Path(log, new Path(null, null, names[i]));
        try {
          if (!ChecksumFileSystem.isChecksumFile(path)) {
            found.add(files.getFileStatus(path));
          }
        } catch (FileNotFoundException goneMeanwhile) {
          continue;
        }
      }
      return found.iterator();
    }
  }

  public static class Context extends ChecksumFs {
    public Context(URI uri, Configuration conf) throws IOException, URISyntaxException {
      super(new RawContext(uri, conf));
    }
  }
}
