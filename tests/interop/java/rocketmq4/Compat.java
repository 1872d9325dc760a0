import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ConcurrentMap;
import org.apache.rocketmq.common.BrokerConfig;
import org.apache.rocketmq.common.TopicConfig;
import org.apache.rocketmq.common.protocol.body.TopicConfigSerializeWrapper;
import org.apache.rocketmq.remoting.protocol.RemotingSerializable;
import org.apache.rocketmq.store.ConsumeQueue;
import org.apache.rocketmq.store.ConsumeQueueExt;
import org.apache.rocketmq.store.DefaultMessageStore;
import org.apache.rocketmq.store.MessageExtBrokerInner;
import org.apache.rocketmq.store.SelectMappedBufferResult;
import org.apache.rocketmq.store.config.MessageStoreConfig;
import org.apache.rocketmq.store.stats.BrokerStatsManager;

/** What 4.9 does its own way. */
final class Compat {
    private Compat() { }

    static DefaultMessageStore construct(MessageStoreConfig config, ConcurrentMap<String, TopicConfig> topics) throws Exception {
        return new DefaultMessageStore(config, new BrokerStatsManager("interop", false),
            (topic, queueId, offset, tagsCode, storeTime, bitMap, properties) -> { }, new BrokerConfig());
    }

    static ConcurrentMap<String, TopicConfig> topics(String json) {
        return RemotingSerializable.fromJson(json, TopicConfigSerializeWrapper.class).getTopicConfigTable();
    }

    static Map<String, Object> queue(DefaultMessageStore store, String topic, int queueId) {
        ConsumeQueue queue = store.getConsumeQueueTable().get(topic).get(queueId);
        long min = queue.getMinOffsetInQueue();
        long max = queue.getMaxOffsetInQueue();
        List<long[]> units = new ArrayList<>();
        for (long at = min; at < max; ) {
            SelectMappedBufferResult rest = queue.getIndexBuffer(at);
            if (rest == null) {
                break;
            }
            for (ByteBuffer unit = rest.getByteBuffer(); unit.remaining() >= 20; at++) {
                long physicalOffset = unit.getLong();
                int size = unit.getInt();
                long tagsCode = unit.getLong();
                ConsumeQueueExt.CqExtUnit ext = new ConsumeQueueExt.CqExtUnit();
                if (queue.isExtAddr(tagsCode) && queue.getExt(tagsCode, ext)) {
                    tagsCode = ext.getTagsCode();
                }
                units.add(new long[] {at, physicalOffset, size, tagsCode});
            }
            rest.release();
        }
        Map<String, Object> image = new LinkedHashMap<>();
        image.put("min", min);
        image.put("max", max);
        image.put("maxPhysicOffset", queue.getMaxPhysicOffset());
        image.put("type", "SimpleCQ");
        image.put("units", units);
        return image;
    }

    /** 4.9 knows one answer only. */
    static Long upperOffsetByTime(DefaultMessageStore store, String topic, int queueId, long timestamp) {
        return null;
    }

    /** In 4.9 the store itself moves a message with DELAY to the schedule topic. */
    static void delay(MessageExtBrokerInner message, int level) {
        message.setDelayTimeLevel(level);
    }
}
