import java.util.ArrayList;
import java.util.Collections;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.concurrent.Callable;
import java.util.concurrent.atomic.AtomicInteger;
import org.apache.rocketmq.client.ClientConfig;
import org.apache.rocketmq.client.consumer.DefaultLitePullConsumer;
import org.apache.rocketmq.client.consumer.DefaultMQPullConsumer;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.PullResult;
import org.apache.rocketmq.client.consumer.PullStatus;
import org.apache.rocketmq.client.consumer.rebalance.AllocateMessageQueueAveragely;
import org.apache.rocketmq.client.impl.factory.MQClientInstance;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.producer.TransactionMQProducer;
import org.apache.rocketmq.common.TopicConfig;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;
import org.apache.rocketmq.common.message.MessageExt;
import org.apache.rocketmq.common.message.MessageQueue;
import org.apache.rocketmq.tools.admin.DefaultMQAdminExt;

/** What one scenario works with: topics and groups of its own, clients that end with it, checks, and facts to print. */
final class Stage implements AutoCloseable {
    static final int PATIENCE_S = 60;

    final Map<String, Object> facts = Collections.synchronizedMap(new LinkedHashMap<>());
    final DefaultMQAdminExt admin;
    final Clients clients;
    private final String scenario;
    private final AtomicInteger names = new AtomicInteger();
    private final List<Runnable> closers = Collections.synchronizedList(new ArrayList<>());

    Stage(Clients clients, String scenario) {
        this.clients = clients;
        this.admin = clients.admin;
        this.scenario = scenario;
    }

    interface Condition {
        boolean holds() throws Exception;
    }

    /** Waits for a condition; a failure says what was missing. */
    static void await(String what, int seconds, Condition condition) throws Exception {
        long deadline = System.nanoTime() + seconds * 1_000_000_000L;
        while (!condition.holds()) {
            if (System.nanoTime() > deadline) {
                throw new AssertionError("after " + seconds + " s still no " + what);
            }
            Thread.sleep(20);
        }
    }

    static void await(String what, Condition condition) throws Exception {
        await(what, PATIENCE_S, condition);
    }

    static void check(boolean holds, String what) {
        if (!holds) {
            throw new AssertionError(what);
        }
    }

    static void equal(String what, Object expected, Object found) {
        if (!Objects.equals(expected, found)) {
            throw new AssertionError(what + ": expected " + expected + ", found " + found);
        }
    }

    /** The call has to fail with this exception (or one it was caused by); returns it. */
    static <T extends Throwable> T refused(String what, Class<T> type, Callable<?> call) {
        Object result;
        try {
            result = call.call();
        } catch (Throwable failure) {
            for (Throwable cause = failure; cause != null; cause = cause.getCause()) {
                if (type.isInstance(cause)) {
                    return type.cast(cause);
                }
            }
            throw new AssertionError(what + ": expected " + type.getSimpleName() + ", got " + failure, failure);
        }
        throw new AssertionError(what + ": not refused, returned " + result);
    }

    String name() {
        return clients.run + "-" + scenario + "-" + names.incrementAndGet();
    }

    /** A new topic with this many queues on every broker. */
    String topic(int queues) throws Exception {
        TopicConfig config = new TopicConfig(name());
        config.setReadQueueNums(queues);
        config.setWriteQueueNums(queues);
        clients.makeTopic(config);
        return config.getTopicName();
    }

    DefaultMQProducer producer() throws Exception {
        return started(new DefaultMQProducer(name(), Credentials.client()));
    }

    DefaultMQProducer started(DefaultMQProducer producer) throws Exception {
        configure(producer);
        producer.setSendMsgTimeout(Clients.PATIENCE_MS);
        producer.start();
        closers.add(producer::shutdown);
        return producer;
    }

    private void configure(ClientConfig client) {
        client.setNamesrvAddr(clients.nameServer);
        client.setInstanceName(clients.instance());
        client.setMqClientApiTimeout(Clients.PATIENCE_MS);
    }

