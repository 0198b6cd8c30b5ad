// What only Kafka's own client can do. Arguments: BOOTSTRAP TOPIC GROUP SCENARIO; prints what it found.

import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.function.BooleanSupplier;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.NewPartitions;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.InvalidGroupIdException;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;

public class Reading {
    private static final Duration MOMENT = Duration.ofMillis(50);

    private final String bootstrap;
    private final String topic;
    private final String group;

    private Reading(String bootstrap, String topic, String group) {
        this.bootstrap = bootstrap;
        this.topic = topic;
        this.group = group;
    }

    public static void main(String[] arguments) throws Exception {
        Reading reading = new Reading(arguments[0], arguments[1], arguments[2]);
        switch (arguments[3]) {
            case "by-duration" -> reading.byDuration();
            case "static" -> reading.staticMember();
            case "no-group" -> reading.noGroup();
            default -> throw new IllegalArgumentException(arguments[3]);
        }
    }

    /** Two records of an hour ago and one of now: who goes back half an hour begins at the last. */
    private void byDuration() throws Exception {
        Properties settings = new Properties();
        settings.put("bootstrap.servers", bootstrap);
        try (var producer = new KafkaProducer<>(settings, new StringSerializer(), new StringSerializer())) {
            long now = System.currentTimeMillis();
            for (long time : new long[] {now - 3_600_000, now - 3_599_000, now}) {
                producer.send(new ProducerRecord<>(topic, 0, time, null, "value")).get();
            }
        }
        try (var consumer = consumer(Map.of("group.id", group, "auto.offset.reset", "by_duration:PT30M"))) {
            consumer.subscribe(List.of(topic));
            until(() -> {
                for (var record : consumer.poll(MOMENT)) {
                    System.out.println("read " + record.offset());
                    return true;
                }
                return false;
            });
        }
    }

    /** Comes back as the leader that it was, without a rebalance, and must still watch the topic. */
    private void staticMember() throws Exception {
        Map<String, String> settings = Map.of(
            "group.id", group, "group.instance.id", "one", "session.timeout.ms", "60000",
            "heartbeat.interval.ms", "300", "metadata.max.age.ms", "300");
        for (boolean again : new boolean[] {false, true}) {
            try (var consumer = consumer(settings)) {
                consumer.subscribe(List.of(topic));
                untilAssigned(consumer, 2);
                System.out.println("generation " + consumer.groupMetadata().generationId());
                if (again) {
                    try (var admin = Admin.create(Map.<String, Object>of("bootstrap.servers", bootstrap))) {
                        admin.createPartitions(Map.of(topic, NewPartitions.increaseTo(4))).all().get();
                    }
                    untilAssigned(consumer, 4);
                    System.out.println("generation " + consumer.groupMetadata().generationId());
                }
            }
        }
    }

    private void noGroup() {
        try (var consumer = consumer(Map.of("auto.offset.reset", "earliest"))) {
            consumer.assign(List.of(new TopicPartition(topic, 0)));
            int[] read = {0};
            until(() -> {
                read[0] += consumer.poll(MOMENT).count();
                return read[0] == 10;
            });
            try {
                consumer.commitSync();
                System.out.println("commit taken");
            } catch (InvalidGroupIdException expected) {
                System.out.println("commit refused");
            }
        }
    }

    private KafkaConsumer<String, String> consumer(Map<String, String> more) {
        Properties settings = new Properties();
        settings.put("bootstrap.servers", bootstrap);
        settings.putAll(more);
        return new KafkaConsumer<>(settings, new StringDeserializer(), new StringDeserializer());
    }

    private static void untilAssigned(KafkaConsumer<String, String> consumer, int partitions) {
        until(() -> {
            consumer.poll(MOMENT);
            return consumer.assignment().size() == partitions;
        });
    }

    private static void until(BooleanSupplier holds) {
        long ends = System.nanoTime() + 20_000_000_000L;
        while (!holds.getAsBoolean()) {
            if (System.nanoTime() > ends) {
                throw new IllegalStateException("waited too long");
            }
        }
    }
}
