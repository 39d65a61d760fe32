package oncelake;

import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.io.OutputStream;
import java.nio.file.FileAlreadyExistsException;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.Path;
import org.apache.spark.sql.execution.streaming.*; // Spark 4.0
import org.apache.spark.sql.execution.streaming.checkpointing.*; // 4.1 and 4.2

/**
 * Spark's checkpoints on S3: put a file whole, and only if its name is free.
 *
 * Spark writes a file under another name and renames it, which S3 cannot do. Spark's own way for such stores asks
 * whether the name is free, and then puts the file: of two drivers, the later one replaces the plan of the other, which
 * then names files as read that no table has.
 */
public class S3Checkpoints extends FileSystemBasedCheckpointFileManager {
  public S3Checkpoints(Path directory, Configuration conf) {
    super(directory, conf);
  }

  @Override
  public CheckpointFileManager.CancellableFSDataOutputStream createAtomic(Path path, boolean overwrite) {
    if (!fs().getUri().getScheme().startsWith("s3")) {
      return super.createAtomic(path, overwrite); // Delta writes the checksums of its versions in this way
    }
    return new WholeFile(fs(), path, overwrite, new ByteArrayOutputStream());
  }

  /** A file in memory, which is put when it is closed. */
  public static class WholeFile extends CheckpointFileManager.CancellableFSDataOutputStream {
    private final FileSystem store;
    private final Path path;
    private final boolean overwrite;
    private final ByteArrayOutputStream text;
    private boolean isOver;

    public WholeFile(FileSystem store, Path path, boolean overwrite, ByteArrayOutputStream text) {
      super((OutputStream) text);
      this.store = store;
      this.path = path;
      this.overwrite = overwrite;
      this.text = text;
    }

    @Override
    public void close() throws IOException {
      if (isOver) {
        return;
      }
      super.close();
      isOver = true;
      if (overwrite) {
        S3LogStore.put(store.create(path, true), text.toByteArray());
        return;
      }
      try {
        S3LogStore.putIfAbsent(store, path, text.toByteArray());
      } catch (FileAlreadyExistsException taken) {
        throw new org.apache.hadoop.fs.FileAlreadyExistsException(path.toString());
      }
    }

    @Override
    public void cancel() {
      isOver = true;
    }
  }
}
