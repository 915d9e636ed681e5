package stoatflow.oracle;

import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import org.apache.kafka.common.serialization.Serde;
import org.apache.kafka.streams.KeyValue;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.Topology;
import org.apache.kafka.streams.kstream.Branched;
import org.apache.kafka.streams.kstream.BranchedKStream;
import org.apache.kafka.streams.kstream.Consumed;
import org.apache.kafka.streams.kstream.KStream;
import org.apache.kafka.streams.kstream.KTable;
import org.apache.kafka.streams.kstream.Produced;
import org.apache.kafka.streams.kstream.Repartitioned;
import org.apache.kafka.streams.kstream.Suppressed;
import org.apache.kafka.streams.kstream.Suppressed.BufferConfig;
import org.apache.kafka.streams.kstream.ValueTransformerWithKey;
import org.apache.kafka.streams.processor.ProcessorContext;
import org.apache.kafka.streams.state.StoreBuilder;
import org.apache.kafka.streams.state.Stores;

/** Builds the topology that a case's steps say, from top to bottom. */
final class Topologies {
    private final StreamsBuilder builder = new StreamsBuilder();
    private final Map<String, Object> made = new HashMap<>();
    private final Aggregations aggregations = new Aggregations(made);

    private Topologies() {}

    static Topology build(List<Object> steps) {
        return build(steps, new Properties());
    }

    /** With what they say about optimizing it. */
    static Topology build(List<Object> steps, Properties properties) {
        Topologies topologies = new Topologies();
        for (Object fields : steps) {
            Step step = new Step(Json.object(fields));
            Object result = topologies.apply(step);
            if (result != null) {
                topologies.made.put(step.text("id"), result);
            }
        }
        return topologies.builder.build(properties);
    }

    private Object apply(Step step) {
        Object parent = made.get(step.text("from"));
        return switch (step.op()) {
            case "stream" -> builder.stream(step.names("topics"), consumed(step));
            case "table" -> step.has("materialized")
                    ? builder.table(step.text("topic"), consumed(step), step.keyValue())
                    : builder.table(step.text("topic"), consumed(step));
            case "global_table" -> step.has("materialized")
                    ? builder.globalTable(step.text("topic"), consumed(step), step.keyValue())
                    : builder.globalTable(step.text("topic"), consumed(step));
            case "state_store" -> {
                builder.addStateStore(store(step));
                yield null;
            }
            case "join", "left_join", "outer_join" -> Joins.join(step, parent, made.get(step.text("other")));
            default -> parent instanceof KStream<?, ?>
                    ? onStream(step, stream(parent))
                    : parent instanceof KTable<?, ?> ? onTable(step, table(parent)) : aggregations.apply(step, parent);
        };
    }

