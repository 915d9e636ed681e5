import java.io.BufferedOutputStream;
import java.io.BufferedReader;
import java.io.FileDescriptor;
import java.io.FileOutputStream;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.OutputStream;
import java.io.PrintStream;
import java.io.PrintWriter;
import java.io.Reader;
import java.io.StringWriter;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.lang.reflect.Modifier;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.Paths;
import java.time.Duration;
import java.time.Instant;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Base64;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Properties;
import java.util.Set;
import java.util.TreeMap;
import java.util.TreeSet;
import javax.tools.JavaCompiler;
import javax.tools.ToolProvider;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.header.Headers;
import org.apache.kafka.common.header.internals.RecordHeaders;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.ByteArraySerializer;
import org.apache.kafka.common.utils.Bytes;
import org.apache.kafka.streams.KeyValue;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.TestInputTopic;
import org.apache.kafka.streams.TestOutputTopic;
import org.apache.kafka.streams.Topology;
import org.apache.kafka.streams.TopologyDescription;
import org.apache.kafka.streams.TopologyTestDriver;
import org.apache.kafka.streams.kstream.Windowed;
import org.apache.kafka.streams.processor.StateStore;
import org.apache.kafka.streams.state.KeyValueIterator;
import org.apache.kafka.streams.state.KeyValueStore;
import org.apache.kafka.streams.state.SessionStore;
import org.apache.kafka.streams.state.TimestampedKeyValueStore;
import org.apache.kafka.streams.state.TimestampedWindowStore;
import org.apache.kafka.streams.state.VersionedKeyValueStore;
import org.apache.kafka.streams.state.WindowStore;
import org.apache.kafka.streams.test.TestRecord;

/**
 * Runs a topology of the class path in Kafka Streams' TopologyTestDriver, any number of times.
 *
 * <p>Takes a file of properties, a folder for state, and a folder at the front of the class path. Then
 * reads from standard input {@code topology CLASS METHOD}, and runs, each as lines with tab-separated
 * fields: {@code run START}, inputs ({@code r TOPIC TIME KEY VALUE [NAME VALUE]...}, {@code w
 * MILLISECONDS}, {@code s} for an input that is skipped), {@code end}. Bytes are Base64, {@code -}
 * stands for null. Writes JSON, one object per line, and {@code done} at the end of each answer. Output
 * of the topology goes to standard error. Needs Java 11.
 */
public final class Prove {
    private static final String NULL = "-";
    private static final Base64.Encoder TO_TEXT = Base64.getEncoder();
    private static final Base64.Decoder TO_BYTES = Base64.getDecoder();
    private static PrintStream out;

