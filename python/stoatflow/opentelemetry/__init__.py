"""OpenTelemetry: the metrics of an application as instruments, its commits as spans, and the traces of records.

Off unless `instrument(app)` is called. Needs opentelemetry-api. The providers that the program sets up, of
opentelemetry-sdk or of an agent, decide what is exported and to where.
"""

try:
    import opentelemetry.trace  # noqa: F401  # the package itself may be there without
except ImportError as cause:
    raise ImportError(
        "stoatflow.opentelemetry needs opentelemetry-api, which is not installed. "
        "Next: pip install 'stoatflow[opentelemetry]'"
    ) from cause

from stoatflow.opentelemetry.instrument import Instrumentation, instrument
from stoatflow.opentelemetry.records import context_of, links_to, record_span, with_context

__all__ = ["Instrumentation", "context_of", "instrument", "links_to", "record_span", "with_context"]
