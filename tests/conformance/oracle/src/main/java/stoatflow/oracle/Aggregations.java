package stoatflow.oracle;

import java.util.Map;
import org.apache.kafka.streams.kstream.Aggregator;
import org.apache.kafka.streams.kstream.CogroupedKStream;
import org.apache.kafka.streams.kstream.EmitStrategy;
import org.apache.kafka.streams.kstream.Initializer;
import org.apache.kafka.streams.kstream.KGroupedStream;
import org.apache.kafka.streams.kstream.KGroupedTable;
import org.apache.kafka.streams.kstream.Merger;
import org.apache.kafka.streams.kstream.Reducer;
import org.apache.kafka.streams.kstream.SessionWindowedCogroupedKStream;
import org.apache.kafka.streams.kstream.SessionWindowedKStream;
import org.apache.kafka.streams.kstream.SessionWindows;
import org.apache.kafka.streams.kstream.SlidingWindows;
import org.apache.kafka.streams.kstream.TimeWindowedCogroupedKStream;
import org.apache.kafka.streams.kstream.TimeWindowedKStream;
import org.apache.kafka.streams.kstream.TimeWindows;

/** What comes of grouped streams and tables: windows, cogroups, counts, reductions, aggregates. */
@SuppressWarnings("unchecked")
final class Aggregations {
    private final Map<String, Object> made;

    Aggregations(Map<String, Object> made) {
        this.made = made;
    }

    Object apply(Step step, Object parent) {
        if (parent instanceof KGroupedTable<?, ?>) {
            return onTable(step, (KGroupedTable<Object, Object>) parent);
        }
        return switch (step.op()) {
            case "windowed_by" -> windowed(step.part("window"), parent);
            case "emit_strategy" -> emit(step, parent);
            case "cogroup" -> cogroup(step, parent);
            case "count" -> count(step, parent);
            case "reduce" -> reduce(step, parent);
            case "aggregate" -> aggregate(step, parent);
            default -> throw new IllegalArgumentException(step.op() + " does not go with " + parent);
        };
    }

    private static Object windowed(Step window, Object parent) {
        switch (window.text("type")) {
            case "session":
                SessionWindows sessions =
                        SessionWindows.ofInactivityGapAndGrace(window.ms("gap_ms"), window.ms("grace_ms"));
                return parent instanceof KGroupedStream<?, ?> grouped
                        ? grouped.windowedBy(sessions)
                        : ((CogroupedKStream<?, ?>) parent).windowedBy(sessions);
            case "sliding":
                SlidingWindows sliding =
                        SlidingWindows.ofTimeDifferenceAndGrace(window.ms("difference_ms"), window.ms("grace_ms"));
                return parent instanceof KGroupedStream<?, ?> grouped
                        ? grouped.windowedBy(sliding)
                        : ((CogroupedKStream<?, ?>) parent).windowedBy(sliding);
            case "tumbling", "hopping":
                TimeWindows windows = TimeWindows.ofSizeAndGrace(window.ms("size_ms"), window.ms("grace_ms"));
                TimeWindows times = window.has("advance_ms") ? windows.advanceBy(window.ms("advance_ms")) : windows;
                return parent instanceof KGroupedStream<?, ?> grouped
                        ? grouped.windowedBy(times)
                        : ((CogroupedKStream<?, ?>) parent).windowedBy(times);
            default:
                throw new IllegalArgumentException("no window is a " + window.text("type"));
        }
    }

    private static Object emit(Step step, Object parent) {
        if (!step.text("strategy").equals("on_window_close")) {
            throw new IllegalArgumentException("no strategy is called " + step.text("strategy"));
        }
        return parent instanceof SessionWindowedKStream<?, ?> sessions
                ? sessions.emitStrategy(EmitStrategy.onWindowClose())
                : ((TimeWindowedKStream<?, ?>) parent).emitStrategy(EmitStrategy.onWindowClose());
    }

    private Object cogroup(Step step, Object parent) {
        Aggregator<Object, Object, Object> aggregator = aggregator(step, "aggregator");
        return parent instanceof KGroupedStream<?, ?>
                ? ((KGroupedStream<Object, Object>) parent).cogroup(aggregator)
                : ((CogroupedKStream<Object, Object>) parent)
                        .cogroup((KGroupedStream<Object, Object>) made.get(step.text("other")), aggregator);
    }