    private Object onStream(Step step, KStream<Object, Object> stream) {
        return switch (step.op()) {
            case "filter" -> {
                Functions.Fn predicate = step.fn("predicate");
                yield stream.filter((k, v) -> predicate.test(k, v), step.named());
            }
            case "filter_not" -> {
                Functions.Fn predicate = step.fn("predicate");
                yield stream.filterNot((k, v) -> predicate.test(k, v), step.named());
            }
            case "map" -> {
                Functions.Fn fn = step.fn("fn");
                yield stream.map((k, v) -> Topologies.pair(fn.call(k, v)), step.named());
            }
            case "flat_map" -> {
                Functions.Fn fn = step.fn("fn");
                yield stream.flatMap((k, v) -> pairs(fn.call(k, v)), step.named());
            }
            case "map_values" -> {
                Functions.Fn fn = step.fn("fn");
                yield stream.mapValues((k, v) -> fn.call(k, v), step.named());
            }
            case "flat_map_values" -> {
                Functions.Fn fn = step.fn("fn");
                yield stream.flatMapValues((k, v) -> Json.array(fn.call(k, v)), step.named());
            }
            case "select_key" -> {
                Functions.Fn fn = step.fn("fn");
                yield stream.selectKey((k, v) -> fn.call(k, v), step.named());
            }
            case "peek" -> {
                Functions.Fn fn = step.fn("fn");
                yield stream.peek((k, v) -> fn.call(k, v), step.named());
            }
            case "merge" -> stream.merge(stream(made.get(step.text("other"))), step.named());
            case "split" -> {
                split(step, stream);
                yield null;
            }
            case "repartition" -> {
                Repartitioned<Object, Object> how =
                        Repartitioned.with(step.serde("key_serde"), step.serde("value_serde"));
                yield stream.repartition(step.has("name") ? how.withName(step.text("name")) : how);
            }
            case "to_table" -> step.has("materialized")
                    ? stream.toTable(step.named(), step.keyValue())
                    : stream.toTable(step.named());
            case "process" -> {
                var supplier = Processors.of(step.get("processor"), step.names("stores"));
                String[] stores = step.names("stores").toArray(new String[0]);
                yield step.has("name")
                        ? stream.process(supplier::get, step.named(), stores)
                        : stream.process(supplier::get, stores);
            }
            case "process_values" -> {
                var supplier = Processors.fixedKey(step.get("processor"), step.names("stores"));
                String[] stores = step.names("stores").toArray(new String[0]);
                yield step.has("name")
                        ? stream.processValues(supplier::get, step.named(), stores)
                        : stream.processValues(supplier::get, stores);
            }
            case "to" -> {
                to(step, stream);
                yield null;
            }
            case "group_by_key" -> stream.groupByKey(step.grouped());
            case "group_by" -> {
                Functions.Fn fn = step.fn("fn");
                yield stream.groupBy((k, v) -> fn.call(k, v), step.grouped());
            }
            default -> throw new IllegalArgumentException("streams have no " + step.op());
        };
    }

    private static Object onTable(Step step, KTable<Object, Object> table) {
        boolean kept = step.has("materialized");
        return switch (step.op()) {
            case "filter" -> {
                Functions.Fn predicate = step.fn("predicate");
                yield kept
                        ? table.filter((k, v) -> predicate.test(k, v), step.named(), step.keyValue())
                        : table.filter((k, v) -> predicate.test(k, v), step.named());
            }
            case "filter_not" -> {
                Functions.Fn predicate = step.fn("predicate");
                yield kept
                        ? table.filterNot((k, v) -> predicate.test(k, v), step.named(), step.keyValue())
                        : table.filterNot((k, v) -> predicate.test(k, v), step.named());
            }
            case "map_values" -> {
                Functions.Fn fn = step.fn("fn");
                yield kept
                        ? table.mapValues((k, v) -> fn.call(k, v), step.named(), step.keyValue())
                        : table.mapValues((k, v) -> fn.call(k, v), step.named());
            }
            case "transform_values" -> {
                Functions.Fn fn = step.fn("fn");
                yield table.transformValues(() -> new Transformer(fn), step.named());
            }
            case "to_stream" -> {
                if (!step.has("fn")) {
                    yield table.toStream(step.named());
                }
                Functions.Fn fn = step.fn("fn");
                yield table.toStream((k, v) -> fn.call(k, v), step.named());
            }
            case "group_by" -> {
                Functions.Fn fn = step.fn("fn");
                yield table.groupBy((k, v) -> pair(fn.call(k, v)), step.grouped());
            }
            case "suppress" -> table.suppress(suppressed(step));
            default -> throw new IllegalArgumentException("tables have no " + step.op());
        };
    }

    private static Consumed<Object, Object> consumed(Step step) {
        Consumed<Object, Object> how = Consumed.with(step.serde("key_serde"), step.serde("value_serde"));
        if (step.has("timestamp_extractor")) {
            Functions.Fn fn = step.fn("timestamp_extractor");
            how = how.withTimestampExtractor((record, partitionTime) ->
                    (Long) fn.call(record.value(), record.timestamp(), partitionTime));
        }
        return step.has("name") ? how.withName(step.text("name")) : how;
    }

