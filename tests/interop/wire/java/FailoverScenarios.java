import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.atomic.AtomicReference;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.client.producer.DefaultMQProducer;

/** What consumers do when the master of their queues is gone for good and a slave is left. */
final class FailoverScenarios {
    private static final int KEPT = 4;

    private FailoverScenarios() { }

    static void add(Map<String, Wire.Scenario> all) {
        all.put("master_lost", FailoverScenarios::masterLost);
    }

    /** A running consumer reads what it has not read yet from the slave. */
    private static void masterLost(Stage stage) throws Exception {
        String topic = stage.topic(4);
        DefaultMQProducer producer = stage.producer();
        Inbox inbox = new Inbox();
        AtomicReference<CountDownLatch> gate = new AtomicReference<>(new CountDownLatch(0));
        DefaultMQPushConsumer consumer = stage.consumer(stage.name());
        consumer.subscribe(topic, "*");
        // Few messages are kept by the client: what comes after the end of the master came from the slave.
        consumer.setPullThresholdForQueue(KEPT);
        consumer.setPullBatchSize(KEPT);
        consumer.setPollNameServerInterval(1000);
        consumer.registerMessageListener((MessageListenerConcurrently) (batch, context) -> {
            try {
                gate.get().await();
            } catch (InterruptedException interrupted) {
                return ConsumeConcurrentlyStatus.RECONSUME_LATER;
            }
            batch.forEach(inbox::add);
            return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
        });
        Stage.start(consumer);
        List<String> bodies = PushScenarios.send(producer, topic, "before", 20);
        inbox.awaitBodies(bodies);
        CountDownLatch closed = new CountDownLatch(1);
        gate.set(closed);
        bodies.addAll(PushScenarios.send(producer, topic, "rest", 200));
        Wire.ask("lose_master");
        closed.countDown();
        Stage.await("the rest from the slave", () -> new HashSet<>(inbox.bodies()).containsAll(bodies));
        stage.facts.put("received", inbox.size());
    }
}
