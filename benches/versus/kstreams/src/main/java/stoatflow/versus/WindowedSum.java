package stoatflow.versus;

import java.time.Duration;
import java.util.List;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.common.utils.Bytes;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.Topology;
import org.apache.kafka.streams.kstream.Consumed;
import org.apache.kafka.streams.kstream.Grouped;
import org.apache.kafka.streams.kstream.Materialized;
import org.apache.kafka.streams.kstream.Produced;
import org.apache.kafka.streams.kstream.TimeWindows;
import org.apache.kafka.streams.kstream.WindowedSerdes;
import org.apache.kafka.streams.state.WindowStore;

/** W3: the sum of amounts per user, in tumbling windows of a minute with 30 s of grace. */
final class WindowedSum {
    private static final Duration SIZE = Duration.ofMinutes(1);
    private static final Duration GRACE = Duration.ofSeconds(30);

    record Payment(String user, long amount) {}

    private WindowedSum() {}

    static Topology topology(List<String> inputs, String output) {
        StreamsBuilder builder = new StreamsBuilder();
        builder.stream(inputs.get(0), Consumed.with(Serdes.String(), Json.serde(Payment.class)))
                .groupByKey(Grouped.with(Serdes.String(), Json.serde(Payment.class)))
                .windowedBy(TimeWindows.ofSizeAndGrace(SIZE, GRACE))
                .aggregate(
                        () -> 0L,
                        (user, payment, total) -> total + payment.amount(),
                        Materialized.<String, Long, WindowStore<Bytes, byte[]>>as("sums")
                                .withKeySerde(Serdes.String())
                                .withValueSerde(Serdes.Long()))
                .toStream()
                .to(output, Produced.with(
                        WindowedSerdes.timeWindowedSerdeFrom(String.class, SIZE.toMillis()), Serdes.Long()));
        return builder.build();
    }
}
