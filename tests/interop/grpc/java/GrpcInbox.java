import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.function.Predicate;
import java.util.stream.Collectors;
import org.apache.rocketmq.client.apis.consumer.ConsumeResult;
import org.apache.rocketmq.client.apis.message.MessageView;

/** What a consumer was given, in the order of arrival; {@code decide} says how it ended for each message. */
final class GrpcInbox {
    final List<MessageView> messages = Collections.synchronizedList(new ArrayList<>());
    final List<Long> arrivals = Collections.synchronizedList(new ArrayList<>());
    private final Predicate<MessageView> decide;

    GrpcInbox(Predicate<MessageView> decide) {
        this.decide = decide;
    }

    GrpcInbox() {
        this(message -> true);
    }

    ConsumeResult take(MessageView message) {
        synchronized (messages) {
            arrivals.add(System.currentTimeMillis());
            messages.add(message);
        }
        return decide.test(message) ? ConsumeResult.SUCCESS : ConsumeResult.FAILURE;
    }

    void awaitSize(int count) throws Exception {
        try {
            GrpcStage.await(count + " messages", () -> messages.size() >= count);
        } catch (AssertionError error) {
            throw new AssertionError(error.getMessage() + "; there are " + bodies());
        }
    }

    List<String> bodies() {
        synchronized (messages) {
            return messages.stream().map(GrpcStage::body).collect(Collectors.toList());
        }
    }

    List<String> sorted() {
        List<String> bodies = bodies();
        Collections.sort(bodies);
        return bodies;
    }
}
