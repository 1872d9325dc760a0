import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.Collections;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Random;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicLong;
import java.util.concurrent.atomic.LongAdder;
import java.util.concurrent.locks.LockSupport;
import org.apache.rocketmq.acl.common.AclClientRPCHook;
import org.apache.rocketmq.acl.common.SessionCredentials;
import org.apache.rocketmq.client.consumer.DefaultMQPullConsumer;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.PullResult;
import org.apache.rocketmq.client.consumer.PullStatus;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.client.impl.factory.MQClientInstance;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.producer.SendResult;
import org.apache.rocketmq.client.producer.SendStatus;
import org.apache.rocketmq.common.TopicConfig;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageExt;
import org.apache.rocketmq.common.message.MessageQueue;
import org.apache.rocketmq.remoting.RPCHook;
import org.apache.rocketmq.tools.admin.DefaultMQAdminExt;

/**
 * RocketMQ's Java client as the load of a broker. One JVM serves a whole run and all brokers in it, so that each of them
 * meets a client in the same state of compilation. Reads one task a line, prints one JSON line for each:
 *
 *   mode=topic   namesrv= topic= queues=
 *   mode=send    namesrv= topic= threads= size= warm= seconds=             synchronous sends of one producer
 *   mode=batch   ... batch=                                                the same, so many messages a call
 *   mode=fill    namesrv= topic= messages= size=                           a backlog, by batches
 *   mode=push    namesrv= topic= group= messages=                          a new group reads the backlog
 *   mode=pull    namesrv= topic= threads= batch= messages=                 each thread pulls its share of the queues
 *   mode=latency namesrv= topic= group= rate= size= warm= seconds=         from before the send to the push listener
 *
 * {"mark":"begin"} and {"mark":"end"} stand around what is measured: the caller takes the processor times there.
 */
public final class WirePeer {
    private static final int CONSUME_THREADS = 20;
    private static final int FILL_THREADS = 4;
    private static final int FILL_BATCH = 64;
    private static final int PULL_BATCH = 32;
    // Of the messages of a backlog: reading them starts the consumer and is not measured.
    private static final double WARM_SHARE = 0.1;

    private final Map<String, String> task;

    private WirePeer(Map<String, String> task) {
        this.task = task;
    }

    public static void main(String[] words) throws Exception {
        BufferedReader tasks = new BufferedReader(new InputStreamReader(System.in));
        for (String line = tasks.readLine(); line != null; line = tasks.readLine()) {
            Map<String, String> task = new HashMap<>();
            for (String word : line.trim().split(" ")) {
                int at = word.indexOf('=');
                task.put(word.substring(0, at), word.substring(at + 1));
            }
            try {
                print(new WirePeer(task).run());
            } catch (Throwable failure) {
                failure.printStackTrace();
                print("{\"error\":\"" + String.valueOf(failure).replaceAll("[^ -~]|[\"\\\\]", " ") + "\"}");
            }
        }
        Runtime.getRuntime().halt(0);
    }

    private static void print(String line) {
        System.out.println(line);
        System.out.flush();
    }

    private static void mark(String what) {
        print("{\"mark\":\"" + what + "\"}");
    }

    private String run() throws Exception {
        switch (text("mode")) {
            case "topic":
                return topic();
            case "send":
                return send(1);
            case "batch":
                return send(number("batch"));
            case "fill":
                return fill();
            case "push":
                return push();
            case "pull":
                return pull();
            case "latency":
                return latency();
            default:
                throw new IllegalArgumentException("mode " + text("mode"));
        }
    }

    private String text(String name) {
        String value = task.get(name);
        if (value == null) {
            throw new IllegalArgumentException("no " + name + " in " + task);
        }
        return value;
    }

    private int number(String name) {
        return Integer.parseInt(text(name));
    }

    private String topic() throws Exception {
        DefaultMQAdminExt admin = new DefaultMQAdminExt(account());
        admin.setNamesrvAddr(text("namesrv"));
        admin.setInstanceName("topic-" + System.nanoTime());
        admin.start();
        TopicConfig config = new TopicConfig(text("topic"));
        config.setReadQueueNums(number("queues"));
        config.setWriteQueueNums(number("queues"));
        for (var broker : admin.examineBrokerClusterInfo().getBrokerAddrTable().values()) {
            admin.createAndUpdateTopicConfig(broker.selectBrokerAddr(), config);
        }
        admin.shutdown();
        return "{\"made\":\"" + text("topic") + "\"}";
    }

    /** What signs requests, or null: nothing does. */
    private RPCHook account() {
        if (!task.containsKey("accessKey")) {
            return null;
        }
        return new AclClientRPCHook(new SessionCredentials(text("accessKey"), text("secretKey")));
    }

