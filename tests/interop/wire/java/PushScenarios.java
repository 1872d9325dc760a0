import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.stream.Collectors;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.MessageSelector;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.ConsumeOrderlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.client.consumer.listener.MessageListenerOrderly;
import org.apache.rocketmq.client.exception.MQClientException;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageExt;
import org.apache.rocketmq.common.message.MessageQueue;

/** Push consumers: filters, sharing of queues, order, broadcast, retries and where a group goes on. */
final class PushScenarios {
    private PushScenarios() { }

    static void add(Map<String, Wire.Scenario> all) {
        all.put("push_retry_to_dead_letters", PushScenarios::retryToDeadLetters);
        all.put("push_rebalance", PushScenarios::rebalance);
        all.put("push_orderly", PushScenarios::orderly);
        all.put("push_orderly_to_dead_letters", PushScenarios::orderlyToDeadLetters);
        all.put("push_orderly_two_instances", PushScenarios::orderlyTwoInstances);
        all.put("push_broadcast", PushScenarios::broadcast);
        all.put("push_tags", PushScenarios::tags);
        all.put("push_sql", PushScenarios::sql);
        all.put("push_sql_refused", PushScenarios::sqlRefused);
        all.put("push_new_groups", PushScenarios::newGroups);
        all.put("push_continues", PushScenarios::continues);
    }

    static Set<MessageQueue> queuesOf(DefaultMQPushConsumer consumer, String topic) {
        return consumer.getDefaultMQPushConsumerImpl().getRebalanceImpl().getProcessQueueTable().keySet().stream()
            .filter(queue -> queue.getTopic().equals(topic)).collect(Collectors.toSet());
    }

    static DefaultMQPushConsumer started(Stage stage, String group, String topic, String tags, Inbox inbox) throws Exception {
        DefaultMQPushConsumer consumer = stage.consumer(group);
        consumer.subscribe(topic, tags);
        consumer.registerMessageListener(inbox.listener());
        Stage.start(consumer);
        return consumer;
    }

    /** Waits until all that was consumed is committed: the client counts a message after its listener has returned. */
    static void settle(Stage stage, DefaultMQPushConsumer consumer, String topic) throws Exception {
        Stage.await("the offsets of " + consumer.getConsumerGroup() + " to arrive", () -> {
            consumer.getDefaultMQPushConsumerImpl().persistConsumerOffset();
            return stage.admin.examineConsumeStats(consumer.getConsumerGroup(), topic).computeTotalDiff() == 0;
        });
    }

    static List<String> send(DefaultMQProducer producer, String topic, String word, int count) throws Exception {
        List<String> bodies = new ArrayList<>();
        for (int i = 0; i < count; i++) {
            bodies.add(word + " " + i);
            producer.send(new Message(topic, "tag", word + "-" + i, bodies.get(i).getBytes()));
        }
        return bodies;
    }

    private static void tags(Stage stage) throws Exception {
        String topic = stage.topic(2);
        DefaultMQProducer producer = stage.producer();
        Inbox early = new Inbox();
        started(stage, stage.name(), topic, "TagA || TagC", early);
        List<String> wanted = new ArrayList<>();
        for (int i = 0; i < 20; i++) {
            String tag = "Tag" + "ABCD".charAt(i % 4);
            producer.send(new Message(topic, tag, (tag + " " + i).getBytes()));
            if (i % 2 == 0) {
                wanted.add(tag + " " + i);
            }
        }
        // Equal hashes, different tags: the broker lets both pass, the client only the right one.
        producer.send(new Message(topic, "AaBB", "collision one".getBytes()));
        producer.send(new Message(topic, "BBBB", "collision two".getBytes()));
        producer.send(new Message(topic, "no tag".getBytes()));
        Inbox collision = new Inbox();
        started(stage, stage.name(), topic, "BBBB", collision);
        Inbox everything = new Inbox();
        started(stage, stage.name(), topic, "*", everything);
        everything.awaitSize(23);
        collision.awaitBodies(List.of("collision two"));
        early.awaitBodies(wanted);
    }

