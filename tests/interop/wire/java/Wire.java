import java.io.BufferedReader;
import java.io.InputStreamReader;
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
 * Runs scenarios with RocketMQ's own client and prints one JSON line for each: scenario, ok, seconds, and facts or the error.
 *
 *   java Wire namesrv=ADDR run=NAME scenarios=a,b,c [threads=8]
 *
 * JVMs start slowly, so one does them all: at the same time, because most of a scenario is waiting, and those that
 * have the broker restarted one by one at the end. These print {"ask":"..."} and wait for a line on standard input.
 */
public final class Wire {
    interface Scenario {
        void run(Stage stage) throws Exception;
    }

    private static final BufferedReader ANSWERS = new BufferedReader(new InputStreamReader(System.in));

    private Wire() { }

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
        Map<String, Scenario> alone = new LinkedHashMap<>();
        RestartScenarios.add(alone);
        FailoverScenarios.add(alone);
        Map<String, Scenario> all = scenarios();
        all.putAll(alone);
        if (arguments.containsKey("list")) {
            System.out.println(Json.text(all.keySet()));
            return;
        }
        Clients clients = new Clients(arguments.get("namesrv"), arguments.get("run"));
        warmUp(clients);
        List<String> last = new ArrayList<>();
        List<Future<?>> running = new ArrayList<>();
        ExecutorService pool = Executors.newFixedThreadPool(Integer.parseInt(arguments.getOrDefault("threads", "8")));
        for (String name : arguments.get("scenarios").split(",")) {
            if (!all.containsKey(name)) {
                throw new IllegalArgumentException("no scenario " + name + "; there are " + all.keySet());
            }
            if (alone.containsKey(name)) {
                last.add(name);
            } else {
                running.add(pool.submit(() -> perform(name, all.get(name), clients)));
            }
        }
        for (Future<?> one : running) {
            one.get();
        }
        for (String name : last) {
            perform(name, all.get(name), clients);
        }
        // Threads of the client may go on for seconds after shutdown; nothing waits for them.
        System.out.flush();
        Runtime.getRuntime().halt(0);
    }

    /** One message there and back: a cold broker that misses a first heartbeat costs a scenario thirty seconds. */
    private static void warmUp(Clients clients) throws Exception {
        try (Stage stage = new Stage(clients, "warm-up")) {
            String topic = stage.topic(1);
            Inbox inbox = new Inbox();
            PushScenarios.started(stage, stage.name(), topic, "*", inbox);
            inbox.awaitBodies(PushScenarios.send(stage.producer(), topic, "body", 1));
        }
    }

    static Map<String, Scenario> scenarios() {
        Map<String, Scenario> all = new LinkedHashMap<>();
        // The slow ones first: they begin to wait while the others work.
        TransactionScenarios.add(all);
        PushScenarios.add(all);
        SendScenarios.add(all);
        PullScenarios.add(all);
        QueryScenarios.add(all);
        NewScenarios.add(all);
        return all;
    }

    private static void perform(String name, Scenario scenario, Clients clients) {
        Map<String, Object> line = new LinkedHashMap<>();
        line.put("scenario", name);
        long began = System.nanoTime();
        Stage stage = new Stage(clients, name);
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
        line.put("facts", stage.facts);
        print(line);
        stage.close();
    }

    static synchronized void print(Object line) {
        System.out.println(Json.text(line));
        System.out.flush();
    }

    /** Have the caller do something to the servers; returns when it is done. */
    static void ask(String what) throws Exception {
        print(Map.of("ask", what));
        String answer = ANSWERS.readLine();
        if (!"done".equals(answer)) {
            throw new IllegalStateException("asked for " + what + ", was answered " + answer);
        }
    }
}
