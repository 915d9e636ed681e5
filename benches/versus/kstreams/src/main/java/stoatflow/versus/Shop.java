package stoatflow.versus;

import java.time.Duration;
import java.util.List;
import org.apache.kafka.common.serialization.Serde;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.common.utils.Bytes;
import org.apache.kafka.streams.KeyValue;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.Topology;
import org.apache.kafka.streams.kstream.Consumed;
import org.apache.kafka.streams.kstream.Grouped;
import org.apache.kafka.streams.kstream.JoinWindows;
import org.apache.kafka.streams.kstream.Joined;
import org.apache.kafka.streams.kstream.KStream;
import org.apache.kafka.streams.kstream.KTable;
import org.apache.kafka.streams.kstream.Materialized;
import org.apache.kafka.streams.kstream.Produced;
import org.apache.kafka.streams.kstream.SessionWindows;
import org.apache.kafka.streams.kstream.StreamJoined;
import org.apache.kafka.streams.kstream.TimeWindows;
import org.apache.kafka.streams.kstream.WindowedSerdes;
import org.apache.kafka.streams.state.KeyValueStore;
import org.apache.kafka.streams.state.SessionStore;
import org.apache.kafka.streams.state.WindowStore;

/** W7: a shop's clicks and orders; 10 stores behind 3 re-keyings, by region, by product, by tier. */
final class Shop {
    private static final Duration MINUTE = Duration.ofMinutes(1);
    private static final Serde<String> TEXT = Serdes.String();
    private static final Serde<Long> LONG = Serdes.Long();
    private static final long SILVER = 1000, GOLD = 12_500;

    record Click(String product) {}

    record Order(String product, long amount) {}

    record User(String name, String region) {}

    record Product(String title, String category) {}

    record RegionOrder(String product, long amount, String region) {}

    record Bought(String product, long amount, String region, String category) {}

    record Sales(long orders, long amount) {}

    record Revenue(String category, long amount) {}

    record Tier(long users, long amount) {}

    record Conversion(String clicked, String ordered) {}

    private Shop() {}

    static Topology topology(List<String> inputs, List<String> outputs) {
        StreamsBuilder builder = new StreamsBuilder();
        KStream<String, Click> clicks =
                builder.stream(inputs.get(0), Consumed.with(TEXT, Json.serde(Click.class)));
        KTable<String, User> users = builder.table(
                inputs.get(2), Consumed.with(TEXT, Json.serde(User.class)), store("users", Json.serde(User.class)));
        KTable<String, Product> products = builder.table(
                inputs.get(3),
                Consumed.with(TEXT, Json.serde(Product.class)),
                store("products", Json.serde(Product.class)));
        KStream<String, RegionOrder> orders = builder
                .stream(inputs.get(1), Consumed.with(TEXT, Json.serde(Order.class)))
                .join(
                        users,
                        (order, user) -> new RegionOrder(order.product(), order.amount(), user.region()),
                        Joined.with(TEXT, Json.serde(Order.class), Json.serde(User.class)));

        sales(orders, outputs.get(0));
        revenue(orders, products, outputs.get(1));
        tiers(orders, outputs.get(2));
        visits(clicks, outputs.get(3));
        conversions(clicks, orders, outputs.get(4));
        return builder.build();
    }

    private static void sales(KStream<String, RegionOrder> orders, String output) {
        orders.groupBy((user, order) -> order.region(), Grouped.with("by-region", TEXT, Json.serde(RegionOrder.class)))
                .windowedBy(TimeWindows.ofSizeAndGrace(MINUTE, Duration.ofHours(1)))
                .aggregate(
                        () -> new Sales(0, 0),
                        (region, order, sales) -> new Sales(sales.orders() + 1, sales.amount() + order.amount()),
                        Materialized.<String, Sales, WindowStore<Bytes, byte[]>>as("sales")
                                .withKeySerde(TEXT)
                                .withValueSerde(Json.serde(Sales.class)))
                .toStream()
                .to(output, Produced.with(
                        WindowedSerdes.timeWindowedSerdeFrom(String.class, MINUTE.toMillis()),
                        Json.serde(Sales.class)));
    }

    private static void revenue(
            KStream<String, RegionOrder> orders, KTable<String, Product> products, String output) {
        orders.selectKey((user, order) -> order.product())
                .join(
                        products,
                        (order, product) -> new Bought(
                                order.product(), order.amount(), order.region(), product.category()),
                        Joined.with(TEXT, Json.serde(RegionOrder.class), Json.serde(Product.class), "by-product"))
                .groupByKey(Grouped.with(TEXT, Json.serde(Bought.class)))
                .aggregate(
                        () -> new Revenue(null, 0),
                        (product, order, sum) -> new Revenue(order.category(), sum.amount() + order.amount()),
                        store("revenue", Json.serde(Revenue.class)))
                .toStream()
                .to(output, Produced.with(TEXT, Json.serde(Revenue.class)));
    }

    private static void tiers(KStream<String, RegionOrder> orders, String output) {
        // Not an aggregate: its initial value, which was in no tier, would be taken away from one
        // without a cache.
        orders.mapValues(RegionOrder::amount)
                .groupByKey(Grouped.with(TEXT, LONG))
                .reduce(Long::sum, store("spent", LONG))
                .groupBy((user, spent) -> KeyValue.pair(tier(spent), spent), Grouped.with("by-tier", TEXT, LONG))
                .aggregate(
                        () -> new Tier(0, 0),
                        (tier, spent, sum) -> new Tier(sum.users() + 1, sum.amount() + spent),
                        (tier, spent, sum) -> new Tier(sum.users() - 1, sum.amount() - spent),
                        store("tiers", Json.serde(Tier.class)))
                .filter((tier, sum) -> sum.users() > 0)
                .toStream()
                .to(output, Produced.with(TEXT, Json.serde(Tier.class)));
    }

    private static void visits(KStream<String, Click> clicks, String output) {
        clicks.groupByKey(Grouped.with(TEXT, Json.serde(Click.class)))
                .windowedBy(SessionWindows.ofInactivityGapAndGrace(Duration.ofSeconds(30), MINUTE))
                .count(Materialized.<String, Long, SessionStore<Bytes, byte[]>>as("visits")
                        .withKeySerde(TEXT)
                        .withValueSerde(LONG))
                .toStream()
                .to(output, Produced.with(WindowedSerdes.sessionWindowedSerdeFrom(String.class), LONG));
    }

    private static void conversions(
            KStream<String, Click> clicks, KStream<String, RegionOrder> orders, String output) {
        JoinWindows soonAfter = JoinWindows.ofTimeDifferenceAndGrace(Duration.ofSeconds(10), MINUTE)
                .before(Duration.ZERO);
        clicks.join(
                        orders,
                        (click, order) -> new Conversion(click.product(), order.product()),
                        soonAfter,
                        StreamJoined.with(TEXT, Json.serde(Click.class), Json.serde(RegionOrder.class))
                                .withName("clicked")
                                .withStoreName("clicked"))
                .groupByKey(Grouped.with(TEXT, Json.serde(Conversion.class)))
                .count(store("conversions", LONG))
                .toStream()
                .to(output, Produced.with(TEXT, LONG));
    }

    private static String tier(long spent) {
        return spent >= GOLD ? "gold" : spent >= SILVER ? "silver" : "bronze";
    }

    private static <V> Materialized<String, V, KeyValueStore<Bytes, byte[]>> store(String name, Serde<V> value) {
        return Materialized.<String, V, KeyValueStore<Bytes, byte[]>>as(name).withKeySerde(TEXT).withValueSerde(value);
    }
}
