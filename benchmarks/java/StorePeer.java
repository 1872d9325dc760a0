import com.sun.management.OperatingSystemMXBean;
import java.io.IOException;
import java.lang.management.ManagementFactory;
import java.net.InetSocketAddress;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Random;
import java.util.concurrent.atomic.AtomicLong;
import org.apache.rocketmq.common.message.*; // MessageExtBrokerInner lives here in 5.x
import org.apache.rocketmq.store.*; //          and here in 4.9

/**
 * Drives RocketMQ's own DefaultMessageStore in this process, without a network, for comparison with ours.
 *
 * <p>The messages are those of our benchmarks: topic BenchTopic, 8 queues in turn, one UNIQ_KEY property of 32 hex
 * digits. Nothing is measured before two seconds of the same work have warmed the JIT. One JSON line for each step.
 *
 * <pre>
 *   dir=ROOT mode=put     seconds=5 threads=1 size=1024 batch=0 (warm=2)
 *   dir=ROOT mode=scan    bytes=... size=1024 touch=copy,decode seconds=3     fills the store first
 *   dir=ROOT mode=query   messages=... size=100 queries=20000                 fills the store first
 *   dir=ROOT mode=fill    bytes=... size=1024 end=hold|clean                  hold: prints READY and waits to be killed
 *   dir=ROOT mode=open    label=...                                           load() + start() until all is dispatched
 *   any store option      flushDiskType=SYNC_FLUSH mappedFileSizeCommitLog=...
 * </pre>
 *
 * <p>{@code msg_s} counts the whole loop, building of messages included; {@code msg_s_calls} counts only the time inside
 * the store's methods, the most a caller with free messages could see.
 */
public final class StorePeer {
    private static final String TOPIC = "BenchTopic";
    private static final int QUEUES = 8;
    private static final InetSocketAddress HOST = new InetSocketAddress("127.0.0.1", 10911);
    private static final String[] OWN = {
        "mode", "seconds", "warm", "threads", "size", "batch", "bytes", "messages", "touch", "queries", "end", "label"};

    private final StoreAccess access;
    private final DefaultMessageStore store;
    private final byte[] body;
    private final int batch;
    private final AtomicLong next = new AtomicLong();

    private StorePeer(StoreAccess access) throws Exception {
        this.access = access;
        this.store = access.construct(OWN);
        if (!access.unknown.isEmpty()) {
            throw new IllegalArgumentException("unknown arguments: " + access.unknown);
        }
        this.batch = (int) access.get("batch", 0);
        this.body = new byte[(int) access.get("size", 1024)];
        Random random = new Random(7);
        for (int i = 0; i < body.length; i++) {
            body[i] = (byte) (' ' + random.nextInt(95));
        }
    }

    public static void main(String[] args) {
        int code = 0;
        try {
            StoreAccess access = new StoreAccess(args);
            Processor processor = new Processor();
            long begin = System.nanoTime();
            new StorePeer(access).run(access.get("mode", "put"), begin, processor);
        } catch (Throwable failure) {
            failure.printStackTrace();
            code = 1;
        }
        System.out.flush();
        System.err.flush();
        Runtime.getRuntime().halt(code);
    }

    private void run(String mode, long begin, Processor processor) throws Exception {
        long constructed = System.nanoTime();
        if (!store.load()) {
            throw new IllegalStateException("load() refused the store");
        }
        long loaded = System.nanoTime();
        store.start();
        long started = System.nanoTime();
        StoreAccess.waitForDispatch(store);
        long ready = System.nanoTime();
        switch (mode) {
            case "put":
                put();
                break;
            case "scan":
                fill();
                for (String touch : access.get("touch", "copy,decode").split(",")) {
                    scan(touch);
                }
                break;
            case "query":
                query(fill());
                break;
            case "fill":
                print("fill", fill());
                if (access.get("end", "hold").equals("hold")) {
                    System.out.println("READY");
                    System.out.flush();
                    Thread.sleep(Long.MAX_VALUE);
                }
                long stopping = System.nanoTime();
                store.shutdown();
                print("shutdown", row("seconds", seconds(stopping, System.nanoTime())));
                break;
            case "open":
                long messages = 0;
                for (int queue = 0; queue < QUEUES; queue++) {
                    messages += store.getMaxOffsetInQueue(TOPIC, queue) - store.getMinOffsetInQueue(TOPIC, queue);
                }
                Map<String, Object> row = row("label", access.get("label", ""), "construct_s", seconds(begin, constructed),
                    "load_s", seconds(constructed, loaded), "start_s", seconds(loaded, started),
                    "dispatch_s", seconds(started, ready), "total_s", seconds(begin, ready),
                    "log_bytes", store.getMaxPhyOffset() - store.getMinPhyOffset(), "messages", messages);
                processor.describe(row);
                print("open", row);
                break;
            default:
                throw new IllegalArgumentException("unknown mode " + mode);
        }
    }

