package stoatflow.versus;

import com.sun.net.httpserver.HttpExchange;
import com.sun.net.httpserver.HttpServer;
import java.io.IOException;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.nio.charset.StandardCharsets;
import java.util.Locale;
import java.util.Properties;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.Executors;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.common.utils.Bytes;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.StoreQueryParameters;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.StreamsConfig;
import org.apache.kafka.streams.Topology;
import org.apache.kafka.streams.errors.InvalidStateStoreException;
import org.apache.kafka.streams.errors.StreamsUncaughtExceptionHandler.StreamThreadExceptionResponse;
import org.apache.kafka.streams.kstream.Consumed;
import org.apache.kafka.streams.kstream.Grouped;
import org.apache.kafka.streams.kstream.Materialized;
import org.apache.kafka.streams.state.KeyValueStore;
import org.apache.kafka.streams.state.QueryableStoreTypes;
import org.apache.kafka.streams.state.ReadOnlyKeyValueStore;

/**
 * The Kafka Streams side of the benchmark of point queries: a sum per key, and the JDK's own HTTP
 * server in front of its interactive queries.
 *
 * <p>Takes: five arguments. Gives: one line of JSON with the server's address on stdout when it is
 * RUNNING, then goes on until it is killed. Never: tunes Kafka Streams.
 */
public final class Queried {
    private static final String STORE = "revenue";
    private static final String PATH = "/stores/" + STORE + "/";
    /** As many as the other side has. */
    private static final int READERS = 4;

    private Queried() {}

    static Topology topology(String input) {
        StreamsBuilder builder = new StreamsBuilder();
        builder.stream(input, Consumed.with(Serdes.String(), Serdes.Long()))
                .groupByKey(Grouped.with(Serdes.String(), Serdes.Long()))
                .reduce(Long::sum, Materialized.<String, Long, KeyValueStore<Bytes, byte[]>>as(STORE)
                        .withKeySerde(Serdes.String())
                        .withValueSerde(Serdes.Long()));
        return builder.build();
    }

    public static void main(String[] args) throws Exception {
        if (args.length != 5) {
            System.err.println("usage: Queried <bootstrap> <application id> <input> <threads> <state dir>");
            System.exit(2);
        }
        Properties config = new Properties();
        config.put(StreamsConfig.BOOTSTRAP_SERVERS_CONFIG, args[0]);
        config.put(StreamsConfig.APPLICATION_ID_CONFIG, args[1]);
        config.put(StreamsConfig.NUM_STREAM_THREADS_CONFIG, args[3]);
        config.put(StreamsConfig.STATE_DIR_CONFIG, args[4]);
        config.put(StreamsConfig.PROCESSING_GUARANTEE_CONFIG, StreamsConfig.EXACTLY_ONCE_V2);
        CountDownLatch running = new CountDownLatch(1);
        KafkaStreams streams = new KafkaStreams(topology(args[2]), config);
        streams.setStateListener((now, before) -> {
            if (now == KafkaStreams.State.RUNNING) {
                running.countDown();
            }
        });
        streams.setUncaughtExceptionHandler(error -> {
            error.printStackTrace();
            Runtime.getRuntime().halt(3);
            return StreamThreadExceptionResponse.SHUTDOWN_CLIENT;
        });
        streams.start();
        running.await();
        ReadOnlyKeyValueStore<String, Long> store = streams.store(
                StoreQueryParameters.fromNameAndType(STORE, QueryableStoreTypes.keyValueStore()));
        HttpServer server = HttpServer.create(new InetSocketAddress(InetAddress.getLoopbackAddress(), 0), 0);
        server.setExecutor(Executors.newFixedThreadPool(READERS));
        server.createContext(PATH, exchange -> answer(exchange, store));
        server.start();
        System.out.printf(Locale.ROOT, "{\"url\": \"http://127.0.0.1:%d\"}%n", server.getAddress().getPort());
        System.out.flush();
        Thread.currentThread().join();
    }

    private static void answer(HttpExchange exchange, ReadOnlyKeyValueStore<String, Long> store) throws IOException {
        String key = exchange.getRequestURI().getPath().substring(PATH.length());
        int code;
        String body;
        try {
            Long value = store.get(key);
            code = value == null ? 404 : 200;
            body = value == null ? "{\"title\": \"no such key\"}" : "{\"key\": \"" + key + "\", \"value\": " + value + "}";
        } catch (InvalidStateStoreException moved) {
            code = 503;
            body = "{\"title\": \"the store moves\"}";
        }
        byte[] bytes = body.getBytes(StandardCharsets.UTF_8);
        exchange.getResponseHeaders().set("Content-Type", "application/json");
        exchange.sendResponseHeaders(code, bytes.length);
        exchange.getResponseBody().write(bytes);
        exchange.close();
    }
}
