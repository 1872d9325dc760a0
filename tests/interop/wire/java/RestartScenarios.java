import java.util.ArrayList;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.producer.SendStatus;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageExt;

/** What clients notice of a broker that goes away and comes back: run one after the other, with nothing beside them. */
final class RestartScenarios {
    private RestartScenarios() { }

    static void add(Map<String, Wire.Scenario> all) {
        all.put("broker_restarted", RestartScenarios::restarted);
        all.put("broker_killed", RestartScenarios::killed);
    }

    private static List<String> sendPatiently(DefaultMQProducer producer, String topic, String word, int count) throws Exception {
        List<String> bodies = new ArrayList<>();
        for (int i = 0; i < count; i++) {
            String body = word + " " + i;
            Stage.await("broker to take " + body, () -> {
                try {
                    return producer.send(new Message(topic, body.getBytes())).getSendStatus() == SendStatus.SEND_OK;
                } catch (Exception notYet) {
                    return false;
                }
            });
            bodies.add(body);
        }
        return bodies;
    }

    /** Clients live through a restart; groups go on where they were. */
    private static void restarted(Stage stage) throws Exception {
        String topic = stage.topic(4);
        String group = stage.name();
        DefaultMQProducer producer = stage.producer();
        Message delayed = new Message(topic, "delayed over the restart".getBytes());
        delayed.setDelayTimeLevel(3);
        Inbox inbox = new Inbox();
        DefaultMQPushConsumer consumer = PushScenarios.started(stage, group, topic, "*", inbox);
        List<String> bodies = PushScenarios.send(producer, topic, "before", 20);
        inbox.awaitBodies(bodies);
        PushScenarios.settle(stage, consumer, topic);
        producer.send(delayed);
        bodies.add("delayed over the restart");
        Wire.ask("restart");
        bodies.addAll(sendPatiently(producer, topic, "after", 20));
        Stage.await("all messages", () -> new HashSet<>(inbox.bodies()).containsAll(bodies));
        Stage.equal("messages received", bodies.size(), inbox.size());
        PushScenarios.settle(stage, consumer, topic);
        consumer.shutdown();
        List<String> more = sendPatiently(producer, topic, "more", 4);
        Inbox next = new Inbox();
        PushScenarios.started(stage, group, topic, "*", next);
        next.awaitBodies(more);
    }

    /** Everything acknowledged before a SIGKILL is there afterwards, at the same places. */
    private static void killed(Stage stage) throws Exception {
        String topic = stage.topic(4);
        DefaultMQProducer producer = stage.producer();
        Set<String> acknowledged = new HashSet<>();
        for (int i = 0; i < 300; i++) {
            var result = producer.send(new Message(topic, "tag", "key-" + i, ("body " + i).getBytes()));
            acknowledged.add(result.getMessageQueue().getQueueId() + "@" + result.getQueueOffset() + " body " + i);
        }
        Wire.ask("kill");
        sendPatiently(producer, topic, "after", 1);
        Set<String> found = new HashSet<>();
        for (MessageExt message : stage.contents(topic, 301)) {
            found.add(message.getQueueId() + "@" + message.getQueueOffset() + " " + Inbox.body(message));
        }
        acknowledged.removeAll(found);
        Stage.equal("acknowledged, but not found", Set.of(), acknowledged);
    }
}
