"""All formats that are fuzzed, by name."""

from __future__ import annotations

from fuzz.formats.descriptions import DESCRIPTIONS
from fuzz.formats.ranks import RANKS
from fuzz.formats.recordings import RECORDINGS
from fuzz.formats.replays import REPLAYS
from fuzz.formats.serving import SERVING
from fuzz.formats.traces import TRACES
from fuzz.fuzz_format import Format

FORMATS: dict[str, Format] = {
    f.name: f for f in (*RECORDINGS, *TRACES, *DESCRIPTIONS, *SERVING, *REPLAYS, *RANKS)
}
