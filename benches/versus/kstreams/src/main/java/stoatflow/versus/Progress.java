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
 * <p>Takes: an admin client, the application id and its topics. Gives: what is committed, and what there is. Never: asks
 * the application itself: only what is committed counts.
 *
 * <p>The repartition topic is looked at too. When the input's offsets are committed, most of its words
 * still wait there to be counted (measured: 100,000 lines are read before the first word is counted), and closing then
 * would leave them uncounted.
 */
final class Progress {
    private final Admin admin;
    private final String applicationId;
    private final String input;
    private final String repartition;
    private List<TopicPartition> inputPartitions = List.of();

    Progress(Admin admin, String applicationId, String input, String repartition) {
        this.admin = admin;
        this.applicationId = applicationId;
        this.input = input;
        this.repartition = repartition;
    }

    /** Committed input, words committed of those written so far, and both ends. */
    record Snapshot(long read, long total, long counted, long written) {
        boolean finished() {
            return total > 0 && read == total && counted == written;
        }
    }

    Snapshot look() throws ExecutionException, InterruptedException {
        if (inputPartitions.isEmpty()) {
            inputPartitions = partitionsOf(input);
        }
        // Committed first, ends afterwards: once the whole input is committed, the end of the repartition topic is final.
        Map<TopicPartition, OffsetAndMetadata> committed =
                admin.listConsumerGroupOffsets(applicationId).partitionsToOffsetAndMetadata().get();
        List<TopicPartition> wanted = new ArrayList<>(inputPartitions);
        if (admin.listTopics().names().get().contains(repartition)) {
            wanted.addAll(partitionsOf(repartition));
        }
        Map<TopicPartition, Long> ends = new HashMap<>();
        admin.listOffsets(wanted.stream().collect(Collectors.toMap(p -> p, p -> OffsetSpec.latest())))
                .all().get().forEach((partition, info) -> ends.put(partition, info.offset()));
        long read = 0, total = 0, counted = 0, written = 0;
        for (Map.Entry<TopicPartition, Long> end : ends.entrySet()) {
            OffsetAndMetadata offset = committed.get(end.getKey());
            long at = offset == null ? 0 : offset.offset();
            if (end.getKey().topic().equals(input)) {
                read += at;
                total += end.getValue();
            } else {
                counted += at;
                written += end.getValue();
            }
        }
        return new Snapshot(read, total, counted, written);
    }

    private List<TopicPartition> partitionsOf(String topic) throws ExecutionException, InterruptedException {
        TopicDescription description = admin.describeTopics(List.of(topic)).topicNameValues().get(topic).get();
        return description.partitions().stream().map(p -> new TopicPartition(topic, p.partition())).toList();
    }
}