    private DefaultMQProducer producer() throws Exception {
        DefaultMQProducer producer = new DefaultMQProducer("benchmark", account());
        producer.setNamesrvAddr(text("namesrv"));
        producer.setInstanceName("producer-" + System.nanoTime());
        producer.setCompressMsgBodyOverHowmuch(Integer.MAX_VALUE);
        producer.setSendMsgTimeout(10_000);
        producer.start();
        return producer;
    }

    private static byte[] body(int size) {
        byte[] body = new byte[size];
        Random random = new Random(3);
        for (int i = 0; i < size; i++) {
            body[i] = (byte) ('a' + random.nextInt(26));
        }
        return body;
    }

    private static List<Message> batch(String topic, byte[] body, int count) {
        List<Message> batch = new ArrayList<>(count);
        for (int i = 0; i < count; i++) {
            batch.add(new Message(topic, body));
        }
        return batch;
    }

    private String send(int batch) throws Exception {
        DefaultMQProducer producer = producer();
        String topic = text("topic");
        byte[] body = body(number("size"));
        long begin = System.nanoTime() + number("warm") * 1_000_000_000L;
        long end = begin + number("seconds") * 1_000_000_000L;
        Times times = new Times();
        LongAdder failed = new LongAdder();
        List<Thread> threads = new ArrayList<>();
        for (int i = 0; i < number("threads"); i++) {
            threads.add(new Thread(() -> {
                Samples mine = new Samples();
                for (long now = System.nanoTime(); now < end; now = System.nanoTime()) {
                    try {
                        SendResult result = batch == 1
                            ? producer.send(new Message(topic, body)) : producer.send(batch(topic, body, batch));
                        if (result.getSendStatus() != SendStatus.SEND_OK) {
                            failed.increment();
                            continue;
                        }
                    } catch (Exception failure) {
                        failed.increment();
                        continue;
                    }
                    long done = System.nanoTime();
                    if (now >= begin && done <= end) {
                        mine.add(done - now);
                    }
                }
                times.merge(mine);
            }));
        }
        threads.forEach(Thread::start);
        sleepUntil(begin);
        mark("begin");
        sleepUntil(end);
        mark("end");
        for (Thread thread : threads) {
            thread.join();
        }
        producer.shutdown();
        return times.json((long) times.count() * batch, number("seconds"), failed.sum());
    }

    private String fill() throws Exception {
        DefaultMQProducer producer = producer();
        byte[] body = body(number("size"));
        AtomicLong left = new AtomicLong(number("messages"));
        List<Thread> threads = new ArrayList<>();
        LongAdder failed = new LongAdder();
        long began = System.nanoTime();
        for (int i = 0; i < FILL_THREADS; i++) {
            threads.add(new Thread(() -> {
                while (left.addAndGet(-FILL_BATCH) >= 0) {
                    try {
                        producer.send(batch(text("topic"), body, FILL_BATCH));
                    } catch (Exception failure) {
                        left.addAndGet(FILL_BATCH);
                        failed.increment();
                    }
                }
            }));
        }
        for (Thread thread : threads) {
            thread.start();
        }
        for (Thread thread : threads) {
            thread.join();
        }
        producer.shutdown();
        return new Times().json(number("messages"), (System.nanoTime() - began) / 1e9, failed.sum());
    }

    private DefaultMQPushConsumer consumer(MessageListenerConcurrently listener) throws Exception {
        DefaultMQPushConsumer consumer = new DefaultMQPushConsumer(text("group"));
        consumer.setNamesrvAddr(text("namesrv"));
        consumer.setInstanceName("consumer-" + System.nanoTime());
        consumer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        consumer.setConsumeThreadMin(CONSUME_THREADS);
        consumer.setConsumeThreadMax(CONSUME_THREADS);
        consumer.subscribe(text("topic"), "*");
        consumer.registerMessageListener(listener);
        consumer.start();
        // Heartbeats that meet drop one another, and then nothing happens for half a minute: not what is measured here.
        MQClientInstance client = consumer.getDefaultMQPushConsumerImpl().getmQClientFactory();
        while (!client.sendHeartbeatToAllBrokerWithLock()) {
            Thread.sleep(20);
        }
        client.rebalanceImmediately();
        return consumer;
    }

