"""Lists of three, or of the records that arrived within ten seconds of wall-clock time."""

import stoatflow as sf
from stoatflow import PunctuationType, Record, Stores


class Collect(sf.ContextualProcessor):
    @classmethod
    def stores(cls):
        return [Stores.persistent_key_value("collected", key=str, value=sf.Serdes.json(decode="dict"))]

    def init(self, context):
        super().init(context)
        self.collected = context.state_store("collected")
        context.schedule("1s", PunctuationType.WALL_CLOCK_TIME, self.time_out)

    def process(self, record):
        now = self.context.system_time_ms
        list_ = self.collected.get(record.key) or {"since": now, "items": []}
        items = [*list_["items"], record.value]
        if len(items) == 3:
            self.collected.delete(record.key)
            self.context.forward(record.replace(value=items))
        else:
            self.collected.put(record.key, {"since": list_["since"], "items": items})

    def time_out(self, now):
        for key, list_ in self.collected.all():
            if now - list_["since"] >= 10_000:
                self.collected.delete(key)
                self.context.forward(Record(key, list_["items"], now))


def topology():
    json = sf.Serdes.json(decode="dict")
    builder = sf.StreamsBuilder()
    numbers = (
        builder.stream("numbers", value=json).select_key(lambda key, value: "ALL").repartition(key=str, name="all")
    )
    numbers.process(Collect).to("lists", key=str, value=json)
    return builder.build()
