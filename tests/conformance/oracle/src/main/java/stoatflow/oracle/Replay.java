package stoatflow.oracle;

import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.time.Duration;
import java.time.Instant;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.TreeMap;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.header.Headers;
import org.apache.kafka.common.header.internals.RecordHeaders;
import org.apache.kafka.common.serialization.Serde;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.streams.StreamsConfig;
import org.apache.kafka.streams.TestInputTopic;
import org.apache.kafka.streams.TestOutputTopic;
import org.apache.kafka.streams.Topology;
import org.apache.kafka.streams.TopologyTestDriver;
import org.apache.kafka.streams.kstream.Windowed;
import org.apache.kafka.streams.test.TestRecord;

/** Runs one case on the TopologyTestDriver. Takes the JSON of a vector, gives what came out, in the same form. */
final class Replay {
    private static final String APPLICATION = "golden";
    /** By topic, as the case's `topics` say; under no name those of the step that chooses topics by a function. */
    private final Map<String, Step> serdes = new HashMap<>();

    private final Map<String, TestInputTopic<Object, Object>> inputs = new HashMap<>();
    private final Map<String, TestOutputTopic<Object, Object>> readers = new TreeMap<>();
    private final Map<String, List<Object>> outputs = new TreeMap<>();
    private final TopologyTestDriver driver;

    private Replay(TopologyTestDriver driver) {
        this.driver = driver;
    }

    static Map<String, Object> run(Map<String, Object> given, Path stateDirectory) {
        Step replayed = new Step(given);
        List<Object> steps = Json.array(replayed.get("topology"));
        List<Object> events = Json.array(replayed.get("inputs"));
        Properties properties = properties(replayed.part("config"), stateDirectory);
        Topology topology = Topologies.build(steps, properties);
        Map<String, Object> result = new LinkedHashMap<>();
        result.put("describe", topology.describe().toString());
        try (TopologyTestDriver driver = new TopologyTestDriver(topology, properties, Instant.ofEpochMilli(0))) {
            Replay replay = new Replay(driver);
            replay.findTopics(replayed, steps);
            for (int i = 0; i < events.size(); i++) {
                replay.pipe(new Step(Json.object(events.get(i))));
                replay.read(i);
            }
            result.put("outputs", replay.outputs);
            Map<String, Object> lookups = replayed.has("versioned_lookups")
                    ? Json.object(replayed.get("versioned_lookups"))
                    : Map.of();
            Contents contents = new Contents(events, lookups);
            contents.read(driver, steps);
            contents.write(result);
            result.put("internal_topics", replay.internalTopics());
        }
        return result;
    }

    private static Properties properties(Step config, Path stateDirectory) {
        Properties made = new Properties();
        made.put(StreamsConfig.APPLICATION_ID_CONFIG, APPLICATION);
        made.put(StreamsConfig.BOOTSTRAP_SERVERS_CONFIG, "nowhere:1");
        made.put(StreamsConfig.STATE_DIR_CONFIG, stateDirectory.toString());
        made.put(StreamsConfig.DEFAULT_KEY_SERDE_CLASS_CONFIG, Serdes.StringSerde.class);
        made.put(StreamsConfig.DEFAULT_VALUE_SERDE_CLASS_CONFIG, Serdes.StringSerde.class);
        made.put(StreamsConfig.STATESTORE_CACHE_MAX_BYTES_CONFIG, config.get("cache_max_bytes"));
        Object interval = config.get("emit_interval_ms");
        made.put(StreamsConfig.InternalConfig.EMIT_INTERVAL_MS_KSTREAMS_OUTER_JOIN_SPURIOUS_RESULTS_FIX, interval);
        made.put(StreamsConfig.InternalConfig.EMIT_INTERVAL_MS_KSTREAMS_WINDOWED_AGGREGATION, interval);
        if (config.has("optimization")) {
            made.put(StreamsConfig.TOPOLOGY_OPTIMIZATION_CONFIG, config.text("optimization"));
        }
        return made;
    }

    private void findTopics(Step replayed, List<Object> steps) {
        for (Map.Entry<String, Object> topic : Json.object(replayed.get("topics")).entrySet()) {
            Step kinds = new Step(Json.object(topic.getValue()));
            serdes.put(topic.getKey(), kinds);
        }
        for (Object fields : steps) {
            Step step = new Step(Json.object(fields));
            if (step.op().equals("to") && step.has("topic")) {
                outputs.put(step.text("topic"), new ArrayList<>());
            } else if (step.op().equals("to")) {
                Map<String, Object> kinds = Map.of("key", step.get("key_serde"), "value", step.get("value_serde"));
                serdes.put("", new Step(kinds));
            }
        }
    }

    private Serde<Object> serde(String topic, String side) {
        return serdes.getOrDefault(topic, serdes.get("")).serde(side);
    }

    private void pipe(Step event) {
        if (event.has("advance_wall_clock_ms")) {
            driver.advanceWallClockTime(Duration.ofMillis((Long) event.get("advance_wall_clock_ms")));
            return;
        }
        TestInputTopic<Object, Object> topic = inputs.computeIfAbsent(
                event.text("topic"),
                name -> driver.createInputTopic(
                        name, serde(name, "key").serializer(), serde(name, "value").serializer()));
        Headers headers = new RecordHeaders();
        for (Object header : event.has("headers") ? Json.array(event.get("headers")) : List.of()) {
            List<Object> parts = Json.array(header);
            String text = (String) parts.get(1);
            headers.add((String) parts.get(0), text == null ? null : text.getBytes(StandardCharsets.UTF_8));
        }
        topic.pipeInput(new TestRecord<>(event.get("key"), event.get("value"), headers, (Long) event.get("timestamp")));
    }

    private void read(int i) {
        for (String topic : driver.producedTopicNames()) {
            if (topic.startsWith(APPLICATION + "-")) {
                continue;
            }
            TestOutputTopic<Object, Object> reader = readers.computeIfAbsent(
                    topic,
                    name -> driver.createOutputTopic(
                            name, serde(name, "key").deserializer(), serde(name, "value").deserializer()));
            List<Object> records = outputs.computeIfAbsent(topic, name -> new ArrayList<>());
            reader.readRecordsToList().forEach(record -> records.add(shown(record, i)));
        }
    }

    private static Map<String, Object> shown(TestRecord<Object, Object> record, int i) {
        Map<String, Object> made = new LinkedHashMap<>();
        made.put("key", record.key());
        made.put("value", record.value());
        made.put("timestamp", record.timestamp());
        if (record.key() instanceof Windowed<?> windowed) {
            made.put("key", windowed.key());
            made.put("window", Contents.shown(windowed.window()));
        }
        List<Object> headers = new ArrayList<>();
        for (Header header : record.headers()) {
            byte[] bytes = header.value();
            headers.add(Arrays.asList(header.key(), bytes == null ? null : new String(bytes, StandardCharsets.UTF_8)));
        }
        if (!headers.isEmpty()) {
            made.put("headers", headers);
        }
        made.put("i", (long) i);
        return made;
    }

    private List<String> internalTopics() {
        return driver.producedTopicNames().stream()
                .filter(topic -> topic.startsWith(APPLICATION + "-"))
                .sorted()
                .toList();
    }
}