    // ---- put ------------------------------------------------------------------------------------------------------

    private void put() throws Exception {
        int threads = (int) access.get("threads", 1);
        putFor(threads, access.get("warm", 2), Long.MAX_VALUE, Long.MAX_VALUE);
        StoreAccess.waitForDispatch(store);
        new ProcessBuilder("sync").start().waitFor(); // nobody is slowed down by what is still to be written
        Map<String, Object> row = putFor(threads, access.get("seconds", 5), access.get("bytes", Long.MAX_VALUE), Long.MAX_VALUE);
        print("put", row);
    }

    private Map<String, Object> fill() throws Exception {
        long bytes = access.get("bytes", Long.MAX_VALUE);
        long messages = access.get("messages", Long.MAX_VALUE);
        return putFor((int) access.get("threads", 1), 3600, bytes, messages);
    }

    /** Puts until the time is up or enough is stored, then waits until queues and index have it. */
    private Map<String, Object> putFor(int threads, long seconds, long bytes, long messages) throws Exception {
        long logBegin = store.getMaxPhyOffset();
        long numberBegin = next.get();
        Processor processor = new Processor();
        long begin = System.nanoTime();
        long deadline = begin + seconds * 1_000_000_000L;
        long numberEnd = messages == Long.MAX_VALUE ? messages : numberBegin + messages;
        Histogram[] histograms = new Histogram[threads];
        Throwable[] failures = new Throwable[threads];
        AtomicLong stored = new AtomicLong();
        Thread[] workers = new Thread[threads];
        for (int i = 0; i < threads; i++) {
            int worker = i;
            histograms[worker] = new Histogram();
            workers[worker] = new Thread(() -> {
                try {
                    stored.addAndGet(putLoop(histograms[worker], deadline, logBegin, bytes, numberEnd));
                } catch (Throwable failure) {
                    failures[worker] = failure;
                }
            });
        }
        for (Thread worker : workers) {
            worker.start();
        }
        for (Thread worker : workers) {
            worker.join();
        }
        long end = System.nanoTime();
        for (Throwable failure : failures) {
            if (failure != null) {
                throw new IllegalStateException("a putting thread failed", failure);
            }
        }
        long behind = store.dispatchBehindBytes();
        StoreAccess.waitForDispatch(store);
        long dispatched = System.nanoTime();
        Histogram calls = histograms[0];
        for (int i = 1; i < threads; i++) {
            calls.add(histograms[i]);
        }
        double elapsed = seconds(begin, end);
        long logBytes = store.getMaxPhyOffset() - logBegin;
        Map<String, Object> row = row("flush", access.get("flushDiskType", "ASYNC_FLUSH"), "threads", threads,
            "size", body.length, "batch", batch, "messages", stored.get(), "seconds", elapsed,
            "msg_s", Math.round(stored.get() / elapsed),
            "msg_s_calls", Math.round(stored.get() / (calls.sum / 1e9 / threads)),
            "MB_s", round(logBytes / 1e6 / elapsed));
        calls.describe(row);
        row.put("behind_bytes", behind);
        row.put("dispatch_s", seconds(end, dispatched));
        row.put("msg_s_dispatched", Math.round(stored.get() / seconds(begin, dispatched)));
        processor.describe(row);
        return row;
    }

    private long putLoop(Histogram calls, long deadline, long logBegin, long bytes, long numberEnd) {
        int step = Math.max(1, batch);
        long stored = 0;
        for (long turn = 0; ; turn++) {
            long number = next.getAndAdd(step);
            if (number + step > numberEnd || (turn & 255) == 0 && store.getMaxPhyOffset() - logBegin >= bytes) {
                return stored;
            }
            PutMessageResult result;
            long begin;
            long end;
            if (batch > 0) {
                MessageExtBatch message = batchOf(number);
                begin = System.nanoTime();
                result = store.putMessages(message);
                end = System.nanoTime();
            } else {
                MessageExtBrokerInner message = single(number);
                begin = System.nanoTime();
                result = store.putMessage(message);
                end = System.nanoTime();
            }
            if (result.getPutMessageStatus() != PutMessageStatus.PUT_OK) {
                throw new IllegalStateException("put answered " + result.getPutMessageStatus());
            }
            calls.add(end - begin);
            stored += step;
            if (end > deadline) {
                return stored;
            }
        }
    }

