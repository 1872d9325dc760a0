import java.util.concurrent.atomic.AtomicInteger;
import org.apache.rocketmq.common.TopicConfig;
import org.apache.rocketmq.tools.admin.DefaultMQAdminExt;

/** What all scenarios of one JVM share: where the servers are, an admin client, names that nobody else uses. */
final class Clients {
    // The scenarios run side by side on few cores: slow is not wrong here.
    static final int PATIENCE_MS = 20_000;

    final String nameServer;
    final String run;
    final DefaultMQAdminExt admin;
    private final AtomicInteger instances = new AtomicInteger();

    Clients(String nameServer, String run) throws Exception {
        this.nameServer = nameServer;
        this.run = run;
        this.admin = new DefaultMQAdminExt(Credentials.admin(), PATIENCE_MS);
        admin.setMqClientApiTimeout(PATIENCE_MS);
        admin.setNamesrvAddr(nameServer);
        admin.setInstanceName(instance());
        admin.start();
    }

    /** Clients with one instance name share a connection; those that shall not get one each. */
    String instance() {
        return run + "-" + instances.incrementAndGet();
    }

    /** Makes the topic on every broker and waits until the name server knows it everywhere. */
    void makeTopic(TopicConfig config) throws Exception {
        var brokers = admin.examineBrokerClusterInfo().getBrokerAddrTable().values();
        for (var broker : brokers) {
            admin.createAndUpdateTopicConfig(broker.selectBrokerAddr(), config);
        }
        awaitRoute(config.getTopicName(), brokers.size());
    }

    /** Waits until the name server knows a topic on so many brokers. */
    void awaitRoute(String topic, int brokers) throws Exception {
        Stage.await("a route to " + topic + " on " + brokers + " brokers", 30, () -> {
            try {
                return admin.examineTopicRouteInfo(topic).getQueueDatas().size() >= brokers;
            } catch (Exception notYet) {
                return false;
            }
        });
    }
}
