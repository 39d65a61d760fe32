package oncelake;

import java.util.ArrayList;
import java.util.EnumSet;
import java.util.Iterator;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import org.apache.kafka.clients.consumer.ConsumerInterceptor;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.common.TopicPartition;
import org.apache.spark.sql.connector.catalog.SupportsRead;
import org.apache.spark.sql.connector.catalog.Table;
import org.apache.spark.sql.connector.catalog.TableCapability;
import org.apache.spark.sql.connector.catalog.TableProvider;
import org.apache.spark.sql.connector.expressions.Transform;
import org.apache.spark.sql.connector.read.Batch;
import org.apache.spark.sql.connector.read.InputPartition;
import org.apache.spark.sql.connector.read.PartitionReaderFactory;
import org.apache.spark.sql.connector.read.Scan;
import org.apache.spark.sql.connector.read.ScanBuilder;
import org.apache.spark.sql.connector.read.streaming.MicroBatchStream;
import org.apache.spark.sql.connector.read.streaming.Offset;
import org.apache.spark.sql.connector.read.streaming.ReadLimit;
import org.apache.spark.sql.connector.read.streaming.ReportsSourceMetrics;
import org.apache.spark.sql.connector.read.streaming.SupportsTriggerAvailableNow;
import org.apache.spark.sql.kafka010.KafkaBatchInputPartition;
import org.apache.spark.sql.kafka010.KafkaMicroBatchStream;
import org.apache.spark.sql.kafka010.KafkaSourceProvider;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;

/**
 * Spark's own Kafka source, for records with any timestamp.
 *
 * Spark turns a record's milliseconds into microseconds and fails if they do not fit into 64 bits
 * (KafkaRecordToRowConverter); it refuses the option for an interceptor, as one could change payloads. So this source
 * gives the consumers of the executors an interceptor of its own, `Times`, and leaves everything else to Spark: offsets,
 * plans, retries and rows.
 *
 * It stands on internals of Spark's connector: `KafkaMicroBatchStream`, `KafkaBatchInputPartition.executorKafkaParams`.
 */
public final class Topics implements TableProvider {
  private final KafkaSourceProvider kafka = new KafkaSourceProvider();

  @Override
  public StructType inferSchema(CaseInsensitiveStringMap options) {
    return kafka.inferSchema(options);
  }

  @Override
  public Table getTable(StructType schema, Transform[] partitioning, Map properties) {
    return new Topic((SupportsRead) kafka.getTable(schema, partitioning, properties));
  }

  private static InputPartition[] timed(InputPartition[] partitions) {
    for (int at = 0; at < partitions.length; at++) {
      Map consumer = ((KafkaBatchInputPartition) partitions[at]).executorKafkaParams();
      consumer.put("interceptor.classes", "oncelake.Topics$Times");
    }
    return partitions;
  }

  /** Replaces each timestamp that a Spark timestamp cannot hold, from year 1 to 9999, with the beginning of 10000. */
  public static final class Times implements ConsumerInterceptor {
    private static final long FIRST = -62135596800000L;
    private static final long BEYOND = 253402300800000L;

    private static boolean fits(ConsumerRecord record) {
      return record.timestamp() >= FIRST && record.timestamp() < BEYOND;
    }

    @Override
    public ConsumerRecords onConsume(ConsumerRecords records) {
      boolean all = true;
      for (Iterator each = records.iterator(); all && each.hasNext(); ) {
        all = fits((ConsumerRecord) each.next());
      }
      return all ? records : held(records);
    }

    private static ConsumerRecords held(ConsumerRecords records) {
      Map held = new LinkedHashMap();
      for (Iterator each = records.partitions().iterator(); each.hasNext(); ) {
        TopicPartition partition = (TopicPartition) each.next();
        List list = new ArrayList();
        for (Iterator one = records.records(partition).iterator(); one.hasNext(); ) {
          ConsumerRecord record = (ConsumerRecord) one.next();
          list.add(fits(record) ? record : new ConsumerRecord(
              record.topic(), record.partition(), record.offset(), BEYOND, record.timestampType(),
              record.serializedKeySize(), record.serializedValueSize(), record.key(), record.value(),
              record.headers(), record.leaderEpoch()));
        }
        held.put(partition, list);
      }
      return new ConsumerRecords(held);
    }

    @Override
    public void onCommit(Map offsets) {}

    @Override
    public void close() {}

    @Override
    public void configure(Map settings) {}
  }

  private static final class Topic implements SupportsRead {
    private final SupportsRead table;

    Topic(SupportsRead table) {
      this.table = table;
    }

    @Override
    public String name() {
      return table.name();
    }

    @Override
    public StructType schema() {
      return table.schema();
    }

    @Override
    public Set capabilities() {
      return EnumSet.of(TableCapability.BATCH_READ, TableCapability.MICRO_BATCH_READ);
    }

    @Override
    public ScanBuilder newScanBuilder(CaseInsensitiveStringMap options) {
      return new TopicScan(table.newScanBuilder(options).build());
    }
  }

  private static final class TopicScan implements ScanBuilder, Scan {
    private final Scan scan;

    TopicScan(Scan scan) {
      this.scan = scan;
    }

    @Override
    public Scan build() {
      return this;
    }

    @Override
    public StructType readSchema() {
      return scan.readSchema();
    }

    @Override
    public Batch toBatch() {
      return new TopicBatch(scan.toBatch());
    }

    @Override
    public MicroBatchStream toMicroBatchStream(String checkpoint) {
      return new TopicStream((KafkaMicroBatchStream) scan.toMicroBatchStream(checkpoint));
    }
  }

  private static final class TopicBatch implements Batch {
    private final Batch batch;

    TopicBatch(Batch batch) {
      this.batch = batch;
    }

    @Override
    public InputPartition[] planInputPartitions() {
      return timed(batch.planInputPartitions());
    }

    @Override
    public PartitionReaderFactory createReaderFactory() {
      return batch.createReaderFactory();
    }
  }

  private static final class TopicStream
      implements MicroBatchStream, SupportsTriggerAvailableNow, ReportsSourceMetrics {
    private final KafkaMicroBatchStream stream;

    TopicStream(KafkaMicroBatchStream stream) {
      this.stream = stream;
    }

    @Override
    public Offset initialOffset() {
      return stream.initialOffset();
    }

    @Override
    public void prepareForTriggerAvailableNow() {
      stream.prepareForTriggerAvailableNow();
    }

    @Override
    public ReadLimit getDefaultReadLimit() {
      return stream.getDefaultReadLimit();
    }

    @Override
    public Offset latestOffset() {
      return stream.latestOffset();
    }

    @Override
    public Offset latestOffset(Offset start, ReadLimit limit) {
      return stream.latestOffset(start, limit);
    }

    @Override
    public Offset reportLatestOffset() {
      return stream.reportLatestOffset();
    }

    @Override
    public Map metrics(Optional latest) {
      return stream.metrics(latest);
    }

    @Override
    public Offset deserializeOffset(String json) {
      return stream.deserializeOffset(json);
    }

    @Override
    public InputPartition[] planInputPartitions(Offset start, Offset end) {
      return timed(stream.planInputPartitions(start, end));
    }

    @Override
    public PartitionReaderFactory createReaderFactory() {
      return stream.createReaderFactory();
    }

    @Override
    public void commit(Offset end) {
      stream.commit(end);
    }

    @Override
    public void stop() {
      stream.stop();
    }

    @Override
    public String toString() {
      return stream.toString();
    }
  }
}
