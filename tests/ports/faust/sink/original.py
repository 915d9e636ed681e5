"""Faust's guide, "Agents": processors of a stream, and an agent whose results go to the topics of its sink."""

import faust


class Greeting(faust.Record):
    name: str
    language: str = ""


def with_language(greeting):
    return greeting if greeting.language else greeting.derive(language="en")


def define(app):
    greetings = app.topic("greetings", value_type=Greeting)
    texts = app.topic("texts", value_type=str, value_serializer="raw")
    longs = app.topic("lengths", value_type=int)

    async def length(text):
        await longs.send(value=len(text))

    @app.agent(greetings, sink=[texts, length])
    async def greet(stream):
        stream.add_processor(with_language)
        async for greeting in stream:
            yield f"{greeting.language}: hello, {greeting.name}"