    private static void rebalance(Stage stage) throws Exception {
        String topic = stage.topic(8);
        String group = stage.name();
        DefaultMQProducer producer = stage.producer();
        List<MessageQueue> queues = producer.fetchPublishMessageQueues(topic);
        Inbox first = new Inbox();
        Inbox second = new Inbox();
        DefaultMQPushConsumer one = started(stage, group, topic, "*", first);
        Stage.await("the first consumer to own all queues", () -> queuesOf(one, topic).size() == queues.size());
        DefaultMQPushConsumer two = started(stage, group, topic, "*", second);
        int half = queues.size() / 2;
        Stage.await("both consumers to own half of the queues",
            () -> queuesOf(one, topic).size() == half && queuesOf(two, topic).size() == half);
        Set<MessageQueue> owned = queuesOf(two, topic);
        for (int i = 0; i < 5; i++) {
            for (MessageQueue queue : queues) {
                producer.send(new Message(topic, (queue.getBrokerName() + queue.getQueueId() + " " + i).getBytes()), queue);
            }
        }
        first.awaitSize(5 * half);
        second.awaitSize(5 * half);
        for (MessageExt message : second.messages) {
            MessageQueue from = new MessageQueue(topic, message.getBrokerName(), message.getQueueId());
            Stage.check(owned.contains(from), "the second consumer was given a message of " + from);
        }
        // Seen by the listener is not yet acknowledged: what a consumer leaves unacknowledged comes again, rightly.
        Stage.await("the second consumer to have acknowledged all", () -> two.getDefaultMQPushConsumerImpl().getRebalanceImpl()
            .getProcessQueueTable().values().stream().allMatch(queue -> queue.getMsgCount().get() == 0));
        two.shutdown();
        Stage.await("the first consumer to own all queues again", () -> queuesOf(one, topic).size() == queues.size());
        for (MessageQueue queue : queues) {
            producer.send(new Message(topic, ("after " + queue.getBrokerName() + queue.getQueueId()).getBytes()), queue);
        }
        first.awaitSize(5 * half + queues.size());
        List<String> all = first.bodies();
        all.addAll(second.bodies());
        Stage.equal("distinct bodies", 6L * queues.size(), all.stream().distinct().count());
        Stage.equal("messages received", 6 * queues.size(), all.size());
    }

    private static void orderly(Stage stage) throws Exception {
        String topic = stage.topic(3);
        DefaultMQProducer producer = stage.producer();
        Inbox inbox = new Inbox();
        Map<String, Integer> refusals = new ConcurrentHashMap<>();
        DefaultMQPushConsumer consumer = stage.consumer(stage.name());
        consumer.subscribe(topic, "*");
        consumer.setSuspendCurrentQueueTimeMillis(200);
        consumer.registerMessageListener((MessageListenerOrderly) (batch, context) -> {
            for (MessageExt message : batch) {
                String body = Inbox.body(message);
                if (body.endsWith(" 4") && refusals.merge(body, 1, Integer::sum) < 3) {
                    return ConsumeOrderlyStatus.SUSPEND_CURRENT_QUEUE_A_MOMENT;
                }
                inbox.add(message);
            }
            return ConsumeOrderlyStatus.SUCCESS;
        });
        Stage.start(consumer);
        List<MessageQueue> queues = producer.fetchPublishMessageQueues(topic);
        for (int i = 0; i < 10; i++) {
            for (MessageQueue queue : queues) {
                producer.send(new Message(topic, (queue.getBrokerName() + queue.getQueueId() + " " + i).getBytes()), queue);
            }
        }
        inbox.awaitSize(10 * queues.size());
        inbox.by(message -> message.getBrokerName() + message.getQueueId()).forEach((queue, messages) -> {
            for (int i = 0; i < 10; i++) {
                Stage.equal("queue " + queue, (long) i, messages.get(i).getQueueOffset());
            }
        });
        Stage.equal("tries of the refused messages", Set.of(3), Set.copyOf(refusals.values()));
    }

    private static void orderlyTwoInstances(Stage stage) throws Exception {
        String topic = stage.topic(4);
        String group = stage.name();
        DefaultMQProducer producer = stage.producer();
        List<MessageQueue> queues = producer.fetchPublishMessageQueues(topic);
        Inbox inbox = new Inbox();
        List<DefaultMQPushConsumer> consumers = new ArrayList<>();
        for (int i = 0; i < 2; i++) {
            DefaultMQPushConsumer consumer = stage.consumer(group);
            consumer.subscribe(topic, "*");
            consumer.registerMessageListener(inbox.orderlyListener());
            Stage.start(consumer);
            consumers.add(consumer);
            if (i == 0) {
                Stage.await("the first consumer to lock all queues", () -> queuesOf(consumer, topic).size() == queues.size());
            }
        }
        Stage.await("both consumers to lock half of the queues",
            () -> consumers.stream().allMatch(consumer -> queuesOf(consumer, topic).size() == queues.size() / 2));
        for (int i = 0; i < 6; i++) {
            for (MessageQueue queue : queues) {
                producer.send(new Message(topic, (queue.getBrokerName() + queue.getQueueId() + " " + i).getBytes()), queue);
            }
        }
        inbox.awaitSize(6 * queues.size());
        inbox.by(message -> message.getBrokerName() + message.getQueueId()).forEach((queue, messages) -> {
            for (int i = 0; i < 6; i++) {
                Stage.equal("queue " + queue, (long) i, messages.get(i).getQueueOffset());
            }
        });
    }

