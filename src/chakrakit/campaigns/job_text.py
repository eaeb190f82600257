"""A campaign's job as its file describes it.

step_seconds: 10                 # or workload and machine, or run
steps: 8640                      # or days
cluster: {nodes: 16, spares: 1}
failures: {node_mtbf_hours: 50000}
checkpoint: {interval_steps: 100, seconds: 5}
recovery: restart
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

import msgspec

from chakrakit.campaigns.checkpoints import AtLeastOne, Nodes, Spares
from chakrakit.configuration import Count, NotNegative, Positive
from chakrakit.machines.device import Quantity

Shape = Annotated[float, msgspec.Meta(ge=0.05, le=100)]
"""Of a Weibull distribution. Fits to logs of clusters give 0.3 to 2; beyond these ends one draw in a life is
all there is, or all lives are alike, and the distribution's constants leave floating point."""


class _Part(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A part of the file; a field that is not known is refused."""


class ClusterText(_Part, frozen=True, kw_only=True):
    """The nodes that the job uses, and those that stand by."""

    nodes: Nodes
    spares: Spares = 0
    nodes_per_rack: Count | None = None
    nodes_per_switch: Count | None = None
    repair_hours: NotNegative = 0.0
    """From a node's failure until it is a spare again; 0: at once."""
    repair_spread: Literal["fixed", "exponential"] = "fixed"


class SlowText(_Part, frozen=True, kw_only=True):
    """A node that goes on, but slower."""

    factor: AtLeastOne
    hours: Positive
    """How long, on average."""
    spread: Literal["fixed", "exponential"] = "exponential"


class ProcessText(_Part, frozen=True, kw_only=True):
    """One cause of failures."""

    name: str = ""
    of: Literal["node", "rack", "switch", "job"] = "node"
    """What fails: every node, rack or switch by itself, or the job as a whole."""
    per_node: Count = 1
    """With `of: node`, how many such components a node has."""
    mtbf_hours: Positive | None = None
    """Mean time between failures of one of them."""
    shape: Shape | None = None
    """Of a Weibull distribution; without it, exponential."""
    interval_hours: tuple[Positive, Positive] | None = None
    """Instead of `mtbf_hours`: anything between these two."""
    takes: Literal["process", "node", "rack", "cluster"] | None = None
    """What is lost: a process (its node stays), a node, or more; by default what fails."""
    slow: SlowText | None = None
    repair_hours: NotNegative | None = None
    """Where given, instead of the cluster's."""


class FailuresText(_Part, frozen=True, kw_only=True):
    """The common causes in short, others as a list, or a log."""

    node_mtbf_hours: Positive | None = None
    rack_mtbf_hours: Positive | None = None
    switch_mtbf_hours: Positive | None = None
    job_mtbf_hours: Positive | None = None
    """Of failures of software: the job restarts on the same nodes."""
    shape: Shape | None = None
    """Of a Weibull distribution for nodes."""
    processes: list[ProcessText] = []
    log: str | None = None
    """A CSV file beside the job: hour, node, cause, scope, factor, hours."""


class CheckpointStoreText(_Part, frozen=True, kw_only=True):
    """A place for checkpoints: what it takes in at most, by three limits."""

    bandwidth: Quantity
    """Of all its servers together."""
    capacity: Quantity | None = None
    node_bandwidth: Quantity | None = None
    """What one node can send to it."""
    operations: Count | None = None
    """Requests in flight at most, of `operation_bytes` and `latency_seconds` each."""
    operation_bytes: Quantity = "1 MiB"
    latency_seconds: NotNegative = 0.0
    read_bandwidth: Quantity | None = None
    """Where given, for restoring."""


class CostsText(_Part, frozen=True, kw_only=True):
    """Watts and money, where known."""

    node_watts: NotNegative | None = None
    """Of a node that trains."""
    idle_node_watts: NotNegative | None = None
    """Of one that does not: a spare, or all while the job is down."""
    pue: AtLeastOne | None = None
    """What the building draws for every watt of the nodes; by default what the machine says, else 1."""
    node_hour_price: NotNegative | None = None
    """Spares cost as much as nodes in use."""


class PoolText(_Part, frozen=True, kw_only=True):
    """Nodes of which some are slow and nobody knows which, and what is done about them."""

    nodes: Nodes
    """Of the whole pool: those of the job, its spares, and others."""
    slow_share: Annotated[float, msgspec.Meta(ge=0, le=1)] = 0.0
    onsets_per_day: NotNegative = 0.0
    """How often a healthy node becomes slow."""
    factor: tuple[AtLeastOne, AtLeastOne] = (1.03, 1.5)
    """How much longer a slow node takes: anything between these two."""
    noise: Annotated[float, msgspec.Meta(ge=0, le=10)] = 0.01
    """Standard deviation of the logarithm of one measurement."""
    samples: Count = 16
    """Measurements that a judgement is the mean of."""
    sweep_limit: NotNegative = 0.0
    """Nodes that measure above it, over their peers, are not let in; 0: no sweep."""
    sweep_seconds: NotNegative = 600.0
    monitor_limit: NotNegative = 0.0
    """Nodes of the running job that measure above it are excluded and replaced; 0: no monitor."""
    monitor_seconds: Positive = 900.0


class SpotText(_Part, frozen=True, kw_only=True):
    """Nodes rented at a price that moves."""

    bid: Positive
    """For a node-hour; while the price is above it, the nodes are taken away."""
    prices: str | None = None
    """A CSV file beside the job with a column price, a row for every hour; it begins again after the last."""
    mean: Positive | None = None
    """Instead of a file: prices are drawn around this mean."""
    sigma: Annotated[float, msgspec.Meta(ge=0, le=5)] = 0.3
    """Standard deviation of the logarithm of drawn prices."""
    reversion_hours: Positive = 12.0
    """How long drawn prices take to come back to their mean."""
    notice_seconds: NotNegative = 0.0
    """From the word that nodes are taken until they are; a checkpoint is written if that is long enough."""


class RetriesText(_Part, frozen=True, kw_only=True):
    """Sessions that are started again until one lasts."""

    nodes: Nodes | None = None
    """Of a session; by default those of the job."""
    pool: Nodes | None = None
    """Among which they are chosen; by default those of `pool`, or the job's and its spares."""
    bad: Spares = 0
    """Nodes of the pool that make a session fail with `bad_chance`; any other does with `other_chance`."""
    bad_chance: Annotated[float, msgspec.Meta(ge=0, le=1)] = 0.5
    other_chance: Annotated[float, msgspec.Meta(ge=0, le=1)] = 0.0
    attempts: Annotated[int, msgspec.Meta(ge=1, le=10_000)] = 6
    minutes: NotNegative = 10.0
    """Of one attempt."""
    exclude_chance: Annotated[float, msgspec.Meta(ge=0, le=1)] = 0.0
    """The chance that the node that failed is found and not used again."""


class TelemetryText(_Part, frozen=True, kw_only=True):
    """What monitoring shows of a history's nodes (with -o): a table of signals in the Run."""

    seconds: Positive = 60.0
    """Of a sample."""
    hours: tuple[NotNegative, Positive] = (0.0, 24.0)
    """The stretch of the history that is sampled."""
    ahead_minutes: NotNegative = 10.0
    """How long before a failure its signs begin."""
    failure: Literal["thermal", "nic", "power", "memory", "host"] = "nic"
    """The signs that failures show."""
    slow: Literal["thermal", "nic", "power", "memory", "host"] = "thermal"
    """The signs of slow nodes."""


class JobText(_Part, frozen=True, kw_only=True):
    """The whole file."""

    name: str = "campaign"
    step_seconds: Positive | None = None
    workload: str | dict[str, Any] | None = None
    """A path to traces, or model, plan and step as for `chakra generate`."""
    machine: str | None = None
    compute: str | None = None
    """How `chakra simulate` times operations; by default `measured` for traces, `auto` for a model."""
    run: str | None = None
    """A Run whose step is taken."""
    steps: Count | None = None
    days: Positive | None = None
    tokens_per_step: Count | None = None
    cluster: ClusterText
    failures: FailuresText = FailuresText()
    checkpoint: dict[str, Any] | str | None = None
    recovery: dict[str, Any] | str = "restart"
    stores: dict[str, CheckpointStoreText] = {}
    costs: CostsText = CostsText()
    pool: PoolText | None = None
    spot: SpotText | None = None
    retries: RetriesText | None = None
    telemetry: TelemetryText | None = None
