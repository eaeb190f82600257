"""A job file as a campaign that can be run: failures (also from a log), checkpoint stores, policies."""

from __future__ import annotations

import csv
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from chakrakit.campaigns.chains import RetryPlan
from chakrakit.campaigns.checkpoints import CHECKPOINT_POLICIES, CheckpointPolicy, Situation, Tiered
from chakrakit.campaigns.failures import (
    SCOPES,
    Duration,
    Exponential,
    FailureProcess,
    Fixed,
    LoggedFailure,
    Scope,
    Slowness,
    Uniform,
    Weibull,
)
from chakrakit.campaigns.job_text import (
    CheckpointStoreText,
    ClusterText,
    CostsText,
    FailuresText,
    JobText,
    PoolText,
    ProcessText,
    RetriesText,
    SpotText,
    TelemetryText,
)
from chakrakit.campaigns.plan import CampaignPlan
from chakrakit.campaigns.pool import Guarding, PoolPlan
from chakrakit.campaigns.recovery import RECOVERY_POLICIES, Elastic, Recovery
from chakrakit.campaigns.spot import SpotMarket, read_prices
from chakrakit.campaigns.step_times import StepTimes, step_times
from chakrakit.configuration import (
    Document,
    Place,
    document_of,
    is_program,
    part_of_program,
    read_document,
)
from chakrakit.errors import ChakraError, ConfigError, FormatError
from chakrakit.machines.device import parse, positive, show_bytes

COLUMNS = ("hour", "node", "cause", "scope", "factor", "hours")


def read_failure_log(path: str | Path, nodes: int) -> tuple[LoggedFailure, ...]:
    """A log's failures in the order of time.

    The header names the columns: `hour` (since the job began) and `node` (from 0) are needed; `cause`,
    `scope` (process, node, rack or cluster), `factor` and `hours` may be there.
    """
    try:
        with Path(path).open(newline="", encoding="utf-8") as file:
            rows = csv.DictReader(file)
            header = tuple(rows.fieldnames or ())
            _check_header(path, header)
            failures = [_failure(path, rows.line_num, row, nodes) for row in rows]
    except OSError as error:
        raise FormatError(f"cannot be read: {error.strerror}", path=str(path)) from None
    except (UnicodeDecodeError, csv.Error) as error:
        raise FormatError(f"not a CSV file: {error}", path=str(path)) from None
    return tuple(sorted(failures, key=lambda failure: failure.time))


def _check_header(path: str | Path, header: tuple[str, ...]) -> None:
    missing = [name for name in ("hour", "node") if name not in header]
    unknown = [name for name in header if name not in COLUMNS]
    if missing or unknown:
        wrong = f"no column {missing[0]!r}" if missing else f"unknown column {unknown[0]!r}"
        raise FormatError(f"{wrong}; the columns are {', '.join(COLUMNS)}", path=f"{path}:1")


def _failure(path: str | Path, line: int, row: dict[str, str], nodes: int) -> LoggedFailure:
    place = f"{path}:{line}"
    hour, node = _number(place, "hour", row["hour"]), _number(place, "node", row["node"])
    if not 0 <= node < nodes or node != int(node):
        raise FormatError(
            f"node {row['node']} is not one of the {nodes} nodes (from 0)", path=place
        )
    scope = row.get("scope") or "node"
    if scope not in SCOPES:
        raise FormatError(f"scope {scope!r} should be one of {', '.join(SCOPES)}", path=place)
    factor, hours = row.get("factor"), row.get("hours")
    slower = _number(place, "factor", factor) if factor else None
    if slower is not None and (slower < 1 or not hours):
        raise FormatError("a slow node needs a factor of at least 1 and its hours", path=place)
    return LoggedFailure(
        time=hour * 3600,
        node=int(node),
        cause=row.get("cause") or "log",
        scope=scope,
        factor=slower,
        seconds=_number(place, "hours", hours) * 3600 if hours else 0.0,
    )


def _number(place: str, name: str, text: str | None) -> float:
    try:
        value = float(text or "")
    except ValueError:
        raise FormatError(f"{name} should be a number, not {text!r}", path=place) from None
    if not 0 <= value < float("inf"):
        raise FormatError(f"{name} is {text}; it must be 0 or more, and finite", path=place)
    return value


# --- checkpoints given by size ------------------------------------------------------------------


_LONGEST = 365 * 86_400.0
"""A year in seconds: a store that takes longer for one checkpoint is a mistake in the job file."""


