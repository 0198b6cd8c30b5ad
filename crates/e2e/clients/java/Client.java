import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.TreeMap;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.Future;

import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.admin.RecordsToDelete;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.config.ConfigResource;
import org.apache.kafka.common.errors.TopicExistsException;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.header.internals.RecordHeader;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.ByteArraySerializer;
import org.apache.kafka.common.utils.AppInfoParser;

/**
 * The scenarios with the Java client.
 *
 * <pre>java Client BOOTSTRAP SCENARIO PREFIX</pre>
 *
 * Prints one line of JSON for each check and exits 0; exits 1 with the reason on stderr.
 */
public final class Client {
    private static final long FIRST_TIMESTAMP = 1_700_000_000_000L;
    private static final Duration READ_WITHIN = Duration.ofSeconds(20);
    private static final Duration COMPACT_WITHIN = Duration.ofSeconds(60);
    /** Timestamps lie in the past, where the default retention would delete them. */
    private static final Map<String, String> KEEP = Map.of("retention.ms", "-1");

    private final String bootstrap;
    private final Admin admin;

    private Client(String bootstrap) {
        this.bootstrap = bootstrap;
        this.admin = Admin.create(Map.of("bootstrap.servers", bootstrap));
    }

    public static void main(String[] arguments) {
        String scenario = arguments[1];
        if (scenario.equals("version")) {
            say("version", AppInfoParser.getVersion());
            return;
        }
        int code = 0;
        Client client = new Client(arguments[0]);
        try {
            client.run(scenario, arguments[2] + "-" + scenario);
        } catch (Throwable problem) {
            problem.printStackTrace();
            code = 1;
        }
        client.admin.close(Duration.ofSeconds(2));
        System.exit(code);
    }

    private void run(String scenario, String topic) throws Exception {
        switch (scenario) {
            case "create" -> create(topic);
            case "from-offset" -> fromOffset(topic);
            case "by-time" -> byTime(topic);
            case "idempotent" -> idempotent(topic);
            case "compaction" -> compaction(topic);
            case "delete" -> delete(topic);
            default -> produce(topic, scenario.substring("produce-".length()));
        }
    }

    private static void say(String name, String value) {
        System.out.println("{\"" + name + "\": \"" + value + "\"}");
    }

    private static void check(String name, Object found, Object wanted) {
        if (!found.equals(wanted)) throw new AssertionError(name + ": found " + found + ", wanted " + wanted);
        say("check", name);
    }

    private static byte[] bytes(String text) {
        return text.getBytes(StandardCharsets.ISO_8859_1);
    }

    private static String text(byte[] bytes) {
        return bytes == null ? null : new String(bytes, StandardCharsets.ISO_8859_1);
    }

    private void createTopic(String topic, int partitions, Map<String, String> config) throws Exception {
        admin.createTopics(Set.of(new NewTopic(topic, partitions, (short) 1).configs(config))).all().get();
    }

    private void send(String topic, List<ProducerRecord<byte[], byte[]>> records, Map<String, Object> more)
            throws Exception {
        Map<String, Object> config = new TreeMap<>(Map.of(
            "bootstrap.servers", bootstrap, "acks", "all", "linger.ms", 5, "enable.idempotence", false,
            "max.in.flight.requests.per.connection", 1));
        config.putAll(more);
        var bytes = new ByteArraySerializer();
        try (var producer = new KafkaProducer<byte[], byte[]>(config, bytes, bytes)) {
            List<Future<RecordMetadata>> sent = new ArrayList<>();
            for (var record : records) sent.add(producer.send(record));
            for (var future : sent) future.get();
        }
    }

    private KafkaConsumer<byte[], byte[]> consumer() {
        var bytes = new ByteArrayDeserializer();
        return new KafkaConsumer<>(Map.of(
            "bootstrap.servers", bootstrap, "enable.auto.commit", false, "auto.offset.reset", "none",
            "fetch.max.wait.ms", 100), bytes, bytes);
    }

    private List<ConsumerRecord<byte[], byte[]>> read(String topic, int partition, long start, long until) {
        List<ConsumerRecord<byte[], byte[]>> found = new ArrayList<>();
        var where = new TopicPartition(topic, partition);
        long deadline = System.nanoTime() + READ_WITHIN.toNanos();
        try (var consumer = consumer()) {
            consumer.assign(List.of(where));
            consumer.seek(where, start);
            while (consumer.position(where) < until) {
                for (var record : consumer.poll(Duration.ofMillis(500))) {
                    if (record.offset() < until) found.add(record);
                }
                if (System.nanoTime() > deadline) {
                    throw new AssertionError("read to " + consumer.position(where) + " of " + until);
                }
            }
        }
        return found;
    }

