import java.io.File;
import java.io.PrintStream;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.security.MessageDigest;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import org.apache.rocketmq.common.message.MessageConst;
import org.apache.rocketmq.common.message.MessageDecoder;
import org.apache.rocketmq.common.message.MessageExt;
import org.apache.rocketmq.store.DefaultMessageStore;
import org.apache.rocketmq.store.GetMessageResult;
import org.apache.rocketmq.store.QueryMessageResult;
import org.apache.rocketmq.store.SelectMappedBufferResult;
import org.apache.rocketmq.store.StoreCheckpoint;

/**
 * Opens a store directory with RocketMQ's own store and writes what it reads there as one JSON object, in the form of
 * the golden manifests.
 *
 * <pre>
 *   dir=ROOT            the store; opened for real, so recovery changes it: give it a copy
 *   out=FILE            where the JSON goes
 *   start=true          after load(), start() too: takes the lock, dispatches what recovery left (default false)
 *   stop=true           after reading, shutdown() (default false: the JVM just ends, as after a crash)
 *   requests=FILE       what to ask, one request a line, fields separated by tabs:
 *                         key   topic  key    max    begin  end
 *                         get   topic  queue  offset count
 *                         time  topic  queue  timestamp
 *   any store option    mappedFileSizeCommitLog=131072 ...
 * </pre>
 */
public final class StoreReader {
    private static final int MAGIC_BLANK = 0xCBD43194;
    private static final int SHORT_TEXT = 96; // bodies up to this length are printed when they are plain text

    private final DefaultMessageStore store;
    private final Map<String, Object> image = new LinkedHashMap<>();

    private StoreReader(DefaultMessageStore store) {
        this.store = store;
    }

    public static void main(String[] args) {
        int code = 0;
        try {
            run(new StoreAccess(args));
        } catch (Throwable failure) {
            failure.printStackTrace();
            code = 1;
        }
        System.err.flush();
        Runtime.getRuntime().halt(code); // the store's threads would keep the JVM alive
    }

    private static void run(StoreAccess access) throws Exception {
        DefaultMessageStore store = access.construct("out", "start", "stop", "requests");
        StoreReader reader = new StoreReader(store);
        Map<String, Object> image = reader.image;
        image.put("readBy", "Apache RocketMQ " + StoreAccess.version());
        image.put("unknownOptions", access.unknown);
        image.put("abortFilePresent", new File(access.get("dir", null), "abort").exists());
        boolean loaded = store.load();
        image.put("loadResult", loaded);
        if (loaded && access.get("start", false)) {
            image.put("startFailure", reader.start());
        } else {
            StoreAccess.allowReads(store);
        }
        if (loaded && image.get("startFailure") == null) {
            reader.readLog();
            reader.readQueues();
            if (access.get("requests", null) != null) {
                reader.answer(Path.of(access.get("requests", null)));
            }
            if (access.get("stop", false)) {
                store.shutdown();
            }
        }
        write(Path.of(access.get("out", null)), image);
    }

    /** null, or why the store refused to start. */
    private String start() throws Exception {
        try {
            store.start();
        } catch (RuntimeException refused) {
            return String.valueOf(refused.getMessage());
        }
        StoreAccess.waitForDispatch(store);
        return null;
    }

    private void readLog() throws Exception {
        long min = store.getMinPhyOffset();
        long max = store.getMaxPhyOffset();
        Map<String, Object> range = new LinkedHashMap<>();
        range.put("minPhyOffset", min);
        range.put("maxPhyOffset", max);
        image.put("commitLog", range);
        image.put("checkpoint", checkpoint(store.getStoreCheckpoint()));
        List<Object> messages = new ArrayList<>();
        List<Object> blanks = new ArrayList<>();
        for (long at = min; at >= 0 && at < max; ) {
            SelectMappedBufferResult rest = store.getCommitLogData(at);
            if (rest == null) {
                break;
            }
            ByteBuffer data = rest.getByteBuffer();
            long begin = at;
            while (data.remaining() >= 8) {
                int position = data.position();
                int size = data.getInt(position);
                int magic = data.getInt(position + 4);
                if (size <= 0 || size > data.remaining()) {
                    break;
                }
                if (magic == MAGIC_BLANK) {
                    Map<String, Object> blank = new LinkedHashMap<>();
                    blank.put("physicalOffset", at);
                    blank.put("size", size);
                    blanks.add(blank);
                } else {
                    ByteBuffer record = data.slice();
                    record.limit(size);
                    messages.add(message(record, magic));
                }
                data.position(position + size);
                at += size;
            }
            rest.release();
            if (at == begin) {
                break; // not a record: the count of messages tells the reader of this output
            }
        }
        image.put("messageCount", messages.size());
        image.put("messages", messages);
        image.put("blanks", blanks);
    }

