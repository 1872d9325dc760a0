import java.util.ArrayList;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.Callable;
import org.apache.rocketmq.acl.common.AclClientRPCHook;
import org.apache.rocketmq.acl.common.SessionCredentials;
import org.apache.rocketmq.client.consumer.DefaultMQPullConsumer;
import org.apache.rocketmq.client.exception.MQBrokerException;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageQueue;
import org.apache.rocketmq.remoting.RPCHook;

/**
 * What a producer and a consumer are told who may not do what they try, and what their tries have left in the store.
 *
 *   java -Dwire.adminKey=KEY -Dwire.adminSecret=SECRET Refused namesrv=ADDR topic=NAME cases=NAME:KEY:SECRET,NAME:KEY:SECRET
 *
 * The topic has to exist; a case without key and secret signs nothing. Prints one JSON object: for each case what a send,
 * a batch and a pull came to (code and remark of the broker's refusal, code -1 and the exception for anything else, or
 * code 0), and under "stored" how many messages the topic has in the end.
 */
public final class Refused {
    private Refused() { }

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
        String topic = arguments.get("topic");
        Clients clients = new Clients(arguments.get("namesrv"), "refused");
        Map<String, Object> answers = new LinkedHashMap<>();
        for (String one : arguments.get("cases").split(",")) {
            String[] parts = one.split(":");
            RPCHook hook = parts.length < 3 ? null : new AclClientRPCHook(new SessionCredentials(parts[1], parts[2]));
            answers.put(parts[0], tries(clients, topic, hook));
        }
        long stored = clients.admin.examineTopicStats(topic).getOffsetTable().values().stream()
            .mapToLong(offsets -> offsets.getMaxOffset()).sum();
        answers.put("stored", stored);
        System.out.println(Json.text(answers));
        System.out.flush();
        Runtime.getRuntime().halt(0);
    }

    private static Map<String, Object> tries(Clients clients, String topic, RPCHook hook) throws Exception {
        Map<String, Object> told = new LinkedHashMap<>();
        DefaultMQProducer producer = new DefaultMQProducer("refused-producers", hook);
        producer.setNamesrvAddr(clients.nameServer);
        producer.setInstanceName(clients.instance());
        producer.setRetryTimesWhenSendFailed(0);
        producer.start();
        told.put("send", answer(() -> producer.send(new Message(topic, "one".getBytes()), Clients.PATIENCE_MS)));
        List<Message> batch = new ArrayList<>();
        batch.add(new Message(topic, "first".getBytes()));
        batch.add(new Message(topic, "second".getBytes()));
        told.put("batch", answer(() -> producer.send(batch, Clients.PATIENCE_MS)));
        DefaultMQPullConsumer consumer = new DefaultMQPullConsumer("refused-consumers", hook);
        consumer.setNamesrvAddr(clients.nameServer);
        consumer.setInstanceName(clients.instance());
        consumer.start();
        MessageQueue queue = new MessageQueue(topic, "broker-a", 0);
        told.put("pull", answer(() -> consumer.pull(queue, "*", 0, 1, Clients.PATIENCE_MS)));
        producer.shutdown();
        consumer.shutdown();
        return told;
    }

    private static Map<String, Object> answer(Callable<?> call) {
        Map<String, Object> answer = new LinkedHashMap<>();
        try {
            call.call();
            answer.put("code", 0);
            answer.put("remark", "");
        } catch (Exception failure) {
            answer.put("code", -1);
            answer.put("remark", String.valueOf(failure));
            for (Throwable cause = failure; cause != null; cause = cause.getCause()) {
                if (cause instanceof MQBrokerException) {
                    answer.put("code", ((MQBrokerException) cause).getResponseCode());
                    answer.put("remark", ((MQBrokerException) cause).getErrorMessage());
                }
            }
        }
        return answer;
    }
}
