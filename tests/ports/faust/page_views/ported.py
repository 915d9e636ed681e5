"""Views by page."""

import stoatflow as sf


def topology():
    builder = sf.StreamsBuilder()
    views = builder.stream("page-views", key=str, value=sf.Serdes.json())
    page_views = views.group_by(sf.value["id"], key=str).count(store=sf.Materialized("page_views", caching=False))
    page_views.to_stream().to("counts", key=str, value=sf.Serdes.json())
    return builder.build()
