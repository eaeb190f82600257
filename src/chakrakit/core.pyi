"""What the compiled core offers to the layers above it."""

import enum
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

class FormatError(ValueError):
    args: tuple[str, int]

class FeedError(RuntimeError):
    args: tuple[str, bool]  # message, is deadlock

class FeedNode:
    id: int
    name: str
    type: int
    start_time_micros: int
    duration_micros: int
    is_cpu_op: bool
    num_ops: int
    tensor_size: int
    comm_type: int
    comm_size: int
    comm_src: int
    comm_dst: int
    comm_tag: int
    comm_priority: int
    pg_name: str
    involved_dim: list[bool]
    data_deps: list[int]
    ctrl_deps: list[int]
    bytes: bytes
    attrs: dict[str, object]
    def attr(self, name: str, absent: object = None) -> object: ...

class Feeder:
    def __init__(
        self, source: str | Callable[[int], bytes], window: int, ctrl: bool, ignore_missing: bool
    ) -> None: ...
    def take(self) -> FeedNode | None: ...
    def take_id(self, id: int) -> FeedNode: ...
    def take_batch(self, n: int) -> NDArray[np.uint8]: ...
    def push_back(self, id: int) -> None: ...
    def done(self, id: int) -> None: ...
    def done_batch(self, ids: NDArray[np.uint64]) -> None: ...
    def close(self) -> None: ...
    def finished(self) -> bool: ...
    def ready(self) -> NDArray[np.uint64]: ...
    def in_flight(self) -> int: ...
    def lookup(self, id: int) -> FeedNode | None: ...
    def children(self, id: int) -> NDArray[np.uint64]: ...

class Frontier:
    def __init__(self) -> None: ...
    def add(
        self,
        ids: NDArray[np.uint64],
        offsets: NDArray[np.int64],
        deps: NDArray[np.uint64],
        drain: bool,
    ) -> None: ...
    def drain(self) -> int: ...
    def waiting(self) -> int: ...
    def missing_count(self) -> int: ...
    def missing(self, cap: int, waiters: int) -> list[tuple[int, list[int]]]: ...
    def release_missing(self) -> None: ...
    def cycle(self) -> NDArray[np.uint64]: ...

class Decoder:
    def __init__(self, known: list[tuple[str, int]], max_columns: int) -> None: ...
    def decode(self, data: NDArray[np.uint8], last: bool, rows: int, size: int) -> int: ...
    def take_batch(self) -> dict[str, Any]: ...
    def names(self, forget: bool) -> tuple[NDArray[np.int64], bytes]: ...
    def layouts(
        self, forget: bool
    ) -> tuple[NDArray[np.uint8], NDArray[np.int32], NDArray[np.int32], NDArray[np.int8]]: ...
    @property
    def column_names(self) -> list[str]: ...
    @property
    def rows(self) -> int: ...
    @property
    def full(self) -> bool: ...
    @property
    def started(self) -> bool: ...
    @property
    def metadata(self) -> bytes | None: ...

def encode(batch: dict[str, Any]) -> NDArray[np.uint8]: ...
def json_nodes(frames: NDArray[np.uint8], first: bool) -> bytes: ...
def json_metadata(message: bytes) -> bytes: ...
def check_metadata(message: bytes) -> None: ...

_I8 = NDArray[np.int8]
_I32 = NDArray[np.int32]
_I64 = NDArray[np.int64]
_U8 = NDArray[np.uint8]

def graph_group(n: int, from_: _I32, to: _I32, /) -> tuple[_I64, _I32, _I32]: ...
def graph_topological_order(offsets: _I64, rows: _I32, /) -> _I32: ...
def graph_levels(offsets: _I64, rows: _I32, order: _I32, /) -> _I32: ...
def graph_reachable(offsets: _I64, rows: _I32, roots: _I32, /) -> _U8: ...
def graph_longest_path(
    offsets: _I64, rows: _I32, edges: _I32, order: _I32, weights: _I64, lags: _I64, /
) -> tuple[_I64, _I32]: ...
def graph_transitive_reduction(
    offsets: _I64, rows: _I32, edges: _I32, order: _I32, levels: _I32, /
) -> _U8: ...
def graph_find_cycle(n: int, src: _I32, dst: _I32, order: _I32, /) -> _I64: ...
def schedule_solve(
    src: _I32,
    dst: _I32,
    form: _I8,
    lag: _I64,
    durations: _I64,
    resource: _I32,
    order: _I64,
    release: _I64,
    launch_of: _I32,
    queue_depth: int,
    /,
) -> tuple[tuple[_I64, _I32, _I32, _I8], tuple[_I64, _I32, _I32, _I8], tuple[_I64, _I8, _I32]]: ...