    private static Map<String, Object> checkpoint(StoreCheckpoint checkpoint) throws Exception {
        Map<String, Object> fields = new LinkedHashMap<>();
        for (String name : List.of("physicMsgTimestamp", "logicsMsgTimestamp", "indexMsgTimestamp", "masterFlushedOffset",
                "confirmPhyOffset", "minTimestamp", "logicsPhysicalOffset")) {
            try {
                String getter = "get" + Character.toUpperCase(name.charAt(0)) + name.substring(1);
                fields.put(name, StoreCheckpoint.class.getMethod(getter).invoke(checkpoint));
            } catch (NoSuchMethodException absentInThisRelease) {
                continue;
            }
        }
        return fields;
    }

    private static Map<String, Object> message(ByteBuffer record, int magic) throws Exception {
        MessageExt message = MessageDecoder.decode(record.duplicate(), true, false);
        Map<String, Object> fields = new LinkedHashMap<>();
        fields.put("physicalOffset", message.getCommitLogOffset());
        fields.put("size", message.getStoreSize());
        fields.put("magic", String.format("%08x", magic));
        fields.put("topic", message.getTopic());
        fields.put("queueId", message.getQueueId());
        fields.put("queueOffset", message.getQueueOffset());
        fields.put("sysFlag", message.getSysFlag());
        fields.put("flag", message.getFlag());
        fields.put("bornTimestamp", message.getBornTimestamp());
        fields.put("bornHost", host(message.getBornHost()));
        fields.put("storeTimestamp", message.getStoreTimestamp());
        fields.put("storeHost", host(message.getStoreHost()));
        fields.put("reconsumeTimes", message.getReconsumeTimes());
        fields.put("preparedTransactionOffset", message.getPreparedTransactionOffset());
        fields.put("bodyCRC", message.getBodyCRC());
        byte[] body = message.getBody() == null ? new byte[0] : message.getBody();
        fields.put("bodyLength", body.length);
        fields.put("bodySha256", sha256(body));
        boolean compressed = (message.getSysFlag() & 1) != 0;
        if (compressed) {
            byte[] inflated = MessageDecoder.decode(record.duplicate(), true, true).getBody();
            fields.put("inflatedLength", inflated.length);
            fields.put("inflatedSha256", sha256(inflated));
        } else if (body.length <= SHORT_TEXT && isText(body)) {
            fields.put("body", new String(body, StandardCharsets.UTF_8));
        }
        fields.put("tags", message.getTags());
        fields.put("keys", message.getProperty(MessageConst.PROPERTY_KEYS));
        fields.put("properties", message.getProperties() == null ? Map.of() : new TreeMap<>(message.getProperties()));
        fields.put("msgId", MessageDecoder.createMessageId(message.getStoreHost(), message.getCommitLogOffset()));
        return fields;
    }

    private static String host(java.net.SocketAddress address) {
        java.net.InetSocketAddress host = (java.net.InetSocketAddress) address;
        String text = host.getAddress().getHostAddress();
        return (text.indexOf(':') < 0 ? text : "[" + text + "]") + ":" + host.getPort();
    }

    private static boolean isText(byte[] body) {
        return Arrays.equals(new String(body, StandardCharsets.UTF_8).getBytes(StandardCharsets.UTF_8), body);
    }

    private static String sha256(byte[] data) throws Exception {
        StringBuilder hex = new StringBuilder(64);
        for (byte b : MessageDigest.getInstance("SHA-256").digest(data)) {
            hex.append(Character.forDigit(b >> 4 & 15, 16)).append(Character.forDigit(b & 15, 16));
        }
        return hex.toString();
    }

