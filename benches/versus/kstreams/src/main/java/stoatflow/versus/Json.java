package stoatflow.versus;

import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.IOException;
import java.io.UncheckedIOException;
import org.apache.kafka.common.serialization.Serde;
import org.apache.kafka.common.serialization.Serdes;

/** JSON as most applications have it: Jackson and one class per kind of object. */
final class Json {
    private static final ObjectMapper MAPPER = new ObjectMapper();

    private Json() {}

    static <T> Serde<T> serde(Class<T> type) {
        return Serdes.serdeFrom(
                (topic, value) -> {
                    try {
                        return value == null ? null : MAPPER.writeValueAsBytes(value);
                    } catch (IOException error) {
                        throw new UncheckedIOException(error);
                    }
                },
                (topic, bytes) -> {
                    try {
                        return bytes == null ? null : MAPPER.readValue(bytes, type);
                    } catch (IOException error) {
                        throw new UncheckedIOException(error);
                    }
                });
    }
}
