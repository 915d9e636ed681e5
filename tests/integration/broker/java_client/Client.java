import java.io.BufferedReader;
import java.io.FileReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Properties;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;

/**
 * Kafka's own clients, for tests: each line of standard input is `write FILE TOPIC VALUE` or
 * `read FILE TOPIC`, FILE being the properties of the client. Each is answered by one line: `ok`
 * and the values read, or `error` and its causes.
 */
public final class Client {
    private static final int PATIENCE_MS = 90_000;

    private Client() {}

    public static void main(String[] arguments) throws Exception {
        PrintStream answers = System.out;
        System.setOut(System.err); // Kafka's log goes elsewhere
        var lines = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            answers.println(answer(line.split(" ")));
        }
    }

    private static String answer(String[] words) {
        try {
            var properties = new Properties();
            try (var file = new FileReader(words[1], StandardCharsets.UTF_8)) {
                properties.load(file);
            }
            // A node that is paused takes connections and says nothing.
            properties.setProperty("socket.connection.setup.timeout.ms", "2000");
            properties.setProperty("request.timeout.ms", "5000");
            return switch (words[0]) {
                case "write" -> write(properties, words[2], words[3]);
                case "read" -> "ok " + String.join(",", read(properties, words[2]));
                default -> throw new IllegalArgumentException("there is no command " + words[0]);
            };
        } catch (Exception error) {
            return "error " + causes(error);
        }
    }

    private static String write(Properties properties, String topic, String value) throws Exception {
        properties.setProperty("max.block.ms", String.valueOf(PATIENCE_MS));
        properties.setProperty("delivery.timeout.ms", String.valueOf(PATIENCE_MS));
        properties.setProperty("linger.ms", "0");
        try (var producer = new KafkaProducer<>(properties, new StringSerializer(), new StringSerializer())) {
            producer.send(new ProducerRecord<>(topic, 0, null, value)).get();
        }
        return "ok ";
    }

    /** All of partition 0, and commits how far it read: that needs permission for the group too. */
    private static List<String> read(Properties properties, String topic) {
        properties.setProperty("default.api.timeout.ms", String.valueOf(PATIENCE_MS));
        properties.setProperty("group.id", topic);
        properties.setProperty("enable.auto.commit", "false");
        var values = new ArrayList<String>();
        var partition = new TopicPartition(topic, 0);
        try (var consumer = new KafkaConsumer<>(properties, new StringDeserializer(), new StringDeserializer())) {
            consumer.assign(List.of(partition));
            consumer.seekToBeginning(List.of(partition));
            long end = consumer.endOffsets(List.of(partition)).get(partition);
            while (consumer.position(partition) < end) {
                for (ConsumerRecord<String, String> record : consumer.poll(Duration.ofMillis(500))) {
                    values.add(record.value());
                }
            }
            consumer.commitSync();
        }
        return values;
    }

    private static String causes(Throwable error) {
        var words = new ArrayList<String>();
        for (Throwable cause = error; cause != null; cause = cause.getCause()) {
            words.add(cause.getClass().getSimpleName() + ": " + cause.getMessage());
        }
        return String.join(" <- ", words).replace('\n', ' ');
    }
}
