"""A pair once both sides are present, then the state of the key is deleted. This takes a processor, not an operator."""

import stoatflow as sf
from stoatflow import Stores


class Complete(sf.ContextualProcessor):
    def init(self, context):
        super().init(context)
        self.sides = context.state_store("sides")

    def process(self, record):
        sides = (self.sides.get(record.key) or {}) | record.value
        if len(sides) == 2:
            self.sides.delete(record.key)
            self.context.forward(record.replace(value=[sides["name"], sides["email"]]))
        else:
            self.sides.put(record.key, sides)


def topology():
    json = sf.Serdes.json(decode="dict")
    builder = sf.StreamsBuilder()
    builder.add_state_store(Stores.persistent_key_value("sides", key=str, value=json))
    names = builder.stream("names", value=json).map(lambda key, each: (each["user"], {"name": each["name"]}))
    emails = builder.stream("emails", value=json).map(lambda key, each: (each["user"], {"email": each["email"]}))
    both = names.merge(emails).repartition(key=str, value=json, name="by-user")
    both.process(Complete, stores=["sides"]).to("users", key=str, value=json)
    return builder.build()
