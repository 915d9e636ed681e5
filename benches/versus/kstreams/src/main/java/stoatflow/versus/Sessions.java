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
import org.apache.kafka.streams.kstream.SessionWindows;
import org.apache.kafka.streams.kstream.WindowedSerdes;
import org.apache.kafka.streams.state.SessionStore;

/** W5: how many clicks and how much is spent per user and session, which ends after 10 s without a click. */
final class Sessions {
    record Click(String user, long spent) {}

    record Session(long n, long spent) {}

    private Sessions() {}

    static Topology topology(List<String> inputs, String output) {
        StreamsBuilder builder = new StreamsBuilder();
        builder.stream(inputs.get(0), Consumed.with(Serdes.String(), Json.serde(Click.class)))
                .groupByKey(Grouped.with(Serdes.String(), Json.serde(Click.class)))
                .windowedBy(SessionWindows.ofInactivityGapAndGrace(Duration.ofSeconds(10), Duration.ofSeconds(30)))
                .aggregate(
                        () -> new Session(0, 0),
                        (user, click, session) -> new Session(session.n() + 1, session.spent() + click.spent()),
                        (user, one, two) -> new Session(one.n() + two.n(), one.spent() + two.spent()),
                        Materialized.<String, Session, SessionStore<Bytes, byte[]>>as("sessions")
                                .withKeySerde(Serdes.String())
                                .withValueSerde(Json.serde(Session.class)))
                .toStream()
                .to(output, Produced.with(
                        WindowedSerdes.sessionWindowedSerdeFrom(String.class), Json.serde(Session.class)));
        return builder.build();
    }
}