    private void readQueues() {
        Map<String, Object> queues = new LinkedHashMap<>();
        TreeMap<String, Map<Integer, ?>> topics = new TreeMap<>(store.getConsumeQueueTable());
        for (Map.Entry<String, Map<Integer, ?>> topic : topics.entrySet()) {
            for (Integer queueId : new TreeMap<>(topic.getValue()).keySet()) {
                queues.put(topic.getKey() + "@" + queueId, Compat.queue(store, topic.getKey(), queueId));
            }
        }
        image.put("queues", queues);
    }

    private void answer(Path requests) throws Exception {
        Map<String, List<Object>> times = new LinkedHashMap<>();
        Map<String, List<Object>> reads = new LinkedHashMap<>();
        List<Object> queries = new ArrayList<>();
        for (String line : Files.readAllLines(requests)) {
            String[] field = line.split("\t", -1);
            String queue = field[1] + "@" + field[2];
            if (field[0].equals("key")) {
                queries.add(query(field));
            } else if (field[0].equals("get")) {
                reads.computeIfAbsent(queue, name -> new ArrayList<>()).add(get(field));
            } else if (field[0].equals("time")) {
                times.computeIfAbsent(queue, name -> new ArrayList<>()).add(offsetByTime(field));
            } else {
                throw new IllegalArgumentException("unknown request: " + line);
            }
        }
        image.put("offsetsByTime", times);
        image.put("getMessage", reads);
        image.put("indexQueries", queries);
    }

    private Object offsetByTime(String[] field) {
        long timestamp = Long.parseLong(field[3]);
        int queueId = Integer.parseInt(field[2]);
        Map<String, Object> answer = new LinkedHashMap<>();
        answer.put("ts", timestamp);
        answer.put("lower", store.getOffsetInQueueByTime(field[1], queueId, timestamp));
        Long upper = Compat.upperOffsetByTime(store, field[1], queueId, timestamp);
        if (upper != null) {
            answer.put("upper", upper);
        }
        return answer;
    }

    private Object get(String[] field) {
        long offset = Long.parseLong(field[3]);
        int queueId = Integer.parseInt(field[2]);
        GetMessageResult result = store.getMessage("interop", field[1], queueId, offset, Integer.parseInt(field[4]), null);
        Map<String, Object> answer = new LinkedHashMap<>();
        answer.put("offset", offset);
        answer.put("status", result.getStatus());
        answer.put("nextBeginOffset", result.getNextBeginOffset());
        answer.put("minOffset", result.getMinOffset());
        answer.put("maxOffset", result.getMaxOffset());
        answer.put("messageCount", result.getMessageCount());
        answer.put("bytes", result.getBufferTotalSize());
        result.release();
        return answer;
    }

    private Object query(String[] field) {
        int max = Integer.parseInt(field[3]);
        long begin = Long.parseLong(field[4]);
        long end = Long.parseLong(field[5]);
        QueryMessageResult result = store.queryMessage(field[1], field[2], max, begin, end);
        List<Object> offsets = new ArrayList<>();
        for (ByteBuffer record : result.getMessageBufferList()) {
            offsets.add(record.getLong(28)); // PHYSICALOFFSET of the record
        }
        Map<String, Object> answer = new LinkedHashMap<>();
        answer.put("topic", field[1]);
        answer.put("key", field[2]);
        answer.put("maxNum", max);
        answer.put("begin", begin);
        answer.put("end", end);
        answer.put("physicalOffsets", offsets);
        answer.put("indexLastUpdateTimestamp", result.getIndexLastUpdateTimestamp());
        answer.put("indexLastUpdatePhyoffset", result.getIndexLastUpdatePhyoffset());
        result.release();
        return answer;
    }

    private static void write(Path path, Map<String, Object> image) throws Exception {
        try (PrintStream out = new PrintStream(Files.newOutputStream(path), false, "US-ASCII")) {
            String separator = "{\n";
            for (Map.Entry<String, Object> entry : image.entrySet()) {
                out.print(separator + Json.text(entry.getKey()) + ":" + Json.text(entry.getValue()));
                separator = ",\n";
            }
            out.print("\n}\n");
        }
    }
}
