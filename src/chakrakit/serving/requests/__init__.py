"""Streams of requests, read from files or drawn from random processes."""

from chakrakit.serving.requests.files import csv_table, read_requests, requests_from
from chakrakit.serving.requests.processes import Process, generated
from chakrakit.serving.requests.source import FinishedRequest, GrowingStream, Request, Source
from chakrakit.serving.requests.stream import Contents, RequestStream, stream_of
from chakrakit.trace.files import unpacked

__all__ = [
    "Contents",
    "FinishedRequest",
    "GrowingStream",
    "Process",
    "Request",
    "RequestStream",
    "Source",
    "csv_table",
    "generated",
    "read_requests",
    "requests_from",
    "stream_of",
    "unpacked",
]
