package stoatflow.oracle;

import java.time.Duration;
import java.util.List;
import java.util.Map;
import org.apache.kafka.common.serialization.Serde;
import org.apache.kafka.common.utils.Bytes;
import org.apache.kafka.streams.kstream.Grouped;
import org.apache.kafka.streams.kstream.Materialized;
import org.apache.kafka.streams.kstream.Named;
import org.apache.kafka.streams.kstream.internals.NamedInternal;
import org.apache.kafka.streams.processor.StateStore;
import org.apache.kafka.streams.state.KeyValueStore;
import org.apache.kafka.streams.state.Stores;

/** One step of a topology: its fields, as the DSL takes them. */
record Step(Map<String, Object> fields) {
    String op() {
        return text("op");
    }

    boolean has(String field) {
        return fields.get(field) != null;
    }

    String text(String field) {
        return (String) fields.get(field);
    }

    Object get(String field) {
        return fields.get(field);
    }

    Duration ms(String field) {
        return Codecs.ms(fields.get(field));
    }

    Functions.Fn fn(String field) {
        return Functions.of(fields.get(field));
    }

    Serde<Object> serde(String field) {
        return Codecs.of(fields.get(field));
    }

    /** The member `field`, an object, as if it were a step. */
    Step part(String field) {
        return new Step(Json.object(fields.get(field)));
    }

    List<String> names(String field) {
        return has(field) ? Json.array(fields.get(field)).stream().map(String.class::cast).toList() : List.of();
    }

    /** What the DSL's shorter overloads pass on themselves where there is no name. */
    Named named() {
        return has("name") ? Named.as(text("name")) : NamedInternal.empty();
    }

    Grouped<Object, Object> grouped() {
        Grouped<Object, Object> made = Grouped.with(serde("key_serde"), serde("value_serde"));
        return has("name") ? made.withName(text("name")) : made;
    }

    /** Null where there is none. */
    <S extends StateStore> Materialized<Object, Object, S> materialized() {
        if (!has("materialized")) {
            return null;
        }
        Step kept = part("materialized");
        Serde<Object> key = kept.serde("key_serde");
        Serde<Object> value = kept.serde("value_serde");
        Materialized<Object, Object, S> made = kept.has("store")
                ? Materialized.<Object, Object, S>as(kept.text("store")).withKeySerde(key).withValueSerde(value)
                : Materialized.with(key, value);
        return kept.has("retention_ms") ? made.withRetention(kept.ms("retention_ms")) : made;
    }

    /** As `materialized`, for stores that may be versioned ones. */
    Materialized<Object, Object, KeyValueStore<Bytes, byte[]>> keyValue() {
        if (has("materialized") && part("materialized").has("versioned_history_ms")) {
            Step kept = part("materialized");
            Materialized<Object, Object, KeyValueStore<Bytes, byte[]>> made = Materialized.as(
                    Stores.persistentVersionedKeyValueStore(kept.text("store"), kept.ms("versioned_history_ms")));
            return made.withKeySerde(kept.serde("key_serde")).withValueSerde(kept.serde("value_serde"));
        }
        return materialized();
    }
}
