package stoatflow.versus;

import java.util.List;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.common.utils.Bytes;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.Topology;
import org.apache.kafka.streams.kstream.Consumed;
import org.apache.kafka.streams.kstream.Joined;
import org.apache.kafka.streams.kstream.KTable;
import org.apache.kafka.streams.kstream.Materialized;
import org.apache.kafka.streams.kstream.Produced;
import org.apache.kafka.streams.state.KeyValueStore;

/** W4: orders joined to the profiles of their users; orders of strangers are dropped. */
final class TableJoin {
    record Order(long id, String user, int amount) {}

    record Profile(String name, String city, int since) {}

    record Enriched(long id, String user, int amount, String name, String city) {}

    private TableJoin() {}

    static Topology topology(List<String> inputs, String output) {
        StreamsBuilder builder = new StreamsBuilder();
        KTable<String, Profile> profiles = builder.table(
                inputs.get(1),
                Consumed.with(Serdes.String(), Json.serde(Profile.class)),
                Materialized.<String, Profile, KeyValueStore<Bytes, byte[]>>as("profiles")
                        .withKeySerde(Serdes.String())
                        .withValueSerde(Json.serde(Profile.class)));
        builder.stream(inputs.get(0), Consumed.with(Serdes.String(), Json.serde(Order.class)))
                .join(
                        profiles,
                        (order, profile) -> new Enriched(
                                order.id(), order.user(), order.amount(), profile.name(), profile.city()),
                        Joined.with(Serdes.String(), Json.serde(Order.class), Json.serde(Profile.class)))
                .to(output, Produced.with(Serdes.String(), Json.serde(Enriched.class)));
        return builder.build();
    }
}