    private static void broadcast(Stage stage) throws Exception {
        String topic = stage.topic(2);
        String group = stage.name();
        DefaultMQProducer producer = stage.producer();
        List<String> bodies = send(producer, topic, "before", 5);
        List<Inbox> inboxes = List.of(new Inbox(), new Inbox());
        for (Inbox inbox : inboxes) {
            DefaultMQPushConsumer consumer = stage.consumer(group);
            Compat.broadcast(consumer);
            consumer.subscribe(topic, "*");
            consumer.registerMessageListener(inbox.listener());
            Stage.start(consumer);
        }
        bodies.addAll(send(producer, topic, "after", 5));
        for (Inbox inbox : inboxes) {
            inbox.awaitBodies(bodies);
        }
    }

    private static void sql(Stage stage) throws Exception {
        String topic = stage.topic(2);
        DefaultMQProducer producer = stage.producer();
        for (int i = 0; i < 10; i++) {
            Message message = new Message(topic, "Tag" + i % 2, String.valueOf(i).getBytes());
            message.putUserProperty("a", String.valueOf(i));
            message.putUserProperty("region", i < 5 ? "eu" : "us");
            if (i == 9) {
                message.putUserProperty("note", "it's late");
            }
            producer.send(message);
        }
        Map<String, List<String>> expected = Map.of(
            "a BETWEEN 3 AND 6", List.of("3", "4", "5", "6"),
            "a > 6 AND region = 'us'", List.of("7", "8", "9"),
            "region IN ('eu') AND NOT (a < 3)", List.of("3", "4"),
            "note IS NOT NULL OR a = 0", List.of("0", "9"),
            "TAGS = 'Tag1' AND a <> 3 AND note IS NULL", List.of("1", "5", "7"),
            "note = 'it''s late'", List.of("9"),
            "a >= 2.5 AND a <= 4", List.of("3", "4"));
        Map<String, Inbox> inboxes = new ConcurrentHashMap<>();
        for (String expression : expected.keySet()) {
            DefaultMQPushConsumer consumer = stage.consumer(stage.name());
            Inbox inbox = new Inbox();
            consumer.subscribe(topic, MessageSelector.bySql(expression));
            consumer.registerMessageListener(inbox.listener());
            Stage.start(consumer);
            inboxes.put(expression, inbox);
        }
        for (String expression : expected.keySet()) {
            try {
                inboxes.get(expression).awaitBodies(expected.get(expression));
            } catch (AssertionError error) {
                throw new AssertionError(expression + ": " + error.getMessage());
            }
        }
    }

    private static void sqlRefused(Stage stage) throws Exception {
        String topic = stage.topic(1);
        DefaultMQPushConsumer consumer = stage.consumer(stage.name());
        consumer.subscribe(topic, MessageSelector.bySql("a > AND"));
        consumer.registerMessageListener(new Inbox().listener());
        MQClientException refusal = Stage.refused("a broken expression", MQClientException.class, () -> {
            consumer.start();
            return "started";
        });
        stage.facts.put("code", refusal.getResponseCode());
        // What has failed to start cannot be shut down in order; another instance of the group works.
        Inbox inbox = new Inbox();
        started(stage, consumer.getConsumerGroup() + "-other", topic, "*", inbox);
        send(stage.producer(), topic, "fine", 1);
        inbox.awaitSize(1);
    }

