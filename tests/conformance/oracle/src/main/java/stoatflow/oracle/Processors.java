package stoatflow.oracle;

import static stoatflow.oracle.Json.str;

import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.function.Function;
import java.util.function.Supplier;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.header.Headers;
import org.apache.kafka.common.header.internals.RecordHeaders;
import org.apache.kafka.streams.KeyValue;
import org.apache.kafka.streams.kstream.Windowed;
import org.apache.kafka.streams.kstream.internals.SessionWindow;
import org.apache.kafka.streams.processor.Cancellable;
import org.apache.kafka.streams.processor.PunctuationType;
import org.apache.kafka.streams.processor.StateStore;
import org.apache.kafka.streams.processor.api.FixedKeyProcessor;
import org.apache.kafka.streams.processor.api.FixedKeyProcessorContext;
import org.apache.kafka.streams.processor.api.FixedKeyRecord;
import org.apache.kafka.streams.processor.api.Processor;
import org.apache.kafka.streams.processor.api.ProcessorContext;
import org.apache.kafka.streams.processor.api.Record;
import org.apache.kafka.streams.processor.api.RecordMetadata;
import org.apache.kafka.streams.state.KeyValueIterator;
import org.apache.kafka.streams.state.KeyValueStore;
import org.apache.kafka.streams.state.SessionStore;
import org.apache.kafka.streams.state.TimestampedKeyValueStore;
import org.apache.kafka.streams.state.ValueAndTimestamp;
import org.apache.kafka.streams.state.VersionedKeyValueStore;
import org.apache.kafka.streams.state.VersionedRecord;
import org.apache.kafka.streams.state.WindowStore;
import org.apache.kafka.streams.state.WindowStoreIterator;

/** The processors of FUNCTIONS.md. Each maker takes the names of the connected stores. */
final class Processors {
    private static final Map<String, Function<List<String>, Processor<Object, Object, Object, Object>>> PROCESSORS =
            Map.ofEntries(
                    Map.entry("running_total", RunningTotal::new),
                    Map.entry("flush_stream_time", stores -> new Flush(stores, 50, PunctuationType.STREAM_TIME)),
                    Map.entry("flush_wall_clock", stores -> new Flush(stores, 100, PunctuationType.WALL_CLOCK_TIME)),
                    Map.entry("stamp_header", StampHeader::new),
                    Map.entry("shift_timestamp", ShiftTimestamp::new),
                    Map.entry("window_sum", WindowSum::new),
                    Map.entry("session_count", SessionCount::new),
                    Map.entry("versioned_asof", VersionedAsOf::new),
                    Map.entry("route_children", RouteChildren::new),
                    Map.entry("punct_trace", PunctTrace::new),
                    Map.entry("ttl_expire", TtlExpire::new),
                    Map.entry("expire_after_five", ExpireAfterFive::new),
                    Map.entry("range_dump", RangeDump::new),
                    Map.entry("double_forward", DoubleForward::new));
    private static final Map<String, Function<List<String>, FixedKeyProcessor<Object, Object, Object>>> FIXED_KEY =
            Map.of(
                    "dedup", Dedup::new,
                    "record_meta", RecordMeta::new,
                    "stream_time", StreamTime::new,
                    "wall_time", WallTime::new,
                    "lookup", Lookup::new);

    private Processors() {}

    static Supplier<Processor<Object, Object, Object, Object>> of(Object name, List<String> stores) {
        var maker = Objects.requireNonNull(PROCESSORS.get((String) name), () -> "no processor is called " + name);
        return () -> maker.apply(stores);
    }

    static Supplier<FixedKeyProcessor<Object, Object, Object>> fixedKey(Object name, List<String> stores) {
        var maker = Objects.requireNonNull(FIXED_KEY.get((String) name), () -> "no processor is called " + name);
        return () -> maker.apply(stores);
    }

    /** Keeps the context and the first connected store. */
    private abstract static class Base<S extends StateStore> implements Processor<Object, Object, Object, Object> {
        private final List<String> stores;
        ProcessorContext<Object, Object> context;
        S store;

        Base(List<String> stores) {
            this.stores = stores;
        }

        @Override
        public void init(ProcessorContext<Object, Object> given) {
            context = given;
            store = stores.isEmpty() ? null : context.getStateStore(stores.get(0));
        }
    }

    private abstract static class FixedBase<S extends StateStore> implements FixedKeyProcessor<Object, Object, Object> {
        private final List<String> stores;
        FixedKeyProcessorContext<Object, Object> context;
        S store;

        FixedBase(List<String> stores) {
            this.stores = stores;
        }

        @Override
        public void init(FixedKeyProcessorContext<Object, Object> given) {
            context = given;
            store = stores.isEmpty() ? null : context.getStateStore(stores.get(0));
        }
    }

    private static final class RunningTotal extends Base<KeyValueStore<Object, Object>> {
        RunningTotal(List<String> stores) {
            super(stores);
        }

