package stoatflow.oracle;

import java.util.ArrayList;
import java.util.HexFormat;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.UUID;
import org.apache.kafka.common.serialization.Serde;
import org.apache.kafka.common.serialization.Serdes;

/**
 * The bytes that Kafka's own serializers write, and the values that its deserializers read.
 *
 * <p>Takes: a JSON array of `{"serde", "value"}` or `{"serde", "hex"}`; a serde is a name or
 * `{"list": serde}`. Gives: for each the bytes in hex of the value, or the value of the bytes.
 */
public final class Serializers {
    private Serializers() {}

    public static void main(String[] arguments) {
        List<Object> answers = new ArrayList<>();
        for (Object asked : Json.array(Json.read(arguments[0]))) {
            Step one = new Step(Json.object(asked));
            answers.add(one.has("hex") ? read(one) : written(one));
        }
        System.out.println(Json.write(answers));
    }

    private static String written(Step one) {
        Object spec = one.get("serde");
        return HexFormat.of().formatHex(serde(spec).serializer().serialize("topic", java(spec, one.get("value"))));
    }

    private static Map<String, Object> read(Step one) {
        Object spec = one.get("serde");
        byte[] bytes = HexFormat.of().parseHex(one.text("hex"));
        Map<String, Object> answer = new LinkedHashMap<>();
        try {
            answer.put("value", json(serde(spec).deserializer().deserialize("topic", bytes)));
        } catch (RuntimeException error) {
            answer.put("error", true);
        }
        return answer;
    }

    @SuppressWarnings("unchecked")
    private static Serde<Object> serde(Object spec) {
        if (spec instanceof Map<?, ?> list) {
            return (Serde<Object>) (Serde<?>) Serdes.ListSerde(ArrayList.class, serde(list.get("list")));
        }
        return (Serde<Object>)
                (Serde<?>)
                        switch ((String) spec) {
                            case "uuid" -> Serdes.UUID();
                            case "string" -> Serdes.String();
                            case "int32" -> Serdes.Integer();
                            case "int64" -> Serdes.Long();
                            case "double" -> Serdes.Double();
                            case "bytes" -> Serdes.ByteArray();
                            default -> throw new IllegalArgumentException("no serde is called " + spec);
                        };
    }

    /** As the serializer takes it. Bytes are hex in JSON. */
    private static Object java(Object spec, Object value) {
        if (value == null) {
            return null;
        }
        if (spec instanceof Map<?, ?> list) {
            List<Object> made = new ArrayList<>();
            Json.array(value).forEach(each -> made.add(java(list.get("list"), each)));
            return made;
        }
        return switch ((String) spec) {
            case "uuid" -> UUID.fromString((String) value);
            case "int32" -> ((Number) value).intValue();
            case "double" -> ((Number) value).doubleValue();
            case "bytes" -> HexFormat.of().parseHex((String) value);
            default -> value;
        };
    }

    private static Object json(Object value) {
        if (value instanceof List<?> list) {
            return list.stream().map(Serializers::json).collect(ArrayList::new, ArrayList::add, ArrayList::addAll);
        }
        if (value instanceof byte[] bytes) {
            return HexFormat.of().formatHex(bytes);
        }
        return value instanceof UUID ? value.toString() : value;
    }
}