class CheckpointStore:
    """A place for checkpoints, in bytes and seconds."""

    def __init__(self, name: str, text: CheckpointStoreText, nodes: int) -> None:
        self.name = name
        limits = [positive(text.bandwidth, "bandwidth", f"{name}: bandwidth")]
        if text.node_bandwidth is not None:
            node = positive(text.node_bandwidth, "bandwidth", f"{name}: node_bandwidth")
            limits.append(nodes * node)
        if text.operations is not None and text.latency_seconds:
            size = positive(text.operation_bytes, "bytes", f"{name}: operation_bytes")
            # Little's law: what is in flight, over the time it is.
            limits.append(text.operations * size / text.latency_seconds)
        self.rate = min(limits)
        self.read_rate = self.rate
        if text.read_bandwidth is not None:
            self.read_rate = positive(text.read_bandwidth, "bandwidth", f"{name}: read_bandwidth")
        self.capacity = (
            None if text.capacity is None else parse(text.capacity, "bytes", f"{name}: capacity")
        )

    def seconds(self, size: float, rate: float) -> float:
        """How long so many bytes take."""
        if size > rate * _LONGEST:
            raise ConfigError(
                f"store {self.name!r} moves {show_bytes(size)} in more than a year at {rate:g} "
                "bytes/s; check its bandwidth and the checkpoint's size"
            )
        return size / rate

    def check(self, size: float) -> None:
        """Refuses what does not fit."""
        if self.capacity is not None and size > self.capacity:
            raise ConfigError(
                f"a checkpoint of {show_bytes(size)} does not fit into store {self.name!r} of "
                f"{show_bytes(self.capacity)}; give it a larger capacity or a smaller checkpoint"
            )


def timed(
    policy: dict[str, Any], stores: dict[str, CheckpointStore], sizes: dict[str, str]
) -> dict[str, Any]:
    """A policy's fields with seconds for sizes: `sizes` maps a field of bytes to its field of seconds."""
    fields = {name: value for name, value in policy.items() if name not in (*sizes, "store")}
    size_fields = [name for name in sizes if name in policy]
    if not size_fields:
        if "store" in policy:
            raise ConfigError("a store needs the checkpoint's size; give `bytes`")
        return fields
    store = _store(policy, stores)
    for name in size_fields:
        size = parse(policy[name], "bytes", name)
        store.check(size)
        fields.setdefault(sizes[name], store.seconds(size, store.rate))
    if "bytes" in policy:
        size = parse(policy["bytes"], "bytes", "bytes")
        fields.setdefault("restore_seconds", store.seconds(size, store.read_rate))
    return fields


def _store(policy: dict[str, Any], stores: dict[str, CheckpointStore]) -> CheckpointStore:
    name = policy.get("store")
    if name is None and len(stores) == 1:
        return next(iter(stores.values()))
    if not isinstance(name, str) or name not in stores:
        names = ", ".join(stores) or "none; describe it under `stores`"
        raise ConfigError(f"no store {name!r}; there are {names}")
    return stores[name]


# --- the job file -------------------------------------------------------------------------------


HOUR, DAY = 3600.0, 86400.0

Part = TypeVar("Part", bound=msgspec.Struct)


class CampaignJob(msgspec.Struct, frozen=True, kw_only=True):
    """A campaign ready to run: the plan, what its policies are, and what its nodes cost."""

    name: str
    plan: CampaignPlan
    checkpoint: CheckpointPolicy
    situation: Situation
    costs: CostsText
    tokens_per_step: int | None
    notes: list[str]
    step_interval: tuple[float, float] | None = None
    """Seconds that 90 of 100 measured steps should lie between, where the step was predicted."""
    retries: RetryPlan | None = None
    telemetry: TelemetryText | None = None
    runs_programs: bool = False
    """Whether a policy comes from a program of the user's."""


_HOLDS = "a job: its step, steps, cluster and failures; see docs/campaigns.md"