    TransactionMQProducer transactionProducer() throws Exception {
        return new TransactionMQProducer(name(), Credentials.client());
    }

    /** A push consumer of its own connection, to be subscribed and started by the caller. */
    DefaultMQPushConsumer consumer(String group) {
        return prepared(new DefaultMQPushConsumer(group, Credentials.client(), new AllocateMessageQueueAveragely()));
    }

    DefaultMQPushConsumer prepared(DefaultMQPushConsumer consumer) {
        configure(consumer);
        consumer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        consumer.setConsumeThreadMin(4);
        consumer.setConsumeThreadMax(4);
        closers.add(consumer::shutdown);
        return consumer;
    }

    /**
     * Starts a consumer and has it announced. The client sends a heartbeat when it starts and another when its connection
     * opens, and drops one of them if they meet; when it is the wrong one, nothing happens for thirty seconds.
     */
    static void start(DefaultMQPushConsumer consumer) throws Exception {
        consumer.start();
        MQClientInstance client = consumer.getDefaultMQPushConsumerImpl().getmQClientFactory();
        await("heartbeat", () -> Compat.announce(client));
        // The broker makes the retry topic with the first heartbeat; the client looks for it just before, then every 30 s.
        client.updateTopicRouteInfoFromNameServer("%RETRY%" + consumer.getConsumerGroup());
        client.rebalanceImmediately();
    }

    DefaultLitePullConsumer litePullConsumer(String group) {
        DefaultLitePullConsumer consumer = new DefaultLitePullConsumer(group, Credentials.client());
        configure(consumer);
        consumer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        closers.add(consumer::shutdown);
        return consumer;
    }

    DefaultMQPullConsumer pullConsumer(String group) throws Exception {
        DefaultMQPullConsumer consumer = new DefaultMQPullConsumer(group, Credentials.client());
        configure(consumer);
        consumer.start();
        closers.add(consumer::shutdown);
        return consumer;
    }

    /** All messages of a topic, once there are so many of them; read by pulling every queue from its beginning. */
    List<MessageExt> contents(String topic, int count) throws Exception {
        DefaultMQPullConsumer consumer = pullConsumer(name());
        List<MessageExt> found = new ArrayList<>();
        for (MessageQueue queue : sorted(consumer.fetchSubscribeMessageQueues(topic))) {
            found.addAll(contents(consumer, queue, 0));
        }
        long deadline = System.nanoTime() + PATIENCE_S * 1_000_000_000L;
        while (found.size() < count && System.nanoTime() < deadline) {
            Thread.sleep(50);
            found.clear();
            for (MessageQueue queue : sorted(consumer.fetchSubscribeMessageQueues(topic))) {
                found.addAll(contents(consumer, queue, 0));
            }
        }
        equal("messages in " + topic, count, found.size());
        return found;
    }

    static List<MessageExt> contents(DefaultMQPullConsumer consumer, MessageQueue queue, long from) throws Exception {
        List<MessageExt> found = new ArrayList<>();
        long offset = from;
        while (true) {
            PullResult result = consumer.pull(queue, "*", offset, 32);
            if (result.getPullStatus() != PullStatus.FOUND) {
                if (result.getNextBeginOffset() == offset || result.getPullStatus() == PullStatus.NO_NEW_MSG) {
                    return found;
                }
            } else {
                found.addAll(result.getMsgFoundList());
            }
            offset = result.getNextBeginOffset();
        }
    }

    static List<MessageQueue> sorted(Iterable<MessageQueue> queues) {
        List<MessageQueue> list = new ArrayList<>();
        queues.forEach(list::add);
        Collections.sort(list);
        return list;
    }

    @Override
    public void close() {
        synchronized (closers) {
            Collections.reverse(closers);
            for (Runnable closer : closers) {
                try {
                    closer.run();
                } catch (RuntimeException failure) {
                    System.err.println(scenario + ": " + failure);
                }
            }
        }
    }
}
