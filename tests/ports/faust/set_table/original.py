"""Faust's example "tableofset": the people in each place, kept as a set."""


def define(app):
    moves = app.topic("moves", key_type=str)
    present = app.topic("present", key_type=str)
    people = app.SetTable("people", value_type=str)

    @app.agent(moves)
    async def move(stream):
        async for place, event in stream.items():
            if event["does"] == "join":
                people[place].add(event["name"])
            else:
                people[place].discard(event["name"])
            await present.send(key=place, value=sorted(people[place]))