    private MessageExtBrokerInner single(long number) {
        String key = key(number);
        MessageExtBrokerInner message = new MessageExtBrokerInner();
        message.setTopic(TOPIC);
        message.setQueueId((int) (number % QUEUES));
        message.setBody(body);
        message.setBornTimestamp(System.currentTimeMillis());
        message.setBornHost(HOST);
        message.setStoreHost(HOST);
        // As a broker does it: the text it received and the map parsed from it.
        Map<String, String> properties = new HashMap<>(4);
        properties.put("UNIQ_KEY", key);
        MessageAccessor.setProperties(message, properties);
        message.setPropertiesString("UNIQ_KEY\u0001" + key + "\u0002");
        return message;
    }

    private MessageExtBatch batchOf(long number) {
        List<Message> messages = new ArrayList<>(batch);
        for (int i = 0; i < batch; i++) {
            Message message = new Message(TOPIC, body);
            MessageAccessor.putProperty(message, "UNIQ_KEY", key(number + i));
            messages.add(message);
        }
        MessageExtBatch envelope = new MessageExtBatch();
        envelope.setTopic(TOPIC);
        envelope.setQueueId((int) (number / batch % QUEUES));
        envelope.setBody(MessageDecoder.encodeMessages(messages));
        envelope.setBornTimestamp(System.currentTimeMillis());
        envelope.setBornHost(HOST);
        envelope.setStoreHost(HOST);
        return envelope;
    }

    /** 32 hex digits: a fixed start as of one producer, then the number. */
    private static String key(long number) {
        byte[] digits = "7F0000010A2B3C4D5E6F000000000000".getBytes(StandardCharsets.ISO_8859_1);
        for (int at = 31; number != 0; at--, number >>>= 4) {
            digits[at] = (byte) "0123456789ABCDEF".charAt((int) (number & 15));
        }
        return new String(digits, StandardCharsets.ISO_8859_1);
    }

    // ---- read -----------------------------------------------------------------------------------------------------

    /** Reads queue 0 from its start, again and again, 32 messages a call. */
    private void scan(String touch) throws Exception {
        scanFor(touch, access.get("warm", 2));
        print("scan", scanFor(touch, access.get("seconds", 3)));
    }

    private Map<String, Object> scanFor(String touch, long seconds) throws Exception {
        byte[] copy = new byte[body.length + 65_536];
        Histogram calls = new Histogram();
        long messages = 0;
        long bytes = 0;
        Processor processor = new Processor();
        long begin = System.nanoTime();
        long deadline = begin + seconds * 1_000_000_000L;
        long last = store.getMaxOffsetInQueue(TOPIC, 0);
        for (long offset = last; System.nanoTime() < deadline; ) {
            offset = offset >= last ? store.getMinOffsetInQueue(TOPIC, 0) : offset;
            long callBegin = System.nanoTime();
            GetMessageResult result = store.getMessage("bench", TOPIC, 0, offset, 32, null);
            for (ByteBuffer record : result.getMessageBufferList()) {
                if (touch.equals("decode")) {
                    MessageDecoder.decode(record, true, false);
                } else {
                    record.get(copy, 0, record.remaining());
                }
            }
            messages += result.getMessageCount();
            bytes += result.getBufferTotalSize();
            offset = result.getNextBeginOffset();
            result.release();
            calls.add(System.nanoTime() - callBegin);
        }
        double elapsed = seconds(begin, System.nanoTime());
        Map<String, Object> row = row("touch", touch, "size", body.length, "in_queue", last, "messages", messages,
            "seconds", elapsed, "msg_s", Math.round(messages / elapsed), "MB_s", round(bytes / 1e6 / elapsed),
            "per_call", round(messages / (double) calls.count));
        calls.describe(row);
        processor.describe(row);
        return row;
    }

