package stoatflow.oracle;

import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.util.HashMap;
import java.util.List;
import java.util.Map;

/**
 * What the real Kafka Streams does with a case on a real broker: one JVM for many applications,
 * several at a time.
 *
 * <p>Takes: a folder for state, and requests as JSON on standard input, one a line. Gives: for
 * each, on standard output, a line `{"done"}` or `{"error": {"class", "message", "causes"}}`;
 * before it, what was asked for, a line for each. Ends with its input, whatever still runs. Never
 * reads or writes the topics of a case itself.
 *
 * <ul>
 *   <li>`{"do": "start", "application_id", "bootstrap_servers", "topology", "settings"}` begins to start it;
 *   <li>`{"do": "await_running", "application_id"}` waits until it runs;
 *   <li>`{"do": "await_all", "application_id"}` waits until it has committed all that its topics hold;
 *   <li>`{"do": "read", "application_id", "stores"}` gives the rows of stores, in no order;
 *   <li>`{"do": "close", "application_id"}` ends it.
 * </ul>
 */
public final class OnBroker {
    private final Path folder;
    private final PrintStream answers;
    private final Map<String, Running> running = new HashMap<>();

    private OnBroker(Path folder, PrintStream answers) {
        this.folder = folder;
        this.answers = answers;
    }

    public static void main(String[] arguments) throws IOException {
        PrintStream answers = new PrintStream(System.out, true, StandardCharsets.UTF_8);
        // Whatever a library prints must not come between two answers.
        System.setOut(System.err);
        OnBroker self = new OnBroker(Path.of(arguments[0]), answers);
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            answers.println(Json.write(self.answer(line)));
        }
        // Whoever asked is gone, and its broker may be: nothing that still runs is waited for.
        Runtime.getRuntime().halt(0);
    }

    private Map<String, Object> answer(String line) {
        try {
            Step asked = new Step(Json.object(Json.read(line)));
            obey(asked);
            return Map.of("done", asked.text("do"));
        } catch (Exception | Error error) {
            return Map.of("error", Oracle.told(error));
        }
    }

    private void obey(Step asked) throws Exception {
        String name = asked.text("application_id");
        switch (asked.text("do")) {
            case "start" -> running.put(name, Running.start(asked, folder.resolve(name)));
            case "await_running" -> running.get(name).awaitRunning();
            case "await_all" -> running.get(name).awaitAll();
            case "read" -> {
                List<Map<String, Object>> rows = running.get(name).rows(asked.part("stores"));
                rows.forEach(row -> answers.println(Json.write(row)));
            }
            case "close" -> running.remove(name).close();
            default -> throw new IllegalArgumentException("nobody can " + asked.text("do"));
        }
    }
}
