"""Lists of three, or of the records that arrived within two seconds of wall-clock time. They are kept in a store."""

import stoatflow as sf
from stoatflow import PunctuationType, Record, Stores


class Take(sf.ContextualProcessor):
    @classmethod
    def stores(cls):
        return [Stores.persistent_key_value("taken", key=str, value=list)]

    def init(self, context):
        super().init(context)
        self.taken = context.state_store("taken")
        context.schedule("2s", PunctuationType.WALL_CLOCK_TIME, self.time_out)

    def process(self, record):
        values = [*(self.taken.get("all") or []), record.value]
        if len(values) == 3:
            self.taken.delete("all")
            self.context.forward(record.replace(value=values))
        else:
            self.taken.put("all", values)

    def time_out(self, now):
        for key, values in self.taken.all():
            self.taken.delete(key)
            self.context.forward(Record(key, list(values), now))


def topology():
    json = sf.Serdes.json()
    builder = sf.StreamsBuilder()
    numbers = (
        builder.stream("numbers", value=json).select_key(lambda key, value: "all").repartition(key=str, name="all")
    )
    numbers.process(Take).to("lists", key=str, value=json)
    return builder.build()
