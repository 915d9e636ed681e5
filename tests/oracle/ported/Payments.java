package com.acme;

import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.common.utils.Bytes;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.Topology;
import org.apache.kafka.streams.kstream.Consumed;
import org.apache.kafka.streams.kstream.EmitStrategy;
import org.apache.kafka.streams.kstream.Joined;
import org.apache.kafka.streams.kstream.KStream;
import org.apache.kafka.streams.kstream.KTable;
import org.apache.kafka.streams.kstream.Materialized;
import org.apache.kafka.streams.kstream.Produced;
import org.apache.kafka.streams.kstream.SessionWindows;
import org.apache.kafka.streams.kstream.Suppressed;
import org.apache.kafka.streams.kstream.TimeWindows;
import org.apache.kafka.streams.processor.PunctuationType;
import org.apache.kafka.streams.processor.api.ContextualFixedKeyProcessor;
import org.apache.kafka.streams.processor.api.ContextualProcessor;
import org.apache.kafka.streams.processor.api.FixedKeyRecord;
import org.apache.kafka.streams.processor.api.ProcessorContext;
import org.apache.kafka.streams.processor.api.Record;
import org.apache.kafka.streams.state.KeyValueStore;
import org.apache.kafka.streams.state.Stores;

/** What the tests of `stoatflow prove` port: a topology, and methods that make none. */
public final class Payments {
    private Payments() {}

    public static Topology topology() {
        StreamsBuilder builder = new StreamsBuilder();
        add(builder);
        return builder.build();
    }

    static void add(StreamsBuilder builder) {
        KTable<String, String> users = builder.table(
                "users", Consumed.with(Serdes.String(), Serdes.String()), Materialized.as("users"));
        KStream<String, Long> payments = builder.stream("payments", Consumed.with(Serdes.String(), Serdes.Long()));
        payments.filter((user, amount) -> amount > 0)
                .groupByKey()
                .windowedBy(TimeWindows.ofSizeAndGrace(Duration.ofMinutes(5), Duration.ofMinutes(1)))
                .reduce(Long::sum, Materialized.as("totals"))
                .toStream()
                .selectKey((window, total) -> window.key())
                .to("totals", Produced.with(Serdes.String(), Serdes.Long()));
        payments.processValues(Checked::new).to("checked", Produced.with(Serdes.String(), Serdes.Long()));
        payments.flatMapValues(amount -> List.of("a" + 100 / (amount - 42), "b"))
                .to("letters", Produced.with(Serdes.String(), Serdes.String()));
        payments.leftJoin(users, (amount, user) -> "{\"user\": \"" + user + "\", \"amount\": " + amount + "}",
                        Joined.with(Serdes.String(), Serdes.Long(), Serdes.String()))
                .to("named", Produced.with(Serdes.String(), Serdes.String()));
        builder.addStateStore(Stores.keyValueStoreBuilder(
                Stores.inMemoryKeyValueStore("seen"), Serdes.String(), Serdes.Integer()));
        payments.process(Seen::new, "seen");
    }

    /** Each kind of store, and a join by foreign key, which has internal topics. */
    static void kinds(StreamsBuilder builder) {
        Consumed<String, String> texts = Consumed.with(Serdes.String(), Serdes.String());
        Produced<String, Long> counts = Produced.with(Serdes.String(), Serdes.Long());
        KTable<String, String> cities = builder.table("cities", texts, Materialized.as("cities"));
        builder.table("users", texts, Materialized.as("users"))
                .join(cities, city -> city, (user, city) -> user + " in " + city, joined())
                .toStream()
                .to("where", Produced.with(Serdes.String(), Serdes.String()));
        builder.table("prices", texts, Materialized.as(
                Stores.persistentVersionedKeyValueStore("prices", Duration.ofHours(1))));
        builder.stream("payments", Consumed.with(Serdes.String(), Serdes.Long()))
                .groupByKey()
                .windowedBy(SessionWindows.ofInactivityGapAndGrace(Duration.ofMinutes(1), Duration.ofMinutes(1)))
                .count(Materialized.as("sessions"))
                .suppress(Suppressed.untilWindowCloses(Suppressed.BufferConfig.unbounded()).withName("closed"))
                .toStream((session, count) -> session.key())
                .to("closed", counts);
    }

