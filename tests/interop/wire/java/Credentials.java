import org.apache.rocketmq.acl.common.AclClientRPCHook;
import org.apache.rocketmq.acl.common.SessionCredentials;
import org.apache.rocketmq.remoting.RPCHook;

/**
 * Who the clients of this JVM are, by system properties: wire.accessKey and wire.secretKey for producers and consumers,
 * wire.adminKey and wire.adminSecret for the admin client. Without them nothing is signed.
 */
final class Credentials {
    private Credentials() { }

    /** What signs for a producer or consumer; null if it is to stay unsigned. */
    static RPCHook client() {
        return hook("wire.accessKey", "wire.secretKey");
    }

    /** What signs for the admin client; null if it is to stay unsigned. */
    static RPCHook admin() {
        return hook("wire.adminKey", "wire.adminSecret");
    }

    private static RPCHook hook(String key, String secret) {
        String name = System.getProperty(key);
        return name == null ? null : new AclClientRPCHook(new SessionCredentials(name, System.getProperty(secret)));
    }
}
