"""Streams of requests, read from files or drawn from random processes."""

from chakrakit.serving.requests.files import csv_table, read_requests, requests_from
from chakrakit.serving.requests.processes import Process, generated
from chakrakit.serving.requests.stream import RequestStream, stream_of
from chakrakit.trace.files import unpacked

__all__ = [
    "Process",
    "RequestStream",
    "csv_table",
    "generated",
    "read_requests",
    "requests_from",
    "stream_of",
    "unpacked",
]
