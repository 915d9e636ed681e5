package stoatflow.oracle;

import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.StoreQueryParameters;
import org.apache.kafka.streams.kstream.Windowed;
import org.apache.kafka.streams.query.QueryResult;
import org.apache.kafka.streams.query.StateQueryRequest;
import org.apache.kafka.streams.query.VersionedKeyQuery;
import org.apache.kafka.streams.state.QueryableStoreType;
import org.apache.kafka.streams.state.QueryableStoreTypes;
import org.apache.kafka.streams.state.ValueAndTimestamp;
import org.apache.kafka.streams.state.VersionedRecord;

/**
 * What the stores of a running application hold, in all partitions.
 *
 * <p>Takes: by the stores' names `{"kind", "keys"?}`; only versioned stores need to be told the
 * keys, for they cannot be iterated over. Gives: rows
 * `{"store", "key", "window"?, "value", "timestamp"?}`. Sessions have no time.
 */
final class Rows {
    private final List<Map<String, Object>> rows = new ArrayList<>();
    private final KafkaStreams streams;
    private final String store;

    private Rows(KafkaStreams streams, String store) {
        this.streams = streams;
        this.store = store;
    }

    static List<Map<String, Object>> of(KafkaStreams streams, Step stores) {
        List<Map<String, Object>> all = new ArrayList<>();
        stores.fields().forEach((name, fields) -> {
            Rows made = new Rows(streams, name);
            made.read(new Step(Json.object(fields)));
            all.addAll(made.rows);
        });
        return all;
    }

    private void read(Step kept) {
        switch (kept.text("kind")) {
            case "kv" -> Processors.entries(store(QueryableStoreTypes.timestampedKeyValueStore()).all())
                    .forEach(found -> timed(found.key, found.value));
            case "window" -> Processors.entries(store(QueryableStoreTypes.timestampedWindowStore()).all())
                    .forEach(found -> timed(found.key, found.value));
            case "session" -> Processors.entries(store(QueryableStoreTypes.sessionStore()).fetch(null, null))
                    .forEach(found -> add(found.key, found.value, null));
            case "versioned" -> Json.array(kept.get("keys")).forEach(this::latest);
            default -> throw new IllegalArgumentException("no store is a " + kept.text("kind"));
        }
    }

    private <T> T store(QueryableStoreType<T> type) {
        return streams.store(StoreQueryParameters.fromNameAndType(store, type));
    }

    private void latest(Object key) {
        VersionedKeyQuery<Object, Object> query = VersionedKeyQuery.withKey(key);
        var request = StateQueryRequest.inStore(store).withQuery(query).requireActive();
        for (QueryResult<VersionedRecord<Object>> found : streams.query(request).getPartitionResults().values()) {
            VersionedRecord<Object> version = found.getResult();
            if (version != null) {
                add(key, version.value(), version.timestamp());
            }
        }
    }

    private void timed(Object key, Object value) {
        ValueAndTimestamp<?> both = (ValueAndTimestamp<?>) value;
        add(key, both.value(), both.timestamp());
    }

    private void add(Object key, Object value, Long time) {
        Map<String, Object> row = new LinkedHashMap<>();
        row.put("store", store);
        row.put("key", key);
        if (key instanceof Windowed<?> windowed) {
            row.put("key", windowed.key());
            row.put("window", Contents.shown(windowed.window()));
        }
        row.put("value", value);
        if (time != null) {
            row.put("timestamp", time);
        }
        rows.add(row);
    }
}
