"""The number of occurrences of each word in a review, without stop words."""

from collections import Counter

import stoatflow as sf

SMALL = {"i", "a", "it", "is", "and", "the"}


def words(key, review):
    return [(word, [word, n]) for word, n in Counter(review.lower().replace(".", " ").split()).items()]


def topology():
    builder = sf.StreamsBuilder()
    pairs = builder.stream("reviews", key=str, value=str).flat_map(words)
    pairs.filter(lambda word, pair: word not in SMALL).to("word-counts", key=str, value=list)
    return builder.build()
