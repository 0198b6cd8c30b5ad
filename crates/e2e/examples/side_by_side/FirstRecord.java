import java.time.Duration;
import java.util.List;
import java.util.Map;

import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;

/**
 * How long a lone consumer with default settings waits for its first record.
 *
 * <pre>java FirstRecord.java BOOTSTRAP TOPIC GROUP ROUNDS</pre>
 *
 * Prints the milliseconds from subscribe to the first record for each round. Each round is a new consumer in a new
 * group; a first one, which is not printed, loads the classes.
 */
public final class FirstRecord {
    public static void main(String[] arguments) {
        int rounds = Integer.parseInt(arguments[3]);
        for (int round = 0; round <= rounds; round++) {
            double milliseconds = measure(arguments[0], arguments[1], arguments[2] + "-" + round);
            if (round > 0) {
                System.out.println(milliseconds);
            }
        }
    }

    private static double measure(String bootstrap, String topic, String group) {
        Map<String, Object> settings = Map.of(
            "bootstrap.servers", bootstrap,
            "group.id", group,
            // The record is there before the consumer.
            "auto.offset.reset", "earliest");
        try (var consumer = new KafkaConsumer<>(settings, new ByteArrayDeserializer(), new ByteArrayDeserializer())) {
            long begun = System.nanoTime();
            consumer.subscribe(List.of(topic));
            while (consumer.poll(Duration.ofMillis(100)).isEmpty()) {
                if (System.nanoTime() - begun > 60_000_000_000L) {
                    throw new IllegalStateException("no record within a minute");
                }
            }
            return (System.nanoTime() - begun) / 1e6;
        }
    }
}
