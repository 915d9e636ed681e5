"""Quix Streams' guide, "Count-based Tumbling Windows": lists of three."""

from quixstreams.dataframe.windows import Collect


def define(app):
    sdf = app.dataframe(app.topic("measures"))
    sdf = sdf.tumbling_count_window(count=3).agg(data=Collect("data")).final()
    sdf.to_topic(app.topic("batches"))