        @Override
        public void process(Record<Object, Object> record) {
            if (record.value() == null) {
                store.delete(record.key());
                context.forward(record);
                return;
            }
            Object before = store.get(record.key());
            Object total = (before == null ? 0 : (Long) before) + (Long) record.value();
            store.put(record.key(), total);
            context.forward(record.withValue(total));
        }
    }

    private static final class Dedup extends FixedBase<KeyValueStore<Object, Object>> {
        Dedup(List<String> stores) {
            super(stores);
        }

        @Override
        public void process(FixedKeyRecord<Object, Object> record) {
            if (record.value() == null) {
                store.delete(record.key());
            } else if (record.value().equals(store.get(record.key()))) {
                return;
            } else {
                store.put(record.key(), record.value());
            }
            context.forward(record);
        }
    }

    private static final class Flush extends Base<KeyValueStore<Object, Object>> {
        private final long interval;
        private final PunctuationType type;

        Flush(List<String> stores, long interval, PunctuationType type) {
            super(stores);
            this.interval = interval;
            this.type = type;
        }

        @Override
        public void init(ProcessorContext<Object, Object> given) {
            super.init(given);
            context.schedule(Duration.ofMillis(interval), type, this::flush);
        }

        @Override
        public void process(Record<Object, Object> record) {
            if (record.value() == null) {
                store.delete(record.key());
            } else {
                store.put(record.key(), record.value());
            }
        }

        private void flush(long time) {
            List<KeyValue<Object, Object>> entries = entries(store.all());
            entries.forEach(entry -> context.forward(new Record<>(entry.key, entry.value, time)));
            entries.forEach(entry -> store.delete(entry.key));
        }
    }

    private static final class StampHeader extends Base<StateStore> {
        StampHeader(List<String> stores) {
            super(stores);
        }

        @Override
        public void process(Record<Object, Object> record) {
            Headers kept = new RecordHeaders();
            for (Header header : record.headers()) {
                if (!header.key().equals("drop")) {
                    kept.add(header);
                }
            }
            kept.add("seen", "yes".getBytes(StandardCharsets.UTF_8));
            context.forward(record.withHeaders(kept));
        }
    }

    private static final class ShiftTimestamp extends Base<StateStore> {
        ShiftTimestamp(List<String> stores) {
            super(stores);
        }

        @Override
        public void process(Record<Object, Object> record) {
            context.forward(record.withTimestamp(record.timestamp() + 1000));
        }
    }

    private static final class RecordMeta extends FixedBase<StateStore> {
        RecordMeta(List<String> stores) {
            super(stores);
        }

        @Override
        public void process(FixedKeyRecord<Object, Object> record) {
            RecordMetadata read = context.recordMetadata().orElseThrow();
            context.forward(record.withValue(read.topic() + ":" + read.partition() + ":" + read.offset()));
        }
    }

    private static final class StreamTime extends FixedBase<StateStore> {
        StreamTime(List<String> stores) {
            super(stores);
        }

        @Override
        public void process(FixedKeyRecord<Object, Object> record) {
            context.forward(record.withValue(str(record.value()) + "@" + context.currentStreamTimeMs()));
        }
    }

    private static final class WallTime extends FixedBase<StateStore> {
        WallTime(List<String> stores) {
            super(stores);
        }

        @Override
        public void process(FixedKeyRecord<Object, Object> record) {
            context.forward(record.withValue(str(record.value()) + "@" + context.currentSystemTimeMs()));
        }
    }

    private static final class WindowSum extends Base<WindowStore<Object, Object>> {
        WindowSum(List<String> stores) {
            super(stores);
        }

        @Override
        public void process(Record<Object, Object> record) {
            if (record.key() == null) {
                return;
            }
            long at = record.timestamp();
            if (record.value() != null) {
                store.put(record.key(), record.value(), at);
            }
            long sum = 0;
            try (WindowStoreIterator<Object> found = store.fetch(record.key(), Math.max(0, at - 20), at)) {
                while (found.hasNext()) {
                    sum += (Long) found.next().value;
                }
            }
            context.forward(record.withValue(sum));
        }
    }

    private static final class SessionCount extends Base<SessionStore<Object, Object>> {
        SessionCount(List<String> stores) {
            super(stores);
        }

        @Override
        public void process(Record<Object, Object> record) {
            long at = record.timestamp();
            store.put(new Windowed<>(record.key(), new SessionWindow(at, at + 5)), record.value());
            long count = entries(store.findSessions(record.key(), Math.max(0, at - 10), at + 10)).size();
            context.forward(record.withValue(count));
        }
    }

    private static final class VersionedAsOf extends Base<VersionedKeyValueStore<Object, Object>> {
        VersionedAsOf(List<String> stores) {
            super(stores);
        }

        @Override
        public void process(Record<Object, Object> record) {
            long code = store.put(record.key(), record.value(), record.timestamp());
            String now = shown(store.get(record.key()));
            String before = shown(store.get(record.key(), record.timestamp() - 10));
            String made = Long.toString(code);
            if (code == VersionedKeyValueStore.PUT_RETURN_CODE_VALID_TO_UNDEFINED) {
                made = "open";
            } else if (code == VersionedKeyValueStore.PUT_RETURN_CODE_NOT_PUT) {
                made = "rejected";
            }
            context.forward(record.withValue(now + "|" + before + "|" + made));
        }

