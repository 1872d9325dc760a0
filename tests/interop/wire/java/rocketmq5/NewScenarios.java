import java.util.ArrayList;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.client.exception.MQBrokerException;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.producer.SendResult;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageExt;
import org.apache.rocketmq.common.message.MessageRequestMode;

/** What only 5.x clients can do: consume by POP, messages for a given time, recall. POP codes need JSON headers. */
final class NewScenarios {
    private NewScenarios() { }

    static void add(Map<String, Wire.Scenario> all) {
        all.put("pop", NewScenarios::pop);
        all.put("pop_two_instances", NewScenarios::popTwoInstances);
        all.put("timer", NewScenarios::timer);
        all.put("recall", NewScenarios::recall);
    }

    /** Tells every broker that this group of this topic is served by POP, then makes a consumer that lets it. */
    private static DefaultMQPushConsumer popConsumer(Stage stage, String topic, String group) throws Exception {
        for (var broker : stage.admin.examineBrokerClusterInfo().getBrokerAddrTable().values()) {
            stage.admin.setMessageRequestMode(broker.selectBrokerAddr(), topic, group, MessageRequestMode.POP, 8, 5_000);
        }
        DefaultMQPushConsumer consumer = stage.consumer(group);
        consumer.setClientRebalance(false);
        consumer.subscribe(topic, "*");
        return consumer;
    }

    private static void pop(Stage stage) throws Exception {
        String topic = stage.topic(4);
        Inbox inbox = new Inbox();
        DefaultMQPushConsumer consumer = popConsumer(stage, topic, stage.name());
        consumer.registerMessageListener((MessageListenerConcurrently) (batch, context) -> {
            batch.forEach(inbox::add);
            MessageExt message = batch.get(0);
            // Refused once: comes again by way of the pop retry topic, after at least ten seconds.
            return Inbox.body(message).equals("body 7") && message.getReconsumeTimes() == 0
                ? ConsumeConcurrentlyStatus.RECONSUME_LATER : ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
        });
        Stage.start(consumer);
        List<String> bodies = PushScenarios.send(stage.producer(), topic, "body", 20);
        bodies.add("body 7");
        inbox.awaitBodies(bodies);
        List<MessageExt> tries = inbox.by(Inbox::body).get("body 7");
        Stage.equal("tries of the refused message", List.of(0, 1),
            List.of(tries.get(0).getReconsumeTimes(), tries.get(1).getReconsumeTimes()));
        Stage.equal("topic of the second try", topic, tries.get(1).getTopic());
        Stage.equal("unique id of the second try", tries.get(0).getMsgId(), tries.get(1).getMsgId());
        Stage.check(tries.get(0).getProperty("POP_CK") != null, "no receipt: not consumed by POP");
    }

    private static void popTwoInstances(Stage stage) throws Exception {
        String topic = stage.topic(2);
        String group = stage.name();
        Inbox inbox = new Inbox();
        Set<String> takers = ConcurrentHashMap.newKeySet();
        for (int i = 0; i < 2; i++) {
            String name = "consumer " + i;
            DefaultMQPushConsumer consumer = popConsumer(stage, topic, group);
            consumer.registerMessageListener((MessageListenerConcurrently) (batch, context) -> {
                batch.forEach(inbox::add);
                takers.add(name);
                return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
            });
            Stage.start(consumer);
        }
        DefaultMQProducer producer = stage.producer();
        List<String> bodies = new ArrayList<>();
        // Both take from every queue: with enough messages each of them gets some.
        Stage.await("both consumers to be given messages", () -> {
            bodies.addAll(PushScenarios.send(producer, topic, "round " + bodies.size(), 10));
            return takers.size() == 2;
        });
        inbox.awaitSize(bodies.size());
        Stage.equal("distinct bodies", new HashSet<>(bodies), new HashSet<>(inbox.bodies()));
        stage.facts.put("messages", bodies.size());
    }

    private static void timer(Stage stage) throws Exception {
        String topic = stage.topic(2);
        Inbox inbox = new Inbox();
        PushScenarios.started(stage, stage.name(), topic, "*", inbox);
        DefaultMQProducer producer = stage.producer();
        Map<String, Long> due = new HashMap<>();
        for (String kind : List.of("seconds", "milliseconds", "time", "past")) {
            Message message = new Message(topic, "timer", kind, kind.getBytes());
            long now = System.currentTimeMillis();
            if (kind.equals("seconds")) {
                message.setDelayTimeSec(3);
                due.put(kind, now + 3_000);
            } else if (kind.equals("milliseconds")) {
                message.setDelayTimeMs(2_000);
                due.put(kind, now + 2_000);
            } else if (kind.equals("time")) {
                message.setDeliverTimeMs(now + 5_000);
                due.put(kind, now + 5_000);
            } else {
                message.setDeliverTimeMs(now - 5_000);
                due.put(kind, now - 5_000);
            }
            producer.send(message);
        }
        inbox.awaitBodies(List.of("milliseconds", "past", "seconds", "time"));
        // The wheel turns once a second: a message may be due up to one turn before the time asked for is reached.
        for (int i = 0; i < inbox.size(); i++) {
            MessageExt message = inbox.messages.get(i);
            long late = inbox.arrivals.get(i) - due.get(message.getKeys());
            stage.facts.put(message.getKeys() + "_late_ms", late);
            Stage.check(late >= -1_000, message.getKeys() + " came " + -late + " ms early");
            Stage.equal("topic", topic, message.getTopic());
        }
        Message tooFar = new Message(topic, "too far".getBytes());
        tooFar.setDelayTimeSec(4 * 24 * 3600);
        MQBrokerException refusal = Stage.refused("four days ahead", MQBrokerException.class, () -> producer.send(tooFar));
        Stage.equal("code", 13, refusal.getResponseCode());
    }

    private static void recall(Stage stage) throws Exception {
        String topic = stage.topic(1);
        Inbox inbox = new Inbox();
        PushScenarios.started(stage, stage.name(), topic, "*", inbox);
        DefaultMQProducer producer = stage.producer();
        SendResult[] sent = new SendResult[3];
        for (int i = 0; i < 3; i++) {
            Message message = new Message(topic, ("body " + i).getBytes());
            message.setDelayTimeMs(8_000 + 1_000 * i);
            sent[i] = producer.send(message);
            Stage.check(sent[i].getRecallHandle() != null, "no handle to recall the message with");
        }
        String recalled = producer.recallMessage(topic, sent[1].getRecallHandle());
        Stage.equal("id of the recalled message", sent[1].getMsgId(), recalled);
        inbox.awaitBodies(List.of("body 0", "body 2"));
        stage.contents(topic, 2);
    }
}
