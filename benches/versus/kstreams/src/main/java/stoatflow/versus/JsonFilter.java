package stoatflow.versus;

import java.util.List;
import java.util.Locale;
import org.apache.kafka.common.serialization.Serde;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.Topology;
import org.apache.kafka.streams.kstream.Consumed;
import org.apache.kafka.streams.kstream.Produced;

/** W1: orders of 1 KB; those with an amount that is large enough, with their user in upper case. */
final class JsonFilter {
    private static final int LEAST = 20;

    record Order(long id, String user, int amount, long ts, String pad) {}

    private JsonFilter() {}

    static Topology topology(List<String> inputs, String output) {
        Serde<Order> json = Json.serde(Order.class);
        StreamsBuilder builder = new StreamsBuilder();
        builder.stream(inputs.get(0), Consumed.with(Serdes.ByteArray(), json))
                .filter((key, order) -> order.amount() >= LEAST)
                .mapValues(order -> new Order(
                        order.id(), order.user().toUpperCase(Locale.ROOT), order.amount(), order.ts(), order.pad()))
                .to(output, Produced.with(Serdes.ByteArray(), json));
        return builder.build();
    }
}
