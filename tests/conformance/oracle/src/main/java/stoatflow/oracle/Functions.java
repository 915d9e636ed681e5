package stoatflow.oracle;

import static stoatflow.oracle.Json.array;
import static stoatflow.oracle.Json.member;
import static stoatflow.oracle.Json.num;
import static stoatflow.oracle.Json.object;
import static stoatflow.oracle.Json.str;

import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Objects;
import java.util.TreeMap;
import org.apache.kafka.streams.KeyValue;
import org.apache.kafka.streams.kstream.Windowed;

/** The functions of FUNCTIONS.md. Each takes the arguments that its section there says. */
final class Functions {
    /** A function of the registry. */
    @FunctionalInterface
    interface Fn {
        Object call(Object... arguments);

        default boolean test(Object... arguments) {
            return (Boolean) call(arguments);
        }
    }

    @FunctionalInterface
    private interface Two {
        Object call(Object one, Object two);
    }

    @FunctionalInterface
    private interface Three {
        Object call(Object one, Object two, Object three);
    }

    private static final Map<String, Fn> ALL = new HashMap<>();

    private Functions() {}

    static Fn of(Object name) {
        return Objects.requireNonNull(ALL.get((String) name), () -> "no function is called " + name);
    }

    private static void none(String name, Object result) {
        ALL.put(name, arguments -> result);
    }

    private static void two(String name, Two function) {
        ALL.put(name, a -> function.call(a[0], a[1]));
    }

    private static void three(String name, Three function) {
        ALL.put(name, a -> function.call(a[0], a[1], a[2]));
    }

    private static KeyValue<Object, Object> pair(Object key, Object value) {
        return KeyValue.pair(key, value);
    }

    private static Map<String, Object> json(Object... membersAndValues) {
        Map<String, Object> made = new TreeMap<>();
        for (int at = 0; at < membersAndValues.length; at += 2) {
            made.put((String) membersAndValues[at], membersAndValues[at + 1]);
        }
        return made;
    }

    private static String firstChar(Object v) {
        return v == null || ((String) v).isEmpty() ? null : ((String) v).substring(0, 1);
    }

    private static List<Object> words(Object v) {
        List<Object> words = new ArrayList<>();
        for (String word : v == null ? new String[0] : ((String) v).split(" ")) {
            if (!word.isEmpty()) {
                words.add(word);
            }
        }
        return words;
    }

    private static Object stats(Object agg, Object v, long sign) {
        return json(
                "count", num(member(agg, "count")) + sign,
                "sum", num(member(agg, "sum")) + sign * num(member(v, "amount")));
    }

    private static Object before(String text, char end) {
        int at = text.indexOf(end);
        return at < 0 ? text : text.substring(0, at);
    }

    private static long orZero(Object x) {
        return x == null ? 0 : (Long) x;
    }

    static {
        predicates();
        mappers();
        many();
        aggregations();
        joiners();
        places();
    }

    private static void predicates() {
        two("len_gt_3", (k, v) -> v != null && ((String) v).length() > 3);
        two("starts_with_a", (k, v) -> v != null && ((String) v).startsWith("a"));
        two("has_x", (k, v) -> v != null && ((String) v).contains("x"));
        two("value_is_null", (k, v) -> v == null);
        two("key_not_null", (k, v) -> k != null);
        two("key_is_a", (k, v) -> "a".equals(k));
        two("is_even", (k, v) -> v != null && (Long) v % 2 == 0);
        two("gt_2", (k, v) -> v != null && (Long) v > 2);
        two("amount_gt_10", (k, v) -> v != null && num(member(v, "amount")) > 10);
        two("status_open", (k, v) -> v != null && "open".equals(member(v, "status")));
        two("key_short", (k, v) -> k != null && ((String) k).length() <= 1);
    }

    private static void mappers() {
        two("swap_kv", (k, v) -> pair(v, k));
        two("value_to_key_one", (k, v) -> pair(v, 1L));
        two("by_first_char", (k, v) -> pair(firstChar(v), v));
        two("by_region_amount", (k, v) -> pair(member(v, "region"), num(member(v, "amount"))));
        two("by_region", (k, v) -> pair(member(v, "region"), v));
        two("parity_group", (k, v) -> pair((Long) v % 2 == 0 ? "even" : "odd", v));
        two("by_window_start", (k, v) -> pair(Long.toString(((Windowed<?>) k).window().start()), v));
        two("by_inner_key", (k, v) -> pair(((Windowed<?>) k).key(), v));

        two("value_as_key", (k, v) -> v);
        two("same_key", (k, v) -> k);
        two("first_char", (k, v) -> firstChar(v));
        two("user_of", (k, v) -> member(v, "user"));
        two("region_of", (k, v) -> member(v, "region"));
        two("sku_of", (k, v) -> member(v, "sku"));
        two("const_all", (k, v) -> "all");
        two("null_key", (k, v) -> null);
        two("window_key_text", (k, v) -> str(k));
        two("window_inner_key", (k, v) -> ((Windowed<?>) k).key());

        two("upper", (k, v) -> v == null ? null : ((String) v).toUpperCase(Locale.ROOT));
        two("text_length", (k, v) -> v == null ? null : (long) ((String) v).length());
        two("prefix_key", (k, v) -> str(k) + ":" + str(v));
        two("to_text", (k, v) -> v == null ? null : str(v));
        two("parse_long", (k, v) -> {
            String text = (String) v;
            return text != null && text.matches("-?[0-9]{1,18}") ? Long.valueOf(text) : null;
        });
        two("null_if_x", (k, v) -> "x".equals(v) ? null : v);
        two("double_long", (k, v) -> v == null ? null : 2 * (Long) v);
        two("json_amount", (k, v) -> v == null ? null : num(member(v, "amount")));
        two("wrap_json", (k, v) -> json("v", v));
        two("average_of_stats", (k, v) -> {
            long count = num(member(v, "count"));
            return v == null ? null : (Object) (count == 0 ? 0 : num(member(v, "sum")) / count);
        });
    }

