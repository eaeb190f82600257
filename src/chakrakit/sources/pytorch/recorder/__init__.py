"""The recorder that runs inside the program; it needs PyTorch and the standard library alone.

Its files name each other relatively: the folder is also loaded by its path, without chakrakit.
"""

from __future__ import annotations

from pathlib import Path

from .calls import FollowedCalls
from .collector import Collector, parse_steps
from .groups import GROUP_MARK, REDUCE_MARK, mark_groups, rank, world_size
from .programs import ENVIRONMENT, install_from_environment
from .settings import global_settings

FOLDER = Path(__file__).parent

__all__ = [
    "ENVIRONMENT",
    "FOLDER",
    "GROUP_MARK",
    "REDUCE_MARK",
    "Collector",
    "FollowedCalls",
    "global_settings",
    "install_from_environment",
    "mark_groups",
    "parse_steps",
    "rank",
    "world_size",
]
