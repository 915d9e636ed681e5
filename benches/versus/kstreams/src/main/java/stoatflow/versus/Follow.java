package stoatflow.versus;

import java.time.Duration;
import java.util.List;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.errors.StreamsUncaughtExceptionHandler.StreamThreadExceptionResponse;

/**
 * The Kafka Streams side of the latency benchmark: one workload on an input that is still being written.
 *
 * <p>Takes: the arguments of {@link Versus}. Gives: the output topic, and the word RUNNING once.
 * Ends by a signal. Never: measures anything: who writes and reads does.
 */
public final class Follow {
    private Follow() {}

    public static void main(String[] args) throws InterruptedException {
        KafkaStreams streams = new KafkaStreams(
                Versus.topology(args[0], List.of(args[3].split(",")), List.of(args[4].split(","))), Versus.config(args));
        streams.setUncaughtExceptionHandler(error -> {
            error.printStackTrace();
            return StreamThreadExceptionResponse.SHUTDOWN_CLIENT;
        });
        streams.setStateListener((now, before) -> {
            if (now == KafkaStreams.State.RUNNING) {
                System.out.println("RUNNING");
            }
        });
        Runtime.getRuntime().addShutdownHook(new Thread(() -> streams.close(Duration.ofSeconds(20))));
        streams.start();
        while (streams.state() != KafkaStreams.State.ERROR && streams.state() != KafkaStreams.State.NOT_RUNNING) {
            Thread.sleep(100);
        }
        System.exit(1);
    }
}
