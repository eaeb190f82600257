"""Hostile inputs that somebody thought of, each with what must come of it.

python tests/fuzz/attacks            walks all of them by command, with time and memory, as a table
python tests/fuzz/attacks Kineto     those with that word in their names
"""

from __future__ import annotations

from fuzz.attacks.descriptions import DESCRIPTIONS
from fuzz.attacks.recordings import RECORDINGS
from fuzz.attacks.replays import REPLAYS
from fuzz.attacks.traces import TRACES

ATTACKS = (*RECORDINGS, *TRACES, *DESCRIPTIONS, *REPLAYS)