        private static String shown(VersionedRecord<Object> version) {
            return version == null ? "none" : version.value() + "@" + version.timestamp();
        }
    }

    private static final class RouteChildren extends Base<StateStore> {
        RouteChildren(List<String> stores) {
            super(stores);
        }

        @Override
        public void process(Record<Object, Object> record) {
            if (record.value() == null) {
                context.forward(record);
            } else {
                context.forward(record, (Long) record.value() % 2 == 0 ? "evens" : "odds");
            }
        }
    }

    private static final class PunctTrace extends Base<StateStore> {
        private Cancellable schedule;
        private int firings;

        PunctTrace(List<String> stores) {
            super(stores);
        }

        @Override
        public void init(ProcessorContext<Object, Object> given) {
            super.init(given);
            schedule = context.schedule(Duration.ofMillis(100), PunctuationType.STREAM_TIME, time -> {
                context.forward(new Record<>("stream", Long.toString(time), time));
                firings++;
                if (firings == 3) {
                    schedule.cancel();
                }
            });
            context.schedule(Duration.ofMillis(1000), PunctuationType.WALL_CLOCK_TIME,
                    time -> context.forward(new Record<>("wall", Long.toString(time), time)));
        }

        @Override
        public void process(Record<Object, Object> record) {
            context.forward(record);
        }
    }

    private static class TtlExpire extends Base<TimestampedKeyValueStore<Object, Object>> {
        private final long interval;

        TtlExpire(List<String> stores) {
            this(stores, 100);
        }

        TtlExpire(List<String> stores, long interval) {
            super(stores);
            this.interval = interval;
        }

        @Override
        public void init(ProcessorContext<Object, Object> given) {
            super.init(given);
            context.schedule(Duration.ofMillis(interval), PunctuationType.STREAM_TIME, this::expire);
        }

        @Override
        public void process(Record<Object, Object> record) {
            if (record.value() == null) {
                store.delete(record.key());
            } else {
                store.put(record.key(), ValueAndTimestamp.make(record.value(), record.timestamp()));
            }
            context.forward(record);
        }

        void expire(long time) {
            for (KeyValue<Object, ValueAndTimestamp<Object>> entry : entries(store.all())) {
                if (entry.value.timestamp() < time - 200) {
                    store.delete(entry.key);
                    context.forward(new Record<>(entry.key, null, time));
                }
            }
        }
    }

    private static final class ExpireAfterFive extends TtlExpire {
        ExpireAfterFive(List<String> stores) {
            super(stores, 1000);
        }

        @Override
        void expire(long time) {
            long edge = time / 1000 * 1000 - 5000;
            for (KeyValue<Object, ValueAndTimestamp<Object>> entry : entries(store.all())) {
                if (entry.value.timestamp() < edge) {
                    store.delete(entry.key);
                }
            }
        }
    }

    private static final class Lookup extends FixedBase<TimestampedKeyValueStore<Object, Object>> {
        Lookup(List<String> stores) {
            super(stores);
        }

        @Override
        public void process(FixedKeyRecord<Object, Object> record) {
            ValueAndTimestamp<Object> kept = record.key() == null ? null : store.get(record.key());
            String shown = kept == null ? "none" : str(kept.value()) + "@" + kept.timestamp();
            context.forward(record.withValue(str(record.value()) + "/" + shown));
        }
    }

    private static final class RangeDump extends Base<KeyValueStore<Object, Object>> {
        RangeDump(List<String> stores) {
            super(stores);
        }

        @Override
        public void process(Record<Object, Object> record) {
            if (record.value() != null) {
                store.put(record.key(), record.value());
                return;
            }
            for (KeyValue<Object, Object> entry : entries(store.range(record.key(), null))) {
                context.forward(record.withKey(entry.key).withValue(entry.value));
            }
            for (KeyValue<Object, Object> entry : entries(store.reverseAll())) {
                context.forward(record.withKey((Object) ("r" + entry.key)).withValue(entry.value));
            }
        }
    }

    private static final class DoubleForward extends Base<StateStore> {
        DoubleForward(List<String> stores) {
            super(stores);
        }

        @Override
        public void process(Record<Object, Object> record) {
            if (record.value() == null) {
                return;
            }
            context.forward(record.withValue(record.value() + "1"));
            context.forward(record.withValue((Object) (record.value() + "2")).withTimestamp(record.timestamp() + 5));
        }
    }

    /** All of an iterator, which is closed: a store may not be changed meanwhile. */
    static <K, V> List<KeyValue<K, V>> entries(KeyValueIterator<K, V> iterator) {
        List<KeyValue<K, V>> found = new ArrayList<>();
        try (iterator) {
            iterator.forEachRemaining(found::add);
        }
        return found;
    }
}