    private List<Long> bounds(String topic, int partition) {
        var where = List.of(new TopicPartition(topic, partition));
        try (var consumer = consumer()) {
            return List.of(
                consumer.beginningOffsets(where).get(where.get(0)), consumer.endOffsets(where).get(where.get(0)));
        }
    }

    private static ProducerRecord<byte[], byte[]> record(String topic, int partition, String key, String value) {
        return new ProducerRecord<>(topic, partition, bytes(key), value == null ? null : bytes(value));
    }

    private static List<ProducerRecord<byte[], byte[]>> numbered(String topic, int count) {
        List<ProducerRecord<byte[], byte[]>> records = new ArrayList<>();
        for (int i = 0; i < count; i++) {
            long timestamp = FIRST_TIMESTAMP + i * 1000L;
            records.add(new ProducerRecord<>(topic, 0, timestamp, bytes("k" + i), bytes("" + i)));
        }
        return records;
    }

    /** Reads numbered records and checks that none is missing, doubled or out of place. */
    private void readRun(String topic, int partition, long start, long until) {
        var found = read(topic, partition, start, until);
        long wanted = start;
        for (var record : found) {
            if (record.offset() != wanted || !text(record.value()).equals("" + wanted)) {
                throw new AssertionError("found " + record + ", wanted " + wanted);
            }
            wanted++;
        }
        check("from offset " + start + " of partition " + partition, wanted, until);
    }

    private void create(String topic) throws Exception {
        createTopic(topic, 3, Map.of("retention.ms", "123456789", "cleanup.policy", "delete"));
        var described = admin.describeTopics(List.of(topic)).allTopicNames().get().get(topic);
        check("partitions in metadata", described.partitions().size(), 3);
        var resource = new ConfigResource(ConfigResource.Type.TOPIC, topic);
        var config = admin.describeConfigs(List.of(resource)).all().get().get(resource);
        check("retention.ms", config.get("retention.ms").value(), "123456789");
        check("cleanup.policy", config.get("cleanup.policy").value(), "delete");
        try {
            createTopic(topic, 3, Map.of());
            throw new AssertionError("creating the topic again was not refused");
        } catch (ExecutionException refused) {
            check("creating it again is refused", refused.getCause().getClass(), TopicExistsException.class);
        }
    }

    private static List<ProducerRecord<byte[], byte[]>> mixed(String topic) {
        byte[] all = new byte[256];
        for (int i = 0; i < all.length; i++) all[i] = (byte) i;
        List<ProducerRecord<byte[], byte[]>> records = new ArrayList<>();
        for (int i = 0; i < 60; i++) {
            byte[] start = bytes("value-" + i + "-");
            byte[] value = Arrays.copyOf(start, start.length + i * 13 % 300);
            Arrays.fill(value, start.length, value.length, (byte) (i * 37));
            List<Header> headers = switch (i % 3) {
                case 0 -> List.of(new RecordHeader("a", bytes("1")), new RecordHeader("a", bytes("2")),
                    new RecordHeader("empty", new byte[0]), new RecordHeader("null", (byte[]) null));
                case 2 -> List.of(new RecordHeader("bytes", all));
                default -> List.of();
            };
            records.add(new ProducerRecord<>(topic, i % 2, FIRST_TIMESTAMP + i * 1000L,
                i % 5 == 0 ? null : bytes("key-" + i + "\u0000\u00ff"), i % 7 == 3 ? null : value, headers));
        }
        return records;
    }

    private void produce(String topic, String codec) throws Exception {
        createTopic(topic, 2, KEEP);
        var records = mixed(topic);
        send(topic, records, Map.of("compression.type", codec));
        for (int partition = 0; partition < 2; partition++) {
            int wantedPartition = partition;
            var wanted = records.stream().filter(record -> record.partition() == wantedPartition).toList();
            var found = read(topic, partition, 0, wanted.size());
            check("partition " + partition + " count", found.size(), wanted.size());
            for (int offset = 0; offset < found.size(); offset++) {
                var a = found.get(offset);
                var b = wanted.get(offset);
                boolean same = a.offset() == offset && Arrays.equals(a.key(), b.key())
                    && Arrays.equals(a.value(), b.value()) && a.timestamp() == b.timestamp()
                    && a.headers().equals(b.headers());
                if (!same) throw new AssertionError("found " + a + ", wanted " + b);
            }
            say("check", "partition " + partition + " byte for byte");
        }
    }