    private void query(Map<String, Object> filled) {
        // At the end of the fill each thread took one step of numbers more than it stored.
        long keys = (Long) filled.get("messages") - access.get("threads", 1) * Math.max(1, batch);
        Random random = new Random(11);
        long warmEnd = System.nanoTime() + access.get("warm", 2) * 1_000_000_000L;
        while (System.nanoTime() < warmEnd) {
            find((long) (random.nextDouble() * keys));
        }
        Processor processor = new Processor();
        Histogram calls = new Histogram();
        long queries = access.get("queries", 20_000);
        long found = 0;
        for (long i = 0; i < queries; i++) {
            long number = (long) (random.nextDouble() * keys);
            long begin = System.nanoTime();
            found += find(number);
            calls.add(System.nanoTime() - begin);
        }
        Map<String, Object> row = row("keys", keys, "queries", queries, "found", found);
        calls.describe(row);
        long begin = System.nanoTime();
        for (long number = 0; number < 1000; number++) {
            find(number * keys / 1000);
        }
        row.put("thousand_in_a_row_s", seconds(begin, System.nanoTime()));
        processor.describe(row);
        print("query", row);
    }

    private int find(long number) {
        QueryMessageResult result = store.queryMessage(TOPIC, key(number), 32, 0, Long.MAX_VALUE);
        int found = result.getMessageBufferList().isEmpty() ? 0 : 1;
        result.release();
        return found;
    }

    // ---- results --------------------------------------------------------------------------------------------------

    /** Counts of nanoseconds; each power of two is cut into 64 steps, so a percentile is at most 1.6 % low. */
    private static final class Histogram {
        private static final int STEPS = 64;
        private final long[] counts = new long[60 * STEPS];
        private long count;
        private long sum;
        private long max;

        void add(long nanos) {
            int power = Math.max(0, 57 - Long.numberOfLeadingZeros(Math.max(1, nanos)));
            counts[power * STEPS + (int) (nanos >>> power)]++;
            count++;
            sum += nanos;
            max = Math.max(max, nanos);
        }

        void add(Histogram other) {
            for (int i = 0; i < counts.length; i++) {
                counts[i] += other.counts[i];
            }
            count += other.count;
            sum += other.sum;
            max = Math.max(max, other.max);
        }

        double microseconds(double quantile) {
            long wanted = (long) Math.ceil(quantile * count);
            long seen = 0;
            for (int i = 0; i < counts.length; i++) {
                seen += counts[i];
                if (seen >= wanted && seen > 0) {
                    int power = Math.max(0, i / STEPS - 1); // below 128 ns each value has its own counter
                    return round(((long) (i - power * STEPS) << power) / 1e3);
                }
            }
            return 0;
        }

        void describe(Map<String, Object> row) {
            row.put("calls", count);
            row.put("avg_us", round(count == 0 ? 0 : sum / 1e3 / count));
            row.put("p50_us", microseconds(0.5));
            row.put("p99_us", microseconds(0.99));
            row.put("p999_us", microseconds(0.999));
            row.put("max_us", round(max / 1e3));
        }
    }

    /** Processor seconds from construction on, of this process and of everything else on the machine. */
    private static final class Processor {
        private final double own = own();
        private final double all = all();

        void describe(Map<String, Object> row) {
            double used = own() - own;
            row.put("cpu_s", round(used));
            row.put("cpu_other_s", round(Math.max(0, all() - all - used)));
        }

        private static double own() {
            return ((OperatingSystemMXBean) ManagementFactory.getOperatingSystemMXBean()).getProcessCpuTime() / 1e9;
        }

        private static double all() {
            try {
                // "cpu user nice system idle iowait irq softirq steal ...", in hundredths of a second
                String[] field = Files.readString(Path.of("/proc/stat")).split("\n", 2)[0].trim().split(" +");
                long ticks = 0;
                for (int i = 1; i <= 8; i++) {
                    ticks += i == 4 || i == 5 ? 0 : Long.parseLong(field[i]);
                }
                return ticks / 1e2;
            } catch (IOException | RuntimeException notLinux) {
                return 0;
            }
        }
    }

    private static double seconds(long begin, long end) {
        return Double.parseDouble(String.format(Locale.ROOT, "%.4f", (end - begin) / 1e9));
    }

    private static double round(double value) {
        return Double.parseDouble(String.format(Locale.ROOT, "%.2f", value));
    }

    private static Map<String, Object> row(Object... pairs) {
        Map<String, Object> row = new LinkedHashMap<>();
        for (int i = 0; i < pairs.length; i += 2) {
            row.put((String) pairs[i], pairs[i + 1]);
        }
        return row;
    }

    private void print(String step, Map<String, Object> row) {
        Map<String, Object> line = row("peer", "rocketmq", "version", StoreAccess.version().substring(1), "step", step);
        line.putAll(row);
        System.out.println(Json.text(line));
        System.out.flush();
    }
}
