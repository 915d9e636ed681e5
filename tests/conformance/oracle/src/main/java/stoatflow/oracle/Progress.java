package stoatflow.oracle;

import java.time.Duration;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeSet;
import java.util.stream.Collectors;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.AdminClientConfig;
import org.apache.kafka.clients.admin.ListConsumerGroupOffsetsOptions;
import org.apache.kafka.clients.admin.ListOffsetsOptions;
import org.apache.kafka.clients.admin.ListOffsetsResult.ListOffsetsResultInfo;
import org.apache.kafka.clients.admin.OffsetSpec;
import org.apache.kafka.clients.consumer.ConsumerConfig;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.common.IsolationLevel;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.streams.TopologyDescription;

/**
 * Whether an application has processed and committed everything that its source and repartition topics hold.
 *
 * <p>Takes: the topology's description, the application's id, a broker. Gives: a yes only if two
 * looks in a row saw the same ends, no open transaction in any of the topics, and no record behind
 * a committed offset. (A commit marker is no record: behind the last one an offset may stand for
 * ever.) Never counts records that come later.
 */
final class Progress implements AutoCloseable {
    private static final Duration ONE_POLL = Duration.ofMillis(100);

    private final Admin admin;
    private final KafkaConsumer<byte[], byte[]> reader;
    private final String group;
    private final Set<String> names;
    private Set<TopicPartition> partitions = Set.of();
    private Map<TopicPartition, Long> seen = Map.of();
    private String told = "nothing was asked yet";

    private Progress(Admin admin, KafkaConsumer<byte[], byte[]> reader, String group, Set<String> names) {
        this.admin = admin;
        this.reader = reader;
        this.group = group;
        this.names = names;
    }

    static Progress of(TopologyDescription description, String group, String bootstrap) {
        Set<String> names = new TreeSet<>();
        for (TopologyDescription.Subtopology part : description.subtopologies()) {
            for (TopologyDescription.Node node : part.nodes()) {
                if (node instanceof TopologyDescription.Source source) {
                    names.addAll(source.topicSet());
                }
            }
        }
        Map<String, Object> address = Map.of(AdminClientConfig.BOOTSTRAP_SERVERS_CONFIG, bootstrap);
        Map<String, Object> settings = new HashMap<>(address);
        settings.put(ConsumerConfig.ISOLATION_LEVEL_CONFIG, "read_committed");
        settings.put(ConsumerConfig.ENABLE_AUTO_COMMIT_CONFIG, false);
        settings.put(ConsumerConfig.AUTO_OFFSET_RESET_CONFIG, "earliest");
        ByteArrayDeserializer bytes = new ByteArrayDeserializer();
        return new Progress(Admin.create(address), new KafkaConsumer<>(settings, bytes, bytes), group, names);
    }

    boolean isComplete() throws Exception {
        if (partitions.isEmpty()) {
            partitions = find();
        }
        Map<TopicPartition, Long> ends = ends(IsolationLevel.READ_UNCOMMITTED);
        boolean complete = ends.equals(ends(IsolationLevel.READ_COMMITTED)) && nothingIsLeft(ends);
        boolean twice = complete && ends.equals(seen);
        seen = complete ? ends : Map.of();
        return twice;
    }

    private boolean nothingIsLeft(Map<TopicPartition, Long> ends) throws Exception {
        Map<TopicPartition, OffsetAndMetadata> committed = admin.listConsumerGroupOffsets(
                        group, new ListConsumerGroupOffsetsOptions().requireStable(true))
                .partitionsToOffsetAndMetadata()
                .get();
        for (Map.Entry<TopicPartition, Long> end : ends.entrySet()) {
            OffsetAndMetadata found = committed.get(end.getKey());
            long from = found == null ? 0 : found.offset();
            if (from < end.getValue() && holdsRecords(end.getKey(), from, end.getValue())) {
                told = end.getKey() + " is committed to " + from + " of " + end.getValue();
                return false;
            }
        }
        return true;
    }

    private boolean holdsRecords(TopicPartition partition, long from, long end) {
        reader.assign(List.of(partition));
        reader.seek(partition, from);
        while (reader.position(partition) < end) {
            if (!reader.poll(ONE_POLL).isEmpty()) {
                return true;
            }
        }
        return false;
    }

    private Map<TopicPartition, Long> ends(IsolationLevel isolation) throws Exception {
        Map<TopicPartition, OffsetSpec> asked =
                partitions.stream().collect(Collectors.toMap(partition -> partition, partition -> OffsetSpec.latest()));
        Map<TopicPartition, ListOffsetsResultInfo> found =
                admin.listOffsets(asked, new ListOffsetsOptions(isolation)).all().get();
        return found.entrySet().stream()
                .collect(Collectors.toMap(Map.Entry::getKey, entry -> entry.getValue().offset()));
    }

    /** Those of the repartition topics are known once the application runs. */
    private Set<TopicPartition> find() throws Exception {
        Set<String> existing = admin.listTopics().names().get();
        // The description tells a repartition topic's name without the application's id.
        Set<String> topics = names.stream()
                .map(name -> existing.contains(name) ? name : group + "-" + name)
                .collect(Collectors.toSet());
        return admin.describeTopics(topics).allTopicNames().get().values().stream()
                .flatMap(topic -> topic.partitions().stream()
                        .map(partition -> new TopicPartition(topic.name(), partition.partition())))
                .collect(Collectors.toSet());
    }

    @Override
    public void close() {
        reader.close();
        admin.close();
    }

    @Override
    public String toString() {
        return told;
    }
}