    /** Sessions when they close. Their store keeps them for gap and grace, as it does by default. */
    static void closing(StreamsBuilder builder) {
        builder.stream("payments", Consumed.with(Serdes.String(), Serdes.Long()))
                .groupByKey()
                .windowedBy(SessionWindows.ofInactivityGapAndGrace(Duration.ofMinutes(1), Duration.ofMinutes(1)))
                .emitStrategy(EmitStrategy.onWindowClose())
                .count(Materialized.as("sessions"))
                .toStream((session, count) -> session.key())
                .to("closed", Produced.with(Serdes.String(), Serdes.Long()));
    }

    /** Tells the stream time; users are of another sub-topology. */
    static void times(StreamsBuilder builder) {
        builder.table("users", Consumed.with(Serdes.String(), Serdes.String()), Materialized.as("users"));
        builder.stream("payments", Consumed.with(Serdes.String(), Serdes.Long()))
                .process(Timed::new)
                .to("times", Produced.with(Serdes.String(), Serdes.Long()));
    }

    private static final class Timed extends ContextualProcessor<String, Long, String, Long> {
        @Override
        public void process(Record<String, Long> record) {
            context().forward(record.withValue(context().currentStreamTimeMs()));
        }
    }

    /** Tells the time of the wall clock, each minute of it. */
    static StreamsBuilder clock(Map<String, Object> config) {
        StreamsBuilder builder = new StreamsBuilder();
        builder.stream("payments", Consumed.with(Serdes.String(), Serdes.Long()))
                .process(Ticking::new)
                .to((String) config.get("acme.out"), Produced.with(Serdes.String(), Serdes.Long()));
        return builder;
    }

    private static final class Ticking extends ContextualProcessor<String, Long, String, Long> {
        @Override
        public void init(ProcessorContext<String, Long> context) {
            super.init(context);
            context.schedule(Duration.ofMinutes(1), PunctuationType.WALL_CLOCK_TIME, time ->
                    context.forward(new Record<>("tick", context.currentSystemTimeMs(), time)));
        }

        @Override
        public void process(Record<String, Long> record) {
            context().forward(record.withValue(context().currentSystemTimeMs()));
        }
    }

    static int counted(Properties properties, StreamsBuilder builder) {
        System.out.println("This is for people, not for those who read what the tests ask.");
        builder.stream("payments").to(properties.getProperty("acme.out"));
        return 1;
    }

    private static Materialized<String, String, KeyValueStore<Bytes, byte[]>> joined() {
        return Materialized.<String, String, KeyValueStore<Bytes, byte[]>>as("where")
                .withKeySerde(Serdes.String())
                .withValueSerde(Serdes.String());
    }

    private static final class Checked extends ContextualFixedKeyProcessor<String, Long, Long> {
        @Override
        public void process(FixedKeyRecord<String, Long> record) {
            record.headers().add("checked", "yes".getBytes());
            context().forward(record);
        }
    }

    private static final class Seen extends ContextualProcessor<String, Long, Void, Void> {
        @Override
        public void process(Record<String, Long> record) {
            KeyValueStore<String, Integer> seen = context().getStateStore("seen");
            Integer before = seen.get(record.key());
            seen.put(record.key(), before == null ? 1 : before + 1);
        }
    }

    public static Topology configured(Properties properties) {
        StreamsBuilder builder = new StreamsBuilder();
        builder.stream("payments").to(properties.getProperty("acme.out"));
        return builder.build();
    }

    public static String text() {
        return "no topology";
    }

    public static Topology nothing() {
        return null;
    }

    public static Topology raises() {
        throw new IllegalStateException("no database here");
    }

    public static Topology pattern() {
        StreamsBuilder builder = new StreamsBuilder();
        builder.stream(java.util.regex.Pattern.compile("payments.*")).to("out");
        return builder.build();
    }

    public static void main(String[] arguments) {
        Properties properties = new Properties();
        properties.put("application.id", "payments");
        properties.put("acme.out", "elsewhere");
        properties.put("default.key.serde", Serdes.StringSerde.class);
        properties.put("default.value.serde", Serdes.LongSerde.class);
        KafkaStreams streams = new KafkaStreams(configured(properties), properties);
        Runtime.getRuntime().addShutdownHook(new Thread(streams::close));
        streams.start();
    }
}