    public static void main(String[] arguments) throws Exception {
        OutputStream buffered = new BufferedOutputStream(new FileOutputStream(FileDescriptor.out), 1 << 16);
        out = new PrintStream(buffered, false, "UTF-8");
        System.setOut(System.err);
        Properties properties = new Properties();
        try (Reader reader = Files.newBufferedReader(Paths.get(arguments[0]))) {
            properties.load(reader);
        }
        Path state = Paths.get(arguments[1]);
        Path front = Paths.get(arguments[2]);
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        Building building = null;
        int number = 0;
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            String[] asked = line.split("\t");
            try {
                if (asked[0].equals("topology")) {
                    building = new Building(asked[1], asked[2], properties, front);
                    describe(building.build());
                } else {
                    number++;
                    List<String[]> inputs = inputs(in);
                    run(building.build(), inputs, Long.parseLong(asked[1]), state.resolve(Integer.toString(number)));
                }
            } catch (Refused refused) {
                say(Map.of("refused", refused.getMessage(), "kind", refused.kind));
            }
            say(Map.of("done", true));
            out.flush();
        }
    }

    private static List<String[]> inputs(BufferedReader in) throws IOException {
        List<String[]> inputs = new ArrayList<>();
        for (String line = in.readLine(); !line.equals("end"); line = in.readLine()) {
            inputs.add(line.split("\t", -1));
        }
        return inputs;
    }

    /** An error that the user has to fix. */
    private static final class Refused extends Exception {
        private final String kind;

        Refused(String kind, String message) {
            super(message);
            this.kind = kind;
        }
    }

    private static final class Built {
        private final Topology topology;
        private final Properties properties;

        Built(Topology topology, Properties properties) {
            this.topology = topology;
            this.properties = properties;
        }
    }

    /** Calls the user's method, which builds the topology, once for each run. */
    private static final class Building {
        private final String className;
        private final String method;
        private final Properties properties;
        private final Path front;

        Building(String className, String method, Properties properties, Path front) {
            this.className = className;
            this.method = method;
            this.properties = properties;
            this.front = front;
        }

        Built build() throws Refused {
            try {
                if (method.equals("main")) {
                    shadow();
                }
                Class<?> found = Class.forName(className);
                return build(found);
            } catch (ClassNotFoundException missing) {
                throw new Refused("class", className);
            } catch (UnsupportedClassVersionError newer) {
                throw new Refused("version", String.valueOf(newer.getMessage()));
            } catch (InvocationTargetException raised) {
                throw new Refused("raised", trace(raised.getCause()));
            } catch (LinkageError | ReflectiveOperationException wrong) {
                throw new Refused("linkage", trace(wrong));
            }
        }

        private Built build(Class<?> found) throws Refused, ReflectiveOperationException {
            List<String> like = new ArrayList<>();
            for (Class<?> at = found; at != null && at != Object.class; at = at.getSuperclass()) {
                for (Method one : at.getDeclaredMethods()) {
                    if (!Modifier.isStatic(one.getModifiers()) || one.isSynthetic()) {
                        continue;
                    }
                    if (one.getName().equals(method) && (method.equals("main") || arguments(one, null) != null)) {
                        return method.equals("main") ? ofMain(one) : of(one);
                    }
                    if (one.getName().equals("main") || builds(one)) {
                        like.add(one.getName());
                    }
                }
            }
            throw new Refused("method", String.join(", ", new TreeSet<>(like)));
        }

        private Built of(Method one) throws Refused, ReflectiveOperationException {
            StreamsBuilder builder = new StreamsBuilder();
            one.setAccessible(true);
            Object made = one.invoke(null, arguments(one, builder));
            if (made instanceof Topology) {
                return new Built((Topology) made, properties);
            }
            if (made instanceof StreamsBuilder) {
                return new Built(((StreamsBuilder) made).build(), properties);
            }
            if (!Arrays.asList(one.getParameterTypes()).contains(StreamsBuilder.class)) {
                String gave = made == null ? "null" : "a " + made.getClass().getName();
                throw new Refused("gave", gave);
            }
            return new Built(builder.build(), properties);
        }

        /** The arguments for a method; null if it has parameters of other types. */
        private Object[] arguments(Method one, StreamsBuilder builder) {
            Object[] made = new Object[one.getParameterCount()];
            for (int i = 0; i < made.length; i++) {
                Class<?> type = one.getParameterTypes()[i];
                if (type == StreamsBuilder.class) {
                    made[i] = builder;
                } else if (type == Properties.class) {
                    made[i] = copied(new Properties());
                } else if (type == Map.class) {
                    made[i] = new HashMap<>(properties);
                } else {
                    return null;
                }
            }
            return made;
        }

        private boolean builds(Method one) {
            boolean gives = one.getReturnType() == Topology.class || one.getReturnType() == StreamsBuilder.class;
            boolean takes = Arrays.asList(one.getParameterTypes()).contains(StreamsBuilder.class);
            return (gives || takes) && arguments(one, null) != null;
        }

        private Properties copied(Properties onto) {
            properties.stringPropertyNames().forEach(name -> onto.setProperty(name, properties.getProperty(name)));
            return onto;
        }

        /** main() creates a KafkaStreams; our class of that name only records its arguments. */
        private Built ofMain(Method main) throws Refused, ReflectiveOperationException {
            Class<?> ours = Class.forName("org.apache.kafka.streams.KafkaStreams");
            ours.getField("topology").set(null, null);
            main.setAccessible(true);
            try {
                main.invoke(null, (Object) new String[0]);
            } catch (InvocationTargetException raised) {
                if (ours.getField("topology").get(null) == null) {
                    throw raised;
                }
            }
            Topology topology = (Topology) ours.getField("topology").get(null);
            if (topology == null) {
                throw new Refused("main", className);
            }
            Properties all = new Properties();
            all.putAll((Map<?, ?>) ours.getField("properties").get(null));
            return new Built(topology, copied(all));
        }

        private void shadow() throws Refused {
            JavaCompiler compiler = ToolProvider.getSystemJavaCompiler();
            Path source = front.resolve("KafkaStreams.java");
            if (Files.exists(source)) {
                return;
            }
            int code;
            try {
                Files.write(source, SHADOW.getBytes(StandardCharsets.UTF_8));
                String classPath = System.getProperty("java.class.path");
                code = compiler.run(null, null, null, "-d", front.toString(), "-cp", classPath, source.toString());
            } catch (IOException wrong) {
                throw new Refused("linkage", trace(wrong));
            }
            if (code != 0) {
                throw new Refused("linkage", "KafkaStreams could not be replaced");
            }
        }

        private static final String SHADOW = String.join("\n",
                "package org.apache.kafka.streams;",
                "import java.util.*;",
                "public class KafkaStreams implements AutoCloseable {",
                "  public static Topology topology;",
                "  public static Map<Object, Object> properties;",
                "  public static final class Noted extends Error {",
                "    Noted() { super(\"the topology is noted; nothing is started\"); } }",
                "  public KafkaStreams(Topology t, Properties p) { note(t, p); }",
                "  public KafkaStreams(Topology t, Properties p, KafkaClientSupplier c) { note(t, p); }",
                "  public KafkaStreams(Topology t, Properties p, org.apache.kafka.common.utils.Time c) { note(t, p); }",
                "  public KafkaStreams(Topology t, StreamsConfig p) { note(t, p.originals()); }",
                "  public KafkaStreams(Topology t, StreamsConfig p, KafkaClientSupplier c) { note(t, p.originals()); }",
                "  private static void note(Topology t, Map<?, ?> p) {",
                "    topology = t; properties = new HashMap<>(p); throw new Noted(); }",
                "  public void start() { throw new Noted(); }",
                "  public void close() { }",
                "}");
    }

    private static void describe(Built built) {
        Set<String> topics = new TreeSet<>();
        Set<String> patterns = new TreeSet<>();
        Set<String> sinks = new TreeSet<>();
        Set<String> stores = new TreeSet<>();
        TopologyDescription description = built.topology.describe();
        List<TopologyDescription.Node> nodes = new ArrayList<>();
        description.subtopologies().forEach(one -> nodes.addAll(one.nodes()));
        description.globalStores().forEach(one -> nodes.addAll(List.of(one.source(), one.processor())));
        for (TopologyDescription.Node node : nodes) {
            if (node instanceof TopologyDescription.Source) {
                TopologyDescription.Source source = (TopologyDescription.Source) node;
                if (source.topicPattern() != null) {
                    patterns.add(source.topicPattern().pattern());
                } else {
                    topics.addAll(source.topicSet());
                }
            } else if (node instanceof TopologyDescription.Sink) {
                String topic = ((TopologyDescription.Sink) node).topic();
                sinks.add(topic == null ? "" : topic);
            } else if (node instanceof TopologyDescription.Processor) {
                stores.addAll(((TopologyDescription.Processor) node).stores());
            }
        }
        Map<String, Object> said = new LinkedHashMap<>();
        said.put("java", System.getProperty("java.version"));
        said.put("topics", new ArrayList<Object>(topics));
        said.put("patterns", new ArrayList<Object>(patterns));
        said.put("sinks", new ArrayList<Object>(sinks));
        said.put("stores", new ArrayList<Object>(stores));
        said.put("describe", description.toString());
        say(said);
    }

    private static void run(Built built, List<String[]> inputs, long start, Path state) {
        Properties properties = new Properties();
        properties.putAll(built.properties);
        properties.put("state.dir", state.toString());
        TopologyTestDriver driver;
        try {
            driver = new TopologyTestDriver(built.topology, properties, Instant.ofEpochMilli(start));
        } catch (Throwable wrong) {
            fail(-1, wrong);
            return;
        }
        String application = properties.getProperty("application.id");
        try {
            new Running(driver, application).run(inputs);
        } finally {
            try {
                driver.close();
            } catch (Throwable late) {
                System.err.println("closing: " + late);
            }
        }
    }

    private static final class Running {
        private final TopologyTestDriver driver;
        private final String application;
        private final Map<String, TestInputTopic<byte[], byte[]>> topics = new HashMap<>();
        private final Map<String, TestOutputTopic<byte[], byte[]>> readers = new TreeMap<>();
        private final Set<Bytes> keys = new LinkedHashSet<>();

        Running(TopologyTestDriver driver, String application) {
            this.driver = driver;
            this.application = application;
        }

        void run(List<String[]> inputs) {
            for (int i = 0; i < inputs.size(); i++) {
                try {
                    pipe(inputs.get(i));
                } catch (Throwable wrong) {
                    fail(i, wrong);
                    return;
                }
                read(i);
            }
            Map<String, StateStore> stores = new TreeMap<>(driver.getAllStateStores());
            for (Map.Entry<String, StateStore> store : stores.entrySet()) {
                if (store.getValue() != null) {
                    try {
                        contents(store.getKey(), store.getValue());
                    } catch (RuntimeException | ReflectiveOperationException unreadable) {
                        say(Map.of("unreadable", store.getKey(), "why", unreadable.toString()));
                    }
                }
            }
        }

        private void pipe(String[] input) {
            if (input[0].equals("w")) {
                driver.advanceWallClockTime(Duration.ofMillis(Long.parseLong(input[1])));
            } else if (input[0].equals("r")) {
                Headers headers = new RecordHeaders();
                for (int i = 5; i < input.length; i += 2) {
                    headers.add(new String(bytes(input[i]), StandardCharsets.UTF_8), bytes(input[i + 1]));
                }
                byte[] key = bytes(input[3]);
                if (key != null) {
                    keys.add(Bytes.wrap(key));
                }
                topics.computeIfAbsent(input[1], name -> driver.createInputTopic(
                                name, new ByteArraySerializer(), new ByteArraySerializer()))
                        .pipeInput(new TestRecord<>(key, bytes(input[4]), headers, Long.parseLong(input[2])));
            }
        }

        private void read(int i) {
            for (String topic : new TreeSet<>(driver.producedTopicNames())) {
                if (internal(topic)) {
                    continue;
                }
                for (TestRecord<byte[], byte[]> record : reader(topic).readRecordsToList()) {
                    Map<String, Object> said = new LinkedHashMap<>();
                    said.put("i", i);
                    said.put("topic", topic);
                    said.put("key", text(record.key()));
                    said.put("value", text(record.value()));
                    said.put("timestamp", record.timestamp());
                    List<Object> headers = new ArrayList<>();
                    for (Header header : record.headers()) {
                        headers.add(Arrays.asList(header.key(), text(header.value())));
                    }
                    said.put("headers", headers);
                    say(said);
                }
            }
        }

        private boolean internal(String topic) {
            String name = topic.toLowerCase(Locale.ROOT);
            return topic.startsWith(application + "-")
                    && (name.endsWith("-changelog") || name.endsWith("-repartition")
                            || name.contains("-subscription-registration-")
                            || name.contains("-subscription-response-"));
        }

        private TestOutputTopic<byte[], byte[]> reader(String topic) {
            return readers.computeIfAbsent(topic, name -> driver.createOutputTopic(
                    name, new ByteArrayDeserializer(), new ByteArrayDeserializer()));
        }

        /** Writes the rows of a store as bytes, from the store behind the serdes. */
        @SuppressWarnings("unchecked")
        private void contents(String name, StateStore store) throws ReflectiveOperationException {
            String type = store.getClass().getName();
            if (type.contains("Headers")) {
                throw new IllegalArgumentException("a store that keeps headers");
            }
            Object inner = store.getClass().getMethod("wrapped").invoke(store);
            if (store instanceof VersionedKeyValueStore) {
                versions(name, (KeyValueStore<Bytes, byte[]>) inner);
            } else if (store instanceof KeyValueStore) {
                boolean timed = store instanceof TimestampedKeyValueStore;
                say(Map.of("store", name, "timed", timed));
                try (KeyValueIterator<Bytes, byte[]> all = ((KeyValueStore<Bytes, byte[]>) inner).all()) {
                    while (all.hasNext()) {
                        KeyValue<Bytes, byte[]> row = all.next();
                        row(name, row.key, null, row.value, timed);
                    }
                }
            } else if (store instanceof WindowStore) {
                boolean timed = store instanceof TimestampedWindowStore;
                say(Map.of("store", name, "timed", timed));
                try (KeyValueIterator<Windowed<Bytes>, byte[]> all = ((WindowStore<Bytes, byte[]>) inner).all()) {
                    windows(name, all, timed);
                }
            } else if (store instanceof SessionStore) {
                say(Map.of("store", name, "timed", false));
                SessionStore<Bytes, byte[]> sessions = (SessionStore<Bytes, byte[]>) inner;
                try (KeyValueIterator<Windowed<Bytes>, byte[]> all = sessions.fetch((Bytes) null, (Bytes) null)) {
                    windows(name, all, false);
                }
            } else {
                throw new IllegalArgumentException(type);
            }
        }

        private void windows(String name, KeyValueIterator<Windowed<Bytes>, byte[]> all, boolean timed) {
            while (all.hasNext()) {
                KeyValue<Windowed<Bytes>, byte[]> row = all.next();
                row(name, row.key.key(), row.key, row.value, timed);
            }
        }

        /** Versions cannot be iterated over: reads the latest of each key in the inputs or the changelog. */
        private void versions(String name, KeyValueStore<Bytes, byte[]> store) {
            say(Map.of("store", name, "timed", true));
            Set<Bytes> asked = new TreeSet<>(keys);
            String changelog = application + "-" + name + "-changelog";
            if (driver.producedTopicNames().contains(changelog)) {
                reader(changelog).readRecordsToList().forEach(record -> asked.add(Bytes.wrap(record.key())));
            }
            for (Bytes key : asked) {
                byte[] value = store.get(key);
                if (value != null) {
                    row(name, key, null, value, true);
                }
            }
        }

        private void row(String store, Bytes key, Windowed<?> window, byte[] value, boolean timed) {
            Map<String, Object> said = new LinkedHashMap<>();
            said.put("row", store);
            said.put("key", text(key.get()));
            if (window != null) {
                said.put("window", List.of(window.window().start(), window.window().end()));
            }
            if (timed) {
                said.put("timestamp", ByteBuffer.wrap(value).getLong());
                said.put("value", text(Arrays.copyOfRange(value, Long.BYTES, value.length)));
            } else {
                said.put("value", text(value));
            }
            say(said);
        }
    }

    private static void fail(int i, Throwable wrong) {
        Throwable root = wrong;
        while (root.getCause() != null && root.getCause() != root) {
            root = root.getCause();
        }
        Map<String, Object> said = new LinkedHashMap<>();
        said.put("failed", i);
        said.put("class", root.getClass().getName());
        said.put("message", String.valueOf(root.getMessage()));
        said.put("trace", trace(wrong));
        say(said);
    }

    private static String trace(Throwable wrong) {
        StringWriter text = new StringWriter();
        wrong.printStackTrace(new PrintWriter(text, true));
        return text.toString();
    }

    private static byte[] bytes(String text) {
        return text.equals(NULL) ? null : TO_BYTES.decode(text);
    }

    private static String text(byte[] bytes) {
        return bytes == null ? null : TO_TEXT.encodeToString(bytes);
    }

    private static void say(Map<String, Object> fields) {
        StringBuilder line = new StringBuilder();
        write(line, fields);
        out.append(line.append('\n'));
    }

    private static void write(StringBuilder line, Object value) {
        if (value instanceof Map) {
            String before = "{";
            for (Map.Entry<?, ?> entry : ((Map<?, ?>) value).entrySet()) {
                line.append(before);
                write(line, entry.getKey());
                line.append(':');
                write(line, entry.getValue());
                before = ",";
            }
            line.append('}');
        } else if (value instanceof List) {
            String before = "";
            line.append('[');
            for (Object item : (List<?>) value) {
                line.append(before);
                write(line, item);
                before = ",";
            }
            line.append(']');
        } else if (value instanceof String) {
            quote(line, (String) value);
        } else {
            line.append(value);
        }
    }

    private static void quote(StringBuilder line, String text) {
        line.append('"');
        for (int i = 0; i < text.length(); i++) {
            char c = text.charAt(i);
            if (c == '"' || c == '\\') {
                line.append('\\').append(c);
            } else if (c < ' ' || c > '~') {
                line.append(String.format("\\u%04x", (int) c));
            } else {
                line.append(c);
            }
        }
        line.append('"');
    }
}
