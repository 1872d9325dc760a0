import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;
import org.apache.rocketmq.client.consumer.DefaultLitePullConsumer;
import org.apache.rocketmq.client.consumer.DefaultMQPullConsumer;
import org.apache.rocketmq.client.consumer.PullResult;
import org.apache.rocketmq.client.consumer.PullStatus;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageExt;
import org.apache.rocketmq.common.message.MessageQueue;

/** Consumers that ask: the old pull consumer with its offsets, and the lite one with subscribe, assign and seek. */
final class PullScenarios {
    private PullScenarios() { }

    static void add(Map<String, Wire.Scenario> all) {
        all.put("pull_offsets", PullScenarios::offsets);
        all.put("pull_waits_for_messages", PullScenarios::waits);
        all.put("lite_pull_subscribe", PullScenarios::subscribe);
        all.put("lite_pull_seek", PullScenarios::seek);
    }

    private static void offsets(Stage stage) throws Exception {
        String topic = stage.topic(1);
        String group = stage.name();
        PushScenarios.send(stage.producer(), topic, "body", 40);
        stage.contents(topic, 40);
        DefaultMQPullConsumer consumer = stage.pullConsumer(group);
        MessageQueue queue = consumer.fetchSubscribeMessageQueues(topic).iterator().next();
        Stage.equal("first offset", 0L, consumer.minOffset(queue));
        Stage.equal("end", 40L, consumer.maxOffset(queue));
        PullResult result = consumer.pull(queue, "*", 30, 32);
        Stage.equal("status", PullStatus.FOUND, result.getPullStatus());
        Stage.equal("messages from 30 on", 10, result.getMsgFoundList().size());
        Stage.equal("next", 40L, result.getNextBeginOffset());
        Stage.equal("at the end", PullStatus.NO_NEW_MSG, consumer.pull(queue, "*", 40, 32).getPullStatus());
        result = consumer.pull(queue, "*", 1000, 32);
        Stage.equal("beyond the end", PullStatus.OFFSET_ILLEGAL, result.getPullStatus());
        Stage.equal("put right to", 40L, result.getNextBeginOffset());
        result = consumer.pull(queue, "absent", 0, 32);
        Stage.equal("with a tag nobody used", PullStatus.NO_MATCHED_MSG, result.getPullStatus());
        MessageExt tenth = consumer.pull(queue, "*", 10, 1).getMsgFoundList().get(0);
        long found = consumer.searchOffset(queue, tenth.getStoreTimestamp());
        // Of several messages with the same time any may be found.
        MessageExt searched = consumer.pull(queue, "*", found, 1).getMsgFoundList().get(0);
        Stage.equal("store time of the offset found by time", tenth.getStoreTimestamp(), searched.getStoreTimestamp());
        long earliest = consumer.earliestMsgStoreTime(queue);
        Stage.check(earliest > 0 && earliest <= tenth.getStoreTimestamp(), "earliest store time " + earliest);
        // None, or the beginning of a queue that still has its first message.
        long none = consumer.fetchConsumeOffset(queue, true);
        Stage.check(none == -1 || none == 0, "offset of a new group: " + none);
        consumer.updateConsumeOffset(queue, 17);
        consumer.getOffsetStore().persistAll(Collections.singleton(queue));
        DefaultMQPullConsumer other = stage.pullConsumer(group);
        Stage.await("the committed offset", () -> other.fetchConsumeOffset(queue, true) == 17);
    }

    private static void waits(Stage stage) throws Exception {
        String topic = stage.topic(1);
        DefaultMQProducer producer = stage.producer();
        DefaultMQPullConsumer consumer = stage.pullConsumer(stage.name());
        MessageQueue queue = consumer.fetchSubscribeMessageQueues(topic).iterator().next();
        CompletableFuture<PullResult> held = CompletableFuture.supplyAsync(() -> {
            try {
                PullResult result = consumer.pullBlockIfNotFound(queue, "wanted", 0, 32);
                // Messages with other tags may be passed by before the pull is held.
                while (result.getPullStatus() == PullStatus.NO_MATCHED_MSG) {
                    result = consumer.pullBlockIfNotFound(queue, "wanted", result.getNextBeginOffset(), 32);
                }
                return result;
            } catch (Exception failure) {
                throw new IllegalStateException(failure);
            }
        });
        long began = System.nanoTime();
        producer.send(new Message(topic, "other", "not this".getBytes()));
        producer.send(new Message(topic, "wanted", "this".getBytes()));
        PullResult result = held.get(Stage.PATIENCE_S, TimeUnit.SECONDS);
        stage.facts.put("answered_after_ms", (System.nanoTime() - began) / 1_000_000);
        Stage.equal("status", PullStatus.FOUND, result.getPullStatus());
        Stage.equal("message", "this", Inbox.body(result.getMsgFoundList().get(0)));
    }

    private static List<MessageExt> poll(DefaultLitePullConsumer consumer, int count) throws Exception {
        List<MessageExt> found = new ArrayList<>();
        Stage.await(count + " messages by polling", () -> {
            found.addAll(consumer.poll(500));
            return found.size() >= count;
        });
        Stage.equal("messages polled", count, found.size());
        return found;
    }

    private static void subscribe(Stage stage) throws Exception {
        String topic = stage.topic(4);
        String group = stage.name();
        DefaultMQProducer producer = stage.producer();
        PushScenarios.send(producer, topic, "first", 20);
        DefaultLitePullConsumer one = stage.litePullConsumer(group);
        one.setAutoCommit(false);
        one.subscribe(topic, "*");
        one.start();
        poll(one, 20);
        one.commitSync();
        for (MessageQueue queue : one.fetchMessageQueues(topic)) {
            Stage.await("the commit of " + queue, () -> one.committed(queue) == 5);
        }
        one.shutdown();
        PushScenarios.send(producer, topic, "second", 8);
        DefaultLitePullConsumer two = stage.litePullConsumer(group);
        two.subscribe(topic, "tag");
        two.start();
        for (MessageExt message : poll(two, 8)) {
            Stage.check(Inbox.body(message).startsWith("second"), "again: " + Inbox.body(message));
        }
    }

    private static void seek(Stage stage) throws Exception {
        String topic = stage.topic(2);
        DefaultMQProducer producer = stage.producer();
        for (MessageQueue queue : producer.fetchPublishMessageQueues(topic)) {
            for (int i = 0; i < 10; i++) {
                producer.send(new Message(topic, ("body " + i).getBytes()), queue);
            }
        }
        stage.contents(topic, 20);
        DefaultLitePullConsumer consumer = stage.litePullConsumer(stage.name());
        consumer.setAutoCommit(false);
        consumer.start();
        List<MessageQueue> queues = Stage.sorted(consumer.fetchMessageQueues(topic));
        consumer.assign(queues);
        consumer.seek(queues.get(0), 7);
        consumer.seekToEnd(queues.get(1));
        List<MessageExt> found = poll(consumer, 3);
        Stage.equal("first after seek", 7L, found.get(0).getQueueOffset());
        consumer.seekToBegin(queues.get(1));
        found = poll(consumer, 10);
        Stage.equal("first after seek to the beginning", 0L, found.get(0).getQueueOffset());
        Stage.equal("queue", queues.get(1).getQueueId(), found.get(0).getQueueId());
        long middle = found.get(5).getStoreTimestamp();
        Long offset = consumer.offsetForTimestamp(queues.get(1), middle);
        Stage.check(offset >= 0 && offset <= 5, "offset for the time of message 5: " + offset);
    }
}
