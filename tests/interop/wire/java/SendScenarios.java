import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Random;
import java.util.Set;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.function.Consumer;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.exception.MQBrokerException;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.producer.SendCallback;
import org.apache.rocketmq.client.producer.SendResult;
import org.apache.rocketmq.client.producer.SendStatus;
import org.apache.rocketmq.client.producer.selector.SelectMessageQueueByHash;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageExt;
import org.apache.rocketmq.common.message.MessageQueue;

/** Every way to send, and what the broker has to say about it; what was sent is read back by pulling. */
final class SendScenarios {
    private SendScenarios() { }

    static void add(Map<String, Wire.Scenario> all) {
        all.put("send_delayed", SendScenarios::delayed);
        all.put("send_sync", SendScenarios::sync);
        all.put("send_async", SendScenarios::async);
        all.put("send_oneway", SendScenarios::oneway);
        all.put("send_batch", SendScenarios::batch);
        all.put("send_ordered", SendScenarios::ordered);
        all.put("send_compressed", SendScenarios::compressed);
        all.put("send_large", SendScenarios::large);
        all.put("send_refused", SendScenarios::refused);
        all.put("send_creates_topic", SendScenarios::createsTopic);
        all.put("send_vip_channel", SendScenarios::vipChannel);
        all.put("send_with_namespace", SendScenarios::namespace);
    }

    private static void sync(Stage stage) throws Exception {
        String topic = stage.topic(4);
        DefaultMQProducer producer = stage.producer();
        Map<String, SendResult> sent = new HashMap<>();
        for (int i = 0; i < 20; i++) {
            Message message = new Message(topic, "Tag" + i % 3, "key-" + i, ("body " + i).getBytes());
            message.putUserProperty("number", String.valueOf(i));
            message.putUserProperty("umlaut", "äöü ✓");
            message.setFlag(i);
            SendResult result = producer.send(message);
            Stage.equal("status", SendStatus.SEND_OK, result.getSendStatus());
            Stage.equal("region", "DefaultRegion", result.getRegionId());
            sent.put("key-" + i, result);
        }
        Set<String> ids = new HashSet<>();
        for (MessageExt message : stage.contents(topic, 20)) {
            SendResult result = sent.get(message.getKeys());
            String number = message.getUserProperty("number");
            Stage.equal("body", "body " + number, Inbox.body(message));
            Stage.equal("tag", "Tag" + Integer.parseInt(number) % 3, message.getTags());
            Stage.equal("flag", Integer.parseInt(number), message.getFlag());
            Stage.equal("text property", "äöü ✓", message.getUserProperty("umlaut"));
            Stage.equal("queue", result.getMessageQueue().getQueueId(), message.getQueueId());
            Stage.equal("offset", result.getQueueOffset(), message.getQueueOffset());
            Stage.equal("unique id", result.getMsgId(), message.getMsgId());
            Stage.check(message.getBornTimestamp() <= message.getStoreTimestamp(), "stored before it was born");
            Stage.equal("born at", "127.0.0.1", message.getBornHostString());
            Stage.equal("cluster", "DefaultCluster", message.getProperty("CLUSTER"));
            ids.add(result.getOffsetMsgId());
        }
        Stage.equal("distinct offset ids", 20, ids.size());
        stage.facts.put("brokers", sent.values().stream().map(result -> result.getMessageQueue().getBrokerName()).distinct().count());
    }

    private static void async(Stage stage) throws Exception {
        String topic = stage.topic(4);
        DefaultMQProducer producer = stage.producer();
        CountDownLatch open = new CountDownLatch(50);
        List<Throwable> failures = Collections.synchronizedList(new ArrayList<>());
        Set<String> ids = Collections.synchronizedSet(new HashSet<>());
        for (int i = 0; i < 50; i++) {
            producer.send(new Message(topic, "async", ("body " + i).getBytes()), new SendCallback() {
                @Override
                public void onSuccess(SendResult result) {
                    ids.add(result.getOffsetMsgId());
                    open.countDown();
                }

                @Override
                public void onException(Throwable failure) {
                    failures.add(failure);
                    open.countDown();
                }
            });
        }
        Stage.check(open.await(Stage.PATIENCE_S, TimeUnit.SECONDS), open.getCount() + " sends were never answered");
        Stage.equal("failures", List.of(), failures);
        Stage.equal("distinct offset ids", 50, ids.size());
        stage.contents(topic, 50);
    }

    private static void oneway(Stage stage) throws Exception {
        String topic = stage.topic(2);
        DefaultMQProducer producer = stage.producer();
        for (int i = 0; i < 20; i++) {
            producer.sendOneway(new Message(topic, ("body " + i).getBytes()));
        }
        stage.contents(topic, 20);
    }

