package stoatflow.oracle;

import java.time.Duration;
import java.util.Map;
import org.apache.kafka.common.serialization.Serde;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.streams.kstream.WindowedSerdes;

/** The serdes that a vector names. */
final class Codecs {
    private Codecs() {}

    static Serde<Object> of(Object spec) {
        if (spec instanceof Map<?, ?> windowed) {
            if (windowed.containsKey("time_windowed")) {
                Serde<Object> inner = of(windowed.get("time_windowed"));
                return any(new WindowedSerdes.TimeWindowedSerde<>(inner, (Long) windowed.get("size_ms")));
            }
            return any(new WindowedSerdes.SessionWindowedSerde<>(of(windowed.get("session_windowed"))));
        }
        return switch ((String) spec) {
            case "string" -> any(Serdes.String());
            case "long" -> any(Serdes.Long());
            case "json" -> Serdes.serdeFrom(
                    (topic, value) -> value == null ? null : Json.bytes(value),
                    (topic, bytes) -> bytes == null ? null : Json.read(bytes));
            default -> throw new IllegalArgumentException("no serde is called " + spec);
        };
    }

    /** Of the keys within, if keys are windowed ones: a table of windows may be kept in a key-value store. */
    static Serde<Object> inner(Object spec) {
        if (spec instanceof Map<?, ?> windowed) {
            return of(windowed.containsKey("time_windowed")
                    ? windowed.get("time_windowed")
                    : windowed.get("session_windowed"));
        }
        return of(spec);
    }

    static Duration ms(Object count) {
        return Duration.ofMillis((Long) count);
    }

    @SuppressWarnings("unchecked")
    private static Serde<Object> any(Serde<?> serde) {
        return (Serde<Object>) serde;
    }
}
