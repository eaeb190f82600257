"""The folder beside a run that keeps what the profiler wrote; only what collecting wrote is ever replaced."""

from __future__ import annotations

import re
from pathlib import Path

import msgspec

from chakrakit.configuration import read_json
from chakrakit.errors import ChakraError, ConfigError

_WRITTEN = re.compile(r"((et|kineto|times|capture_\d+)_\d+\.json\.gz|card_\d+\.json)(\.part)?")


class _RankCard(msgspec.Struct):
    world_size: int


def raw_folder(directory: Path) -> Path:
    """Where what the profiler wrote is kept: beside the run, which is a directory of its own."""
    return directory.with_name(directory.name + "-raw")


def check_raw(raw: Path) -> None:
    """A ChakraError where the folder holds what collecting did not write."""
    if raw.exists() and not raw.is_dir():
        raise ChakraError(f"{raw}: exists and is not a directory; give another -o, or move it")
    here = sorted(f.name for f in raw.iterdir()) if raw.is_dir() else []
    other = [name for name in here if not _WRITTEN.fullmatch(name)]
    if other:
        raise ChakraError(
            f"{raw}: is where the recording goes, and has other things in it ({other[0]}); "
            "give another -o, or move them"
        )


def recordings(raw: Path) -> list[Path]:
    """The recordings of all ranks, or an error where there is none."""
    names = ("et", "kineto", "capture")
    found = sorted(p for name in names for p in raw.glob(f"{name}_*.json.gz"))
    if not found:
        raise ConfigError(
            "nothing was recorded: the program ended before the first of the steps asked for, "
            "or took no optimizer step; give earlier --steps"
        )
    return found


def time_recordings(raw: Path) -> tuple[Path, ...]:
    """Kineto's recordings without the observer, by rank."""
    return tuple(sorted(raw.glob("times_*.json.gz"), key=_rank_of))


def _rank_of(path: Path) -> int:
    return int(path.name.split("_")[1].split(".")[0])


def missing_cards(raw: Path, ranks: int) -> list[int]:
    """The ranks that have not written their card, which is the last file of each."""
    return [r for r in range(ranks) if not (raw / f"card_{r}.json").exists()]


def is_complete(raw: Path) -> bool:
    """Whether every rank that the cards speak of has written its own."""
    cards = [read_json(p, _RankCard, "a rank's card") for p in raw.glob("card_*.json")]
    return bool(cards) and not missing_cards(raw, max(c.world_size for c in cards))