class SimulationError(ValueError):
    args: tuple[str, bool]  # message, whether some rank would wait for ever

class AstraBody:
    def __len__(self) -> int: ...
    def table(self) -> dict[str, NDArray[Any]]: ...

class AstraCustom: ...

class AstraProgram:
    @property
    def ranks(self) -> int: ...
    @property
    def body_of(self) -> NDArray[np.uint32]: ...
    @property
    def bodies(self) -> list[AstraBody]: ...
    def bind_groups(self, groups: list[tuple[int, list[int]]]) -> None: ...

class AstraSystem:
    endpoint_delay: int
    active_chunks: int
    splits: int
    queues: int
    local_bw_aware: bool
    roofline: bool
    replay_only: bool
    rendezvous: bool
    lenient: bool
    local_mem_bw: float
    peak_perf: float
    def __init__(self) -> None: ...
    def set_implementations(self, collective: int, items: list[tuple[int, bool, int]]) -> None: ...
    def set_custom(self, collective: int, custom: AstraCustom) -> None: ...
    def set_custom_node(self, node: int, custom: AstraCustom) -> None: ...

class AstraNetwork:
    aware: bool
    def __init__(self) -> None: ...
    def add(self, shape: int, size: int, bandwidth: float, latency: float) -> None: ...

class AstraMemory:
    def __init__(self) -> None: ...
    def set(
        self, type: int, nodes: int, npus_per_node: int, latency: int, bandwidth: int
    ) -> None: ...

class AstraResult:
    @property
    def folded(self) -> bool: ...
    @property
    def why_not_folded(self) -> str: ...
    @property
    def stuck(self) -> str: ...
    @property
    def events(self) -> int: ...
    @property
    def actor_of(self) -> NDArray[np.uint32]: ...
    @property
    def representative(self) -> NDArray[np.uint32]: ...
    @property
    def finished(self) -> NDArray[np.int64]: ...
    @property
    def gpu_time(self) -> NDArray[np.int64]: ...
    def start(self, actor: int) -> NDArray[np.int64]: ...
    def end(self, actor: int) -> NDArray[np.int64]: ...
    def links(
        self,
    ) -> tuple[NDArray[np.uint64], NDArray[np.uint64], NDArray[np.uint64], NDArray[np.int64]]: ...

def astra_body(columns: dict[str, Any], where: str, rank: int, lenient: bool) -> AstraBody: ...
def astra_program(bodies: list[AstraBody], body_of: list[int]) -> AstraProgram: ...
def astra_load(paths: list[str], lenient: bool) -> AstraProgram: ...
def astra_texts(program: AstraProgram) -> list[tuple[int, str]]: ...
def astra_load_custom(paths: list[str], lenient: bool) -> AstraCustom: ...
def astra_simulate(
    program: AstraProgram,
    system: AstraSystem,
    network: AstraNetwork,
    memory: AstraMemory,
    fold: bool,
) -> AstraResult: ...

# --- sources/pytorch ------------------------------------------------------------------------

def read_observer(data: bytes) -> dict[str, Any]: ...
def read_kineto(data: bytes) -> dict[str, Any]: ...
def pickle_to_json(data: bytes, skip: list[str]) -> bytes: ...
def read_records(
    data: bytes, key: str, numbers: list[str], reals: list[str], texts: list[str]
) -> tuple[
    list[NDArray[np.int64]],
    list[NDArray[np.float64]],
    list[NDArray[np.int32]],
    tuple[NDArray[np.uint8], NDArray[np.int64]],
    dict[str, bytes],
]: ...
def nest(
    thread: NDArray[np.int32], start: NDArray[np.int64], end: NDArray[np.int64], slack: int
) -> tuple[NDArray[np.int32], NDArray[np.int8]]: ...

# --- serving --------------------------------------------------------------------------------

class ServingDiscipline(enum.Enum):
    continuous = ...
    prefill_alone = ...
    transformers = ...

class ServingRole(enum.Enum):
    whole = ...
    prefill = ...
    decode = ...

class ServingRouter(enum.Enum):
    turn = ...
    least = ...
    prefix = ...

# These copy their arrays and check them: ValueError names the field, the place and the mistake.
class ServingRequests:
    def __init__(
        self,
        *,
        arrival: _I64,
        prompt: _I64,
        output: _I64,
        after: _I64,
        priority: _I64,
        adapter: _I64,
        offsets: _I64,
        ids: NDArray[np.uint64],
        unit: int,
    ) -> None: ...

class ServingRoofline:
    def __init__(
        self, *, ps_per_pair: float, ps_per_token: float, ps_per_context: float, least: float
    ) -> None: ...
    def add(
        self,
        *,
        most: int,
        stride: int,
        chunk: int,
        sparse: bool,
        ps_per_pair: float,
        work_per_token: float,
        ps_per_token: float,
        ps_per_context: float,
        ps_per_sequence: float,
        least: float,
    ) -> None: ...

