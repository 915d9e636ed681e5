package stoatflow.versus;

import java.util.Arrays;
import java.util.List;
import java.util.Locale;
import java.util.regex.Pattern;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.common.utils.Bytes;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.Topology;
import org.apache.kafka.streams.kstream.Consumed;
import org.apache.kafka.streams.kstream.Grouped;
import org.apache.kafka.streams.kstream.Materialized;
import org.apache.kafka.streams.kstream.Produced;
import org.apache.kafka.streams.state.KeyValueStore;

/** W2: how often each word comes. */
final class WordCount {
    private static final Pattern SPACE = Pattern.compile("\\s+");
    private static final String STORE = "counts";

    private WordCount() {}

    static List<String> words(String line) {
        String text = line.strip().toLowerCase(Locale.ROOT);
        return text.isEmpty() ? List.of() : Arrays.asList(SPACE.split(text));
    }

    static Topology topology(List<String> inputs, String output) {
        StreamsBuilder builder = new StreamsBuilder();
        builder.stream(inputs.get(0), Consumed.with(Serdes.ByteArray(), Serdes.String()))
                .flatMapValues(WordCount::words)
                .groupBy((key, word) -> word, Grouped.with(STORE, Serdes.String(), Serdes.String()))
                .count(Materialized.<String, Long, KeyValueStore<Bytes, byte[]>>as(STORE)
                        .withKeySerde(Serdes.String())
                        .withValueSerde(Serdes.Long()))
                .toStream()
                .to(output, Produced.with(Serdes.String(), Serdes.Long()));
        return builder.build();
    }
}
