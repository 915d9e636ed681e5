package stoatflow.versus;

import com.sun.management.OperatingSystemMXBean;
import java.io.IOException;
import java.lang.management.ManagementFactory;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.Arrays;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Properties;
import java.util.concurrent.atomic.AtomicReference;
import java.util.regex.Pattern;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.common.utils.Bytes;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.StreamsConfig;
import org.apache.kafka.streams.Topology;
import org.apache.kafka.streams.errors.StreamsUncaughtExceptionHandler.StreamThreadExceptionResponse;
import org.apache.kafka.streams.kstream.Consumed;
import org.apache.kafka.streams.kstream.Grouped;
import org.apache.kafka.streams.kstream.Materialized;
import org.apache.kafka.streams.kstream.Produced;
import org.apache.kafka.streams.state.KeyValueStore;

/**
 * The Kafka Streams side of the word count benchmark.
 *
 * <p>Takes: nine arguments. Gives: the counts in the output topic and one line of JSON on stdout. Never: tunes Kafka
 * Streams in either direction: what is not an argument stays at its default, so that it can be repeated by anyone.
 */
public final class WordCount {
    private static final Pattern SPACE = Pattern.compile("\\s+");
    private static final String STORE = "counts";

    private WordCount() {}

    static List<String> words(String line) {
        String text = line.strip().toLowerCase(Locale.ROOT);
        return text.isEmpty() ? List.of() : Arrays.asList(SPACE.split(text));
    }

    static Topology topology(String input, String output) {
        StreamsBuilder builder = new StreamsBuilder();
        builder.stream(input, Consumed.with(Serdes.ByteArray(), Serdes.String()))
                .flatMapValues(WordCount::words)
                .groupBy((key, word) -> word, Grouped.with(STORE, Serdes.String(), Serdes.String()))
                .count(Materialized.<String, Long, KeyValueStore<Bytes, byte[]>>as(STORE)
                        .withKeySerde(Serdes.String())
                        .withValueSerde(Serdes.Long()))
                .toStream()
                .to(output, Produced.with(Serdes.String(), Serdes.Long()));
        return builder.build();
    }

    public static void main(String[] args) throws Exception {
        if (args.length != 9) {
            System.err.println("usage: WordCount <bootstrap> <application id> <input topic> <output topic> "
                    + "<commit interval ms> <cache bytes> <guarantee> <threads> <state dir>");
            System.exit(2);
        }
        String bootstrap = args[0], applicationId = args[1], input = args[2], output = args[3];
        Properties config = new Properties();
        config.put(StreamsConfig.BOOTSTRAP_SERVERS_CONFIG, bootstrap);
        config.put(StreamsConfig.APPLICATION_ID_CONFIG, applicationId);
        config.put(StreamsConfig.COMMIT_INTERVAL_MS_CONFIG, args[4]);
        config.put(StreamsConfig.STATESTORE_CACHE_MAX_BYTES_CONFIG, args[5]);
        config.put(StreamsConfig.PROCESSING_GUARANTEE_CONFIG, args[6]);
        config.put(StreamsConfig.NUM_STREAM_THREADS_CONFIG, args[7]);
        config.put(StreamsConfig.STATE_DIR_CONFIG, args[8]);

        AtomicReference<Throwable> failure = new AtomicReference<>();
        KafkaStreams streams = new KafkaStreams(topology(input, output), config);
        streams.setUncaughtExceptionHandler(error -> {
            failure.compareAndSet(null, error);
            return StreamThreadExceptionResponse.SHUTDOWN_CLIENT;
        });
        String repartition = applicationId + "-" + STORE + "-repartition";
        try (Admin admin = Admin.create(Map.of("bootstrap.servers", bootstrap))) {
            Progress progress = new Progress(admin, applicationId, input, repartition);
            long start = System.nanoTime();
            streams.start();
            Progress.Snapshot now;
            while (true) {
                Thread.sleep(1000);
                now = progress.look();
                if (now.finished()) {
                    break;
                }
                if (failure.get() != null || streams.state() == KafkaStreams.State.ERROR) {
                    streams.close(Duration.ofSeconds(10));
                    throw new IllegalStateException("Kafka Streams stopped before the input was consumed", failure.get());
                }
            }
            double seconds = (System.nanoTime() - start) / 1e9;
            if (!streams.close(Duration.ofSeconds(60))) {
                throw new IllegalStateException("Kafka Streams did not close within 60 s");
            }
            System.out.printf(Locale.ROOT,
                    "{\"engine\": \"kstreams\", \"records\": %d, \"seconds\": %.3f, \"cpu_seconds\": %.3f, "
                            + "\"peak_rss_kb\": %d}%n",
                    now.total(), seconds, cpuSeconds(), peakRssKb());
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
