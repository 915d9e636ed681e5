package stoatflow.oracle;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.Comparator;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import java.util.TreeSet;
import org.apache.kafka.common.serialization.Serde;
import org.apache.kafka.streams.TopologyTestDriver;
import org.apache.kafka.streams.kstream.Window;
import org.apache.kafka.streams.kstream.Windowed;
import org.apache.kafka.streams.processor.StateStore;
import org.apache.kafka.streams.state.KeyValueIterator;
import org.apache.kafka.streams.state.KeyValueStore;
import org.apache.kafka.streams.state.SessionStore;
import org.apache.kafka.streams.state.TimestampedKeyValueStore;
import org.apache.kafka.streams.state.TimestampedWindowStore;
import org.apache.kafka.streams.state.ValueAndTimestamp;
import org.apache.kafka.streams.state.VersionedKeyValueStore;
import org.apache.kafka.streams.state.VersionedRecord;
import org.apache.kafka.streams.state.WindowStore;

/** What the named stores hold at the end, in the form of a vector. */
final class Contents {
    private final Map<String, Object> stores = new TreeMap<>();
    private final Map<String, Object> times = new TreeMap<>();
    private final Map<String, Object> lookups = new TreeMap<>();
    /** What versioned stores are asked for, which cannot be iterated over. */
    private final Set<Object> inputKeys;
    private final Set<Long> inputTimes = new TreeSet<>();
    /** What the case asks instead: by store, lists that begin with key and time. */
    private final Map<String, Object> asked;

    private record Entry(byte[] bytes, long start, long end, List<Object> shown, Long time) {}

    private static final Comparator<Entry> IN_ORDER = Comparator.comparing(Entry::bytes, Arrays::compareUnsigned)
            .thenComparing(Entry::start)
            .thenComparing(Entry::end);

    Contents(List<Object> inputs, Map<String, Object> asked) {
        this.asked = asked;
        Map<String, Object> keys = new TreeMap<>();
        for (Object event : inputs) {
            Step input = new Step(Json.object(event));
            if (input.has("topic")) {
                inputTimes.add((Long) input.get("timestamp"));
                if (input.has("key")) {
                    keys.put(Json.str(input.get("key")), input.get("key"));
                }
            }
        }
        inputKeys = Set.copyOf(keys.values());
    }

    /** Those of the topology's stores that have a name there. */
    void read(TopologyTestDriver driver, List<Object> steps) {
        // The other ways to a store want to know its type.
        Map<String, StateStore> all = driver.getAllStateStores();
        for (Object fields : steps) {
            Step step = new Step(Json.object(fields));
            Step kept = step.has("materialized") ? step.part("materialized") : step;
            if (kept.has("store")) {
                read(kept.text("store"), all.get(kept.text("store")), Codecs.inner(kept.get("key_serde")));
            }
        }
    }

    @SuppressWarnings("unchecked")
    private void read(String name, StateStore store, Serde<Object> keys) {
        List<Entry> entries = new ArrayList<>();
        boolean timed = true;
        if (store instanceof VersionedKeyValueStore<?, ?>) {
            entries = versions(name, (VersionedKeyValueStore<Object, Object>) store, keys);
        } else if (store instanceof TimestampedKeyValueStore<?, ?>) {
            for (var found : Processors.entries(((TimestampedKeyValueStore<Object, Object>) store).all())) {
                entries.add(entry(found.key, found.value.value(), found.value.timestamp(), keys));
            }
        } else if (store instanceof TimestampedWindowStore<?, ?>) {
            for (var found : Processors.entries(((TimestampedWindowStore<Object, Object>) store).all())) {
                entries.add(entry(found.key, found.value.value(), found.value.timestamp(), keys));
            }
        } else {
            timed = false;
            for (var found : Processors.entries(untimed(store))) {
                entries.add(entry(found.key, found.value, null, keys));
            }
        }
        entries.sort(IN_ORDER);
        stores.put(name, entries.stream().map(Entry::shown).toList());
        if (timed) {
            times.put(name, entries.stream().map(Entry::time).toList());
        }
    }

    @SuppressWarnings("unchecked")
    private static KeyValueIterator<Object, Object> untimed(StateStore store) {
        Object all;
        if (store instanceof KeyValueStore<?, ?> plain) {
            all = plain.all();
        } else if (store instanceof WindowStore<?, ?> windows) {
            all = windows.all();
        } else {
            all = ((SessionStore<Object, Object>) store).fetch(null, null);
        }
        return (KeyValueIterator<Object, Object>) all;
    }

    private List<Entry> versions(String name, VersionedKeyValueStore<Object, Object> store, Serde<Object> keys) {
        List<Entry> entries = new ArrayList<>();
        List<Object> questions = new ArrayList<>();
        for (Object key : sorted(keys)) {
            VersionedRecord<Object> latest = store.get(key);
            if (latest != null) {
                entries.add(entry(key, latest.value(), latest.timestamp(), keys));
            }
            inputTimes.forEach(time -> questions.add(List.of(key, time)));
        }
        List<Object> answers = new ArrayList<>();
        for (Object question : Json.array(asked.getOrDefault(name, questions))) {
            Object key = Json.array(question).get(0);
            Long time = (Long) Json.array(question).get(1);
            answers.add(Arrays.asList(key, time, shown(store.get(key, time))));
        }
        lookups.put(name, answers);
        return entries;
    }

    private static Map<String, Object> shown(VersionedRecord<Object> version) {
        if (version == null) {
            return null;
        }
        Map<String, Object> shown = new LinkedHashMap<>();
        shown.put("value", version.value());
        shown.put("valid_from", version.timestamp());
        shown.put("valid_to", version.validTo().orElse(null));
        return shown;
    }

    private List<Object> sorted(Serde<Object> keys) {
        List<Object> found = new ArrayList<>(inputKeys);
        found.sort(Comparator.comparing(key -> keys.serializer().serialize("", key), Arrays::compareUnsigned));
        return found;
    }

    private static Entry entry(Object key, Object value, Long time, Serde<Object> keys) {
        if (key instanceof Windowed<?> windowed) {
            Window window = windowed.window();
            byte[] bytes = keys.serializer().serialize("", windowed.key());
            List<Object> shown = Arrays.asList(windowed.key(), shown(window), value);
            return new Entry(bytes, window.start(), window.end(), shown, time);
        }
        return new Entry(keys.serializer().serialize("", key), 0, 0, Arrays.asList(key, value), time);
    }

    static Map<String, Object> shown(Window window) {
        Map<String, Object> shown = new LinkedHashMap<>();
        shown.put("start", window.start());
        shown.put("end", window.end());
        return shown;
    }

    void write(Map<String, Object> result) {
        result.put("stores", stores);
        result.put("store_timestamps", times);
        result.put("versioned_lookups", lookups);
    }
}
