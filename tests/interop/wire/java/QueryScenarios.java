import java.nio.charset.StandardCharsets;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;
import org.apache.rocketmq.client.QueryResult;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.client.exception.RequestTimeoutException;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.producer.RequestCallback;
import org.apache.rocketmq.client.producer.SendResult;
import org.apache.rocketmq.client.utils.MessageUtil;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageExt;
import org.apache.rocketmq.common.message.MessageQueue;

/** Looking messages and groups up, request and reply, tracing. */
final class QueryScenarios {
    private static final String TRACE_TOPIC = "RMQ_SYS_TRACE_TOPIC";

    private QueryScenarios() { }

    static void add(Map<String, Wire.Scenario> all) {
        all.put("trace", QueryScenarios::trace);
        all.put("query_messages", QueryScenarios::messages);
        all.put("request_reply", QueryScenarios::requestReply);
        all.put("reset_offset_of_running_group", QueryScenarios::reset);
        all.put("look_at_consumers", QueryScenarios::consumers);
    }

    private static void messages(Stage stage) throws Exception {
        String topic = stage.topic(2);
        DefaultMQProducer producer = stage.producer();
        SendResult third = null;
        for (int i = 0; i < 10; i++) {
            SendResult result = producer.send(new Message(topic, "tag", "key-" + i / 2 + " every", ("body " + i).getBytes()));
            third = i == 3 ? result : third;
        }
        long now = System.currentTimeMillis();
        Stage.await("ten messages under one key", () -> count(producer, topic, "every", now) == 10);
        QueryResult found = producer.queryMessage(topic, "key-1", 32, now - 600_000, now + 600_000);
        Stage.equal("messages under key-1", 2, found.getMessageList().size());
        for (MessageExt message : found.getMessageList()) {
            Stage.check(List.of("body 2", "body 3").contains(Inbox.body(message)), Inbox.body(message));
        }
        Stage.equal("under a key nobody used", 0, count(producer, topic, "absent", now));
        Stage.equal("before it was sent", 0, count(producer, topic, "every", now - 1_800_000));
        MessageExt byOffset = producer.viewMessage(topic, third.getOffsetMsgId());
        Stage.equal("by offset id", "body 3", Inbox.body(byOffset));
        MessageExt byUnique = producer.viewMessage(topic, third.getMsgId());
        Stage.equal("by unique id", "body 3", Inbox.body(byUnique));
        Stage.equal("queue offset", third.getQueueOffset(), byUnique.getQueueOffset());
    }

    private static int count(DefaultMQProducer producer, String topic, String key, long around) throws Exception {
        try {
            return producer.queryMessage(topic, key, 32, around - 600_000, around + 600_000).getMessageList().size();
        } catch (org.apache.rocketmq.client.exception.MQClientException none) {
            return 0;
        }
    }

    private static void requestReply(Stage stage) throws Exception {
        String topic = stage.topic(2);
        DefaultMQProducer answering = stage.producer();
        DefaultMQPushConsumer consumer = stage.consumer(stage.name());
        consumer.subscribe(topic, "*");
        consumer.registerMessageListener((MessageListenerConcurrently) (batch, context) -> {
            for (MessageExt message : batch) {
                if (Inbox.body(message).startsWith("silence")) {
                    continue;
                }
                try {
                    byte[] body = ("answer to " + Inbox.body(message)).getBytes(StandardCharsets.UTF_8);
                    answering.send(MessageUtil.createReplyMessage(message, body));
                } catch (Exception failure) {
                    failure.printStackTrace();
                    return ConsumeConcurrentlyStatus.RECONSUME_LATER;
                }
            }
            return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
        });
        Stage.start(consumer);
        Stage.await("the consumer to own its queues", () -> PushScenarios.queuesOf(consumer, topic).size() > 0);
        DefaultMQProducer asking = stage.producer();
        for (int i = 0; i < 3; i++) {
            Message reply = asking.request(new Message(topic, ("question " + i).getBytes()), 30_000);
            Stage.equal("reply", "answer to question " + i, new String(reply.getBody(), StandardCharsets.UTF_8));
        }
        Message reply = askLater(asking, topic, "question later").get(Stage.PATIENCE_S, TimeUnit.SECONDS);
        // The client reports success also without handing over the reply.
        stage.facts.put("reply_in_callback", reply != null);
        if (reply != null) {
            Stage.equal("reply", "answer to question later", new String(reply.getBody(), StandardCharsets.UTF_8));
        }
        Stage.refused("a question nobody answers", RequestTimeoutException.class,
            () -> asking.request(new Message(topic, "silence".getBytes()), 1_000));
    }

