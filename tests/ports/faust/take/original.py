"""Faust's guide, "take()": lists of three, or of the events that arrived within two seconds."""


def define(app):
    numbers = app.topic("numbers", value_type=int)
    lists = app.topic("lists")

    @app.agent(numbers)
    async def collect(stream):
        async for values in stream.take(3, within=2):
            await lists.send(key=b"all", value=list(values))
