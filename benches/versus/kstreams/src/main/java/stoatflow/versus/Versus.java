package stoatflow.versus;

import com.sun.management.OperatingSystemMXBean;
import java.io.IOException;
import java.lang.management.ManagementFactory;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.HashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Properties;
import java.util.concurrent.atomic.AtomicReference;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.StreamsConfig;
import org.apache.kafka.streams.Topology;
import org.apache.kafka.streams.errors.StreamsUncaughtExceptionHandler.StreamThreadExceptionResponse;

/**
 * The Kafka Streams side of the benchmark: one workload over a filled input.
 *
 * <p>Takes: ten arguments. Gives: the output topics and one line of JSON on stdout. Never: tunes
 * Kafka Streams in either direction: what is not an argument stays at its default, so that it can
 * be repeated by anyone.
 */
public final class Versus {
    /** How often the broker is asked how far it has come; as often as the other side asks itself. */
    private static final long POLL_MS = 200;

    private Versus() {}

    static Topology topology(String workload, List<String> inputs, List<String> outputs) {
        return switch (workload) {
            case "w1" -> JsonFilter.topology(inputs, outputs.get(0));
            case "w2" -> WordCount.topology(inputs, outputs.get(0));
            case "w3" -> WindowedSum.topology(inputs, outputs.get(0));
            case "w4" -> TableJoin.topology(inputs, outputs.get(0));
            case "w5" -> Sessions.topology(inputs, outputs.get(0));
            case "w7" -> Shop.topology(inputs, outputs);
            default -> throw new IllegalArgumentException("no workload " + workload + "; there are w1 to w5, and w7");
        };
    }

    public static void main(String[] args) throws Exception {
        if (args.length != 10) {
            System.err.println("usage: Versus <workload> <bootstrap> <application id> <input topic>[,<second>...] "
                    + "<output topic>[,<second>...] <commit interval ms> <cache bytes> <guarantee> <threads> <state dir>");
            System.exit(2);
        }
        String bootstrap = args[1], applicationId = args[2];
        List<String> inputs = List.of(args[3].split(",")), outputs = List.of(args[4].split(","));
        Properties config = config(args);
        AtomicReference<Throwable> failure = new AtomicReference<>();
        KafkaStreams streams = new KafkaStreams(topology(args[0], inputs, outputs), config);
        streams.setUncaughtExceptionHandler(error -> {
            failure.compareAndSet(null, error);
            return StreamThreadExceptionResponse.SHUTDOWN_CLIENT;
        });
        Map<String, Object> asking = new HashMap<>(client());
        asking.put("bootstrap.servers", bootstrap);
        try (Admin admin = Admin.create(asking)) {
            Progress progress = new Progress(admin, applicationId, inputs);
            long start = System.nanoTime();
            streams.start();
            Progress.Snapshot now;
            while (true) {
                Thread.sleep(POLL_MS);
                now = progress.look();
                if (now.finished()) {
                    break;
                }
                refuse(failure.get(), streams);
            }
            double seconds = (System.nanoTime() - start) / 1e9;
            if (!streams.close(Duration.ofSeconds(60))) {
                throw new IllegalStateException("Kafka Streams did not close within 60 s");
            }
            System.out.printf(Locale.ROOT,
                    "{\"engine\": \"kstreams\", \"records\": %d, \"started\": %.3f, \"seconds\": %.3f, \"cpu_seconds\": %.3f, "
                            + "\"peak_rss_kb\": %d}%n",
                    now.total(), start / 1e9, seconds, cpuSeconds(), peakRssKb());
        }
    }

    static Properties config(String[] args) {
        Properties config = new Properties();
        config.put(StreamsConfig.BOOTSTRAP_SERVERS_CONFIG, args[1]);
        config.put(StreamsConfig.APPLICATION_ID_CONFIG, args[2]);
        config.put(StreamsConfig.COMMIT_INTERVAL_MS_CONFIG, args[5]);
        config.put(StreamsConfig.STATESTORE_CACHE_MAX_BYTES_CONFIG, args[6]);
        config.put(StreamsConfig.PROCESSING_GUARANTEE_CONFIG, args[7]);
        config.put(StreamsConfig.NUM_STREAM_THREADS_CONFIG, args[8]);
        config.put(StreamsConfig.STATE_DIR_CONFIG, args[9]);
        config.putAll(client());
        return config;
    }

    /** How clients connect and what they write with: system properties that begin with {@code client.}. */
    private static Map<String, String> client() {
        Map<String, String> found = new HashMap<>();
        for (String name : System.getProperties().stringPropertyNames()) {
            if (name.startsWith("client.")) {
                found.put(name.substring("client.".length()), System.getProperty(name));
            }
        }
        return found;
    }

    private static void refuse(Throwable failure, KafkaStreams streams) {
        if (failure != null || streams.state() == KafkaStreams.State.ERROR) {
            streams.close(Duration.ofSeconds(10));
            throw new IllegalStateException("Kafka Streams stopped before the input was consumed", failure);
        }
    }

    private static double cpuSeconds() {
        return ((OperatingSystemMXBean) ManagementFactory.getOperatingSystemMXBean()).getProcessCpuTime() / 1e9;
    }

    private static long peakRssKb() throws IOException {
        return Files.readAllLines(Path.of("/proc/self/status")).stream()
                .filter(line -> line.startsWith("VmHWM:"))
                .mapToLong(line -> Long.parseLong(line.replaceAll("\\D", "")))
                .findFirst()
                .orElseThrow();
    }
}
