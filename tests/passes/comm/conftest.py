"""Lets tests import the random workloads of the simulator's tests, and the cases beside them."""

import sys
from pathlib import Path

sys.path[:0] = [str(Path(__file__).parent), str(Path(__file__).parents[2] / "simulator")]
