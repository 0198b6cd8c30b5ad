import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import javax.security.auth.callback.Callback;
import javax.security.auth.login.AppConfigurationEntry;

import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.security.auth.AuthenticateCallbackHandler;
import org.apache.kafka.common.security.oauthbearer.OAuthBearerToken;
import org.apache.kafka.common.security.oauthbearer.OAuthBearerTokenCallback;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;

/**
 * Logs in with the Java client: what it takes and prints is described in ../python/login.py.
 *
 * <pre>java Login BOOTSTRAP TOPIC</pre>
 */
public final class Login {
    private static final int RECORDS = 10;
    private static final Duration WITHIN = Duration.ofSeconds(25);

    private Login() {}

    /** Hands the token of the environment to the client. */
    public static final class Token implements AuthenticateCallbackHandler {
        @Override
        public void configure(Map<String, ?> configs, String mechanism, List<AppConfigurationEntry> entries) {}

        @Override
        public void close() {}

        @Override
        public void handle(Callback[] callbacks) {
            for (Callback callback : callbacks) {
                if (callback instanceof OAuthBearerTokenCallback wanted) {
                    wanted.token(new Bearer(setting("TOKEN")));
                }
            }
        }
    }

    private record Bearer(String value) implements OAuthBearerToken {
        @Override
        public java.util.Set<String> scope() {
            return java.util.Set.of();
        }

        @Override
        public long lifetimeMs() {
            return System.currentTimeMillis() + 300_000;
        }

        @Override
        public String principalName() {
            return "bearer";
        }

        @Override
        public Long startTimeMs() {
            return null;
        }
    }

    public static void main(String[] arguments) {
        int code = 0;
        try {
            run(arguments[0], arguments[1]);
            System.out.println("{\"login\": true}");
        } catch (Exception refused) {
            Throwable cause = refused instanceof ExecutionException ? refused.getCause() : refused;
            System.err.println(cause + (cause.getCause() == null ? "" : ": " + cause.getCause()));
            code = 1;
        }
        System.out.flush();
        Runtime.getRuntime().halt(code);
    }

    private static void run(String bootstrap, String topic) throws Exception {
        Map<String, Object> config = security();
        config.put("bootstrap.servers", bootstrap);
        config.put("key.serializer", StringSerializer.class);
        config.put("value.serializer", StringSerializer.class);
        config.put("key.deserializer", StringDeserializer.class);
        config.put("value.deserializer", StringDeserializer.class);
        config.put("max.block.ms", WITHIN.toMillis());
        try (KafkaProducer<String, String> producer = new KafkaProducer<>(config)) {
            for (int number = 0; number < RECORDS; number++) {
                producer.send(new ProducerRecord<>(topic, Integer.toString(number))).get(WITHIN.toSeconds(), TimeUnit.SECONDS);
            }
        }
        config.put("group.id", topic + "-readers-" + System.nanoTime());
        config.put("auto.offset.reset", "earliest");
        try (KafkaConsumer<String, String> consumer = new KafkaConsumer<>(config)) {
            consumer.subscribe(List.of(topic));
            long deadline = System.nanoTime() + WITHIN.toNanos();
            for (int found = 0; found < RECORDS; found += consumer.poll(Duration.ofMillis(200)).count()) {
                if (System.nanoTime() > deadline) {
                    throw new IllegalStateException("only " + found + " records came");
                }
            }
        }
    }

    private static Map<String, Object> security() throws Exception {
        Map<String, Object> config = new HashMap<>();
        config.put("security.protocol", setting("PROTOCOL"));
        if (setting("CA") != null) {
            config.put("ssl.truststore.type", "PEM");
            config.put("ssl.truststore.certificates", Files.readString(Path.of(setting("CA"))));
        }
        if (setting("CERTIFICATE") != null) {
            config.put("ssl.keystore.type", "PEM");
            config.put("ssl.keystore.certificate.chain", Files.readString(Path.of(setting("CERTIFICATE"))));
            config.put("ssl.keystore.key", Files.readString(Path.of(setting("KEY"))));
        }
        String mechanism = setting("MECHANISM");
        if (mechanism == null) {
            return config;
        }
        config.put("sasl.mechanism", mechanism);
        String common = "org.apache.kafka.common.security.";
        String who = String.format(" required username=\"%s\" password=\"%s\";", setting("USER"), setting("PASSWORD"));
        switch (mechanism) {
            case "PLAIN" -> config.put("sasl.jaas.config", common + "plain.PlainLoginModule" + who);
            case "OAUTHBEARER" -> {
                config.put("sasl.jaas.config", common + "oauthbearer.OAuthBearerLoginModule required;");
                config.put("sasl.login.callback.handler.class", Token.class.getName());
            }
            default -> config.put("sasl.jaas.config", common + "scram.ScramLoginModule" + who);
        }
        return config;
    }

    private static String setting(String name) {
        return System.getenv("E2E_" + name);
    }
}
