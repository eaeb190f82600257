"""Streams of requests, read from files or drawn from random processes."""

from chakrakit.serving.requests.agents import Piece, prefix_ids
from chakrakit.serving.requests.files import csv_table, read_requests, requests_from
from chakrakit.serving.requests.processes import UNIT, Process, generated
from chakrakit.serving.requests.source import FinishedRequest, GrowingStream, Request, Source
from chakrakit.serving.requests.stream import Contents, RequestStream, joined, repeated, stream_of
from chakrakit.trace.files import unpacked

__all__ = [
    "UNIT",
    "Contents",
    "FinishedRequest",
    "GrowingStream",
    "Piece",
    "Process",
    "Request",
    "RequestStream",
    "Source",
    "csv_table",
    "generated",
    "joined",
    "prefix_ids",
    "read_requests",
    "repeated",
    "requests_from",
    "stream_of",
    "unpacked",
]
