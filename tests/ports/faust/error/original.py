"""Faust's guide, "Acknowledgment": an event whose processing raises is acknowledged, and the agent continues."""


def define(app):
    numbers = app.topic("numbers", value_type=int)
    inverses = app.topic("inverses", value_type=float)

    @app.agent(numbers)
    async def invert(stream):
        async for number in stream:
            await inverses.send(value=1 / number)
