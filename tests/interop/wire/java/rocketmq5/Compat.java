import java.util.ArrayList;
import java.util.List;
import java.util.function.Consumer;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.rebalance.AllocateMessageQueueAveragely;
import org.apache.rocketmq.client.impl.factory.MQClientInstance;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.common.compression.CompressionType;
import org.apache.rocketmq.remoting.protocol.heartbeat.MessageModel;
import org.apache.rocketmq.tools.command.MQAdminStartup;

/** What 5.x does its own way. */
final class Compat {
    private Compat() { }

    static void broadcast(DefaultMQPushConsumer consumer) {
        consumer.setMessageModel(MessageModel.BROADCASTING);
    }

    /** Announce the client to all brokers again: false if that was not possible at this moment. */
    static boolean announce(MQClientInstance client) {
        return client.sendHeartbeatToAllBrokerWithLock();
    }

    /** Each way to compress a body. */
    static List<Consumer<DefaultMQProducer>> compressions() {
        List<Consumer<DefaultMQProducer>> all = new ArrayList<>();
        for (CompressionType type : CompressionType.values()) {
            all.add(producer -> producer.setCompressType(type));
        }
        return all;
    }

    static DefaultMQProducer tracingProducer(String group) {
        return new DefaultMQProducer(group, Credentials.client(), true, null);
    }

    static DefaultMQPushConsumer tracingConsumer(String group) {
        return new DefaultMQPushConsumer(
            group, Credentials.client(), new AllocateMessageQueueAveragely(), true, null);
    }

    static void forgetCommands() {
        new MQAdminStartup() {
            void clear() {
                SUB_COMMANDS.clear();
            }
        }.clear();
    }
}
