import java.time.Duration;
import java.util.List;
import java.util.ArrayList;
import java.util.Collections;
import java.util.Map;
import java.util.stream.Collectors;
import org.apache.rocketmq.client.apis.consumer.FilterExpression;
import org.apache.rocketmq.client.apis.consumer.FilterExpressionType;
import org.apache.rocketmq.client.apis.consumer.SimpleConsumer;
import org.apache.rocketmq.client.apis.message.MessageBuilder;
import org.apache.rocketmq.client.apis.message.MessageView;
import org.apache.rocketmq.client.apis.producer.Producer;
import org.apache.rocketmq.client.apis.producer.SendReceipt;

/** What consumers do. */
final class GrpcConsuming {
    private static final int RELAYED = 3;

    private GrpcConsuming() { }

    static void add(Map<String, GrpcWire.Scenario> all) {
        all.put("renewal", GrpcConsuming::renewal);
        all.put("push", GrpcConsuming::push);
        all.put("tags", GrpcConsuming::tags);
        all.put("sql", GrpcConsuming::sql);
        all.put("fifo", GrpcConsuming::fifo);
        all.put("retry", GrpcConsuming::retry);
        all.put("dead_letters", GrpcConsuming::deadLetters);
        all.put("fifo_dead_letters", GrpcConsuming::fifoDeadLetters);
        all.put("change_invisible", GrpcConsuming::changeInvisible);
        all.put("two_consumers", GrpcConsuming::twoConsumers);
        all.put("relay", GrpcConsuming::relay);
    }

    private static void push(GrpcStage stage) throws Exception {
        GrpcInbox inbox = new GrpcInbox();
        stage.push(inbox);
        Producer producer = stage.producer();
        List<String> expected = new ArrayList<>();
        for (int i = 0; i < 50; i++) {
            expected.add("m" + i);
            producer.send(stage.message("m" + i).setTag("T").build());
        }
        inbox.awaitSize(50);
        Collections.sort(expected);
        GrpcStage.equal("bodies", expected, inbox.sorted());
    }

    /** Whatever one of them leaves unanswered, the other gets. */
    private static void twoConsumers(GrpcStage stage) throws Exception {
        GrpcInbox first = new GrpcInbox();
        GrpcInbox second = new GrpcInbox();
        stage.push(first);
        stage.push(second);
        Producer producer = stage.producer();
        List<String> expected = new ArrayList<>();
        for (int i = 0; i < 200; i++) {
            expected.add("m" + i);
            producer.send(stage.message("m" + i).build());
        }
        GrpcStage.await("all messages", () -> first.messages.size() + second.messages.size() >= 200);
        List<String> got = first.bodies();
        got.addAll(second.bodies());
        Collections.sort(got);
        Collections.sort(expected);
        GrpcStage.equal("bodies", expected, got);
    }

    private static void tags(GrpcStage stage) throws Exception {
        Producer producer = stage.producer();
        for (String tag : "A B C A B".split(" ")) {
            producer.send(stage.message(tag).setTag(tag).build());
        }
        GrpcInbox inbox = new GrpcInbox();
        stage.push(inbox, new FilterExpression("A || C", FilterExpressionType.TAG));
        inbox.awaitSize(3);
        Thread.sleep(1000);
        GrpcStage.equal("bodies", List.of("A", "A", "C"), inbox.sorted());
    }

    private static void sql(GrpcStage stage) throws Exception {
        Producer producer = stage.producer();
        for (int i = 0; i < 10; i++) {
            producer.send(stage.message("m" + i).setTag("T").addProperty("size", String.valueOf(i)).build());
        }
        GrpcInbox inbox = new GrpcInbox();
        stage.push(inbox, new FilterExpression("size >= 7 AND TAGS = 'T'", FilterExpressionType.SQL92));
        inbox.awaitSize(3);
        Thread.sleep(1000);
        GrpcStage.equal("bodies", List.of("m7", "m8", "m9"), inbox.sorted());
    }

    private static void fifo(GrpcStage stage) throws Exception {
        Producer producer = stage.producer();
        for (int i = 0; i < 10; i++) {
            for (String group : List.of("red", "green")) {
                producer.send(stage.message(group + "-" + i).setMessageGroup(group).build());
            }
        }
        GrpcInbox inbox = new GrpcInbox();
        stage.push(inbox);
        inbox.awaitSize(20);
        for (String group : List.of("red", "green")) {
            List<String> expected = new ArrayList<>();
            for (int i = 0; i < 10; i++) {
                expected.add(group + "-" + i);
            }
            GrpcStage.equal("messages of a group", expected,
                inbox.bodies().stream().filter(body -> body.startsWith(group)).collect(Collectors.toList()));
        }
    }