    private String push() throws Exception {
        // Whole batches are filled, and what a partial one leaves out must not be waited for.
        long all = number("messages") / FILL_BATCH * FILL_BATCH;
        long warm = (long) (all * WARM_SHARE);
        AtomicLong taken = new AtomicLong();
        CountDownLatch isWarm = new CountDownLatch(1);
        CountDownLatch isDone = new CountDownLatch(1);
        long[] times = new long[2];
        DefaultMQPushConsumer consumer = consumer((batch, context) -> {
            long now = taken.addAndGet(batch.size());
            if (now == warm) {
                times[0] = System.nanoTime();
                isWarm.countDown();
            } else if (now == all) {
                times[1] = System.nanoTime();
                isDone.countDown();
            }
            return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
        });
        require(isWarm.await(120, TimeUnit.SECONDS), "only " + taken + " messages consumed in two minutes");
        mark("begin");
        require(isDone.await(300, TimeUnit.SECONDS), "only " + taken + " messages consumed in five minutes");
        mark("end");
        consumer.shutdown();
        return new Times().json(all - warm, (times[1] - times[0]) / 1e9, 0);
    }

    private String pull() throws Exception {
        DefaultMQPullConsumer consumer = new DefaultMQPullConsumer("benchmark-pull");
        consumer.setNamesrvAddr(text("namesrv"));
        consumer.setInstanceName("pull-" + System.nanoTime());
        consumer.start();
        List<MessageQueue> queues = new ArrayList<>(consumer.fetchSubscribeMessageQueues(text("topic")));
        Collections.sort(queues);
        int count = number("threads");
        long limit = number("messages") / count;
        Times times = new Times();
        AtomicLong messages = new AtomicLong();
        AtomicLong last = new AtomicLong();
        List<Thread> threads = new ArrayList<>();
        LongAdder failed = new LongAdder();
        mark("begin");
        long began = System.nanoTime();
        for (int i = 0; i < count; i++) {
            int first = i;
            threads.add(new Thread(() -> {
                Samples mine = new Samples();
                long found = 0;
                try {
                    for (int at = first; at < queues.size() && found < limit; at += count) {
                        long offset = 0;
                        while (found < limit) {
                            long now = System.nanoTime();
                            PullResult result = consumer.pull(queues.get(at), "*", offset, PULL_BATCH);
                            if (result.getPullStatus() != PullStatus.FOUND) {
                                break;
                            }
                            mine.add(System.nanoTime() - now);
                            offset = result.getNextBeginOffset();
                            found += result.getMsgFoundList().size();
                        }
                    }
                } catch (Exception failure) {
                    failure.printStackTrace();
                    failed.increment();
                }
                last.accumulateAndGet(System.nanoTime(), Math::max);
                messages.addAndGet(found);
                times.merge(mine);
            }));
        }
        threads.forEach(Thread::start);
        for (Thread thread : threads) {
            thread.join();
        }
        mark("end");
        consumer.shutdown();
        return times.json(messages.get(), (last.get() - began) / 1e9, failed.sum());
    }

    private String latency() throws Exception {
        DefaultMQProducer producer = producer();
        long period = 1_000_000_000L / number("rate");
        long warm = (long) number("warm") * number("rate");
        long all = warm + (long) number("seconds") * number("rate");
        Times times = new Times();
        Samples taken = new Samples();
        AtomicLong arrived = new AtomicLong();
        DefaultMQPushConsumer consumer = consumer((batch, context) -> {
            long now = System.nanoTime();
            for (MessageExt message : batch) {
                ByteBuffer content = ByteBuffer.wrap(message.getBody());
                long sent = content.getLong();
                synchronized (taken) {
                    if (content.getLong() >= warm) {
                        taken.add(now - sent);
                    }
                }
                arrived.incrementAndGet();
            }
            return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
        });
        byte[] body = body(number("size"));
        // Until the consumer has its queues, messages wait for it: none of these is counted.
        for (int i = 0; arrived.get() < 100; i++) {
            ByteBuffer.wrap(body).putLong(System.nanoTime()).putLong(-1);
            producer.send(new Message(text("topic"), body.clone()));
            require(i < 30_000, "nothing was consumed");
            LockSupport.parkNanos(5_000_000);
        }
        long extra = System.nanoTime();
        long sentBefore = arrived.get();
        for (long i = 0; i < all; i++) {
            if (i == warm) {
                mark("begin");
            }
            sleepUntil(extra + i * period);
            ByteBuffer.wrap(body).putLong(System.nanoTime()).putLong(i);
            producer.send(new Message(text("topic"), body.clone()));
        }
        mark("end");
        long deadline = System.nanoTime() + 30_000_000_000L;
        while (arrived.get() < sentBefore + all && System.nanoTime() < deadline) {
            Thread.sleep(20);
        }
        consumer.shutdown();
        producer.shutdown();
        times.merge(taken);
        return times.json(times.count(), number("seconds"), 0);
    }

    private static void require(boolean holds, String otherwise) {
        if (!holds) {
            throw new IllegalStateException(otherwise);
        }
    }

    private static void sleepUntil(long time) {
        for (long left = time - System.nanoTime(); left > 0; left = time - System.nanoTime()) {
            LockSupport.parkNanos(left);
        }
    }
}