    private static StoreBuilder<?> store(Step step) {
        String name = step.text("store");
        Serde<Object> key = step.serde("key_serde");
        Serde<Object> value = step.serde("value_serde");
        return switch (step.text("kind")) {
            case "kv" -> Stores.keyValueStoreBuilder(Stores.persistentKeyValueStore(name), key, value);
            case "timestamped_kv" -> Stores.timestampedKeyValueStoreBuilder(
                    Stores.persistentTimestampedKeyValueStore(name), key, value);
            case "window" -> Stores.windowStoreBuilder(
                    Stores.persistentWindowStore(name, step.ms("retention_ms"), step.ms("window_size_ms"), false),
                    key,
                    value);
            case "session" -> Stores.sessionStoreBuilder(
                    Stores.persistentSessionStore(name, step.ms("retention_ms")), key, value);
            case "versioned" -> Stores.versionedKeyValueStoreBuilder(
                    Stores.persistentVersionedKeyValueStore(name, step.ms("versioned_history_ms")), key, value);
            default -> throw new IllegalArgumentException("no store is a " + step.text("kind"));
        };
    }

    private void split(Step step, KStream<Object, Object> stream) {
        BranchedKStream<Object, Object> split = stream.split(step.named());
        for (Object fields : Json.array(step.get("branches"))) {
            Step branch = new Step(Json.object(fields));
            Functions.Fn predicate = branch.fn("predicate");
            split = split.branch((k, v) -> predicate.test(k, v), branched(branch));
        }
        if (step.has("default")) {
            split.defaultBranch(branched(step.part("default")));
        } else {
            split.noDefaultBranch();
        }
    }

    private Branched<Object, Object> branched(Step branch) {
        return Branched.withConsumer(stream -> made.put(branch.text("id"), stream), branch.text("name"));
    }

    private static void to(Step step, KStream<Object, Object> stream) {
        Produced<Object, Object> how = Produced.with(step.serde("key_serde"), step.serde("value_serde"));
        how = step.has("name") ? how.withName(step.text("name")) : how;
        if (step.has("topic_fn")) {
            Functions.Fn fn = step.fn("topic_fn");
            stream.to((k, v, context) -> (String) fn.call(k, v), how);
        } else {
            stream.to(step.text("topic"), how);
        }
    }

    /** A function as a transformer of values. */
    private record Transformer(Functions.Fn fn) implements ValueTransformerWithKey<Object, Object, Object> {
        @Override
        public void init(ProcessorContext context) {}

        @Override
        public Object transform(Object key, Object value) {
            return fn.call(key, value);
        }

        @Override
        public void close() {}
    }

    @SuppressWarnings("unchecked")
    private static Suppressed<Object> suppressed(Step step) {
        Step buffer = step.has("buffer") ? step.part("buffer") : new Step(Map.of());
        Suppressed<?> made;
        if (step.text("until").equals("window_closes")) {
            made = Suppressed.untilWindowCloses(
                    buffer.has("max_records")
                            ? BufferConfig.maxRecords((Long) buffer.get("max_records")).shutDownWhenFull()
                            : BufferConfig.unbounded());
        } else {
            made = Suppressed.untilTimeLimit(
                    step.ms("time_limit_ms"),
                    buffer.has("max_records")
                            ? BufferConfig.maxRecords((Long) buffer.get("max_records")).emitEarlyWhenFull()
                            : buffer.has("max_bytes")
                                    ? BufferConfig.maxBytes((Long) buffer.get("max_bytes")).emitEarlyWhenFull()
                                    : BufferConfig.unbounded());
        }
        return (Suppressed<Object>) (step.has("name") ? made.withName(step.text("name")) : made);
    }

    @SuppressWarnings("unchecked")
    private static KeyValue<Object, Object> pair(Object made) {
        return (KeyValue<Object, Object>) made;
    }

    private static List<KeyValue<Object, Object>> pairs(Object made) {
        List<KeyValue<Object, Object>> found = new ArrayList<>();
        Json.array(made).forEach(one -> found.add(pair(one)));
        return found;
    }

    @SuppressWarnings("unchecked")
    static KStream<Object, Object> stream(Object made) {
        return (KStream<Object, Object>) made;
    }

    @SuppressWarnings("unchecked")
    static KTable<Object, Object> table(Object made) {
        return (KTable<Object, Object>) made;
    }
}
