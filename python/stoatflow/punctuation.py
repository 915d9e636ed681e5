"""When a processor's schedule is due.

`STREAM_TIME` follows the stream time of each partition, and fires for each: with the first record, then whenever stream
time passes a multiple of the interval (once, however many it passes), and never without records. `WALL_CLOCK_TIME`
follows the machine's clock: it fires after one whole interval, then at multiples of it (once, however late).
"""

from __future__ import annotations

from enum import Enum


class PunctuationType(Enum):
    """Which clock a schedule follows.

    >>> from stoatflow.testing import MockProcessorContext
    >>> context = MockProcessorContext()
    >>> schedule = context.schedule("1m", sf.PunctuationType.WALL_CLOCK_TIME, lambda now: print("now", now))
    >>> context.scheduled_punctuators[0].punctuate(60_000)
    now 60000
    """

    STREAM_TIME = "stream_time"
    WALL_CLOCK_TIME = "wall_clock_time"
