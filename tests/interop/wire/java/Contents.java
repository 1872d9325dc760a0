import java.util.ArrayList;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.TreeSet;
import java.util.zip.CRC32;
import org.apache.rocketmq.client.consumer.DefaultMQPullConsumer;
import org.apache.rocketmq.client.exception.MQClientException;
import org.apache.rocketmq.common.message.MessageExt;
import org.apache.rocketmq.common.message.MessageQueue;
import org.apache.rocketmq.tools.admin.DefaultMQAdminExt;

/**
 * Prints what a broker serves, as one JSON line: each queue of each topic with all its messages, a query by key for
 * each topic, and the offsets of each consumer group.
 *
 *   java Contents namesrv=ADDR prefix=P      topics and groups whose names begin so (after %RETRY% or %DLQ%)
 */
public final class Contents {
    private static final int NO_SUCH_TOPIC = 17;

    private Contents() { }

    public static void main(String[] words) {
        try {
            run(words);
        } catch (Throwable failure) {
            failure.printStackTrace();
            // Threads of the client would keep this process alive.
            Runtime.getRuntime().halt(1);
        }
    }

    private static void run(String[] words) throws Exception {
        Map<String, String> arguments = new HashMap<>();
        for (String word : words) {
            int at = word.indexOf('=');
            arguments.put(word.substring(0, at), word.substring(at + 1));
        }
        String prefix = arguments.get("prefix");
        DefaultMQAdminExt admin = new DefaultMQAdminExt(Credentials.admin());
        admin.setNamesrvAddr(arguments.get("namesrv"));
        admin.start();
        DefaultMQPullConsumer consumer = new DefaultMQPullConsumer("contents", Credentials.client());
        consumer.setNamesrvAddr(arguments.get("namesrv"));
        consumer.setInstanceName("contents");
        consumer.start();
        Map<String, Object> topics = new TreeMap<>();
        Map<String, Object> groups = new TreeMap<>();
        for (String topic : new TreeSet<>(admin.fetchAllTopicList().getTopicList())) {
            if (!topic.replaceFirst("^%(RETRY|DLQ)%", "").startsWith(prefix)) {
                continue;
            }
            topics.put(topic, topic(admin, consumer, topic));
            for (String group : new TreeSet<>(admin.queryTopicConsumeByWho(topic).getGroupList())) {
                if (group.startsWith(prefix)) {
                    groups.put(group + " " + topic, offsets(admin, group, topic));
                }
            }
        }
        Map<String, Object> all = new LinkedHashMap<>();
        all.put("topics", topics);
        all.put("groups", groups);
        System.out.println(Json.text(all));
        System.out.flush();
        Runtime.getRuntime().halt(0);
    }

    private static Map<String, Object> topic(DefaultMQAdminExt admin, DefaultMQPullConsumer consumer, String topic) throws Exception {
        Map<String, Object> image = new LinkedHashMap<>();
        var route = admin.examineTopicRouteInfo(topic).getQueueDatas().get(0);
        image.put("readQueues", route.getReadQueueNums());
        image.put("perm", route.getPerm());
        MessageExt keyed = null;
        Map<String, Object> queues = new TreeMap<>();
        for (MessageQueue queue : Stage.sorted(consumer.fetchSubscribeMessageQueues(topic))) {
            List<Object> messages = new ArrayList<>();
            for (MessageExt message : Stage.contents(consumer, queue, consumer.minOffset(queue))) {
                messages.add(message(message));
                keyed = message.getKeys() == null || message.getKeys().isEmpty() ? keyed : message;
            }
            Map<String, Object> one = new LinkedHashMap<>();
            one.put("min", consumer.minOffset(queue));
            one.put("max", consumer.maxOffset(queue));
            one.put("messages", messages);
            queues.put(String.valueOf(queue.getQueueId()), one);
        }
        image.put("queues", queues);
        if (keyed != null) {
            String key = keyed.getKeys().split(" ")[0];
            long now = System.currentTimeMillis();
            TreeSet<String> found = new TreeSet<>();
            for (MessageExt message : admin.queryMessage(topic, key, 64, now - 86_400_000, now + 60_000).getMessageList()) {
                found.add(message.getQueueId() + "@" + message.getQueueOffset());
            }
            image.put("byKey " + key, found);
        }
        return image;
    }

    private static Object message(MessageExt message) {
        CRC32 crc = new CRC32();
        crc.update(message.getBody());
        Map<String, String> properties = new TreeMap<>(message.getProperties());
        // Put in by the client that reads, not by the broker.
        properties.keySet().removeAll(List.of("MIN_OFFSET", "MAX_OFFSET", "CONSUME_START_TIME", "POP_CK", "1ST_POP_TIME"));
        return List.of(message.getQueueOffset(), message.getCommitLogOffset(), message.getStoreSize(), crc.getValue(),
            message.getStoreTimestamp(), message.getBornTimestamp(), message.getReconsumeTimes(), message.getMsgId(),
            properties.toString());
    }

    private static Map<String, Long> offsets(DefaultMQAdminExt admin, String group, String topic) throws Exception {
        Map<String, Long> offsets = new TreeMap<>();
        try {
            admin.examineConsumeStats(group, topic).getOffsetTable().forEach((queue, state) -> {
                if (queue.getTopic().equals(topic)) {
                    offsets.put(String.valueOf(queue.getQueueId()), state.getConsumerOffset());
                }
            });
        } catch (MQClientException failure) {
            // The tool looks for a group by its retry topic; a group that only pulls has none.
            if (failure.getResponseCode() != NO_SUCH_TOPIC) {
                throw failure;
            }
        }
        return offsets;
    }
}
