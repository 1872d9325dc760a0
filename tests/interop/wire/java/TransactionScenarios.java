import java.util.List;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.atomic.AtomicInteger;
import org.apache.rocketmq.client.producer.LocalTransactionState;
import org.apache.rocketmq.client.producer.SendStatus;
import org.apache.rocketmq.client.producer.TransactionListener;
import org.apache.rocketmq.client.producer.TransactionMQProducer;
import org.apache.rocketmq.client.producer.TransactionSendResult;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageExt;

/** Transactions: decided at once, or left open until the broker asks. */
final class TransactionScenarios {
    private TransactionScenarios() { }

    static void add(Map<String, Wire.Scenario> all) {
        all.put("transaction_checked", TransactionScenarios::checked);
        all.put("transaction_decided", TransactionScenarios::decided);
    }

    private static TransactionMQProducer producer(Stage stage, TransactionListener listener) throws Exception {
        TransactionMQProducer producer = stage.transactionProducer();
        producer.setTransactionListener(listener);
        stage.started(producer);
        return producer;
    }

    private static void decided(Stage stage) throws Exception {
        String topic = stage.topic(2);
        Inbox inbox = new Inbox();
        PushScenarios.started(stage, stage.name(), topic, "*", inbox);
        TransactionMQProducer producer = producer(stage, new TransactionListener() {
            @Override
            public LocalTransactionState executeLocalTransaction(Message message, Object argument) {
                return (LocalTransactionState) argument;
            }

            @Override
            public LocalTransactionState checkLocalTransaction(MessageExt message) {
                return LocalTransactionState.UNKNOW;
            }
        });
        for (int i = 0; i < 5; i++) {
            Message bad = new Message(topic, "tag", "rolled-" + i, ("rolled back " + i).getBytes());
            TransactionSendResult result = producer.sendMessageInTransaction(bad, LocalTransactionState.ROLLBACK_MESSAGE);
            Stage.equal("status", SendStatus.SEND_OK, result.getSendStatus());
            Message good = new Message(topic, "tag", "committed-" + i, ("committed " + i).getBytes());
            result = producer.sendMessageInTransaction(good, LocalTransactionState.COMMIT_MESSAGE);
            Stage.equal("state", LocalTransactionState.COMMIT_MESSAGE, result.getLocalTransactionState());
        }
        inbox.awaitBodies(List.of("committed 0", "committed 1", "committed 2", "committed 3", "committed 4"));
        for (MessageExt message : stage.contents(topic, 5)) {
            Stage.check(message.getPreparedTransactionOffset() > 0, "no offset of the prepared message");
            Stage.equal("transaction bits", 8, message.getSysFlag() & 12);
        }
    }

    private static void checked(Stage stage) throws Exception {
        String topic = stage.topic(2);
        Inbox inbox = new Inbox();
        PushScenarios.started(stage, stage.name(), topic, "*", inbox);
        Map<String, AtomicInteger> checks = new ConcurrentHashMap<>();
        TransactionMQProducer producer = producer(stage, new TransactionListener() {
            @Override
            public LocalTransactionState executeLocalTransaction(Message message, Object argument) {
                return LocalTransactionState.UNKNOW;
            }

            @Override
            public LocalTransactionState checkLocalTransaction(MessageExt message) {
                int asked = checks.computeIfAbsent(message.getKeys(), key -> new AtomicInteger()).incrementAndGet();
                if (message.getKeys().equals("no")) {
                    return LocalTransactionState.ROLLBACK_MESSAGE;
                }
                return message.getKeys().equals("twice") && asked < 2
                    ? LocalTransactionState.UNKNOW : LocalTransactionState.COMMIT_MESSAGE;
            }
        });
        for (String key : List.of("no", "yes", "twice")) {
            Message message = new Message(topic, "tag", key, ("body " + key).getBytes());
            message.putUserProperty("mine", key);
            producer.sendMessageInTransaction(message, null);
        }
        inbox.awaitBodies(List.of("body twice", "body yes"));
        for (MessageExt message : inbox.messages) {
            Stage.equal("topic", topic, message.getTopic());
            Stage.equal("property", message.getKeys(), message.getUserProperty("mine"));
        }
        checks.forEach((key, count) -> stage.facts.put("checks_" + key, count.get()));
        Stage.await("a check of the rolled back message", () -> checks.containsKey("no"));
    }
}
