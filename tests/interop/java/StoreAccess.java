import java.io.File;
import java.lang.reflect.Field;
import java.lang.reflect.Method;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ConcurrentMap;
import org.apache.rocketmq.common.MQVersion;
import org.apache.rocketmq.common.TopicConfig;
import org.apache.rocketmq.store.DefaultMessageStore;
import org.apache.rocketmq.store.config.MessageStoreConfig;

/**
 * Constructs the DefaultMessageStore of whichever RocketMQ release is on the class path, from key=value arguments.
 *
 * <p>An argument that names a setter of MessageStoreConfig is a store option; the other names are the program's own
 * and read with {@link #get}. What differs between 4.9 and 5.x at compile time is in Compat, one source for each.
 */
final class StoreAccess {
    private final Map<String, String> arguments = new LinkedHashMap<>();
    final List<String> unknown = new ArrayList<>();

    StoreAccess(String[] args) {
        for (String argument : args) {
            int equals = argument.indexOf('=');
            if (equals < 1) {
                throw new IllegalArgumentException("expected key=value, found: " + argument);
            }
            arguments.put(argument.substring(0, equals), argument.substring(equals + 1));
        }
    }

    String get(String name, String otherwise) {
        return arguments.getOrDefault(name, otherwise);
    }

    long get(String name, long otherwise) {
        return Long.parseLong(get(name, Long.toString(otherwise)));
    }

    boolean get(String name, boolean otherwise) {
        return Boolean.parseBoolean(get(name, Boolean.toString(otherwise)));
    }

    static String version() {
        return MQVersion.getVersionDesc(MQVersion.CURRENT_VERSION).replace('_', '.');
    }

    /** A store that is constructed, not loaded. Options this release does not have are listed in {@code unknown}. */
    DefaultMessageStore construct(String... programArguments) throws Exception {
        String root = get("dir", null);
        MessageStoreConfig config = new MessageStoreConfig();
        config.setStorePathRootDir(root);
        config.setStorePathCommitLog(root + File.separator + "commitlog");
        config.setHaListenPort(0); // any free port: several stores may run on one machine
        // A test must not fail, or clean files away, because the machine's disk happens to be full.
        config.setDiskMaxUsedSpaceRatio(95);
        config.setCleanFileForciblyEnable(false);
        List<String> own = new ArrayList<>(List.of(programArguments));
        own.add("dir");
        for (Map.Entry<String, String> argument : arguments.entrySet()) {
            if (!own.contains(argument.getKey()) && !set(config, argument.getKey(), argument.getValue())) {
                unknown.add(argument.getKey());
            }
        }
        return Compat.construct(config, topics(new File(root, "config/topics.json")));
    }

    private static boolean set(MessageStoreConfig config, String name, String value) throws Exception {
        String setter = "set" + Character.toUpperCase(name.charAt(0)) + name.substring(1);
        for (Method method : MessageStoreConfig.class.getMethods()) {
            if (method.getName().equals(setter) && method.getParameterCount() == 1) {
                Class<?> type = method.getParameterTypes()[0];
                if (type == int.class) {
                    method.invoke(config, Integer.parseInt(value));
                } else if (type == long.class) {
                    method.invoke(config, Long.parseLong(value));
                } else if (type == boolean.class) {
                    method.invoke(config, Boolean.parseBoolean(value));
                } else if (type == String.class) {
                    method.invoke(config, value);
                } else {
                    continue; // enums have a second setter that takes a string
                }
                return true;
            }
        }
        return false;
    }

    /** The topic table a broker would hand to the store; empty without the file. */
    private static ConcurrentMap<String, TopicConfig> topics(File file) throws Exception {
        if (!file.exists()) {
            return new ConcurrentHashMap<>();
        }
        return Compat.topics(new String(Files.readAllBytes(file.toPath()), StandardCharsets.UTF_8));
    }

    /** A store that is loaded but not started counts as shut down and answers nothing. */
    static void allowReads(DefaultMessageStore store) throws Exception {
        Field shutdown = DefaultMessageStore.class.getDeclaredField("shutdown");
        shutdown.setAccessible(true);
        shutdown.setBoolean(store, false);
    }

    static void waitForDispatch(DefaultMessageStore store) throws InterruptedException {
        while (store.dispatchBehindBytes() > 0) {
            Thread.sleep(1);
        }
    }
}
