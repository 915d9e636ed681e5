package stoatflow.oracle;

import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Comparator;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.stream.Stream;

/**
 * What the real Kafka Streams does with a case: one JVM for many.
 *
 * <p>Takes: a folder for stores, and cases as JSON on standard input, one a line. Gives: one line
 * of JSON for each on standard output: what came out, or
 * `{"error": {"class", "message", "causes"}}`. Ends with its input.
 */
public final class Oracle {
    private Oracle() {}

    public static void main(String[] arguments) throws IOException {
        Path stores = Path.of(arguments[0]);
        PrintStream answers = new PrintStream(System.out, true, StandardCharsets.UTF_8);
        // Whatever a library prints must not come between two answers.
        System.setOut(System.err);
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            answers.println(Json.write(answer(line, stores)));
        }
    }

    private static Map<String, Object> answer(String line, Path stores) throws IOException {
        Path own = Files.createTempDirectory(stores, "case");
        try {
            return Replay.run(Json.object(Json.read(line)), own);
        } catch (RuntimeException | Error error) {
            return Map.of("error", told(error));
        } finally {
            remove(own);
        }
    }

    static Map<String, Object> told(Throwable error) {
        Map<String, Object> told = new LinkedHashMap<>();
        told.put("class", error.getClass().getName());
        told.put("message", error.getMessage());
        List<String> causes = Stream.iterate(error.getCause(), cause -> cause != null, Throwable::getCause)
                .map(Throwable::toString)
                .toList();
        told.put("causes", causes);
        return told;
    }

    private static void remove(Path folder) throws IOException {
        try (Stream<Path> found = Files.walk(folder)) {
            for (Path path : found.sorted(Comparator.reverseOrder()).toList()) {
                Files.deleteIfExists(path);
            }
        }
    }
}
