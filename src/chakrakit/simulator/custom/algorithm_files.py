"""Algorithms of the user's own by file: which collective takes which, and whether any of them was used."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

from chakrakit.configuration import read_json
from chakrakit.errors import ConfigError, nearest
from chakrakit.machines.device import parse
from chakrakit.simulator.collectives import ALGORITHMS, CollectiveSteps
from chakrakit.simulator.custom.mscclpp import moves_from_mscclpp
from chakrakit.simulator.custom.schedules import moves_from_msccl, moves_from_traces
from chakrakit.trace.storage import read

Algorithm = str | os.PathLike[str] | CollectiveSteps
"""The name of a built-in algorithm, a file, or what `read_algorithm` made of one."""


def read_algorithm(path: str | os.PathLike[str], size: int | None = None) -> CollectiveSteps:
    """Read an algorithm of a collective: a graph of messages that you wrote or generated.

    Parameters
    ----------
    path
        MSCCL's XML (`.xml`), an execution plan of MSCCL++ (`.json`), or traces in which rank p is what
        member p sends, receives and computes.
    size
        Of traces: the bytes of the collective that their messages move. Other sizes are scaled.

    Returns
    -------
    The algorithm's steps, for `algorithms` of `ck.simulate`: `{"all-reduce": steps}`.

    Examples
    --------
    >>> first, second = ck.TraceBuilder(), ck.TraceBuilder()
    >>> _ = first.send("half", 0, 1, 500), first.recv("half", 1, 0, 500)
    >>> _ = second.send("half", 1, 0, 500), second.recv("half", 0, 1, 500)
    >>> ck.write(ck.TraceSet([first.build(), second.build()]), "exchange")
    {}
    >>> ck.read_algorithm("exchange", size=1000).n
    2

    """
    file = Path(path)
    if size is None and file.suffix == ".xml":
        return moves_from_msccl(file)
    if size is None and file.suffix == ".json":
        return moves_from_mscclpp(file)
    if size is None:
        raise ConfigError(
            f"{path}: an algorithm is MSCCL's XML, a JSON plan of MSCCL++, or traces with the bytes that "
            f"they move, as in {path}@1MiB"
        )
    return moves_from_traces(read(os.fspath(path)), size, file.name)


@dataclass
class OwnAlgorithms:
    """What the simulator asks for the steps of a collective; remembers whom it had none for."""

    steps: Mapping[str, CollectiveSteps]
    used: set[str] = field(default_factory=set)
    other_members: dict[str, set[int]] = field(default_factory=dict)

    def __call__(self, collective: str, members: int, _size: int) -> CollectiveSteps | None:
        """The steps for a group of this many members, if they are for so many."""
        own = self.steps.get(collective)
        if own is None:
            return None
        if own.n != members:
            self.other_members.setdefault(collective, set()).add(members)
            return None
        self.used.add(collective)
        return own

    def check_used(self) -> None:
        """An algorithm that no group could use would be dropped in silence."""
        for collective, own in self.steps.items():
            if collective not in self.used:
                others = ", ".join(map(str, sorted(self.other_members.get(collective, ()))))
                there = f"; there are groups of {others}" if others else ""
                raise ConfigError(
                    f"--algorithm {collective}: it is for {own.n} members, and no {collective} has so "
                    f"many{there}"
                )


def split_algorithms(
    algorithms: Mapping[str, Algorithm],
) -> tuple[dict[str, str], OwnAlgorithms | None]:
    """Built-in algorithms by name, and those that are the user's own."""
    own = {c: a for c, a in algorithms.items() if not _is_built_in(c, a)}
    for collective in own:
        if collective not in ALGORITHMS:
            raise ConfigError(f"no collective {collective!r}; {nearest(collective, ALGORITHMS)}")
    steps = {collective: _steps(collective, algorithm) for collective, algorithm in own.items()}
    named = {c: str(a) for c, a in algorithms.items() if c not in own}
    return named, OwnAlgorithms(steps) if steps else None


def _is_built_in(collective: str, algorithm: Algorithm) -> bool:
    """Whether to look for a name among ours: all words that are neither a file nor `PREFIX@BYTES`."""
    if isinstance(algorithm, CollectiveSteps):
        return False
    text = os.fspath(algorithm)
    if text in ("auto", *ALGORITHMS.get(collective, ())):
        return True
    return "@" not in text and not Path(text).exists() and not Path(text).suffix


def _steps(collective: str, algorithm: Algorithm) -> CollectiveSteps:
    if isinstance(algorithm, CollectiveSteps):
        return algorithm
    path, sign, size = os.fspath(algorithm).rpartition("@")
    if sign:
        return read_algorithm(path, int(parse(size, "bytes", "size")))
    steps = read_algorithm(size)
    _check_collective(Path(size), collective)
    return steps


def _check_collective(file: Path, collective: str) -> None:
    """Files say what they are for: `allreduce`, `reduce_scatter`, or `custom`, which may be anything."""
    if file.suffix == ".xml":
        named = ElementTree.parse(file).getroot().get("coll", "")
    else:
        named = str(read_json(file, dict[str, Any], "an MSCCL++ plan").get("collective", ""))
    letters = named.lower().replace("_", "").replace("-", "")
    if letters not in ("", "custom", collective.replace("-", "")):
        raise ConfigError(f"--algorithm {collective}={file}: the file is an algorithm of {named!r}")
