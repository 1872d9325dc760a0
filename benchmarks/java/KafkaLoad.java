import java.io.BufferedInputStream;
import java.io.DataInputStream;
import java.io.FileInputStream;
import java.nio.charset.StandardCharsets;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.atomic.AtomicReference;
import java.util.concurrent.locks.LockSupport;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.errors.TopicExistsException;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/**
 * Load for a Kafka broker: "MODE name=value ...", one line of JSON at the end. See kafka_server.py.
 *
 * topic  make a topic                          topic partitions
 * fill   the bodies of a file, one after the   topic partitions file size messages base span
 *        other, keyed, their create times spread over a span (ms) that ends at base + span
 * rate   so many a second; a body begins with  topic size per_second seconds
 *        the nanosecond it was made at, 19 digits
 */
public final class KafkaLoad {
    private static final String KEY = "7F0000010A2B3C4D5E6F%012X";

    public static void main(String[] arguments) throws Exception {
        Map<String, String> given = new HashMap<>();
        for (int i = 1; i < arguments.length; i++) {
            String[] pair = arguments[i].split("=", 2);
            given.put(pair[0], pair[1]);
        }
        switch (arguments[0]) {
            case "topic" -> makeTopic(given);
            case "fill" -> fill(given);
            case "rate" -> rate(given);
            default -> throw new IllegalArgumentException("mode " + arguments[0]);
        }
        System.exit(0);
    }

    private static void makeTopic(Map<String, String> given) throws Exception {
        Properties settings = new Properties();
        settings.put("bootstrap.servers", given.get("bootstrap"));
        settings.put("request.timeout.ms", "5000");
        settings.put("default.api.timeout.ms", "8000");
        try (Admin admin = Admin.create(settings)) {
            NewTopic topic = new NewTopic(given.get("topic"), Integer.parseInt(given.get("partitions")), (short) 1);
            admin.createTopics(List.of(topic)).all().get();
        } catch (ExecutionException error) {
            if (!(error.getCause() instanceof TopicExistsException)) {
                throw error;
            }
        }
        System.out.println("{}");
    }

    private static KafkaProducer<byte[], byte[]> producer(Map<String, String> given, int lingerMs) {
        Properties settings = new Properties();
        settings.put("bootstrap.servers", given.get("bootstrap"));
        settings.put("acks", "1");
        settings.put("enable.idempotence", "false");
        settings.put("linger.ms", String.valueOf(lingerMs));
        settings.put("batch.size", "131072");
        settings.put("buffer.memory", String.valueOf(128 << 20));
        return new KafkaProducer<>(settings, new ByteArraySerializer(), new ByteArraySerializer());
    }

    private static void fill(Map<String, String> given) throws Exception {
        int partitions = Integer.parseInt(given.get("partitions"));
        int size = Integer.parseInt(given.get("size"));
        int messages = Integer.parseInt(given.get("messages"));
        long base = Long.parseLong(given.get("base"));
        long span = Long.parseLong(given.get("span"));
        String topic = given.get("topic");
        AtomicReference<Exception> failure = new AtomicReference<>();
        long begin = System.nanoTime();
        try (KafkaProducer<byte[], byte[]> producer = producer(given, 5);
                DataInputStream file = new DataInputStream(new BufferedInputStream(new FileInputStream(given.get("file")), 1 << 20))) {
            for (int i = 0; i < messages; i++) {
                byte[] body = new byte[size];
                file.readFully(body);
                byte[] key = String.format(KEY, i).getBytes(StandardCharsets.US_ASCII);
                long time = base + i * span / messages;
                producer.send(new ProducerRecord<>(topic, i % partitions, time, key, body), (done, error) -> {
                    if (error != null) {
                        failure.compareAndSet(null, error);
                    }
                });
            }
            producer.flush();
        }
        if (failure.get() != null) {
            throw failure.get();
        }
        System.out.printf("{\"seconds\": %.3f}%n", (System.nanoTime() - begin) / 1e9);
    }

    private static void rate(Map<String, String> given) throws Exception {
        int size = Integer.parseInt(given.get("size"));
        double perSecond = Double.parseDouble(given.get("per_second"));
        long total = Math.round(perSecond * Double.parseDouble(given.get("seconds")));
        String topic = given.get("topic");
        long begin = System.nanoTime();
        long wall = System.currentTimeMillis() * 1_000_000L;
        try (KafkaProducer<byte[], byte[]> producer = producer(given, 0)) {
            for (long i = 0; i < total; i++) {
                long due = begin + (long) (i / perSecond * 1e9);
                for (long left = due - System.nanoTime(); left > 0; left = due - System.nanoTime()) {
                    LockSupport.parkNanos(left);
                }
                byte[] body = new byte[size];
                // When it was due, not when it came to be sent: a stall of the producer counts as well.
                byte[] time = String.format("%019d", wall + (due - begin)).getBytes(StandardCharsets.US_ASCII);
                System.arraycopy(time, 0, body, 0, time.length);
                producer.send(new ProducerRecord<>(topic, (int) (i % 8), (byte[]) null, body));
            }
            producer.flush();
        }
        System.out.printf("{\"sent\": %d}%n", total);
    }
}