def read_job(job: str | Path | Mapping[str, Any], allow_programs: bool = False) -> CampaignJob:
    """A job from its YAML file, or from what would stand there; a ConfigError names the line and the cure.

    Policies may be classes of a program, `FILE.py:CLASS`, which runs only if `allow_programs` says so.
    """
    lines = (
        document_of(job, "job", _HOLDS) if isinstance(job, Mapping) else read_document(job, _HOLDS)
    )
    _check_numbers(lines, lines.content, ())
    text = _convert(lines, lines.content, JobText, ())
    _check_goal(text, lines)
    times = _at(
        lines,
        ("workload",) if text.workload else ("run",),
        step_times,
        text,
        Path(lines.path).parent,
    )
    cluster = text.cluster
    of_machine = _at(lines, ("cluster", "nodes"), times.notes_on, text.costs, cluster.nodes)
    processes = _processes(text.failures, cluster, lines)
    situation = Situation(times.seconds, _mtbf(processes))
    policy = _checkpoint(text, lines, allow_programs)
    answer = _recovery(text, lines, allow_programs)
    plan = CampaignPlan(
        step_seconds=times.seconds,
        steps=text.steps,
        horizon=text.days * DAY if text.days else math.inf,
        nodes=cluster.nodes,
        spares=cluster.spares,
        repair=_repair(cluster.repair_hours, cluster.repair_spread),
        every=_every(policy, situation, _work_seconds(text, times.seconds), lines),
        tiers=policy.tiers(situation),
        processes=processes,
        logged=_logged(text.failures, cluster, lines),
        recovery=answer,
        **_pool(text, lines),
        market=_market(text, lines),
        **_shrinking(answer, times, cluster, lines),
    )
    return CampaignJob(
        name=text.name,
        plan=plan,
        checkpoint=policy,
        situation=situation,
        costs=times.costs(text.costs, cluster.nodes),
        tokens_per_step=text.tokens_per_step or times.tokens,
        notes=[*times.notes, *of_machine, *_notes(text, plan)],
        step_interval=times.interval,
        retries=_retries(text, lines),
        telemetry=text.telemetry,
        runs_programs=any(is_program(_policy_name(p)) for p in (text.checkpoint, text.recovery)),
    )


# --- pools, prices, retries -------------------------------------------------------------------


def _pool(text: JobText, lines: Document) -> dict[str, Any]:
    """Slow nodes, and what is done about them."""
    pool, cluster = text.pool, text.cluster
    if pool is None:
        return {}
    place: Place = ("pool",)
    least, most = pool.factor
    if most < least:
        raise lines.error(place, f"factor ends ({most}) before it begins ({least})")
    if pool.nodes < cluster.nodes + cluster.spares:
        raise lines.error(
            place,
            f"a pool of {pool.nodes} nodes does not hold the job's {cluster.nodes} and "
            f"{cluster.spares} spares; give it more nodes",
        )
    for name in ("sweep_limit", "monitor_limit"):
        if 0 < getattr(pool, name) <= 1:
            raise lines.error(
                place,
                f"{name} is {getattr(pool, name)}; it is a time over that of peers, above 1, or 0 for none",
            )
    guarding = Guarding(
        sweep_limit=pool.sweep_limit,
        sweep_seconds=pool.sweep_seconds,
        monitor_limit=pool.monitor_limit,
        monitor_seconds=pool.monitor_seconds,
        samples=pool.samples,
    )
    plan = PoolPlan(pool.nodes, pool.slow_share, pool.onsets_per_day, least, most, pool.noise)
    return {"pool": plan, "guarding": guarding}


def _market(text: JobText, lines: Document) -> SpotMarket | None:
    spot = text.spot
    if spot is None:
        return None
    place: Place = ("spot",)
    if (spot.prices is None) == (spot.mean is None):
        raise lines.error(
            place, "give either `prices`, a file, or `mean`, around which they are drawn"
        )
    if text.costs.node_hour_price is not None:
        raise lines.error(
            ("costs",), "node_hour_price and spot are two prices of the same nodes; give one"
        )
    hourly: tuple[float, ...] = ()
    if spot.prices is not None:
        path = Path(lines.path).parent / spot.prices
        hourly = _at(lines, (*place, "prices"), read_prices, path)
        if min(hourly) > spot.bid:
            raise lines.error(
                place, f"the price is never within a bid of {spot.bid:g}; the job would not start"
            )
    return SpotMarket(
        bid=spot.bid,
        notice_seconds=spot.notice_seconds,
        hourly=hourly,
        mean=spot.mean or 0.0,
        sigma=spot.sigma,
        reversion_hours=spot.reversion_hours,
    )


def _retries(text: JobText, lines: Document) -> RetryPlan | None:
    retries = text.retries
    if retries is None:
        return None
    cluster = text.cluster
    nodes = retries.nodes or cluster.nodes
    pool = retries.pool or (text.pool.nodes if text.pool else cluster.nodes + cluster.spares)
    if not max(nodes, retries.bad) <= pool:
        raise lines.error(
            ("retries",),
            f"a pool of {pool} nodes does not hold {max(nodes, retries.bad)}; give `nodes`, `bad` and "
            "`pool` that fit one another",
        )
    return RetryPlan(**{**msgspec.structs.asdict(retries), "nodes": nodes, "pool": pool})


