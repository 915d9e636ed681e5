package stoatflow.oracle;

import java.nio.file.Path;
import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.concurrent.atomic.AtomicReference;
import org.apache.kafka.clients.consumer.ConsumerConfig;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.StreamsConfig;
import org.apache.kafka.streams.Topology;
import org.apache.kafka.streams.errors.InvalidStateStoreException;
import org.apache.kafka.streams.errors.StreamsUncaughtExceptionHandler.StreamThreadExceptionResponse;
import org.apache.kafka.streams.state.BuiltInDslStoreSuppliers;

/**
 * One application of Kafka Streams on a broker.
 *
 * <p>Takes: the steps of its topology, its settings, a folder. Gives: its final stores. Owns: the
 * application, and the sentence that says why it ended. Never waits for ever.
 */
final class Running implements AutoCloseable {
    private static final Duration PATIENCE = Duration.ofSeconds(120);
    private static final Duration TO_CLOSE = Duration.ofSeconds(30);

    private final KafkaStreams streams;
    private final Progress progress;
    private final AtomicReference<Throwable> failed = new AtomicReference<>();

    private Running(KafkaStreams streams, Progress progress) {
        this.streams = streams;
        this.progress = progress;
    }

    static Running start(Step asked, Path folder) throws Exception {
        Properties properties = properties(asked, folder);
        Topology topology = Topologies.build(Json.array(asked.get("topology")), properties);
        // First: with an application's id the description tells other names.
        Progress progress = Progress.of(
                topology.describe(), asked.text("application_id"), asked.text("bootstrap_servers"));
        Running made = new Running(new KafkaStreams(topology, properties), progress);
        made.streams.setUncaughtExceptionHandler(error -> {
            made.failed.compareAndSet(null, error);
            return StreamThreadExceptionResponse.SHUTDOWN_CLIENT;
        });
        made.streams.start();
        return made;
    }

    private static Properties properties(Step asked, Path folder) {
        Step settings = asked.part("settings");
        Properties made = new Properties();
        made.put(StreamsConfig.APPLICATION_ID_CONFIG, asked.text("application_id"));
        made.put(StreamsConfig.BOOTSTRAP_SERVERS_CONFIG, asked.text("bootstrap_servers"));
        made.put(StreamsConfig.STATE_DIR_CONFIG, folder.toString());
        made.put(StreamsConfig.DEFAULT_KEY_SERDE_CLASS_CONFIG, Serdes.StringSerde.class);
        made.put(StreamsConfig.DEFAULT_VALUE_SERDE_CLASS_CONFIG, Serdes.StringSerde.class);
        Class<?> inMemory = BuiltInDslStoreSuppliers.InMemoryDslStoreSuppliers.class;
        made.put(StreamsConfig.DSL_STORE_SUPPLIERS_CLASS_CONFIG, inMemory);
        made.put(StreamsConfig.PROCESSING_GUARANTEE_CONFIG, StreamsConfig.EXACTLY_ONCE_V2);
        made.put(StreamsConfig.STATESTORE_CACHE_MAX_BYTES_CONFIG, 0L);
        made.put(StreamsConfig.COMMIT_INTERVAL_MS_CONFIG, 100L);
        made.put(StreamsConfig.NUM_STREAM_THREADS_CONFIG, ((Long) settings.get("threads")).intValue());
        made.put(StreamsConfig.MAX_TASK_IDLE_MS_CONFIG, settings.get("max_task_idle_ms"));
        made.put(StreamsConfig.InternalConfig.EMIT_INTERVAL_MS_KSTREAMS_OUTER_JOIN_SPURIOUS_RESULTS_FIX, 0L);
        made.put(StreamsConfig.InternalConfig.EMIT_INTERVAL_MS_KSTREAMS_WINDOWED_AGGREGATION, 0L);
        if (settings.has("optimization")) {
            made.put(StreamsConfig.TOPOLOGY_OPTIMIZATION_CONFIG, settings.text("optimization"));
        }
        made.put(ConsumerConfig.AUTO_OFFSET_RESET_CONFIG, "earliest");
        made.put(ConsumerConfig.MAX_POLL_RECORDS_CONFIG, ((Long) settings.get("max_poll_records")).intValue());
        // Else its members would be missed only after their session, and who takes over waits for that.
        made.put(StreamsConfig.consumerPrefix("internal.leave.group.on.close"), true);
        // Only how long it waits for nothing: a case is a second of work.
        made.put(StreamsConfig.POLL_MS_CONFIG, 10L);
        made.put(ConsumerConfig.FETCH_MAX_WAIT_MS_CONFIG, 50);
        return made;
    }

    void awaitRunning() throws Exception {
        await(() -> streams.state() == KafkaStreams.State.RUNNING, "it does not run");
    }

    void awaitAll() throws Exception {
        awaitRunning();
        await(progress::isComplete, "it has not read everything");
    }

    List<Map<String, Object>> rows(Step stores) throws Exception {
        long end = System.nanoTime() + PATIENCE.toNanos();
        while (true) {
            try {
                return Rows.of(streams, stores);
            } catch (InvalidStateStoreException error) {
                // It may be about to share out its tasks anew.
                if (System.nanoTime() > end) {
                    throw error;
                }
                Thread.sleep(20);
            }
        }
    }

    @FunctionalInterface
    private interface Condition {
        boolean holds() throws Exception;
    }

    private void await(Condition condition, String otherwise) throws Exception {
        long end = System.nanoTime() + PATIENCE.toNanos();
        while (!condition.holds()) {
            if (failed.get() != null) {
                throw new IllegalStateException("Kafka Streams failed", failed.get());
            }
            if (streams.state().hasCompletedShutdown() || System.nanoTime() > end) {
                throw new IllegalStateException(otherwise + ": it is " + streams.state() + ", " + progress);
            }
            Thread.sleep(10);
        }
    }

    @Override
    public void close() {
        boolean closed = streams.close(TO_CLOSE);
        progress.close();
        if (!closed) {
            throw new IllegalStateException("Kafka Streams did not close within " + TO_CLOSE);
        }
    }
}
