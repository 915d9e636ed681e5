"""Quix Streams' tutorial "Word count": the number of occurrences of each word in a review, without stop words."""

from collections import Counter

SMALL = {"i", "a", "it", "is", "and", "the"}


def words(review):
    return list(Counter(review.lower().replace(".", " ").split()).items())


def define(app):
    reviews = app.topic("reviews", value_deserializer="str")
    counts = app.topic("word-counts")
    sdf = app.dataframe(reviews)
    sdf = sdf.apply(words, expand=True)
    sdf = sdf.filter(lambda pair: pair[0] not in SMALL)
    sdf.to_topic(counts, key=lambda pair: pair[0])