def _convert(lines: Document, content: Any, kind: type[Part], place: Place) -> Part:
    try:
        # Keys that are numbers are text in a document that was a dictionary in Python.
        return msgspec.convert(content, kind, str_keys=True)
    except msgspec.ValidationError as error:
        names = [f.encode_name for f in msgspec.structs.fields(_part_of_message(kind, str(error)))]
        raise lines.converted(str(error), place, names) from None


def _part_of_message(kind: type[msgspec.Struct], message: str) -> type[msgspec.Struct]:
    """The part of the file in which a message says that a field is unknown."""
    inside: dict[str, type[msgspec.Struct]] = {
        "$.cluster": ClusterText,
        "$.failures.processes": ProcessText,
        "$.failures": FailuresText,
        "$.stores": CheckpointStoreText,
        "$.costs": CostsText,
        "$.pool": PoolText,
        "$.spot": SpotText,
        "$.retries": RetriesText,
        "$.telemetry": TelemetryText,
    }
    return next((part for at, part in inside.items() if at in message), kind)


def _check_numbers(lines: Document, value: Any, place: Place) -> None:
    """Refuses YAML's .inf and .nan, which are not usable numbers."""
    if isinstance(value, dict):
        for key, item in value.items():
            _check_numbers(lines, item, (*place, str(key)))
    elif isinstance(value, list):
        for i, item in enumerate(value):
            _check_numbers(lines, item, (*place, i))
    elif isinstance(value, float) and not math.isfinite(value):
        raise lines.error(place, f"{place[-1]} is {value}; it must be a finite number")


def _at(lines: Document, place: Place, function: Any, *arguments: Any) -> Any:
    """Calls a function; adds the line of a place in the file to its errors."""
    try:
        return function(*arguments)
    except ChakraError as error:
        if str(error).startswith(f"{lines.path}:"):
            raise
        raise lines.error(place, str(error)) from None


def _check_goal(text: JobText, lines: Document) -> None:
    if (text.steps is None) == (text.days is None):
        raise lines.error(
            ("days",) if text.steps else (),
            "give either `steps`, what the job has to do, or `days`",
        )
    sources = [n for n in ("step_seconds", "workload", "run") if getattr(text, n) is not None]
    if len(sources) != 1:
        raise lines.error(
            (sources[-1],) if sources else (),
            "give one of `step_seconds`, `workload` (with `machine`) and `run` for the time of a step",
        )
    if text.workload is not None and text.machine is None:
        raise lines.error(("workload",), "a workload needs a `machine` to be simulated on")


# --- failures ---------------------------------------------------------------------------------


def _processes(
    text: FailuresText, cluster: ClusterText, lines: Document
) -> tuple[FailureProcess, ...]:
    short = {
        "node_mtbf_hours": ProcessText(
            name="node", mtbf_hours=text.node_mtbf_hours, shape=text.shape
        ),
        "rack_mtbf_hours": ProcessText(name="rack", of="rack", mtbf_hours=text.rack_mtbf_hours),
        "switch_mtbf_hours": ProcessText(
            name="switch", of="switch", mtbf_hours=text.switch_mtbf_hours
        ),
        "job_mtbf_hours": ProcessText(name="job", of="job", mtbf_hours=text.job_mtbf_hours),
    }
    processes = [
        _process(part, cluster, lines, ("failures", name))
        for name, part in short.items()
        if part.mtbf_hours is not None
    ]
    for i, part in enumerate(text.processes):
        place: Place = ("failures", "processes", i)
        described = msgspec.structs.replace(part, name=part.name or f"{part.of} {i}")
        processes.append(_process(described, cluster, lines, place))
        if described.name in [p.name for p in processes[:-1]]:
            raise lines.error(place, f"two causes of failures are called {described.name!r}")
    return tuple(processes)