    private void fromOffset(String topic) throws Exception {
        createTopic(topic, 1, KEEP);
        send(topic, numbered(topic, 100), Map.of());
        check("bounds", bounds(topic, 0), List.of(0L, 100L));
        readRun(topic, 0, 37, 100);
        readRun(topic, 0, 99, 100);
    }

    private void byTime(String topic) throws Exception {
        createTopic(topic, 1, KEEP);
        var records = numbered(topic, 100);
        for (int i = 0; i < 100; i += 25) send(topic, records.subList(i, i + 25), Map.of());
        var where = new TopicPartition(topic, 0);
        try (var consumer = consumer()) {
            for (long[] ask : new long[][] {{0, 0}, {41_500, 42}, {42_000, 42}, {50_000, 50}, {99_000, 99}, {99_001, -1}}) {
                var found = Optional.ofNullable(consumer.offsetsForTimes(Map.of(where, FIRST_TIMESTAMP + ask[0])).get(where));
                check("offset at +" + ask[0] + " ms", found.map(at -> at.offset()).orElse(-1L), ask[1]);
            }
        }
        readRun(topic, 0, 42, 100);
    }

    private void idempotent(String topic) throws Exception {
        createTopic(topic, 3, Map.of());
        List<ProducerRecord<byte[], byte[]>> records = new ArrayList<>();
        for (int i = 0; i < 3000; i++) records.add(record(topic, i % 3, "k", "" + i / 3));
        send(topic, records, Map.of("enable.idempotence", true, "max.in.flight.requests.per.connection", 5));
        for (int partition = 0; partition < 3; partition++) {
            check("bounds of partition " + partition, bounds(topic, partition), List.of(0L, 1000L));
            readRun(topic, partition, 0, 1000);
        }
    }

    private void compaction(String topic) throws Exception {
        createTopic(topic, 1, Map.of("cleanup.policy", "compact", "segment.ms", "300", "segment.bytes", "1048576",
            "min.cleanable.dirty.ratio", "0.01", "delete.retention.ms", "100"));
        int keys = 10;
        for (int round = 0; round < 5; round++) {
            List<ProducerRecord<byte[], byte[]>> records = new ArrayList<>();
            for (int version = 0; version < 4; version++) {
                for (int key = 0; key < keys; key++) {
                    records.add(record(topic, 0, "key-" + key, "round " + round + " version " + version));
                }
            }
            records.add(record(topic, 0, "gone", "here"));
            send(topic, records, Map.of());
        }
        send(topic, List.of(record(topic, 0, "gone", null)), Map.of());
        long deadline = System.nanoTime() + COMPACT_WITHIN.toNanos();
        while (true) {
            // A record that comes after segment.ms closes the segment before it; only closed segments are compacted.
            send(topic, List.of(record(topic, 0, "tick", "tick")), Map.of());
            var bounds = bounds(topic, 0);
            Map<String, String> latest = new TreeMap<>();
            int left = 0;
            long before = -1;
            for (var record : read(topic, 0, bounds.get(0), bounds.get(1))) {
                if (record.offset() <= before) throw new AssertionError("compaction changed the order");
                before = record.offset();
                if (text(record.key()).equals("tick")) continue;
                if (record.value() != null) left++;
                latest.put(text(record.key()), text(record.value()));
            }
            if (latest.get("gone") != null) throw new AssertionError("the deleted key came back");
            for (int key = 0; key < keys; key++) {
                if (!"round 4 version 3".equals(latest.get("key-" + key))) {
                    throw new AssertionError("the last value of key-" + key + " is lost: " + latest);
                }
            }
            if (left == keys) break;
            if (System.nanoTime() > deadline) throw new AssertionError("still " + left + " values for " + keys + " keys");
            Thread.sleep(100);
        }
        say("check", "one value for each key");
    }

    private void delete(String topic) throws Exception {
        createTopic(topic, 1, KEEP);
        send(topic, numbered(topic, 10), Map.of());
        admin.deleteRecords(Map.of(new TopicPartition(topic, 0), RecordsToDelete.beforeOffset(5))).all().get();
        check("bounds after deleting records", bounds(topic, 0), List.of(5L, 10L));
        readRun(topic, 0, 5, 10);
        admin.deleteTopics(List.of(topic)).all().get();
        long deadline = System.nanoTime() + Duration.ofSeconds(15).toNanos();
        while (admin.listTopics().names().get().contains(topic)) {
            if (System.nanoTime() > deadline) throw new AssertionError("the deleted topic stays in metadata");
            Thread.sleep(50);
        }
        say("check", "gone from metadata");
    }
}
