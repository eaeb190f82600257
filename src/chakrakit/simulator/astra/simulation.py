"""Simulates a workload with ASTRA-sim's files; the timing itself happens in the C++ core."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import chakrakit.core as core
from chakrakit.errors import ConfigError, DeadlockError, TraceError
from chakrakit.simulator.astra import config as files
from chakrakit.simulator.astra import workload as loading
from chakrakit.simulator.astra.result import AstraOptions, AstraSimulation

if TYPE_CHECKING:
    from chakrakit.trace.sets import TraceSet


def simulate(
    workload: str | TraceSet, config: files.Config, options: AstraOptions | None = None
) -> AstraSimulation:
    """Simulates a workload, a prefix of `prefix.N.et` or any other traces, on the network of `config`.

    Raises DeadlockError when a rank would never finish, TraceError or ConfigError for inputs that cannot
    be run; each names the rank, node, group or key.
    """
    options = options or AstraOptions()
    ranks = config.network.ranks
    with errors():
        if isinstance(workload, str) and loading.is_prefix(workload):
            program = loading.load_files(workload, ranks, lenient=options.lenient)
            config = _noting_surplus(workload, config)
        else:
            from chakrakit.simulator.astra.traces import load_traces

            traces = _traces(workload)
            config = _with_groups(config, traces)
            program = load_traces(traces, ranks, lenient=options.lenient)
    return simulate_program(program, config, options)


def _noting_surplus(prefix: str, config: files.Config) -> files.Config:
    """The configuration, with a note if files beyond the network's ranks are left out, as in ASTRA-sim."""
    ranks = config.network.ranks
    if not Path(f"{prefix}.{ranks}.et").exists():
        return config
    surplus = files.Ignored(prefix, f"{prefix}.{ranks}.et", f"the network has {ranks} ranks")
    return replace(config, ignored=[*config.ignored, surplus])


def _traces(workload: str | TraceSet) -> TraceSet:
    if not isinstance(workload, str):
        return workload
    from chakrakit.trace.storage import read

    return read(workload)


def _with_groups(config: files.Config, traces: TraceSet) -> files.Config:
    """The configuration with the traces' groups, unless it has groups from a file."""
    if config.groups or not traces.groups:
        return config
    listed = {name: list(members) for name, members in traces.groups.items() if name != "0"}
    groups = files.read_groups(listed, config.network.ranks, "the workload's groups")
    return replace(config, groups=groups)


def simulate_program(
    program: core.AstraProgram, config: files.Config, options: AstraOptions | None = None
) -> AstraSimulation:
    """Simulates graphs that are already in memory."""
    options = options or AstraOptions()
    network = core_network(config, options)
    with errors():
        groups = loading.bind_groups(program, config)
        system = core_system(config, options)
        outcome = core.astra_simulate(program, system, network, core_memory(config), options.fold)
    return AstraSimulation(program, outcome, config, options, groups)


@contextmanager
def errors() -> Iterator[None]:
    """Turns the core's errors into DeadlockError and TraceError."""
    try:
        yield
    except core.SimulationError as error:
        message, deadlock = error.args
        raise (DeadlockError if deadlock else TraceError)(message) from None


def core_system(config: files.Config, options: AstraOptions) -> core.AstraSystem:
    """The system file and the options in the form of the core."""
    settings, system = config.system, core.AstraSystem()
    if settings.endpoint_delay is not None:
        system.endpoint_delay = _scaled(settings.endpoint_delay, options.injection_scale)
    system.active_chunks = settings.active_chunks_per_dimension
    system.splits = settings.preferred_dataset_splits
    system.queues = options.queues
    system.local_bw_aware = settings.collective_optimization == "localBWAware"
    system.roofline = bool(settings.roofline_enabled)
    system.replay_only = bool(settings.replay_only)
    system.rendezvous = options.rendezvous
    system.lenient = options.lenient
    system.local_mem_bw = float(settings.local_mem_bw)
    system.peak_perf = float(settings.peak_perf)
    _set_algorithms(system, config, options)
    return system


def _scaled(endpoint_delay: int, scale: float) -> int:
    scaled = int(endpoint_delay * scale)
    if scaled > files.LONGEST:
        raise ConfigError(f"--injection-scale {scale:g} makes `endpoint-delay` {scaled:,} ns")
    return scaled


def _set_algorithms(system: core.AstraSystem, config: files.Config, options: AstraOptions) -> None:
    for number, collective in enumerate(files.COLLECTIVES):
        listed = config.system.implementations(collective)
        system.set_implementations(number, [files.parse_implementation(text) for text in listed])
        prefix = config.system.custom(collective)
        if prefix:
            graphs = loading.load_custom(prefix, config, lenient=options.lenient)
            system.set_custom(number, graphs)
    for node, prefix in config.per_node_custom.items():
        graphs = loading.load_custom(prefix, config, lenient=options.lenient)
        system.set_custom_node(node, graphs)


def core_network(config: files.Config, options: AstraOptions) -> core.AstraNetwork:
    """The network file in the form of the core; GB/s of 2^30 bytes become bytes per ns."""
    description, network = config.network, core.AstraNetwork()
    network.aware = options.backend == "aware"
    if network.aware:
        _require_aware(description, config.names.get("network", "network"))
    for shape, size, bandwidth, latency in zip(
        description.topology,
        description.npus_count,
        description.bandwidth,
        description.latency,
        strict=True,
    ):
        bytes_per_ns = float(bandwidth) * (1 << 30) / 1e9
        network.add(files.SHAPES[shape], size, bytes_per_ns, float(latency))
    return network


def _require_aware(network: files.NetworkConfig, name: str) -> None:
    if len(network.topology) > 1:
        raise ConfigError(
            f"{name}: `topology` has {len(network.topology)} dimensions; the congestion-aware back "
            "end takes one: use --backend unaware"
        )
    if network.topology[0] == "Ring" and network.npus_count[0] == 2:
        raise ConfigError(
            f"{name}: `topology`: the congestion-aware back end has no Ring of 2 ranks; use "
            "FullyConnected or --backend unaware"
        )


def core_memory(config: files.Config) -> core.AstraMemory:
    """The memory file in the form of the core; GB/s of 10^9 bytes become bytes per second."""
    description, memory = config.memory, core.AstraMemory()
    memory.set(
        files.MEMORIES[description.memory_type],
        description.num_nodes,
        description.num_npus_per_node,
        description.remote_mem_latency,
        description.remote_mem_bw * 1_000_000_000,
    )
    return memory
