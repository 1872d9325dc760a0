import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import org.apache.rocketmq.client.apis.ClientConfiguration;
import org.apache.rocketmq.client.apis.ClientConfigurationBuilder;
import org.apache.rocketmq.client.apis.ClientServiceProvider;
import org.apache.rocketmq.client.apis.StaticSessionCredentialsProvider;
import org.apache.rocketmq.client.apis.consumer.FilterExpression;
import org.apache.rocketmq.client.apis.consumer.PushConsumer;
import org.apache.rocketmq.client.apis.consumer.SimpleConsumer;
import org.apache.rocketmq.client.apis.message.MessageBuilder;
import org.apache.rocketmq.client.apis.message.MessageView;
import org.apache.rocketmq.client.apis.producer.Producer;
import org.apache.rocketmq.client.apis.producer.ProducerBuilder;
import org.apache.rocketmq.client.apis.producer.TransactionChecker;

/** What one scenario works with: a topic and a group of its own, clients that end with it, checks. */
final class GrpcStage implements AutoCloseable {
    static final int PATIENCE_S = 60;
    static final ClientServiceProvider PROVIDER = ClientServiceProvider.loadService();

    final String topic;
    final String group;
    private final Map<String, String> settings;
    private final List<AutoCloseable> clients = Collections.synchronizedList(new ArrayList<>());

    GrpcStage(Map<String, String> settings, String scenario) {
        this.settings = settings;
        this.topic = settings.get("run") + "-" + scenario.replace('_', '-');
        this.group = topic + "-g";
    }

    interface Condition {
        boolean holds() throws Exception;
    }

    static void await(String what, Condition condition) throws Exception {
        long deadline = System.nanoTime() + PATIENCE_S * 1_000_000_000L;
        while (!condition.holds()) {
            if (System.nanoTime() > deadline) {
                throw new AssertionError("after " + PATIENCE_S + " s still no " + what);
            }
            Thread.sleep(20);
        }
    }

    static void equal(String what, Object expected, Object actual) {
        if (!Objects.equals(expected, actual)) {
            throw new AssertionError(what + ": expected " + expected + ", was " + actual);
        }
    }

    static void check(String what, boolean holds) {
        if (!holds) {
            throw new AssertionError(what);
        }
    }

    static String body(MessageView message) {
        return StandardCharsets.UTF_8.decode(message.getBody().duplicate()).toString();
    }

    static byte[] bytes(ByteBuffer buffer) {
        byte[] found = new byte[buffer.remaining()];
        buffer.duplicate().get(found);
        return found;
    }

    ClientConfiguration configuration() {
        ClientConfigurationBuilder builder = ClientConfiguration.newBuilder()
            .setEndpoints(settings.get("endpoints"))
            .enableSsl("1".equals(settings.get("tls")))
            .setRequestTimeout(Duration.ofSeconds(10)); // slow is not wrong here
        if (settings.containsKey("ak")) {
            builder.setCredentialProvider(new StaticSessionCredentialsProvider(settings.get("ak"), settings.get("sk")));
        }
        return builder.build();
    }

    private <T extends AutoCloseable> T kept(T client) {
        clients.add(client);
        return client;
    }

    Producer producer(TransactionChecker checker) throws Exception {
        ProducerBuilder builder = PROVIDER.newProducerBuilder().setClientConfiguration(configuration()).setTopics(topic);
        if (checker != null) {
            builder.setTransactionChecker(checker);
        }
        return kept(builder.build());
    }

    Producer producer() throws Exception {
        return producer(null);
    }

    PushConsumer push(GrpcInbox inbox, FilterExpression expression) throws Exception {
        return kept(PROVIDER.newPushConsumerBuilder()
            .setClientConfiguration(configuration())
            .setConsumerGroup(group)
            .setSubscriptionExpressions(Map.of(topic, expression))
            .setMessageListener(inbox::take)
            .build());
    }

    PushConsumer push(GrpcInbox inbox) throws Exception {
        return push(inbox, FilterExpression.SUB_ALL);
    }

    SimpleConsumer simple(String ofTopic, String ofGroup) throws Exception {
        return kept(PROVIDER.newSimpleConsumerBuilder()
            .setClientConfiguration(configuration())
            .setConsumerGroup(ofGroup)
            .setAwaitDuration(Duration.ofSeconds(5))
            .setSubscriptionExpressions(Map.of(ofTopic, FilterExpression.SUB_ALL))
            .build());
    }

    SimpleConsumer simple() throws Exception {
        return simple(topic, group);
    }

    /** The topic of dead letters comes into being with the first one. */
    SimpleConsumer deadLetters() throws Exception {
        SimpleConsumer[] found = new SimpleConsumer[1];
        await("topic of dead letters", () -> {
            try {
                found[0] = simple("%DLQ%" + group, group + "-reader");
                return true;
            } catch (Exception notYet) {
                Thread.sleep(300);
                return false;
            }
        });
        return found[0];
    }

    static List<MessageView> receive(SimpleConsumer consumer, int count) throws Exception {
        List<MessageView> found = new ArrayList<>();
        await(count + " messages", () -> {
            found.addAll(consumer.receive(32, Duration.ofSeconds(30)));
            return found.size() >= count;
        });
        equal("messages", count, found.size());
        return found;
    }

    MessageBuilder message(byte[] body) {
        return PROVIDER.newMessageBuilder().setTopic(topic).setBody(body);
    }

    MessageBuilder message(String body) {
        return message(body.getBytes(StandardCharsets.UTF_8));
    }

    @Override
    public void close() {
        for (AutoCloseable client : clients) {
            try {
                client.close();
            } catch (Exception failure) {
                failure.printStackTrace();
            }
        }
    }
}