def _process(
    text: ProcessText, cluster: ClusterText, lines: Document, place: Place
) -> FailureProcess:
    if (text.mtbf_hours is None) == (text.interval_hours is None):
        raise lines.error(place, "give either `mtbf_hours` or `interval_hours`")
    width = {
        "node": 1,
        "job": 1,
        "rack": cluster.nodes_per_rack,
        "switch": cluster.nodes_per_switch,
    }
    nodes = width[text.of]
    if nodes is None:
        raise lines.error(place, f"failures of a {text.of} need cluster.nodes_per_{text.of}")
    if cluster.nodes % nodes:
        raise lines.error(place, f"{cluster.nodes} nodes are not whole {text.of}s of {nodes}")
    default: dict[str, Scope] = {"node": "node", "job": "process", "rack": "rack", "switch": "rack"}
    slow = (
        None
        if text.slow is None
        else Slowness(text.slow.factor, _repair(text.slow.hours, text.slow.spread))
    )
    job = text.of == "job"
    return FailureProcess(
        name=text.name,
        between=_between(text, lines, place),
        units=1 if job else cluster.nodes // nodes * text.per_node,
        nodes_per_unit=nodes,
        units_per_node=text.per_node,
        scope=text.takes or default[text.of],
        anywhere=cluster.nodes if job else 0,
        slow=slow,
        repair=None if text.repair_hours is None else Fixed(text.repair_hours * HOUR),
    )


_LONGEST_HOURS = 1e12
"""A hundred million years between failures of one unit: beyond that, none ever fails."""


def _between(text: ProcessText, lines: Document, place: Place) -> Duration:
    if text.interval_hours is not None:
        low, high = text.interval_hours
        if high < low:
            raise lines.error(place, f"interval_hours ends ({high}) before it begins ({low})")
        return Uniform(low * HOUR, high * HOUR)
    if (text.mtbf_hours or 0.0) > _LONGEST_HOURS:
        raise lines.error(
            place, f"mtbf_hours is {text.mtbf_hours:g}; what never fails is left out of `failures`"
        )
    mean = (text.mtbf_hours or 0.0) * HOUR
    return Exponential(mean) if text.shape in (None, 1) else Weibull(mean, text.shape or 1.0)


def _repair(hours: float, spread: str) -> Duration:
    return Exponential(hours * HOUR) if spread == "exponential" else Fixed(hours * HOUR)


def _mtbf(processes: tuple[FailureProcess, ...]) -> float:
    """Mean time between failures of the job; nodes that only become slow do not stop it."""
    rate = sum(process.rate for process in processes if process.slow is None)
    return 1 / rate if rate else math.inf


def _logged(text: FailuresText, cluster: ClusterText, lines: Document) -> tuple[LoggedFailure, ...]:
    if text.log is None:
        return ()
    path = Path(lines.path).parent / text.log
    failures: tuple[LoggedFailure, ...] = _at(
        lines, ("failures", "log"), read_failure_log, path, cluster.nodes
    )
    return failures


# --- policies ---------------------------------------------------------------------------------


def _policy_name(described: dict[str, Any] | str | None) -> str:
    return str(described.get("policy", "") if isinstance(described, dict) else described)


def _policy_fields(described: dict[str, Any] | str, default: str) -> tuple[str, dict[str, Any]]:
    """A policy's name, however it is hyphenated, and its options."""
    fields = {"policy": described} if isinstance(described, str) else dict(described)
    name = str(fields.pop("policy", default))
    if is_program(name):
        return name, fields
    return name.strip().lower().replace(" ", "_").replace("-", "_"), fields


def _policy_class(
    name: str, policies: dict[str, Any], lines: Document, place: Place, allowed: bool
) -> Any:
    """The class of a policy: one of ours by name, or a user's as `FILE.py:CLASS`."""
    if is_program(name):
        folder, base = Path(lines.path).parent, _BASES[place[0]]
        kind = _at(lines, place, part_of_program, name, folder, allowed, "policy")
        if not isinstance(kind, type) or not issubclass(kind, base):
            raise lines.error(
                place, f"policy {name!r} is not a subclass of chakrakit.campaigns.{base.__name__}"
            )
        return kind
    if name not in policies:
        raise lines.error(
            place,
            f"no policy {name!r}; there are {', '.join(policies)}, or FILE.py:CLASS of your own",
        )
    return policies[name]


_BASES: dict[Any, type] = {"recovery": Recovery, "checkpoint": CheckpointPolicy}


_SIZES = {"bytes": "seconds", "difference_bytes": "difference_seconds"}