    private static Object count(Step step, Object parent) {
        if (parent instanceof KGroupedStream<?, ?> grouped) {
            return ((KGroupedStream<Object, Object>) grouped).count(step.named(), counted(step));
        }
        if (parent instanceof SessionWindowedKStream<?, ?>) {
            return ((SessionWindowedKStream<Object, Object>) parent).count(step.named(), counted(step));
        }
        return ((TimeWindowedKStream<Object, Object>) parent).count(step.named(), counted(step));
    }

    private static Object reduce(Step step, Object parent) {
        Reducer<Object> reducer = reducer(step, "reducer");
        if (parent instanceof KGroupedStream<?, ?>) {
            return ((KGroupedStream<Object, Object>) parent).reduce(reducer, step.named(), step.keyValue());
        }
        if (parent instanceof SessionWindowedKStream<?, ?>) {
            return ((SessionWindowedKStream<Object, Object>) parent).reduce(reducer, step.named(), step.materialized());
        }
        return ((TimeWindowedKStream<Object, Object>) parent).reduce(reducer, step.named(), step.materialized());
    }

    private static Object aggregate(Step step, Object parent) {
        Initializer<Object> initializer = initializer(step);
        if (parent instanceof CogroupedKStream<?, ?>) {
            return ((CogroupedKStream<Object, Object>) parent).aggregate(initializer, step.named(), step.keyValue());
        }
        if (parent instanceof TimeWindowedCogroupedKStream<?, ?>) {
            return ((TimeWindowedCogroupedKStream<Object, Object>) parent)
                    .aggregate(initializer, step.named(), step.materialized());
        }
        if (parent instanceof SessionWindowedCogroupedKStream<?, ?>) {
            return ((SessionWindowedCogroupedKStream<Object, Object>) parent)
                    .aggregate(initializer, merger(step), step.named(), step.materialized());
        }
        Aggregator<Object, Object, Object> aggregator = aggregator(step, "aggregator");
        if (parent instanceof KGroupedStream<?, ?>) {
            return ((KGroupedStream<Object, Object>) parent)
                    .aggregate(initializer, aggregator, step.named(), step.keyValue());
        }
        if (parent instanceof SessionWindowedKStream<?, ?>) {
            return ((SessionWindowedKStream<Object, Object>) parent)
                    .aggregate(initializer, aggregator, merger(step), step.named(), step.materialized());
        }
        return ((TimeWindowedKStream<Object, Object>) parent)
                .aggregate(initializer, aggregator, step.named(), step.materialized());
    }

    private static Object onTable(Step step, KGroupedTable<Object, Object> grouped) {
        return switch (step.op()) {
            case "count" -> grouped.count(step.named(), counted(step));
            case "reduce" -> grouped.reduce(
                    reducer(step, "adder"), reducer(step, "subtractor"), step.named(), step.keyValue());
            case "aggregate" -> grouped.aggregate(
                    initializer(step),
                    aggregator(step, "adder"),
                    aggregator(step, "subtractor"),
                    step.named(),
                    step.keyValue());
            default -> throw new IllegalArgumentException("grouped tables have no " + step.op());
        };
    }

    /** A count's value is a long whatever the case's type parameters are. */
    private static <M> M counted(Step step) {
        return (M) (Object) step.keyValue();
    }

    private static Initializer<Object> initializer(Step step) {
        Functions.Fn fn = step.fn("initializer");
        return () -> fn.call();
    }

    private static Aggregator<Object, Object, Object> aggregator(Step step, String field) {
        Functions.Fn fn = step.fn(field);
        return (k, v, agg) -> fn.call(k, v, agg);
    }

    private static Reducer<Object> reducer(Step step, String field) {
        Functions.Fn fn = step.fn(field);
        return (agg, v) -> fn.call(agg, v);
    }

    private static Merger<Object, Object> merger(Step step) {
        Functions.Fn fn = step.fn("merger");
        return (k, a, b) -> fn.call(k, a, b);
    }
}
