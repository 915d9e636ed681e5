package stoatflow.versus;

import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ExecutionException;
import java.util.stream.Collectors;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.OffsetSpec;
import org.apache.kafka.clients.admin.TopicDescription;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.common.TopicPartition;

/**
 * How far an application has come, seen from the broker.
 *
 * <p>Takes: an admin client, the application id and its inputs. Gives: what is committed, and what there is.
 * Never: asks the application itself: only what is committed counts.
 *
 * <p>Repartition topics are looked at too. When the input's offsets are committed, most of its
 * words still wait there to be counted (measured: 100,000 lines are read before the first word is
 * counted), and closing then would leave them uncounted.
 */
final class Progress {
    private final Admin admin;
    private final String applicationId;
    private final List<String> inputs;
    private final List<TopicPartition> inputPartitions = new ArrayList<>();

    Progress(Admin admin, String applicationId, List<String> inputs) {
        this.admin = admin;
        this.applicationId = applicationId;
        this.inputs = inputs;
    }

    /** Committed input, what is committed of that written in between so far, and both ends. */
    record Snapshot(long read, long total, long counted, long written) {
        boolean finished() {
            return total > 0 && read == total && counted == written;
        }
    }

    Snapshot look() throws ExecutionException, InterruptedException {
        if (inputPartitions.isEmpty()) {
            inputPartitions.addAll(partitionsOf(inputs));
        }
        // Committed first, ends afterwards: once the input is committed, the end of a repartition
        // topic is final.
        Map<TopicPartition, OffsetAndMetadata> committed =
                admin.listConsumerGroupOffsets(applicationId).partitionsToOffsetAndMetadata().get();
        List<TopicPartition> wanted = new ArrayList<>(inputPartitions);
        wanted.addAll(partitionsOf(admin.listTopics().names().get().stream()
                .filter(name -> name.startsWith(applicationId + "-") && name.endsWith("-repartition"))
                .toList()));
        Map<TopicPartition, Long> ends = new HashMap<>();
        admin.listOffsets(wanted.stream().collect(Collectors.toMap(p -> p, p -> OffsetSpec.latest())))
                .all().get().forEach((partition, info) -> ends.put(partition, info.offset()));
        long read = 0, total = 0, counted = 0, written = 0;
        for (Map.Entry<TopicPartition, Long> end : ends.entrySet()) {
            OffsetAndMetadata offset = committed.get(end.getKey());
            long at = offset == null ? 0 : offset.offset();
            if (inputPartitions.contains(end.getKey())) {
                read += at;
                total += end.getValue();
            } else {
                counted += at;
                written += end.getValue();
            }
        }
        return new Snapshot(read, total, counted, written);
    }

    private List<TopicPartition> partitionsOf(List<String> topics) throws ExecutionException, InterruptedException {
        if (topics.isEmpty()) {
            return List.of();
        }
        List<TopicPartition> found = new ArrayList<>();
        for (TopicDescription topic : admin.describeTopics(topics).allTopicNames().get().values()) {
            topic.partitions().forEach(p -> found.add(new TopicPartition(topic.name(), p.partition())));
        }
        return found;
    }
}
