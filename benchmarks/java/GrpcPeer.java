import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Random;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.atomic.AtomicLong;
import java.util.concurrent.atomic.LongAdder;
import java.util.concurrent.locks.LockSupport;
import org.apache.rocketmq.client.apis.ClientConfiguration;
import org.apache.rocketmq.client.apis.ClientServiceProvider;
import org.apache.rocketmq.client.apis.consumer.FilterExpression;
import org.apache.rocketmq.client.apis.consumer.SimpleConsumer;
import org.apache.rocketmq.client.apis.message.MessageView;
import org.apache.rocketmq.client.apis.producer.Producer;

/**
 * RocketMQ's Java client 5.x as the load of a port of gRPC. One JVM serves a whole run and all servers in it, so that each
 * of them meets a client in the same state of compilation. Reads one task a line, prints one JSON line for each:
 *
 *   mode=send    endpoints= topic= threads= size= warm= seconds=      synchronous sends of one producer
 *   mode=fill    endpoints= topic= threads= size= messages=           a backlog
 *   mode=receive endpoints= topic= group= threads= messages=          a new group receives and acknowledges it
 *
 * {"mark":"begin"} and {"mark":"end"} stand around what is measured: the caller takes the processor times there.
 */
public final class GrpcPeer {
    private static final ClientServiceProvider PROVIDER = ClientServiceProvider.loadService();
    private static final int BATCH = 32;
    // Of the messages of a backlog: receiving them starts the consumer and is not measured.
    private static final double WARM_SHARE = 0.1;

    private final Map<String, String> task;

    private GrpcPeer(Map<String, String> task) {
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
                print(new GrpcPeer(task).run());
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
            case "send":
                return send();
            case "fill":
                return fill();
            case "receive":
                return receive();
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

    private ClientConfiguration configuration() {
        return ClientConfiguration.newBuilder()
            .setEndpoints(text("endpoints")).enableSsl(false).setRequestTimeout(Duration.ofSeconds(10)).build();
    }

    private Producer producer() throws Exception {
        return PROVIDER.newProducerBuilder().setClientConfiguration(configuration()).setTopics(text("topic")).build();
    }

    private byte[] body() {
        byte[] body = new byte[number("size")];
        Random random = new Random(3);
        for (int i = 0; i < body.length; i++) {
            body[i] = (byte) ('a' + random.nextInt(26));
        }
        return body;
    }

    private void sendOne(Producer producer, byte[] body) throws Exception {
        producer.send(PROVIDER.newMessageBuilder().setTopic(text("topic")).setBody(body).build());
    }

    private String send() throws Exception {
        Producer producer = producer();
        byte[] body = body();
        long begin = System.nanoTime() + number("warm") * 1_000_000_000L;
        long end = begin + number("seconds") * 1_000_000_000L;
        Times times = new Times();
        LongAdder failed = new LongAdder();
        List<Thread> threads = started(() -> {
            Samples mine = new Samples();
            for (long now = System.nanoTime(); now < end; now = System.nanoTime()) {
                try {
                    sendOne(producer, body);
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
        });
        sleepUntil(begin);
        mark("begin");
        sleepUntil(end);
        mark("end");
        join(threads);
        producer.close();
        return times.json(times.count(), number("seconds"), failed.sum());
    }

    private String fill() throws Exception {
        Producer producer = producer();
        byte[] body = body();
        AtomicLong left = new AtomicLong(number("messages"));
        LongAdder failed = new LongAdder();
        long began = System.nanoTime();
        join(started(() -> {
            while (left.decrementAndGet() >= 0) {
                try {
                    sendOne(producer, body);
                } catch (Exception failure) {
                    left.incrementAndGet();
                    failed.increment();
                }
            }
        }));
        producer.close();
        return new Times().json(number("messages"), (System.nanoTime() - began) / 1e9, failed.sum());
    }

    private String receive() throws Exception {
        SimpleConsumer consumer = PROVIDER.newSimpleConsumerBuilder()
            .setClientConfiguration(configuration())
            .setConsumerGroup(text("group"))
            .setAwaitDuration(Duration.ofSeconds(5))
            .setSubscriptionExpressions(Map.of(text("topic"), FilterExpression.SUB_ALL))
            .build();
        long all = number("messages");
        long warm = (long) (all * WARM_SHARE);
        long giveUp = System.nanoTime() + 300_000_000_000L;
        AtomicLong taken = new AtomicLong();
        AtomicLong counted = new AtomicLong();
        AtomicLong began = new AtomicLong();
        LongAdder failed = new LongAdder();
        List<Thread> threads = started(() -> {
            while (taken.get() < all && System.nanoTime() < giveUp) {
                try {
                    List<MessageView> messages = consumer.receive(BATCH, Duration.ofSeconds(60));
                    List<CompletableFuture<Void>> acks = new ArrayList<>();
                    for (MessageView message : messages) {
                        acks.add(consumer.ackAsync(message));
                    }
                    for (CompletableFuture<Void> ack : acks) {
                        ack.get();
                    }
                    if (began.get() != 0) {
                        counted.addAndGet(messages.size());
                    } else if (taken.get() + messages.size() >= warm && began.compareAndSet(0, System.nanoTime())) {
                        mark("begin");
                    }
                    taken.addAndGet(messages.size());
                } catch (Exception failure) {
                    failure.printStackTrace();
                    failed.increment();
                    return;
                }
            }
        });
        while (taken.get() < all && System.nanoTime() < giveUp && failed.sum() == 0) {
            LockSupport.parkNanos(200_000);
        }
        long ended = System.nanoTime();
        mark("end");
        join(threads);
        consumer.close();
        if (taken.get() < all) {
            throw new IllegalStateException("only " + taken + " of " + all + " messages received");
        }
        return new Times().json(counted.get(), (ended - began.get()) / 1e9, failed.sum());
    }

    private List<Thread> started(Runnable work) {
        List<Thread> threads = new ArrayList<>();
        for (int i = 0; i < number("threads"); i++) {
            threads.add(new Thread(work));
        }
        threads.forEach(Thread::start);
        return threads;
    }

    private static void join(List<Thread> threads) throws InterruptedException {
        for (Thread thread : threads) {
            thread.join();
        }
    }

    private static void sleepUntil(long time) {
        for (long left = time - System.nanoTime(); left > 0; left = time - System.nanoTime()) {
            LockSupport.parkNanos(left);
        }
    }
}