def _checkpoint(text: JobText, lines: Document, allowed: bool) -> CheckpointPolicy:
    place: Place = ("checkpoint",)
    default = (
        "tiered" if isinstance(text.checkpoint, dict) and "tiers" in text.checkpoint else "interval"
    )
    name, fields = _policy_fields("none" if text.checkpoint is None else text.checkpoint, default)
    kind = _policy_class(name, CHECKPOINT_POLICIES, lines, place, allowed)
    stores = {
        n: _at(lines, ("stores", n), CheckpointStore, n, s, text.cluster.nodes)
        for n, s in text.stores.items()
    }
    fields = _at(lines, place, timed, fields, stores, _SIZES)
    if isinstance(fields.get("tiers"), list):
        fields["tiers"] = [
            _at(lines, (*place, "tiers", i), timed, tier, stores, _SIZES)
            if isinstance(tier, dict)
            else tier
            for i, tier in enumerate(fields["tiers"])
        ]
    policy: CheckpointPolicy = _convert(lines, fields, kind, place)
    if isinstance(policy, Tiered):
        _check_tiers(policy, lines)
    return policy


def _check_tiers(policy: Tiered, lines: Document) -> None:
    place: Place = ("checkpoint", "tiers")
    if not policy.tiers_:
        raise lines.error(place, "tiers is empty; give at least one")
    shortest = min(tier.interval_steps for tier in policy.tiers_)
    for i, tier in enumerate(policy.tiers_):
        if tier.interval_steps % shortest:
            raise lines.error(
                (*place, i),
                f"an interval of {tier.interval_steps} steps is not a multiple of the shortest, {shortest}",
            )


def _work_seconds(text: JobText, step: float) -> float:
    """How long the job runs if nothing fails."""
    return text.steps * step if text.steps else (text.days or 0.0) * DAY


def _every(policy: CheckpointPolicy, situation: Situation, work: float, lines: Document) -> int:
    every = policy.every(situation)
    cycle = min(every * situation.step_seconds, work)
    if cycle > 30 * situation.mtbf_seconds:
        raise lines.error(
            ("checkpoint",),
            f"the job would fail every {situation.mtbf_seconds:,.0f} s and has to run {cycle:,.0f} s "
            "without a failure: it would never get from one checkpoint to the next; shorten the interval",
        )
    return every


def _recovery(text: JobText, lines: Document, allowed: bool) -> Recovery:
    place: Place = ("recovery",)
    name, fields = _policy_fields(text.recovery, "restart")
    kind = _policy_class(name, RECOVERY_POLICIES, lines, place, allowed)
    policy: Recovery = _convert(lines, fields, kind, place)
    if policy.needs_spares and not text.cluster.spares:
        raise lines.error(
            place,
            f"{name} needs spare nodes and there are none; give cluster.spares, or recovery: restart",
        )
    return policy


def _shrinking(
    policy: Recovery, times: StepTimes, cluster: ClusterText, lines: Document
) -> dict[str, Any]:
    """What a job that shrinks needs to know of its replicas."""
    if not isinstance(policy, Elastic):
        return {}
    place: Place = ("recovery",)
    size = policy.replica_nodes or times.replica_nodes(cluster.nodes) or 1
    if cluster.nodes % size:
        raise lines.error(place, f"{cluster.nodes} nodes are not whole replicas of {size}")
    if cluster.nodes < 2 * size:
        raise lines.error(
            place,
            f"the plan cannot shrink: all {cluster.nodes} nodes are one replica; give the job more "
            "data-parallel replicas, or recovery: restart",
        )
    if policy.min_nodes > cluster.nodes:
        raise lines.error(
            place, f"min_nodes is {policy.min_nodes} and the job has {cluster.nodes} nodes"
        )
    steps: dict[int, float] = dict(policy.step_seconds_by_nodes) or _at(
        lines, place, times.with_fewer, cluster.nodes, size, policy
    )
    return {"replica_nodes": size, "steps_by_nodes": steps}


def _notes(text: JobText, plan: CampaignPlan) -> list[str]:
    notes = []
    if plan.processes or plan.logged:
        zero = [
            n for n in ("detection_seconds", "restart_seconds") if not getattr(plan.recovery, n)
        ]
        if zero:
            notes.append(f"recovery: {' and '.join(zero)} taken as 0")
        if own := plan.recovery.at_once():
            notes.append(f"recovery: {own}")
        if not text.cluster.repair_hours:
            notes.append("cluster.repair_hours taken as 0: failed nodes are spares again at once")
    if plan.logged and plan.steps and plan.logged[-1].time < plan.steps * plan.step_seconds:
        notes.append("the failure log ends before the job does; nothing fails after it")
    if text.costs.node_watts is not None and text.costs.idle_node_watts is None:
        notes.append(
            "costs.idle_node_watts taken as node_watts: spares, and nodes while the job is down"
        )
    return notes
