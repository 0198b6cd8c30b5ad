import java.io.IOException;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.Collection;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.stream.Collectors;

import org.apache.kafka.clients.consumer.ConsumerRebalanceListener;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.CooperativeStickyAssignor;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.consumer.RangeAssignor;
import org.apache.kafka.clients.consumer.RoundRobinAssignor;
import org.apache.kafka.clients.consumer.StickyAssignor;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.WakeupException;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;

/**
 * A member of a group with the Java client and the classic protocol.
 *
 * <pre>java Member BOOTSTRAP GROUP TOPIC ASSIGNOR SESSION_MS [INSTANCE]</pre>
 *
 * Prints what happens to it as ../python/member.py describes, and leaves the group when its standard input ends.
 */
public final class Member implements ConsumerRebalanceListener {
    private static final Map<String, Class<?>> ASSIGNORS = Map.of(
        "range", RangeAssignor.class,
        "roundrobin", RoundRobinAssignor.class,
        "sticky", StickyAssignor.class,
        "cooperative-sticky", CooperativeStickyAssignor.class);
    private static final Duration COMMIT_WITHIN = Duration.ofSeconds(3);

    private final KafkaConsumer<byte[], byte[]> consumer;
    private final Map<TopicPartition, OffsetAndMetadata> uncommitted = new HashMap<>();
    private volatile boolean told;

    private Member(Map<String, Object> settings) {
        consumer = new KafkaConsumer<>(settings, new ByteArrayDeserializer(), new ByteArrayDeserializer());
    }

    public static void main(String[] arguments) {
        int session = Integer.parseInt(arguments[4]);
        Map<String, Object> settings = new HashMap<>(Map.of(
            "bootstrap.servers", arguments[0],
            "group.id", arguments[1],
            "group.protocol", "classic",
            "partition.assignment.strategy", List.of(ASSIGNORS.get(arguments[3]).getName()),
            "session.timeout.ms", session,
            "heartbeat.interval.ms", session / 12,
            "enable.auto.commit", false,
            "auto.offset.reset", "earliest",
            "fetch.max.wait.ms", 100,
            "max.poll.records", 20));
        // By default a client whose only broker is away forgets what it knew of topics, and a leader that does joins again.
        settings.put("metadata.recovery.strategy", "none");
        if (arguments.length > 5) settings.put("group.instance.id", arguments[5]);
        new Member(settings).run(arguments[2]);
    }

    private void run(String topic) {
        Thread ear = new Thread(this::waitUntilTold);
        ear.setDaemon(true);
        ear.start();
        consumer.subscribe(List.of(topic), this);
        try {
            while (!told) {
                for (ConsumerRecord<byte[], byte[]> record : consumer.poll(Duration.ofMillis(100))) {
                    String value = new String(record.value(), StandardCharsets.UTF_8);
                    say("record " + record.partition() + " " + record.offset() + " " + value);
                    uncommitted.put(
                        new TopicPartition(record.topic(), record.partition()),
                        new OffsetAndMetadata(record.offset() + 1));
                }
                commit(Map.copyOf(uncommitted));
            }
        } catch (WakeupException left) {
            // Only standard input wakes the consumer, so it is time to leave.
        }
        consumer.close();
        say("left");
    }

    private void waitUntilTold() {
        try {
            while (System.in.read() >= 0) {}
        } catch (IOException gone) {
            // The same as its end.
        }
        told = true;
        consumer.wakeup();
    }

    private void commit(Map<TopicPartition, OffsetAndMetadata> offsets) {
        if (offsets.isEmpty()) return;
        try {
            consumer.commitSync(offsets, COMMIT_WITHIN);
        } catch (WakeupException interrupted) {
            throw interrupted;
        } catch (KafkaException problem) {
            say("trouble commit: " + problem);
            return;
        }
        say("committed " + offsets.entrySet().stream()
            .map(it -> it.getKey().partition() + ":" + it.getValue().offset())
            .collect(Collectors.joining(",")));
        uncommitted.keySet().removeAll(offsets.keySet());
    }

    @Override
    public void onPartitionsAssigned(Collection<TopicPartition> assigned) {
        if (!assigned.isEmpty()) say("assigned " + numbers(assigned));
    }

    @Override
    public void onPartitionsRevoked(Collection<TopicPartition> revoked) {
        if (revoked.isEmpty()) return;
        Map<TopicPartition, OffsetAndMetadata> offsets = new HashMap<>(uncommitted);
        offsets.keySet().retainAll(revoked);
        commit(offsets);
        uncommitted.keySet().removeAll(revoked);
        say("revoked " + numbers(revoked));
    }

    @Override
    public void onPartitionsLost(Collection<TopicPartition> lost) {
        if (lost.isEmpty()) return;
        uncommitted.keySet().removeAll(lost);
        say("lost " + numbers(lost));
    }

    private static String numbers(Collection<TopicPartition> partitions) {
        return partitions.stream().map(it -> Integer.toString(it.partition())).sorted().collect(Collectors.joining(","));
    }

    /** One write for each line, so that a kill leaves whole lines. */
    private static void say(String event) {
        byte[] line = (System.nanoTime() + " " + event.replace('\n', ' ') + "\n").getBytes(StandardCharsets.UTF_8);
        PrintStream out = System.out;
        out.write(line, 0, line.length);
        out.flush();
    }
}
