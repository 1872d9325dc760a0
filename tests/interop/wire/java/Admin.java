import java.io.BufferedReader;
import java.io.ByteArrayOutputStream;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.Map;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.exception.MQBrokerException;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.producer.SendResult;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageQueue;
import org.apache.rocketmq.tools.command.MQAdminStartup;

/**
 * RocketMQ's own mqadmin, many commands in one JVM.
 *
 *   java Admin namesrv=ADDR run=NAME
 *
 * First it gives the tool something to look at: a topic of four queues with three messages each, a producer, a
 * consumer group that has read them all and stays connected, and one that has read them and left; their names are the
 * first line of output. Then it reads commands, one a line with words separated by tabs, and prints one JSON line for
 * each: output, errors, seconds. A command that ends the JVM ends this program.
 */
public final class Admin {
    private static final int QUEUES = 4;
    private static final int MESSAGES_PER_QUEUE = 3;

    private Admin() { }

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
        PrintStream out = System.out;
        Clients clients = new Clients(arguments.get("namesrv"), arguments.get("run"));
        Map<String, Object> names = prepare(new Stage(clients, "admin"));
        String producers = (String) names.get("producers");
        String topic = (String) names.get("topic");
        // The first heartbeat that tells brokers of a producer leaves it a second after its start.
        Stage.await("connection of the producer", () -> isConnected(clients, producers, topic));
        out.println(Json.text(names));
        out.flush();
        BufferedReader commands = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = commands.readLine(); line != null; line = commands.readLine()) {
            out.println(Json.text(execute(line.split("\t"))));
            out.flush();
        }
        Runtime.getRuntime().halt(0);
    }

    private static boolean isConnected(Clients clients, String producers, String topic) throws Exception {
        try {
            return !clients.admin.examineProducerConnectionInfo(producers, topic).getConnectionSet().isEmpty();
        } catch (MQBrokerException unknown) {
            return false;
        }
    }

    private static Map<String, Object> prepare(Stage stage) throws Exception {
        String topic = stage.topic(QUEUES);
        String group = stage.name();
        DefaultMQProducer producer = stage.producer();
        SendResult last = null;
        for (MessageQueue queue : producer.fetchPublishMessageQueues(topic)) {
            for (int i = 0; i < MESSAGES_PER_QUEUE; i++) {
                String key = "key-" + queue.getQueueId() + "-" + i;
                last = producer.send(new Message(topic, "TagA", key, ("body of " + key).getBytes()), queue);
            }
        }
        Inbox inbox = new Inbox();
        DefaultMQPushConsumer consumer = PushScenarios.started(stage, group, topic, "*", inbox);
        inbox.awaitSize(QUEUES * MESSAGES_PER_QUEUE);
        PushScenarios.settle(stage, consumer, topic);
        String offline = stage.name();
        Inbox other = new Inbox();
        DefaultMQPushConsumer gone = PushScenarios.started(stage, offline, topic, "*", other);
        other.awaitSize(QUEUES * MESSAGES_PER_QUEUE);
        PushScenarios.settle(stage, gone, topic);
        gone.shutdown();
        Map<String, Object> names = new LinkedHashMap<>();
        names.put("topic", topic);
        names.put("group", group);
        names.put("offline", offline);
        names.put("producers", producer.getProducerGroup());
        names.put("consumer_instance", consumer.getInstanceName());
        names.put("producer_instance", producer.getInstanceName());
        names.put("offset_id", last.getOffsetMsgId());
        names.put("unique_id", last.getMsgId());
        names.put("queue", String.valueOf(last.getMessageQueue().getQueueId()));
        names.put("key", "key-" + last.getMessageQueue().getQueueId() + "-" + (MESSAGES_PER_QUEUE - 1));
        return names;
    }

    private static Map<String, Object> execute(String[] words) throws Exception {
        PrintStream out = System.out;
        PrintStream errors = System.err;
        ByteArrayOutputStream printed = new ByteArrayOutputStream();
        ByteArrayOutputStream complaints = new ByteArrayOutputStream();
        long began = System.nanoTime();
        try {
            System.setOut(new PrintStream(printed, true, "UTF-8"));
            System.setErr(new PrintStream(complaints, true, "UTF-8"));
            // Commands keep clients they have shut down: each run gets new ones.
            Compat.forgetCommands();
            MQAdminStartup.main0(words, null);
        } catch (Throwable failure) {
            failure.printStackTrace(System.err);
        } finally {
            System.setOut(out);
            System.setErr(errors);
        }
        Map<String, Object> answer = new LinkedHashMap<>();
        answer.put("output", printed.toString("UTF-8"));
        answer.put("errors", complaints.toString("UTF-8"));
        answer.put("seconds", Math.round((System.nanoTime() - began) / 1e8) / 10.0);
        return answer;
    }
}
