package stoatflow.oracle;

import com.fasterxml.jackson.core.JsonProcessingException;
import com.fasterxml.jackson.databind.DeserializationFeature;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.SerializationFeature;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.charset.StandardCharsets;
import java.util.List;
import java.util.Map;
import org.apache.kafka.streams.kstream.Windowed;

/** JSON as plain Java objects: maps, lists, texts, longs, booleans, null; and the helpers of FUNCTIONS.md. */
final class Json {
    private static final ObjectMapper MAPPER = new ObjectMapper()
            .enable(DeserializationFeature.USE_LONG_FOR_INTS)
            .enable(SerializationFeature.ORDER_MAP_ENTRIES_BY_KEYS);

    private Json() {}

    static Object read(String text) {
        try {
            return MAPPER.readValue(text, Object.class);
        } catch (JsonProcessingException error) {
            throw new UncheckedIOException(error);
        }
    }

    static Object read(byte[] bytes) {
        try {
            return MAPPER.readValue(bytes, Object.class);
        } catch (IOException error) {
            throw new UncheckedIOException(error);
        }
    }

    static String write(Object value) {
        try {
            return MAPPER.writeValueAsString(value);
        } catch (JsonProcessingException error) {
            throw new UncheckedIOException(error);
        }
    }

    static byte[] bytes(Object value) {
        return write(value).getBytes(StandardCharsets.UTF_8);
    }

    @SuppressWarnings("unchecked")
    static Map<String, Object> object(Object value) {
        return (Map<String, Object>) value;
    }

    @SuppressWarnings("unchecked")
    static List<Object> array(Object value) {
        return (List<Object>) value;
    }

    /** `str(x)` of the registry. */
    static String str(Object x) {
        if (x == null) {
            return "null";
        }
        if (x instanceof Windowed<?> key) {
            return str(key.key()) + "@" + key.window().start() + "-" + key.window().end();
        }
        return x instanceof String || x instanceof Long ? x.toString() : write(x);
    }

    /** `num(x)` of the registry. */
    static long num(Object x) {
        return x instanceof Long number ? number : 0;
    }

    /** `v.name` of the registry. */
    static Object member(Object v, String name) {
        return v instanceof Map<?, ?> object ? object.get(name) : null;
    }
}
