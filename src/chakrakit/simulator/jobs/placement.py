"""Which devices each job runs on."""

from __future__ import annotations

from collections.abc import Sequence

from chakrakit.configuration import read_json
from chakrakit.errors import ConfigError, FormatError
from chakrakit.machines.fabric import Machine

Devices = tuple[int, ...]
"""The device of each rank."""


def place_jobs(sizes: Sequence[int], machine: Machine, *, spread: bool = False) -> list[Devices]:
    """Devices for jobs of so many ranks, in order.

    By default every job is on nodes of its own while there are enough, else jobs follow one another without
    gaps. With `spread`, ranks are dealt out over all nodes in turn, so that every job reaches every node.
    """
    total, each = sum(sizes), machine.node_size
    free = machine.free_devices.tolist()
    if total > len(free):
        raise ConfigError(
            f"{machine.name} has {len(free):,} devices and the jobs {total:,} ranks; ask for more "
            "nodes, as in dgx-h100:32"
        )
    if spread:
        return _in_order(sizes, sorted(free, key=lambda d: (d % each, d // each)))
    nodes = [-(-size // each) for size in sizes]
    if sum(nodes) * each > len(free):
        return _in_order(sizes, free)
    first = [sum(nodes[:i]) * each for i in range(len(nodes))]
    return [tuple(free[at : at + size]) for at, size in zip(first, sizes, strict=True)]


def _in_order(sizes: Sequence[int], devices: Sequence[int]) -> list[Devices]:
    out, at = [], 0
    for size in sizes:
        out.append(tuple(devices[at : at + size]))
        at += size
    return out


def check_places(places: Sequence[Devices]) -> None:
    """An error where two ranks are on one device."""
    used: dict[int, int] = {}
    for job, devices in enumerate(places):
        for device in devices:
            if device in used:
                raise ConfigError(
                    f"device {device} is given to job {used[device]} and job {job} (counted from 0); "
                    "a device runs one rank"
                )
            used[device] = job


def read_job_placement(path: str, names: Sequence[str], sizes: Sequence[int]) -> list[Devices]:
    """A placement from its file: `{"job": [2, 3, 0, 1], …}`, the device of each rank of every job."""
    what = f'a placement of jobs (write {{"{names[0]}": [0, 1], …}})'
    found = read_json(path, dict[str, tuple[int, ...]], what)
    for name, size in zip(names, sizes, strict=True):
        given = len(found.get(name, ()))
        if given != size:
            raise FormatError(
                f"job {name!r} has {size} ranks and the placement {given} devices for it", path=path
            )
    return [found[name] for name in names]