    private static void batch(Stage stage) throws Exception {
        String topic = stage.topic(4);
        DefaultMQProducer producer = stage.producer();
        List<Message> batch = new ArrayList<>();
        for (int i = 0; i < 32; i++) {
            Message message = new Message(topic, "Tag" + i % 2, "key-" + i, ("body " + i).getBytes());
            message.putUserProperty("number", String.valueOf(i));
            batch.add(message);
        }
        MessageQueue queue = producer.fetchPublishMessageQueues(topic).get(2);
        SendResult first = producer.send(batch, queue);
        Stage.equal("status", SendStatus.SEND_OK, first.getSendStatus());
        Stage.equal("first offset", 0L, first.getQueueOffset());
        Stage.equal("offset ids", 32, first.getOffsetMsgId().split(",").length);
        Stage.equal("unique ids", 32, first.getMsgId().split(",").length);
        SendResult second = producer.send(again(topic, 5), queue);
        Stage.equal("offset of the second batch", 32L, second.getQueueOffset());
        CountDownLatch answered = new CountDownLatch(1);
        producer.send(again(topic, 5), queue, new SendCallback() {
            @Override
            public void onSuccess(SendResult result) {
                answered.countDown();
            }

            @Override
            public void onException(Throwable failure) {
                failure.printStackTrace();
            }
        });
        Stage.check(answered.await(Stage.PATIENCE_S, TimeUnit.SECONDS), "asynchronous batch not answered");
        List<String> ids = Arrays.asList(first.getMsgId().split(","));
        List<MessageExt> found = stage.contents(topic, 42);
        for (int i = 0; i < 32; i++) {
            MessageExt message = found.get(i);
            Stage.equal("offset", (long) i, message.getQueueOffset());
            Stage.equal("body", "body " + i, Inbox.body(message));
            Stage.equal("number", String.valueOf(i), message.getUserProperty("number"));
            Stage.equal("tag", "Tag" + i % 2, message.getTags());
            Stage.equal("unique id", ids.get(i), message.getMsgId());
        }
    }

    private static List<Message> again(String topic, int count) {
        List<Message> batch = new ArrayList<>();
        for (int i = 0; i < count; i++) {
            batch.add(new Message(topic, ("again " + i).getBytes()));
        }
        return batch;
    }

    private static void ordered(Stage stage) throws Exception {
        String topic = stage.topic(4);
        DefaultMQProducer producer = stage.producer();
        for (int step = 0; step < 6; step++) {
            for (int order = 0; order < 5; order++) {
                Message message = new Message(topic, "tag", "order-" + order, ("step " + step).getBytes());
                producer.send(message, new SelectMessageQueueByHash(), "order-" + order);
            }
        }
        Map<String, List<MessageExt>> orders = new HashMap<>();
        for (MessageExt message : stage.contents(topic, 30)) {
            orders.computeIfAbsent(message.getKeys(), key -> new ArrayList<>()).add(message);
        }
        Stage.equal("orders", 5, orders.size());
        orders.forEach((order, steps) -> {
            for (int step = 0; step < 6; step++) {
                Stage.equal(order + ", queue", steps.get(0).getQueueId(), steps.get(step).getQueueId());
                Stage.equal(order, "step " + step, Inbox.body(steps.get(step)));
            }
        });
    }

    private static void delayed(Stage stage) throws Exception {
        String topic = stage.topic(2);
        Inbox inbox = new Inbox();
        DefaultMQPushConsumer consumer = stage.consumer(stage.name());
        consumer.subscribe(topic, "*");
        consumer.registerMessageListener(inbox.listener());
        Stage.start(consumer);
        DefaultMQProducer producer = stage.producer();
        long[] seconds = {0, 1, 5};
        Map<String, Long> began = new HashMap<>();
        for (int level = 2; level >= 0; level--) {
            Message message = new Message(topic, "delayed", "level-" + level, ("level " + level).getBytes());
            message.setDelayTimeLevel(level);
            began.put("level-" + level, System.currentTimeMillis());
            Stage.equal("status", SendStatus.SEND_OK, producer.send(message).getSendStatus());
        }
        inbox.awaitBodies(List.of("level 0", "level 1", "level 2"));
        for (int i = 0; i < 3; i++) {
            MessageExt message = inbox.messages.get(i);
            Stage.equal("topic", topic, message.getTopic());
            long waited = inbox.arrivals.get(i) - began.get(message.getKeys());
            stage.facts.put(message.getKeys() + "_ms", waited);
            long least = 1000 * seconds[message.getKeys().charAt("level-".length()) - '0'];
            Stage.check(waited >= least, message.getKeys() + " came after " + waited + " ms");
        }
    }