class ServingGrid:
    def __init__(
        self,
        *,
        axes: list[NDArray[np.float64]],
        values: NDArray[np.float64],
        share_axes: list[NDArray[np.float64]],
        share: NDArray[np.float64],
    ) -> None: ...

class ServingPadded:
    tokens_multiple: int
    context_multiple: int
    most_tokens: int
    most_context: int
    capture: int
    buffers: int
    ask: Callable[[int, int], int]

class ServingCost:
    padded: ServingPadded
    def __init__(
        self,
        *,
        dense: Callable[[int], int],
        head: Callable[[int], int],
        attention: ServingRoofline | ServingGrid,
        captured: _I64,
        adapter: int,
        draft: int,
    ) -> None: ...

class ServingOptions:
    block_size: int
    num_blocks: int
    token_budget: int
    max_requests: int
    chunk_limit: int
    discipline: ServingDiscipline
    chunked: bool
    prefill_first: bool
    prefix_cache: bool
    whole_prompt: bool
    safety_margin: float
    output_reserve: float
    swap_blocks: int
    host_blocks: int
    ps_per_block: float
    ps_per_remote_block: float
    depth: int
    stages: int
    host: int
    host_per_request: int
    host_per_token: int
    output: int
    serial: int
    serial_per_request: int
    frontend: int
    launch: int
    warmup: int
    drafts: int
    acceptance: float
    max_adapters: int
    seed: int

class ServingHooks:
    interval: int
    def admit(self, decide: Callable[[int, int], bool], /) -> None: ...
    def batch(
        self, choose: Callable[[int, list[int], list[int]], list[tuple[int, int]]], /
    ) -> None: ...
    def preempt(self, choose: Callable[[int, list[int]], int], /) -> None: ...
    def evict(self, choose: Callable[[int, list[int]], int], /) -> None: ...
    def route(self, choose: Callable[[int, list[int]], int], /) -> None: ...
    def place(self, choose: Callable[[int, list[int]], int], /) -> None: ...
    def scale(self, decide: Callable[[int], int], /) -> None: ...

class ServingPool:
    shared: Callable[[int], int]
    def __init__(
        self,
        *,
        role: ServingRole,
        engines: int,
        ranks: int,
        options: ServingOptions,
        cost: ServingCost,
    ) -> None: ...

class ServingProblem:
    hooks: ServingHooks
    def __init__(
        self,
        *,
        requests: ServingRequests,
        pools: list[ServingPool],
        router: ServingRouter,
        concurrency: int,
        remote_blocks: int,
    ) -> None: ...
    def hand_over(self, ps_per_token: float, latency: int, /) -> None: ...
    def fail(self, at: int, duration: int, engine: int, /) -> None: ...
    def record(self, steps: bool, start: int, end: int, audit_every: int, /) -> None: ...
    def give_up(self, ttft: int, tpot: int, e2e: int, may_miss: int, /) -> None: ...

class ServingCluster:
    def __init__(self, problem: ServingProblem, /) -> None: ...
    def run(self) -> None: ...
    def given_up(self) -> bool: ...
    def now(self) -> int: ...
    def matched(self, engine: int, request: int, /) -> int: ...
    def engine(self, engine: int, /) -> tuple[int, int, int, int]: ...
    def request(self, request: int, /) -> tuple[int, int, int, int, int, int, int]: ...
    def requests(self) -> dict[str, NDArray[np.int64]]: ...
    def steps(self) -> dict[str, NDArray[np.int64]]: ...
    def pieces(self) -> dict[str, NDArray[np.int64]]: ...
    def moves(self) -> dict[str, NDArray[np.int64]]: ...
    def totals(self, engine: int, /) -> dict[str, Any]: ...

# --- simulator ------------------------------------------------------------------------------

# These copy their arrays and check them: ValueError names the array, the place and the mistake.
class SimTopology:
    def __init__(
        self, *, bandwidth: NDArray[np.float64], route_offsets: _I64, route_links: _I32
    ) -> None: ...

class SimPlans:
    def __init__(
        self,
        *,
        plan_steps: _I64,
        repeat: _I64,
        after_offsets: _I64,
        after: _I32,
        step_transfers: _I64,
        route: _I32,
        bytes: NDArray[np.float64],
        delay: _I64,
    ) -> None: ...

