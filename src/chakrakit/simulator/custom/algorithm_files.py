"""Reads custom algorithms from files, assigns them to collectives, and checks that they were used."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from chakrakit.configuration import read_json
from chakrakit.errors import ConfigError, nearest
from chakrakit.machines.device import parse
from chakrakit.simulator.collectives import ALGORITHMS, CollectiveSteps
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
    from chakrakit.simulator.custom.schedules import (
        moves_from_msccl,
        moves_from_mscclpp,
        moves_from_traces,
    )

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
    """The custom algorithm of each collective; records which were used and which group sizes had none."""

    steps: Mapping[str, CollectiveSteps]
    used: set[str] = field(default_factory=set)
    other_members: dict[str, set[int]] = field(default_factory=dict)

    def __call__(self, collective: str, members: int, _size: int) -> CollectiveSteps | None:
        """The steps of a collective; None without an algorithm for that many members."""
        steps = self.steps.get(collective)
        if steps is None:
            return None
        if steps.n != members:
            self.other_members.setdefault(collective, set()).add(members)
            return None
        self.used.add(collective)
        return steps

    def check_used(self) -> None:
        """Raises an error for an algorithm that no group could use."""
        for collective, steps in self.steps.items():
            if collective not in self.used:
                group_sizes = ", ".join(map(str, sorted(self.other_members.get(collective, ()))))
                hint = f"; there are groups of {group_sizes}" if group_sizes else ""
                raise ConfigError(
                    f"--algorithm {collective}: it is for {steps.n} members, and no {collective} has that "
                    f"many{hint}"
                )


def split_algorithms(
    algorithms: Mapping[str, Algorithm],
) -> tuple[dict[str, str], OwnAlgorithms | None]:
    """The built-in algorithms by name, and the custom ones."""
    custom = {c: a for c, a in algorithms.items() if not _is_built_in(c, a)}
    for collective in custom:
        if collective not in ALGORITHMS:
            raise ConfigError(f"no collective {collective!r}; {nearest(collective, ALGORITHMS)}")
    steps = {collective: _steps(collective, algorithm) for collective, algorithm in custom.items()}
    built_in = {c: str(a) for c, a in algorithms.items() if c not in custom}
    return built_in, OwnAlgorithms(steps) if steps else None


def _is_built_in(collective: str, algorithm: Algorithm) -> bool:
    """Whether an algorithm is the name of a built-in one, and neither a file nor `PREFIX@BYTES`."""
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
    """Raises an error if a file is for another collective; one marked `custom` may be used for any."""
    if file.suffix == ".xml":
        from xml.etree import ElementTree

        purpose = ElementTree.parse(file).getroot().get("coll", "")
    else:
        purpose = str(read_json(file, dict[str, Any], "an MSCCL++ plan").get("collective", ""))
    letters = purpose.lower().replace("_", "").replace("-", "")
    if letters not in ("", "custom", collective.replace("-", "")):
        raise ConfigError(
            f"--algorithm {collective}={file}: the file is an algorithm of {purpose!r}"
        )