    private static void retryToDeadLetters(Stage stage) throws Exception {
        String topic = stage.topic(2);
        String group = stage.name();
        Inbox inbox = new Inbox();
        DefaultMQPushConsumer consumer = stage.consumer(group);
        consumer.subscribe(topic, "*");
        consumer.setMaxReconsumeTimes(2);
        consumer.registerMessageListener((MessageListenerConcurrently) (batch, context) -> {
            batch.forEach(inbox::add);
            context.setDelayLevelWhenNextConsume(1);
            return Inbox.body(batch.get(0)).startsWith("good")
                ? ConsumeConcurrentlyStatus.CONSUME_SUCCESS : ConsumeConcurrentlyStatus.RECONSUME_LATER;
        });
        Stage.start(consumer);
        DefaultMQProducer producer = stage.producer();
        Message bad = new Message(topic, "tag", "bad-key", "bad".getBytes());
        bad.putUserProperty("colour", "green");
        String id = producer.send(bad).getMsgId();
        producer.send(new Message(topic, "good".getBytes()));
        inbox.awaitBodies(List.of("bad", "bad", "bad", "good"));
        List<MessageExt> tries = inbox.by(Inbox::body).get("bad");
        for (int i = 0; i < 3; i++) {
            Stage.equal("times consumed before", i, tries.get(i).getReconsumeTimes());
            Stage.equal("topic", topic, tries.get(i).getTopic());
            Stage.equal("unique id", id, tries.get(i).getMsgId());
            Stage.equal("key", "bad-key", tries.get(i).getKeys());
        }
        MessageExt dead = deadLetter(stage, group);
        Stage.equal("dead letter", "bad", Inbox.body(dead));
        Stage.equal("its unique id", id, dead.getMsgId());
        Stage.equal("its key", "bad-key", dead.getKeys());
        Stage.equal("its property", "green", dead.getUserProperty("colour"));
        Stage.equal("its original topic", topic, dead.getProperty("RETRY_TOPIC"));
        Stage.equal("its count of tries", 3, dead.getReconsumeTimes());
    }

    private static MessageExt deadLetter(Stage stage, String group) throws Exception {
        Stage.await("a topic for dead letters", () -> {
            try {
                return stage.admin.examineTopicRouteInfo("%DLQ%" + group) != null;
            } catch (MQClientException absent) {
                return false;
            }
        });
        return stage.contents("%DLQ%" + group, 1).get(0);
    }

    /** A consumer in order tries by itself; what it gives up it sends to its retry topic, with a count that differs by release. */
    private static void orderlyToDeadLetters(Stage stage) throws Exception {
        String topic = stage.topic(1);
        String group = stage.name();
        Inbox inbox = new Inbox();
        AtomicInteger tries = new AtomicInteger();
        DefaultMQPushConsumer consumer = stage.consumer(group);
        consumer.subscribe(topic, "*");
        consumer.setMaxReconsumeTimes(2);
        consumer.setSuspendCurrentQueueTimeMillis(100);
        consumer.setConsumeMessageBatchMaxSize(1);
        consumer.registerMessageListener((MessageListenerOrderly) (batch, context) -> {
            if (Inbox.body(batch.get(0)).equals("bad")) {
                tries.incrementAndGet();
                return ConsumeOrderlyStatus.SUSPEND_CURRENT_QUEUE_A_MOMENT;
            }
            batch.forEach(inbox::add);
            return ConsumeOrderlyStatus.SUCCESS;
        });
        Stage.start(consumer);
        DefaultMQProducer producer = stage.producer();
        producer.send(new Message(topic, "tag", "bad-key", "bad".getBytes()));
        producer.send(new Message(topic, "good".getBytes()));
        inbox.awaitBodies(List.of("good"));
        MessageExt dead = deadLetter(stage, group);
        Stage.equal("dead letter", "bad", Inbox.body(dead));
        Stage.equal("its key", "bad-key", dead.getKeys());
        Stage.equal("its original topic", topic, dead.getProperty("RETRY_TOPIC"));
        Stage.equal("tries", 3, tries.get());
    }

    private static void newGroups(Stage stage) throws Exception {
        String topic = stage.topic(2);
        List<String> bodies = send(stage.producer(), topic, "old", 10);
        // A queue that still has its first message is read from there whatever a new group prefers.
        for (ConsumeFromWhere where : List.of(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET,
                ConsumeFromWhere.CONSUME_FROM_LAST_OFFSET)) {
            Inbox inbox = new Inbox();
            DefaultMQPushConsumer consumer = stage.consumer(stage.name());
            consumer.setConsumeFromWhere(where);
            consumer.subscribe(topic, "*");
            consumer.registerMessageListener(inbox.listener());
            Stage.start(consumer);
            inbox.awaitBodies(bodies);
        }
    }

    private static void continues(Stage stage) throws Exception {
        String topic = stage.topic(4);
        String group = stage.name();
        DefaultMQProducer producer = stage.producer();
        List<String> bodies = send(producer, topic, "first", 20);
        Inbox before = new Inbox();
        DefaultMQPushConsumer one = started(stage, group, topic, "*", before);
        before.awaitBodies(bodies);
        settle(stage, one, topic);
        one.shutdown();
        bodies = send(producer, topic, "second", 10);
        Inbox after = new Inbox();
        started(stage, group, topic, "*", after);
        after.awaitBodies(bodies);
    }
}