class SimWorkload:
    def __init__(
        self,
        *,
        src: _I32,
        dst: _I32,
        form: _I8,
        lag: _I64,
        duration: _I64,
        kind: _I8,
        lane: _I32,
        order: _I64,
        priority: _I32,
        share: _I32,
        waves: _I64,
        launch_of: _I32,
        instance: _I32,
        after: _I64,
        release: _I64,
        device: _I32,
        lane_kind: _I8,
        comm_slowdown: NDArray[np.float64],
        fair: bool,
        queue_depth: int,
        needed: _I32,
        overhead: _I64,
        instance_jobs: _I64,
        job_plan: _I32,
        job_gate: _I32,
        job_order: _I64,
        gate_slots: _I32,
        job_priority: _I32,
        job_weight: _I32,
        fault_time: _I64,
        fault_is_link: _I8,
        fault_target: _I32,
        fault_factor: NDArray[np.float64],
    ) -> None: ...
    @property
    def rows(self) -> int: ...

SIM_HORIZON_PS: int

def sim_run(
    workload: SimWorkload,
    plans: SimPlans,
    topology: SimTopology,
    flow: bool,
    pick: Callable[[int, int, list[int]], int] | None,
) -> dict[str, Any]: ...
def sim_fair_rates(
    capacity: NDArray[np.float64], offsets: _I64, links: _I32, priority: _I32, weight: _I32
) -> NDArray[np.float64]: ...

# --- views ----------------------------------------------------------------------------------

def perfetto_packets(
    time: _I64,
    type: _I8,
    track: _I32,
    name: _I32,
    value: _I64,
    out_offsets: _I64,
    out: _I64,
    in_offsets: _I64,
    in_: _I64,
    sequence: int,
    /,
) -> bytes: ...

class LiveVerb:
    @property
    def op(self) -> int: ...
    @property
    def size(self) -> int: ...
    @property
    def ns(self) -> float: ...
    @property
    def objects(self) -> tuple[Any, Any, Any]: ...

class LiveMessage:
    @property
    def sender(self) -> Any: ...
    @property
    def body(self) -> Any: ...
    @property
    def size(self) -> int: ...
    @property
    def sent_ns(self) -> float: ...
    @property
    def arrived_ns(self) -> float: ...

class LiveGroup:
    def __init__(self, members: list[int]) -> None: ...
    @property
    def members(self) -> list[int]: ...

class LivePlaying:
    def __init__(self, score: int) -> None: ...

def live_sleep(ns: float, value: object) -> LiveVerb: ...
def live_compute(
    ns: float, flops: float, bytes: float, dtype: str, name: str, host: bool, priority: int
) -> LiveVerb: ...
def live_send(
    to: object, size: float, body: object, wait: bool, priority: int, weight: int, name: str
) -> LiveVerb: ...
def live_receive(match: object, count: int, ns: float) -> LiveVerb: ...
def live_collective(kind: str, size: float, group: LiveGroup, root: int) -> LiveVerb: ...
def live_access(store: str, size: float, writes: bool) -> LiveVerb: ...
def live_use(
    pool: int, work: object, key: float, item: object, change: float, about: object
) -> LiveVerb: ...
def live_together(children: tuple[object, ...], any: bool) -> LiveVerb: ...
def live_spawn(what: object) -> LiveVerb: ...
def live_play(playing: LivePlaying, rank: int, name: str) -> LiveVerb: ...

class LiveWorld:
    def __init__(
        self,
        *,
        bandwidth: NDArray[np.float64],
        comm_slowdown: NDArray[np.float64],
        fair: bool,
        queue_depth: int,
        gate_slots: NDArray[np.int32],
        fault_time: NDArray[np.int64],
        fault_is_link: NDArray[np.int8],
        fault_target: NDArray[np.int32],
        fault_factor: NDArray[np.float64],
        flow: bool,
        plain: bool,
        records: bool,
    ) -> None: ...
    def add_actor(
        self, handle: object, name: str, device: int, daemon: bool, faults: object
    ) -> int: ...
    def begin(self, actor: int, program: object, at: int) -> None: ...
    def crash_at(self, actor: int, at: int, until: int) -> None: ...
    def add_pool(
        self, width: int, discipline: int, most_waiting: int, holds: int, policy: object
    ) -> int: ...
    def add_plans(
        self, plans: SimPlans, routes: SimTopology, payload: NDArray[np.float64]
    ) -> int: ...
    def add_score(self, rows: SimWorkload, devices: NDArray[np.int32], plan: int) -> int: ...
    def run(self, until: int, hooks: object) -> None: ...
    def let_go(self) -> None: ...
    def records(self) -> dict[str, Any]: ...
    def links(self) -> dict[str, Any]: ...
    def stuck(self) -> list[Any]: ...
    def pools(self) -> list[tuple[int, ...]]: ...
    def plays(self) -> list[Any]: ...
    def returned(self, actor: int) -> Any: ...
    def resident(self, pool: int, place: int) -> list[Any]: ...
    @property
    def verbs(self) -> int: ...
    @property
    def now_ps(self) -> int: ...