    private static void many() {
        two("split_words", (k, v) -> words(v));
        two("twice", (k, v) -> {
            List<Object> both = new ArrayList<>();
            both.add(v);
            both.add(v);
            return both;
        });
        two("words_as_keys", (k, v) -> words(v).stream().map(word -> pair(word, k)).toList());
        two("both_ways", (k, v) -> List.of(pair(k, v), pair(v, k)));
        two("items_of", (k, v) -> {
            List<Object> made = new ArrayList<>();
            Object items = member(v, "items");
            for (Object item : items == null ? List.of() : array(items)) {
                Object sku = member(item, "sku");
                made.add(pair(sku, json("order", k, "qty", num(member(item, "qty")), "sku", sku)));
            }
            return made;
        });
        two("noop", (k, v) -> null);
    }

    private static void aggregations() {
        none("zero", 0L);
        none("empty_text", "");
        none("empty_stats", json("count", 0L, "sum", 0L));

        three("sum_long", (k, v, agg) -> (Long) agg + (Long) v);
        three("subtract_long", (k, v, agg) -> (Long) agg - (Long) v);
        three("sum_length", (k, v, agg) -> (Long) agg + ((String) v).length());
        three("append_plus", (k, v, agg) -> str(agg) + "+" + str(v));
        three("append_minus", (k, v, agg) -> str(agg) + "-" + str(v));
        three("append_key_value", (k, v, agg) -> str(agg) + "(" + str(k) + "=" + str(v) + ")");
        three("append_or_reset", (k, v, agg) -> "x".equals(v) ? null : str(agg) + str(v));
        three("stats_add", (k, v, agg) -> stats(agg, v, 1));
        three("stats_remove", (k, v, agg) -> stats(agg, v, -1));
        three("sum_amount", (k, v, agg) -> (Long) agg + num(member(v, "amount")));
        three("sum_qty", (k, v, agg) -> (Long) agg + num(member(v, "qty")));
        three("count_events", (k, v, agg) -> (Long) agg + 1);

        two("concat_values", (agg, v) -> str(agg) + "|" + str(v));
        two("concat_minus", (agg, v) -> str(agg) + "~" + str(v));
        two("add_longs", (agg, v) -> (Long) agg + (Long) v);
        two("sub_longs", (agg, v) -> (Long) agg - (Long) v);
        two("max_long", (agg, v) -> Math.max((Long) agg, (Long) v));
        two("keep_last", (agg, v) -> v);
        two("keep_first", (agg, v) -> agg);
        two("null_on_x", (agg, v) -> "x".equals(v) ? null : str(agg) + "|" + str(v));

        three("merge_sums", (k, a, b) -> (Long) a + (Long) b);
        three("merge_texts", (k, a, b) -> "[" + str(a) + "&" + str(b) + "]");
        three("merge_stats", (k, a, b) -> json(
                "count", num(member(a, "count")) + num(member(b, "count")),
                "sum", num(member(a, "sum")) + num(member(b, "sum"))));
    }

    private static void joiners() {
        three("pair_text", (k, left, right) -> str(left) + "/" + str(right));
        three("key_pair_text", (k, left, right) -> str(k) + "=" + str(left) + "/" + str(right));
        three("pair_json", (k, left, right) -> json("l", left, "r", right));
        three("null_if_right_x", (k, left, right) -> "x".equals(right) ? null : str(left) + "/" + str(right));
        three("sum_nullable", (k, left, right) -> orZero(left) + orZero(right));
        three("enrich", (k, left, right) -> {
            if (left == null) {
                return null;
            }
            Map<String, Object> made = new TreeMap<>(object(left));
            made.put("info", right);
            return made;
        });
    }

    private static void places() {
        two("fk_of", (k, v) -> member(v, "fk"));
        two("text_fk", (k, v) -> {
            Object key = before((String) v, ':');
            return "".equals(key) ? null : key;
        });
        two("key_prefix_fk", (k, v) -> before((String) k, '-'));

        two("topic_by_value", (k, v) -> v != null && ((String) v).length() > 3 ? "long-out" : "short-out");
        two("topic_by_key", (k, v) -> "keyed-" + str(k));

        three("ts_field", (v, recordTime, partitionTime) -> {
            Object found = member(v, "ts");
            return found == null ? recordTime : found;
        });
        three("ts_field_or_partition_time", (v, recordTime, partitionTime) -> {
            Object found = member(v, "ts");
            return found == null || (Long) found < 0 ? partitionTime : found;
        });
    }
}
