"""One function after the other, and a result that is written to two topics."""

import stoatflow as sf


def topology():
    builder = sf.StreamsBuilder()
    language = sf.when(sf.value["language"].is_null()).then("en").otherwise(sf.value["language"])
    greetings = builder.stream("greetings", value=sf.Serdes.json())
    texts = greetings.map_values(language + ": hello, " + sf.value["name"])
    texts.to("texts", value=str)
    texts.map_values(len).to("lengths", value=sf.Serdes.json())
    return builder.build()
