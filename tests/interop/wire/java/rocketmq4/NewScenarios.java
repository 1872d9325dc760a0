import java.util.Map;

/** What only 5.x clients can do: nothing here. */
final class NewScenarios {
    private NewScenarios() { }

    static void add(Map<String, Wire.Scenario> all) { }
}
