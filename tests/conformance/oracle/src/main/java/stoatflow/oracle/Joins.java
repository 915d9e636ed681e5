package stoatflow.oracle;

import java.time.Duration;
import java.util.function.BiFunction;
import org.apache.kafka.common.utils.Bytes;
import org.apache.kafka.streams.kstream.GlobalKTable;
import org.apache.kafka.streams.kstream.JoinWindows;
import org.apache.kafka.streams.kstream.Joined;
import org.apache.kafka.streams.kstream.KStream;
import org.apache.kafka.streams.kstream.KTable;
import org.apache.kafka.streams.kstream.KeyValueMapper;
import org.apache.kafka.streams.kstream.Materialized;
import org.apache.kafka.streams.kstream.StreamJoined;
import org.apache.kafka.streams.kstream.TableJoined;
import org.apache.kafka.streams.kstream.ValueJoiner;
import org.apache.kafka.streams.kstream.ValueJoinerWithKey;
import org.apache.kafka.streams.state.KeyValueStore;

/** Joins, by the kinds of their two sides. */
final class Joins {
    private Joins() {}

    @SuppressWarnings("unchecked")
    static Object join(Step step, Object parent, Object other) {
        if (parent instanceof KTable<?, ?>) {
            return step.has("fk_fn")
                    ? foreign(step, Topologies.table(parent), Topologies.table(other))
                    : tables(step, Topologies.table(parent), Topologies.table(other));
        }
        KStream<Object, Object> stream = Topologies.stream(parent);
        if (other instanceof GlobalKTable<?, ?>) {
            return global(step, stream, (GlobalKTable<Object, Object>) other);
        }
        return other instanceof KTable<?, ?>
                ? table(step, stream, Topologies.table(other))
                : streams(step, stream, Topologies.stream(other));
    }

    private static ValueJoinerWithKey<Object, Object, Object, Object> joiner(Step step) {
        Functions.Fn fn = step.fn("joiner");
        return (k, left, right) -> fn.call(k, left, right);
    }

    /** Joiners of tables get no key. */
    private static ValueJoiner<Object, Object, Object> tableJoiner(Step step) {
        Functions.Fn fn = step.fn("joiner");
        return (left, right) -> fn.call(null, left, right);
    }

    private static Object streams(Step step, KStream<Object, Object> left, KStream<Object, Object> right) {
        Step window = step.part("window");
        Duration before = window.ms("before_ms");
        Duration after = window.ms("after_ms");
        // One side may be negative; at no time may the whole window be.
        Duration wider = before.compareTo(after) > 0 ? before : after;
        JoinWindows windows =
                JoinWindows.ofTimeDifferenceAndGrace(wider, window.ms("grace_ms")).before(before).after(after);
        StreamJoined<Object, Object, Object> how =
                StreamJoined.with(step.serde("key_serde"), step.serde("value_serde"), step.serde("other_value_serde"));
        how = step.has("name") ? how.withName(step.text("name")) : how;
        how = step.has("store_name") ? how.withStoreName(step.text("store_name")) : how;
        return switch (step.op()) {
            case "join" -> left.join(right, joiner(step), windows, how);
            case "left_join" -> left.leftJoin(right, joiner(step), windows, how);
            default -> left.outerJoin(right, joiner(step), windows, how);
        };
    }

    private static Object table(Step step, KStream<Object, Object> left, KTable<Object, Object> right) {
        Joined<Object, Object, Object> how =
                Joined.with(step.serde("key_serde"), step.serde("value_serde"), step.serde("other_value_serde"));
        how = step.has("name") ? how.withName(step.text("name")) : how;
        how = step.has("grace_ms") ? how.withGracePeriod(step.ms("grace_ms")) : how;
        return step.op().equals("join") ? left.join(right, joiner(step), how) : left.leftJoin(right, joiner(step), how);
    }

    private static Object global(Step step, KStream<Object, Object> left, GlobalKTable<Object, Object> right) {
        Functions.Fn fn = step.fn("key_fn");
        KeyValueMapper<Object, Object, Object> key = (k, v) -> fn.call(k, v);
        return step.op().equals("join")
                ? left.join(right, key, joiner(step), step.named())
                : left.leftJoin(right, key, joiner(step), step.named());
    }

    private static Object tables(Step step, KTable<Object, Object> left, KTable<Object, Object> right) {
        ValueJoiner<Object, Object, Object> joiner = tableJoiner(step);
        Materialized<Object, Object, KeyValueStore<Bytes, byte[]>> kept = step.keyValue();
        if (kept == null) {
            return switch (step.op()) {
                case "join" -> left.join(right, joiner, step.named());
                case "left_join" -> left.leftJoin(right, joiner, step.named());
                default -> left.outerJoin(right, joiner, step.named());
            };
        }
        return switch (step.op()) {
            case "join" -> left.join(right, joiner, step.named(), kept);
            case "left_join" -> left.leftJoin(right, joiner, step.named(), kept);
            default -> left.outerJoin(right, joiner, step.named(), kept);
        };
    }

    private static Object foreign(Step step, KTable<Object, Object> left, KTable<Object, Object> right) {
        Functions.Fn fn = step.fn("fk_fn");
        BiFunction<Object, Object, Object> foreign = (k, v) -> fn.call(k, v);
        ValueJoiner<Object, Object, Object> joiner = tableJoiner(step);
        TableJoined<Object, Object> how = TableJoined.as(step.text("name"));
        Materialized<Object, Object, KeyValueStore<Bytes, byte[]>> kept = step.keyValue();
        return step.op().equals("join")
                ? left.join(right, foreign, joiner, how, kept)
                : left.leftJoin(right, foreign, joiner, how, kept);
    }
}
