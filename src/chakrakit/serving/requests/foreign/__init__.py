"""Requests as other tools write them: one file per format, registered here by name and content."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from chakrakit.serving.requests.foreign.aiperf import is_aiperf, read_aiperf
from chakrakit.serving.requests.foreign.blis import is_blis, read_blis
from chakrakit.serving.requests.foreign.blis_trace import is_blis_trace, read_blis_trace
from chakrakit.serving.requests.foreign.dynamo import is_dynamo, read_dynamo
from chakrakit.serving.requests.foreign.guidellm import is_guidellm, read_guidellm
from chakrakit.serving.requests.foreign.opentelemetry import is_opentelemetry, read_opentelemetry
from chakrakit.serving.requests.foreign.servegen import is_servegen, read_servegen
from chakrakit.serving.requests.stream import RequestStream


class RequestFormat(NamedTuple):
    """A format of requests: its name, how it is recognised by its first bytes, its reader."""

    name: str
    recognises: Callable[[bytes], bool]
    read: Callable[[bytes, str, int], RequestStream]
    """From the bytes, the path and a seed, for formats that describe how requests are drawn."""


REQUEST_FORMATS = (
    RequestFormat("Dynamo's request trace", is_dynamo, read_dynamo),
    RequestFormat("AIPerf's records", is_aiperf, read_aiperf),
    RequestFormat("OpenTelemetry", is_opentelemetry, read_opentelemetry),
    RequestFormat("GuideLLM's report", is_guidellm, read_guidellm),
    RequestFormat("BLIS' workload", is_blis, read_blis),
    RequestFormat("BLIS' trace", is_blis_trace, read_blis_trace),
    RequestFormat("ServeGen's client", is_servegen, read_servegen),
)
"""The registry, in the order in which formats are tried."""

__all__ = ["REQUEST_FORMATS", "RequestFormat"]
