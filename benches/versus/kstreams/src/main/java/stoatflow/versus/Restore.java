package stoatflow.versus;

import com.sun.management.OperatingSystemMXBean;
import java.io.IOException;
import java.lang.management.ManagementFactory;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Locale;
import java.util.Map;
import java.util.Properties;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.atomic.AtomicLong;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.RemoveMembersFromConsumerGroupOptions;
import org.apache.kafka.common.TopicPartition;
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
import org.apache.kafka.streams.processor.StateRestoreListener;
import org.apache.kafka.streams.state.KeyValueStore;

/**
 * The Kafka Streams side of the restore benchmark: a count per key.
 *
 * <p>Takes: six arguments. Gives: one line of JSON on stdout when it is RUNNING, then goes on until
 * it is killed. Never: tunes Kafka Streams; but it takes members that a kill left behind out of the
 * group before the clock starts, because their session timeout (45 s) is not what is measured.
 */
public final class Restore {
    private static final String STORE = "counts";

    private Restore() {}

    static Topology topology(String input, String output) {
        StreamsBuilder builder = new StreamsBuilder();
        builder.stream(input, Consumed.with(Serdes.String(), Serdes.String()))
                .groupByKey(Grouped.with(STORE, Serdes.String(), Serdes.String()))
                .count(Materialized.<String, Long, KeyValueStore<Bytes, byte[]>>as(STORE)
                        .withKeySerde(Serdes.String())
                        .withValueSerde(Serdes.Long()))
                .toStream()
                .to(output, Produced.with(Serdes.String(), Serdes.Long()));
        return builder.build();
    }

    /** Counts what is restored, and when. */
    private static final class Watch implements StateRestoreListener {
        final AtomicLong records = new AtomicLong();
        final AtomicLong began = new AtomicLong();
        final AtomicLong ended = new AtomicLong();

        @Override
        public void onRestoreStart(TopicPartition partition, String store, long start, long end) {
            began.compareAndSet(0, System.nanoTime());
        }

        @Override
        public void onBatchRestored(TopicPartition partition, String store, long end, long count) {
            records.addAndGet(count);
        }

        @Override
        public void onRestoreEnd(TopicPartition partition, String store, long total) {
            ended.set(System.nanoTime());
        }
    }

    public static void main(String[] args) throws Exception {
        if (args.length != 6) {
            System.err.println("usage: Restore <bootstrap> <application id> <input> <output> <threads> <state dir>");
            System.exit(2);
        }
        Properties config = new Properties();
        config.put(StreamsConfig.BOOTSTRAP_SERVERS_CONFIG, args[0]);
        config.put(StreamsConfig.APPLICATION_ID_CONFIG, args[1]);
        config.put(StreamsConfig.NUM_STREAM_THREADS_CONFIG, args[4]);
        config.put(StreamsConfig.STATE_DIR_CONFIG, args[5]);
        config.put(StreamsConfig.PROCESSING_GUARANTEE_CONFIG, StreamsConfig.EXACTLY_ONCE_V2);
        try (Admin admin = Admin.create(Map.of("bootstrap.servers", args[0]))) {
            admin.removeMembersFromConsumerGroup(args[1], new RemoveMembersFromConsumerGroupOptions()).all().get();
        } catch (ExecutionException none) {
            // The first start: there is no group yet.
        }
        CountDownLatch running = new CountDownLatch(1);
        Watch watch = new Watch();
        KafkaStreams streams = new KafkaStreams(topology(args[2], args[3]), config);
        streams.setGlobalStateRestoreListener(watch);
        streams.setStateListener((now, before) -> {
            if (now == KafkaStreams.State.RUNNING) {
                running.countDown();
            }
        });
        streams.setUncaughtExceptionHandler(error -> {
            error.printStackTrace();
            Runtime.getRuntime().halt(3);
            return StreamThreadExceptionResponse.SHUTDOWN_CLIENT;
        });
        long start = System.nanoTime();
        streams.start();
        running.await();
        double seconds = (System.nanoTime() - start) / 1e9;
        System.out.printf(Locale.ROOT,
                "{\"seconds\": %.3f, \"restore_seconds\": %.3f, \"restored\": %d, \"cpu_seconds\": %.3f, "
                        + "\"peak_rss_kb\": %d}%n",
                seconds, (watch.ended.get() - watch.began.get()) / 1e9, watch.records.get(), cpuSeconds(), peakRssKb());
        System.out.flush();
        Thread.currentThread().join();
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
