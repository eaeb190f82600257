"""`simulate` as ASTRA-sim does: it needs nothing of the native simulator, which it does not import."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import fields
from typing import TYPE_CHECKING, Any

from chakrakit.errors import ConfigError, nearest
from chakrakit.simulator.astra import AstraOptions, AstraSimulation, read_config, simulate

if TYPE_CHECKING:
    from chakrakit.api.inputs import Path_, Traces

ASTRA_OPTIONS = ("groups", *(f.name for f in fields(AstraOptions) if f.name != "fold"))
"""Options that only ASTRA-sim's engine has."""


def simulate_as_astra(
    workload: Traces,
    files: Sequence[Path_],
    output: Path_ | None = None,
    *,
    groups: Path_ | None = None,
    **options: Any,
) -> AstraSimulation:
    """What `simulate` does with `astra`, the system JSON, the network YAML and the memory JSON."""
    for name in options:
        if name not in (*ASTRA_OPTIONS, "fold"):
            raise ConfigError(f"astra has no option {name!r}; {nearest(name, ASTRA_OPTIONS)}")
    if len(files) != 3:
        raise ConfigError(f"astra has {len(files)} files; give the system, the network, the memory")
    system, network, memory = (os.fspath(path) for path in files)
    config = read_config(system, network, memory, None if groups is None else os.fspath(groups))
    given = os.fspath(workload) if isinstance(workload, str | os.PathLike) else workload
    done = simulate(given, config, AstraOptions(**options))
    if output is not None:
        _write(done, workload, output)
    return done


def _write(done: AstraSimulation, workload: Traces, output: Path_) -> None:
    from chakrakit.api.inputs import traces_of
    from chakrakit.simulator.astra import to_run
    from chakrakit.trace.storage import write

    write(to_run(done, traces_of(workload)), output)