    private static CompletableFuture<Message> askLater(DefaultMQProducer asking, String topic, String text) throws Exception {
        CompletableFuture<Message> later = new CompletableFuture<>();
        asking.request(new Message(topic, text.getBytes()), new RequestCallback() {
            @Override
            public void onSuccess(Message message) {
                later.complete(message);
            }

            @Override
            public void onException(Throwable failure) {
                later.completeExceptionally(failure);
            }
        }, 30_000);
        return later;
    }

    private static void trace(Stage stage) throws Exception {
        String topic = stage.topic(1);
        DefaultMQProducer producer = stage.started(Compat.tracingProducer(stage.name()));
        DefaultMQPushConsumer consumer = stage.prepared(Compat.tracingConsumer(stage.name()));
        Inbox inbox = new Inbox();
        consumer.subscribe(topic, "*");
        consumer.registerMessageListener(inbox.listener());
        Stage.start(consumer);
        String id = producer.send(new Message(topic, "tag", "traced", "body".getBytes())).getMsgId();
        inbox.awaitSize(1);
        boolean[] seen = new boolean[2];
        Stage.await("a trace of sending and one of consuming", () -> {
            for (MessageExt message : traces(stage, id)) {
                String text = Inbox.body(message);
                seen[0] |= text.contains("Pub") && text.contains(topic);
                seen[1] |= text.contains("SubAfter");
            }
            // A consumer writes its trace only for messages that carry a region, which 4.9 brokers do not store.
            return seen[0] && (seen[1] || inbox.messages.get(0).getProperty("MSG_REGION") == null);
        });
        stage.facts.put("consume_trace", seen[1]);
    }

    private static List<MessageExt> traces(Stage stage, String id) throws Exception {
        long now = System.currentTimeMillis();
        try {
            return stage.admin.queryMessage(TRACE_TOPIC, id, 32, now - 600_000, now + 600_000).getMessageList();
        } catch (org.apache.rocketmq.client.exception.MQClientException none) {
            return List.of();
        }
    }

    private static void reset(Stage stage) throws Exception {
        String topic = stage.topic(2);
        String group = stage.name();
        List<String> bodies = PushScenarios.send(stage.producer(), topic, "body", 10);
        Inbox inbox = new Inbox();
        DefaultMQPushConsumer consumer = PushScenarios.started(stage, group, topic, "*", inbox);
        inbox.awaitBodies(bodies);
        PushScenarios.settle(stage, consumer, topic);
        long earlier = System.currentTimeMillis() - 3_600_000;
        Map<MessageQueue, Long> offsets = stage.admin.resetOffsetByTimestamp(topic, group, earlier, true);
        Stage.equal("queues reset", 2, offsets.size());
        offsets.forEach((queue, offset) -> Stage.equal("new offset of " + queue, 0L, offset));
        // Every message a second time.
        inbox.awaitSize(20);
        Stage.equal("distinct bodies", 10L, inbox.bodies().stream().distinct().count());
    }

    private static void consumers(Stage stage) throws Exception {
        String topic = stage.topic(2);
        String group = stage.name();
        List<String> bodies = PushScenarios.send(stage.producer(), topic, "body", 6);
        Inbox inbox = new Inbox();
        DefaultMQPushConsumer consumer = PushScenarios.started(stage, group, topic, "tag || other", inbox);
        inbox.awaitBodies(bodies);
        var connections = stage.admin.examineConsumerConnectionInfo(group);
        Stage.equal("connections", 1, connections.getConnectionSet().size());
        String client = connections.getConnectionSet().iterator().next().getClientId();
        Stage.check(client.contains(consumer.getInstanceName()), "client id " + client);
        Stage.equal("expression", "tag || other", connections.getSubscriptionTable().get(topic).getSubString());
        var running = stage.admin.getConsumerRunningInfo(group, client, false);
        Stage.equal("queues of the running consumer", 2L,
            running.getMqTable().keySet().stream().filter(queue -> queue.getTopic().equals(topic)).count());
        String id = inbox.messages.get(0).getMsgId();
        var consumed = stage.admin.consumeMessageDirectly(group, client, topic, id);
        Stage.equal("result of consuming directly", "CR_SUCCESS", consumed.getConsumeResult().name());
        inbox.awaitSize(7);
        PushScenarios.settle(stage, consumer, topic);
        Stage.equal("groups of the topic", List.of(group), List.copyOf(stage.admin.queryTopicConsumeByWho(topic).getGroupList()));
    }
}
