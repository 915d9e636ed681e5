"""Faust's example "word_count": one agent splits posts into words, and sends each to another, which counts them."""


def define(app):
    posts = app.topic("posts", value_type=str, value_serializer="raw")
    counts = app.topic("counts", key_type=str, value_type=int)
    word_counts = app.Table("word_counts", default=int)

    @app.agent(posts)
    async def split(stream):
        async for post in stream:
            for word in post.split():
                await count.send(key=word, value=word)

    @app.agent(value_type=str)
    async def count(words):
        async for word in words:
            word_counts[word] += 1
            await counts.send(key=word, value=word_counts[word])
