import java.io.BufferedReader;
import java.io.ByteArrayOutputStream;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.zip.DeflaterOutputStream;
import org.apache.rocketmq.common.message.*; // MessageExtBrokerInner lives here in 5.x
import org.apache.rocketmq.store.*; //          and here in 4.9

/**
 * Appends a fixed variety of messages with RocketMQ's own store and notes what the store acknowledged.
 *
 * <pre>
 *   dir=ROOT            the store: created, or continued if it exists
 *   acks=FILE           one JSON line for each acknowledged put, appended at once
 *   first=0 count=300   messages are made from their number: first, first + 1, ...
 *   longTopic=true      some messages to a topic of more than 127 bytes (5.x only)
 *   end=clean           shutdown() after the last one (default)
 *   end=hold            print READY after the last one; a line on standard input means shutdown()
 *   end=never           keep on putting until killed
 * </pre>
 */
public final class StoreWriter {
    private static final int COMPRESSED = 0x1;
    private static final int ZLIB = 0x300; // the type bits of newer producers; older ones leave them 0
    private static final int PREPARED = 0x4;
    private static final int COMMIT = 0x8;

    private final DefaultMessageStore store;
    private final PrintStream acks;
    private final boolean longTopic;
    private final InetSocketAddress host = new InetSocketAddress(InetAddress.getByName("127.0.0.1"), 10911);
    private final InetSocketAddress hostV6 = new InetSocketAddress(InetAddress.getByName("fd00::2"), 10911);

    private StoreWriter(DefaultMessageStore store, PrintStream acks, boolean longTopic) throws Exception {
        this.store = store;
        this.acks = acks;
        this.longTopic = longTopic;
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
        Runtime.getRuntime().halt(code);
    }

    private static void run(StoreAccess access) throws Exception {
        DefaultMessageStore store = access.construct("acks", "first", "count", "longTopic", "end");
        if (!store.load()) {
            throw new IllegalStateException("load() refused the store");
        }
        store.start();
        Path path = Path.of(access.get("acks", null));
        PrintStream acks = new PrintStream(
            Files.newOutputStream(path, StandardOpenOption.CREATE, StandardOpenOption.APPEND), true, "US-ASCII");
        StoreWriter writer = new StoreWriter(store, acks, access.get("longTopic", false));
        String end = access.get("end", "clean");
        long first = access.get("first", 0);
        long last = end.equals("never") ? Long.MAX_VALUE : first + access.get("count", 300);
        for (long number = first; number < last; number++) {
            writer.put((int) number);
        }
        StoreAccess.waitForDispatch(store);
        if (end.equals("hold")) {
            System.out.println("READY");
            System.out.flush();
            if (new BufferedReader(new InputStreamReader(System.in)).readLine() == null) {
                return; // whoever started this is gone
            }
        }
        store.shutdown();
    }

    private void put(int number) throws Exception {
        if (number % 13 == 12) {
            MessageExtBatch batch = batch(number);
            acknowledge(number, batch.getTopic(), batch.getQueueId(), store.putMessages(batch));
        } else {
            MessageExtBrokerInner message = single(number);
            PutMessageResult result = store.putMessage(message);
            acknowledge(number, message.getTopic(), message.getQueueId(), result);
        }
    }

    private void acknowledge(int number, String topic, int queueId, PutMessageResult result) {
        if (result.getPutMessageStatus() != PutMessageStatus.PUT_OK) {
            throw new IllegalStateException("message " + number + ": " + result.getPutMessageStatus());
        }
        AppendMessageResult appended = result.getAppendMessageResult();
        Map<String, Object> line = new LinkedHashMap<>();
        line.put("number", number);
        line.put("topic", topic);
        line.put("queueId", queueId);
        line.put("queueOffset", appended.getLogicsOffset());
        line.put("physicalOffset", appended.getWroteOffset());
        line.put("size", appended.getWroteBytes());
        line.put("storeTimestamp", appended.getStoreTimestamp());
        line.put("count", appended.getMsgNum());
        line.put("msgId", appended.getMsgId());
        acks.println(Json.text(line));
    }

    private MessageExtBrokerInner single(int number) throws Exception {
        MessageExtBrokerInner message = new MessageExtBrokerInner();
        message.setTopic(number % 3 == 2 ? "InteropB" : "InteropA");
        message.setQueueId(number % (number % 3 == 2 ? 2 : 4));
        message.setFlag(number);
        message.setBornTimestamp(1_700_000_000_000L + number);
        message.setBornHost(number % 17 == 5 ? hostV6 : host);
        message.setStoreHost(number % 34 == 5 ? hostV6 : host);
        message.setReconsumeTimes(number % 5);
        message.setBody(text(number, number % 29 == 7 ? 6000 : 20 + number * 37 % 300).getBytes(StandardCharsets.UTF_8));
        MessageAccessor.putProperty(message, "UNIQ_KEY", String.format("%032X", number));
        if (number % 4 != 0) {
            message.setTags(new String[] {"TagA", "TagB", "订单"}[number % 3]);
        }
        if (number % 5 != 0) {
            message.setKeys("key-" + number + " shared-" + number % 7 + " 钥匙");
        }
        message.putUserProperty("note", "\uD83D\uDE00 value=" + number);
        if (number % 23 == 11) {
            message.setBody(deflate(message.getBody()));
            message.setSysFlag(number % 2 == 0 ? COMPRESSED : COMPRESSED | ZLIB);
        }
        if (number % 31 == 19) {
            message.setSysFlag(message.getSysFlag() | PREPARED);
        } else if (number % 31 == 20) {
            message.setSysFlag(message.getSysFlag() | COMMIT);
            message.setPreparedTransactionOffset(number);
        } else if (number % 19 == 9) {
            Compat.delay(message, 17 + number % 2);
        } else if (longTopic && number % 11 == 3) {
            // Past 127 bytes the store itself takes the record version with a two-byte topic length.
            message.setTopic("%RETRY%" + "interop-group-".repeat(10) + "_InteropA");
            message.setQueueId(0);
        }
        message.setPropertiesString(MessageDecoder.messageProperties2String(message.getProperties()));
        return message;
    }

    private MessageExtBatch batch(int number) throws Exception {
        List<Message> messages = new ArrayList<>();
        for (int i = 0; i < 2 + number % 4; i++) {
            byte[] body = text(number + i, 40).getBytes(StandardCharsets.UTF_8);
            Message message = new Message("InteropA", "TagC", "batch-" + number + "-" + i, body);
            MessageAccessor.putProperty(message, "UNIQ_KEY", String.format("%024X%08X", number, i + 1));
            messages.add(message);
        }
        MessageExtBatch batch = new MessageExtBatch();
        batch.setTopic("InteropA");
        batch.setQueueId(number % 4);
        batch.setBody(MessageDecoder.encodeMessages(messages));
        batch.setBornTimestamp(1_700_000_000_000L + number);
        batch.setBornHost(host);
        batch.setStoreHost(host);
        return batch;
    }

    private static String text(int number, int length) {
        StringBuilder text = new StringBuilder("message " + number + " 消息 ");
        while (text.length() < length) {
            text.append((char) ('a' + (text.length() * 7 + number) % 26));
        }
        return text.toString();
    }

    private static byte[] deflate(byte[] body) throws Exception {
        ByteArrayOutputStream packed = new ByteArrayOutputStream();
        try (DeflaterOutputStream out = new DeflaterOutputStream(packed)) {
            out.write(body);
        }
        return packed.toByteArray();
    }
}
