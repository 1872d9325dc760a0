import java.io.PrintWriter;
import java.io.StringWriter;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;

/**
 * Runs scenarios with RocketMQ's 5.x client and prints one JSON line for each: scenario, ok, seconds, error.
 *
 *   java GrpcWire endpoints=ADDR run=NAME scenarios=a,b,c [tls=1] [ak=KEY sk=SECRET]
 *
 * The client makes no topics: RUN-SCENARIO has to exist for each of them, and so have groups that are not as by
 * default. All run at the same time.
 */
public final class GrpcWire {
    interface Scenario {
        void run(GrpcStage stage) throws Exception;
    }

    private GrpcWire() { }

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
        Map<String, String> settings = new HashMap<>();
        for (String word : words) {
            int at = word.indexOf('=');
            settings.put(word.substring(0, at), word.substring(at + 1));
        }
        Map<String, Scenario> all = new LinkedHashMap<>();
        GrpcSending.add(all);
        GrpcConsuming.add(all);
        if (settings.containsKey("list")) {
            System.out.println(Json.text(all.keySet()));
            return;
        }
        List<Future<?>> running = new ArrayList<>();
        ExecutorService pool = Executors.newCachedThreadPool();
        for (String name : settings.get("scenarios").split(",")) {
            Scenario scenario = all.get(name);
            if (scenario == null) {
                throw new IllegalArgumentException("no scenario " + name + "; there are " + all.keySet());
            }
            running.add(pool.submit(() -> perform(name, scenario, settings)));
        }
        for (Future<?> one : running) {
            one.get();
        }
        System.out.flush();
        Runtime.getRuntime().halt(0);
    }

    private static void perform(String name, Scenario scenario, Map<String, String> settings) {
        Map<String, Object> line = new LinkedHashMap<>();
        line.put("scenario", name);
        long began = System.nanoTime();
        GrpcStage stage = new GrpcStage(settings, name);
        try {
            scenario.run(stage);
            line.put("ok", true);
        } catch (Throwable failure) {
            line.put("ok", false);
            StringWriter trace = new StringWriter();
            failure.printStackTrace(new PrintWriter(trace));
            line.put("error", trace.toString());
        }
        line.put("seconds", Math.round((System.nanoTime() - began) / 1e8) / 10.0);
        print(line);
        stage.close();
    }

    private static synchronized void print(Object line) {
        System.out.println(Json.text(line));
        System.out.flush();
    }
}