    private static void compressed(Stage stage) throws Exception {
        for (Consumer<DefaultMQProducer> choose : Compat.compressions()) {
            DefaultMQProducer producer = stage.producer();
            choose.accept(producer);
            String topic = stage.topic(1);
            byte[] body = "all work and no play makes jack a dull boy ".repeat(500).getBytes();
            producer.send(new Message(topic, body));
            MessageExt message = stage.contents(topic, 1).get(0);
            Stage.check(Arrays.equals(body, message.getBody()), "body came back different");
            Stage.check(message.getStoreSize() < body.length / 4, "stored size " + message.getStoreSize());
        }
    }

    private static void large(Stage stage) throws Exception {
        String topic = stage.topic(1);
        DefaultMQProducer producer = stage.producer();
        producer.setMaxMessageSize(8 << 20);
        producer.setCompressMsgBodyOverHowmuch(Integer.MAX_VALUE);
        byte[] body = new byte[1 << 20];
        new Random(5).nextBytes(body);
        producer.send(new Message(topic, body));
        MQBrokerException refusal = Stage.refused("4 MiB and one byte", MQBrokerException.class,
            () -> producer.send(new Message(topic, new byte[(4 << 20) + 1])));
        Stage.equal("code", 13, refusal.getResponseCode());
        producer.send(new Message(topic, "after".getBytes()));
        List<MessageExt> found = stage.contents(topic, 2);
        Stage.check(Arrays.equals(body, found.get(0).getBody()), "1 MiB came back different");
        Stage.equal("after the refusal", "after", Inbox.body(found.get(1)));
    }

    private static void refused(Stage stage) throws Exception {
        String topic = stage.topic(1);
        DefaultMQProducer producer = stage.producer();
        producer.setRetryTimesWhenSendFailed(0);
        MessageQueue existing = producer.fetchPublishMessageQueues(topic).get(0);
        MessageQueue absent = new MessageQueue(topic, existing.getBrokerName(), 99);
        MQBrokerException refusal = Stage.refused("queue 99", MQBrokerException.class,
            () -> producer.send(new Message(topic, "x".getBytes()), absent));
        stage.facts.put("absent_queue_code", refusal.getResponseCode());
        Stage.check(Set.of(1, 29).contains(refusal.getResponseCode()), "code " + refusal.getResponseCode());
        Message long_ = new Message(topic, "x".getBytes());
        long_.putUserProperty("long", "x".repeat(40_000));
        refusal = Stage.refused("40,000 bytes of properties", MQBrokerException.class, () -> producer.send(long_));
        Stage.equal("code", 13, refusal.getResponseCode());
        producer.send(new Message(topic, "after".getBytes()));
        stage.contents(topic, 1);
    }

    private static void createsTopic(Stage stage) throws Exception {
        String topic = stage.name();
        DefaultMQProducer producer = stage.producer();
        for (int i = 0; i < 8; i++) {
            producer.send(new Message(topic, ("body " + i).getBytes()));
        }
        stage.clients.awaitRoute(topic, 1);
        var route = stage.admin.examineTopicRouteInfo(topic);
        Stage.equal("queues", 4, route.getQueueDatas().get(0).getReadQueueNums());
        Stage.equal("permission", 6, route.getQueueDatas().get(0).getPerm());
        stage.contents(topic, 8);
    }

    private static void vipChannel(Stage stage) throws Exception {
        String topic = stage.topic(1);
        DefaultMQProducer producer = new DefaultMQProducer(stage.name(), Credentials.client());
        producer.setSendMessageWithVIPChannel(true);
        stage.started(producer).send(new Message(topic, "through the other port".getBytes()));
        stage.contents(topic, 1);
    }

    private static void namespace(Stage stage) throws Exception {
        String space = stage.name();
        DefaultMQProducer producer = new DefaultMQProducer(space, "producers", Credentials.client());
        SendResult result = stage.started(producer).send(new Message("orders", "in a namespace".getBytes()));
        Stage.equal("topic as the client sees it", "orders", result.getMessageQueue().getTopic());
        DefaultMQPushConsumer consumer = stage.prepared(new DefaultMQPushConsumer(space, "consumers", Credentials.client()));
        Inbox inbox = new Inbox();
        consumer.subscribe("orders", "*");
        consumer.registerMessageListener(inbox.listener());
        Stage.start(consumer);
        inbox.awaitBodies(List.of("in a namespace"));
        Stage.equal("topic as the consumer sees it", "orders", inbox.messages.get(0).getTopic());
        stage.contents(space + "%orders", 1);
    }
}
