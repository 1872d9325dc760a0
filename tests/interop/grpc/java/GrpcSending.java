import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;
import org.apache.rocketmq.client.apis.ClientException;
import org.apache.rocketmq.client.apis.consumer.SimpleConsumer;
import org.apache.rocketmq.client.apis.message.MessageView;
import org.apache.rocketmq.client.apis.producer.Producer;
import org.apache.rocketmq.client.apis.producer.SendReceipt;
import org.apache.rocketmq.client.apis.producer.Transaction;
import org.apache.rocketmq.client.apis.producer.TransactionResolution;

/** What producers do. */
final class GrpcSending {
    private GrpcSending() { }

    static void add(Map<String, GrpcWire.Scenario> all) {
        all.put("transaction", GrpcSending::transaction);
        all.put("recall", GrpcSending::recall);
        all.put("delay", GrpcSending::delay);
        all.put("send", GrpcSending::send);
        all.put("send_many", GrpcSending::sendMany);
        all.put("send_large", GrpcSending::sendLarge);
        all.put("unknown_topic", GrpcSending::unknownTopic);
        all.put("refused", GrpcSending::refused);
    }

    private static void send(GrpcStage stage) throws Exception {
        Producer producer = stage.producer();
        SendReceipt receipt = producer.send(
            stage.message("hello").setTag("A").setKeys("k1", "k2").addProperty("colour", "red").build());
        SimpleConsumer consumer = stage.simple();
        MessageView got = GrpcStage.receive(consumer, 1).get(0);
        GrpcStage.equal("body", "hello", GrpcStage.body(got));
        GrpcStage.equal("topic", stage.topic, got.getTopic());
        GrpcStage.equal("tag", "A", got.getTag().orElse(null));
        GrpcStage.equal("keys", Set.of("k1", "k2"), new HashSet<>(got.getKeys()));
        GrpcStage.equal("property", "red", got.getProperties().get("colour"));
        GrpcStage.equal("id", receipt.getMessageId().toString(), got.getMessageId().toString());
        GrpcStage.equal("attempt", 1, got.getDeliveryAttempt());
        GrpcStage.check("born host " + got.getBornHost(), !got.getBornHost().isEmpty());
        consumer.ack(got);
        GrpcStage.equal("rest", 0, consumer.receive(1, java.time.Duration.ofSeconds(30)).size());
    }

    private static void sendMany(GrpcStage stage) throws Exception {
        Producer producer = stage.producer();
        List<String> expected = new ArrayList<>();
        List<CompletableFuture<SendReceipt>> sends = new ArrayList<>();
        for (int i = 0; i < 300; i++) {
            expected.add("m" + i);
            sends.add(producer.sendAsync(stage.message("m" + i).build()));
        }
        Set<String> identities = new HashSet<>();
        for (CompletableFuture<SendReceipt> one : sends) {
            identities.add(one.get(GrpcStage.PATIENCE_S, TimeUnit.SECONDS).getMessageId().toString());
        }
        GrpcStage.equal("ids", 300, identities.size());
        GrpcInbox inbox = new GrpcInbox();
        stage.push(inbox);
        inbox.awaitSize(300);
        Thread.sleep(1000);
        Collections.sort(expected);
        GrpcStage.equal("bodies", expected, inbox.sorted());
    }

    private static void sendLarge(GrpcStage stage) throws Exception {
        byte[] body = new byte[4 << 20];
        for (int i = 0; i < body.length; i++) {
            body[i] = (byte) (i * 31 + (i >> 8));
        }
        stage.producer().send(stage.message(body).build());
        MessageView got = GrpcStage.receive(stage.simple(), 1).get(0);
        ByteBuffer buffer = got.getBody();
        GrpcStage.check("the body is another one", Arrays.equals(body, GrpcStage.bytes(buffer)));
    }

    private static void delay(GrpcStage stage) throws Exception {
        GrpcInbox inbox = new GrpcInbox();
        stage.push(inbox);
        long due = System.currentTimeMillis() + 3000;
        SendReceipt receipt = stage.producer().send(stage.message("later").setDeliveryTimestamp(due).build());
        GrpcStage.check("no recall handle", receipt.getRecallHandle() != null && !receipt.getRecallHandle().isEmpty());
        inbox.awaitSize(1);
        GrpcStage.check("it came " + (due - inbox.arrivals.get(0)) + " ms early", inbox.arrivals.get(0) >= due);
        GrpcStage.equal("due", due, inbox.messages.get(0).getDeliveryTimestamp().orElse(0L));
    }

    private static void recall(GrpcStage stage) throws Exception {
        GrpcInbox inbox = new GrpcInbox();
        stage.push(inbox);
        Producer producer = stage.producer();
        long due = System.currentTimeMillis() + 8000;
        SendReceipt never = producer.send(stage.message("never").setDeliveryTimestamp(due).build());
        producer.send(stage.message("later").setDeliveryTimestamp(due).build());
        String id = producer.recallMessage(stage.topic, never.getRecallHandle()).getMessageId().toString();
        GrpcStage.equal("id of what was recalled", never.getMessageId().toString(), id);
        inbox.awaitSize(1);
        Thread.sleep(2000);
        GrpcStage.equal("bodies", List.of("later"), inbox.bodies());
    }

    private static void transaction(GrpcStage stage) throws Exception {
        List<String> asked = Collections.synchronizedList(new ArrayList<>());
        Producer producer = stage.producer(message -> {
            String body = GrpcStage.body(message);
            asked.add(body);
            return body.equals("check") ? TransactionResolution.COMMIT : TransactionResolution.ROLLBACK;
        });
        GrpcInbox inbox = new GrpcInbox();
        stage.push(inbox);
        for (String body : List.of("commit", "rollback", "check", "drop")) {
            Transaction opened = producer.beginTransaction();
            producer.send(stage.message(body).build(), opened);
            if (body.equals("commit")) {
                opened.commit();
            } else if (body.equals("rollback")) {
                opened.rollback();
            }
        }
        inbox.awaitSize(2);
        GrpcStage.await("question for the last one", () -> asked.contains("drop"));
        GrpcStage.equal("bodies", List.of("check", "commit"), inbox.sorted());
        // The original may also ask about one whose end it has not seen yet.
        GrpcStage.check("asked for " + asked, asked.contains("check"));
    }

    private static void unknownTopic(GrpcStage stage) throws Exception {
        Producer producer = stage.producer();
        producer.send(stage.message("kept").build());
        try {
            producer.send(stage.message("lost").setTopic(stage.topic + "-none").build());
        } catch (ClientException expected) {
            GrpcStage.check(expected.toString(), expected.toString().contains("40402"));
            return;
        }
        throw new AssertionError("a topic that does not exist took a message");
    }

    private static void refused(GrpcStage stage) throws Exception {
        Producer producer = stage.producer();
        try {
            producer.send(stage.message("wrong").setMessageGroup("g").build());
        } catch (Exception expected) {
            GrpcStage.check(expected.toString(), expected.toString().contains("type"));
            return;
        }
        throw new AssertionError("a topic took a message of another type");
    }
}