    private static void retry(GrpcStage stage) throws Exception {
        GrpcInbox inbox = new GrpcInbox(message -> message.getDeliveryAttempt() > 1);
        stage.push(inbox);
        stage.producer().send(stage.message("again").setTag("A").setKeys("k").build());
        inbox.awaitSize(2);
        MessageView first = inbox.messages.get(0);
        MessageView second = inbox.messages.get(1);
        GrpcStage.equal("attempts", List.of(1, 2), List.of(first.getDeliveryAttempt(), second.getDeliveryAttempt()));
        GrpcStage.equal("id", first.getMessageId().toString(), second.getMessageId().toString());
        GrpcStage.equal("topic", stage.topic, second.getTopic());
        GrpcStage.equal("tag", "A", second.getTag().orElse(null));
    }

    /** The group gives a message up after its second attempt. */
    private static void deadLetters(GrpcStage stage) throws Exception {
        GrpcInbox inbox = new GrpcInbox(message -> false);
        stage.push(inbox);
        SendReceipt receipt = stage.producer().send(stage.message("bad").setTag("A").build());
        inbox.awaitSize(2);
        MessageView letter = GrpcStage.receive(stage.deadLetters(), 1).get(0);
        GrpcStage.equal("body", "bad", GrpcStage.body(letter));
        GrpcStage.equal("id", receipt.getMessageId().toString(), letter.getMessageId().toString());
        GrpcStage.equal("attempts", 2, inbox.messages.size());
    }

    /** The client itself gives it up, and goes on with what comes behind it. */
    private static void fifoDeadLetters(GrpcStage stage) throws Exception {
        GrpcInbox inbox = new GrpcInbox(message -> !GrpcStage.body(message).equals("bad"));
        stage.push(inbox);
        Producer producer = stage.producer();
        SendReceipt receipt = producer.send(stage.message("bad").setMessageGroup("one").build());
        producer.send(stage.message("good").setMessageGroup("one").build());
        GrpcStage.await("the message behind it", () -> inbox.bodies().contains("good"));
        MessageView letter = GrpcStage.receive(stage.deadLetters(), 1).get(0);
        GrpcStage.equal("id", receipt.getMessageId().toString(), letter.getMessageId().toString());
    }

    private static void changeInvisible(GrpcStage stage) throws Exception {
        stage.producer().send(stage.message("twice").build());
        SimpleConsumer consumer = stage.simple();
        MessageView got = GrpcStage.receive(consumer, 1).get(0);
        consumer.changeInvisibleDuration(got, Duration.ofSeconds(3));
        MessageView again = GrpcStage.receive(consumer, 1).get(0);
        GrpcStage.equal("id", got.getMessageId().toString(), again.getMessageId().toString());
        GrpcStage.equal("attempt", 2, again.getDeliveryAttempt());
        consumer.changeInvisibleDuration(again, Duration.ofSeconds(10));
        consumer.ack(again);
        GrpcStage.equal("rest", 0, consumer.receive(1, Duration.ofSeconds(30)).size());
        GrpcStage.equal("rest", 0, consumer.receive(1, Duration.ofSeconds(30)).size());
    }

    /** What somebody else has sent to the topic goes to another one as it was received. */
    private static void relay(GrpcStage stage) throws Exception {
        GrpcInbox inbox = new GrpcInbox();
        stage.push(inbox);
        inbox.awaitSize(RELAYED);
        Producer producer = stage.producer();
        for (MessageView got : inbox.messages) {
            MessageBuilder message = stage.message(GrpcStage.bytes(got.getBody())).setTopic(stage.topic + "-back");
            got.getTag().ifPresent(message::setTag);
            message.setKeys(got.getKeys().toArray(new String[0]));
            got.getProperties().forEach(message::addProperty);
            message.addProperty("attempt", String.valueOf(got.getDeliveryAttempt()));
            message.addProperty("id", got.getMessageId().toString());
            producer.send(message.build());
        }
    }

    /** A listener that works longer than a message stays hidden. */
    private static void renewal(GrpcStage stage) throws Exception {
        GrpcInbox inbox = new GrpcInbox(message -> {
            try {
                Thread.sleep(10_000);
            } catch (InterruptedException interrupted) {
                return false;
            }
            return true;
        });
        stage.push(inbox);
        stage.producer().send(stage.message("slow").build());
        inbox.awaitSize(1);
        Thread.sleep(15_000);
        GrpcStage.equal("bodies", List.of("slow"), inbox.bodies());
    }
}
