import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ConcurrentMap;
import org.apache.rocketmq.common.BoundaryType;
import org.apache.rocketmq.common.BrokerConfig;
import org.apache.rocketmq.common.TopicConfig;
import org.apache.rocketmq.common.message.MessageAccessor;
import org.apache.rocketmq.common.message.MessageExtBrokerInner;
import org.apache.rocketmq.remoting.protocol.RemotingSerializable;
import org.apache.rocketmq.remoting.protocol.body.TopicConfigSerializeWrapper;
import org.apache.rocketmq.store.DefaultMessageStore;
import org.apache.rocketmq.store.config.MessageStoreConfig;
import org.apache.rocketmq.store.queue.ConsumeQueueInterface;
import org.apache.rocketmq.store.queue.CqUnit;
import org.apache.rocketmq.store.queue.ReferredIterator;
import org.apache.rocketmq.store.stats.BrokerStatsManager;

/** What 5.x does its own way. */
final class Compat {
    private Compat() { }

    static DefaultMessageStore construct(MessageStoreConfig config, ConcurrentMap<String, TopicConfig> topics) throws Exception {
        return new DefaultMessageStore(config, new BrokerStatsManager("interop", false),
            (topic, queueId, offset, tagsCode, storeTime, bitMap, properties) -> { }, new BrokerConfig(), topics);
    }

    static ConcurrentMap<String, TopicConfig> topics(String json) {
        return RemotingSerializable.fromJson(json, TopicConfigSerializeWrapper.class).getTopicConfigTable();
    }

    static Map<String, Object> queue(DefaultMessageStore store, String topic, int queueId) {
        ConsumeQueueInterface queue = store.getConsumeQueueTable().get(topic).get(queueId);
        long min = queue.getMinOffsetInQueue();
        long max = queue.getMaxOffsetInQueue();
        List<long[]> units = new ArrayList<>();
        for (long at = min; at < max; ) {
            ReferredIterator<CqUnit> rest = queue.iterateFrom(at);
            if (rest == null || !rest.hasNext()) {
                break;
            }
            while (rest.hasNext()) {
                CqUnit unit = rest.next();
                long first = unit.getQueueOffset();
                units.add(unit.getBatchNum() == 1
                    ? new long[] {first, unit.getPos(), unit.getSize(), unit.getTagsCode()}
                    : new long[] {first, unit.getPos(), unit.getSize(), unit.getTagsCode(), unit.getBatchNum()});
                at = first + unit.getBatchNum();
            }
            rest.release();
        }
        Map<String, Object> image = new LinkedHashMap<>();
        image.put("min", min);
        image.put("max", max);
        image.put("maxPhysicOffset", queue.getMaxPhysicOffset());
        image.put("type", queue.getCQType().toString());
        image.put("units", units);
        return image;
    }

    static Long upperOffsetByTime(DefaultMessageStore store, String topic, int queueId, long timestamp) {
        return store.getOffsetInQueueByTime(topic, queueId, timestamp, BoundaryType.UPPER);
    }

    /** In 5.x the broker, not the store, moves a message with DELAY to the schedule topic: do as it does. */
    static void delay(MessageExtBrokerInner message, int level) {
        MessageAccessor.putProperty(message, "DELAY", String.valueOf(level));
        MessageAccessor.putProperty(message, "REAL_TOPIC", message.getTopic());
        MessageAccessor.putProperty(message, "REAL_QID", String.valueOf(message.getQueueId()));
        message.setTopic("SCHEDULE_TOPIC_XXXX");
        message.setQueueId(level - 1);
    }
}
