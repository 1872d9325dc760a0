import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.function.Function;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.ConsumeOrderlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.client.consumer.listener.MessageListenerOrderly;
import org.apache.rocketmq.common.message.MessageExt;

/** What a consumer was given, in the order of arrival. */
final class Inbox {
    final List<MessageExt> messages = Collections.synchronizedList(new ArrayList<>());
    final List<Long> arrivals = Collections.synchronizedList(new ArrayList<>());

    void add(MessageExt message) {
        synchronized (messages) {
            messages.add(message);
            arrivals.add(System.currentTimeMillis());
        }
    }

    MessageListenerConcurrently listener() {
        return (batch, context) -> {
            batch.forEach(this::add);
            return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
        };
    }

    MessageListenerOrderly orderlyListener() {
        return (batch, context) -> {
            batch.forEach(this::add);
            return ConsumeOrderlyStatus.SUCCESS;
        };
    }

    int size() {
        return messages.size();
    }

    void awaitSize(int count) throws Exception {
        try {
            Stage.await(count + " messages", () -> size() >= count);
        } catch (AssertionError error) {
            throw new AssertionError(error.getMessage() + "; there are " + size() + ": " + bodies());
        }
    }

    /** Exactly these bodies, in any order, none twice. */
    void awaitBodies(List<String> expected) throws Exception {
        awaitSize(expected.size());
        List<String> sorted = new ArrayList<>(expected);
        Collections.sort(sorted);
        Stage.equal("bodies received", sorted, bodies());
    }

    List<String> bodies() {
        List<String> bodies = new ArrayList<>();
        synchronized (messages) {
            messages.forEach(message -> bodies.add(body(message)));
        }
        Collections.sort(bodies);
        return bodies;
    }

    <K extends Comparable<K>> Map<K, List<MessageExt>> by(Function<MessageExt, K> property) {
        Map<K, List<MessageExt>> groups = new TreeMap<>();
        synchronized (messages) {
            for (MessageExt message : messages) {
                groups.computeIfAbsent(property.apply(message), key -> new ArrayList<>()).add(message);
            }
        }
        return groups;
    }

    static String body(MessageExt message) {
        return new String(message.getBody(), StandardCharsets.UTF_8);
    }
}
