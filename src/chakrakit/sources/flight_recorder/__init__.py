"""PyTorch's flight recorder."""

from chakrakit.sources.flight_recorder.dump import is_dump, read_dump
from chakrakit.sources.flight_recorder.pickles import MAGIC, plain_json

__all__ = ["MAGIC", "is_dump", "plain_json", "read_dump"]
