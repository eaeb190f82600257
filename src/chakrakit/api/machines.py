"""Machines: listed, timed, and measured."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from chakrakit.api.inputs import Path_
from chakrakit.errors import ConfigError
from chakrakit.machines.calibrate import (
    CalibrationReport,
    calibrate_collectives,
    calibrate_network,
    calibrate_profile,
)
from chakrakit.machines.fabric import Machine
from chakrakit.machines.load import MachinesReport, describe, load_machine, overview
from chakrakit.simulator.results import (
    CollectiveTable,
    ExpertExchange,
    Kernels,
    parse_members,
    time_collective,
)


def list_machines(name: str | None = None) -> MachinesReport:
    """List the machines that come with the package, or describe one of them.

    Parameters
    ----------
    name
        A preset (`dgx-h100`, `dgx-h100:32`) or a file; `load_machine` gives the machine itself.

    Examples
    --------
    >>> "dgx-h100" in [p.name for p in ck.list_machines().presets]
    True
    >>> ck.list_machines("dgx-h100:2").machine.devices
    16

    """
    if name is None:
        return MachinesReport(presets=overview())
    return MachinesReport(machine=describe(load_machine(name)))


def collective(
    name: str,
    machine: Machine | str,
    members: int | Sequence[int] | str,
    sizes: Sequence[int] | str | None = None,
    *,
    dtype: str = "half",
    kernels: Kernels = "library",
    eager: bool = False,
    tokens: Sequence[int] | str | None = None,
    hidden: int = 7168,
    topk: int = 8,
    experts: int = 256,
    low_latency: bool = False,
    sms: int = 24,
) -> CollectiveTable:
    """Time a collective for each size, as nccl-tests would print it, with nothing else on the links.

    Parameters
    ----------
    name
        The collective, such as `all-reduce`; or `dispatch` and `combine` of mixtures of experts.
    machine
        A Machine, the name of a preset, or a file.
    members
        How many devices from 0 on, or which: a list, or text such as `0-3,8-11`.
    sizes
        Bytes, or text such as `1KiB:1GiB` or `4096,1MiB`: the full tensor of an all-reduce, the gathered
        output of an all-gather, the input of a reduce-scatter, one member's send buffer of an all-to-all.
    dtype
        The type of the elements.
    kernels
        The communication library, the serving engines' own all-reduce, or the faster of the two.
    eager
        Whether an engine launches its kernel each time, and not from a recorded graph.
    tokens
        Instead of sizes, for dispatch and combine: the tokens of each member, as a list or as text.
    hidden, topk, experts
        For dispatch and combine: the width of a token, the experts of each, and how many there are.
    low_latency, sms
        For dispatch and combine: the kernels for decoding, or the multiprocessors of the others.

    Returns
    -------
    A table with one row per size.

    Examples
    --------
    >>> table = ck.collective("all-reduce", "dgx-h200", 8, "1MiB:4MiB")
    >>> [row.bytes for row in table.rows]
    [1048576, 2097152, 4194304]
    >>> table.rows[0].algorithm, table.rows[0].protocol
    ('ring', 'LL')

    """
    asked, other = (tokens, sizes) if name in ("dispatch", "combine") else (sizes, tokens)
    if asked is None or other is not None:
        raise ConfigError("give --tokens for dispatch and combine, --sizes for all others")
    return time_collective(
        name,
        machine,
        parse_members(members) if isinstance(members, str) else members,
        asked,
        dtype=dtype,
        kernels=kernels,
        eager=eager,
        exchange=ExpertExchange(
            hidden=hidden, topk=topk, experts=experts, low_latency=low_latency, multiprocessors=sms
        ),
    )


def calibrate(
    *sources: Path_,
    output: Path_,
    nccl_tests: bool = False,
    collectives: bool = False,
    machine: Machine | str | None = None,
) -> CalibrationReport:
    """Make a compute profile, a network model or library constants from measurements.

    Parameters
    ----------
    sources
        Microbenchmark files and linked traces; logs of nccl-tests; or tables of measured collectives
        (CSV or Parquet with the columns collective, members, bytes and time_us).
    output
        Where the profile, model or constants go.
    nccl_tests
        The sources are logs of nccl-tests: make a network model, or with `machine` library constants.
    collectives
        The sources are tables: make library constants for `machine`.
    machine
        The machine on which the collectives ran. The constants go under `library` in its file.

    Examples
    --------
    >>> ck.calibrate("run", output="profile.json").fitted_on  # doctest: +SKIP

    """
    paths, target = [Path(s) for s in sources], Path(output)
    if collectives or (nccl_tests and machine is not None):
        if machine is None:
            raise ConfigError(
                "library constants are of a machine; say which one the collectives ran on"
            )
        found = load_machine(machine) if isinstance(machine, str) else machine
        return calibrate_collectives(paths, found, target)
    make = calibrate_network if nccl_tests else calibrate_profile
    return make(paths, target)
