"""Recordings that `chakra link` reads."""

from __future__ import annotations

import gzip
import json
import pickle
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

from chakrakit.commands import main
from chakrakit.sources.calls import read_dump, read_inspector
from chakrakit.sources.foreign import goal_binary, parse_goal, workload_of
from chakrakit.sources.forward_passes import read_processes as read_forward_passes
from chakrakit.sources.nsys import read_processes as read_nsys
from chakrakit.sources.perfetto import read_processes as read_perfetto
from chakrakit.sources.pytorch.linking.rank import link_rank
from chakrakit.sources.pytorch.read import Kineto, read_kineto, read_observer
from chakrakit.sources.rocpd import read_processes as read_rocpd
from chakrakit.sources.rocprof import read_processes
from chakrakit.sources.snapshots import read_snapshot
from chakrakit.sources.xla import parse_hlo, read_devices
from chakrakit.sources.xla.program import traces_of
from chakrakit.trace.storage import write
from fuzz.fuzz_format import Format, Step
from fuzz.mutation import (
    Mutate,
    mutate_csv,
    mutate_json,
    mutate_json_lines,
    mutate_parquet,
    mutate_pickle,
    mutate_protobuf,
    mutate_sqlite,
    mutate_words,
    mutate_xml,
    wire_fields,
)
from fuzz.properties import as_recorded, linked, periods, then_accepted
from support import foreign_workloads
from support.foreign_files import HLO, forward_pass
from support.nsys_file import NsysFile, parquet_tables
from support.oracle import varint
from support.paths import DATA
from support.recorders import dump_of
from support.rocm_files import RocpdFile, perfetto_trace

LINK = "link {in} -o {out} --jobs 1"
LOOK = (
    "validate {out} --json",
    "info {out}",
    "analyze {out}",
    "simulate {out} --machine dgx-h100:2 --compute measured",
    "simulate {out} --compute measured --communication measured",
    "compare {out} {out}",
    "report {out} -o {out}.html",
    "export {out} {out}.pftrace",
    "replay {out} --export {out}-replay",
    "replay {out} --mode emulate --export {out}-replay",
    "transform {out} --pass compact -o {out}2",
    "transform {out} --pass portable -o {out}2",
    "transform {out} --pass anonymize -o {out}2",
    "calibrate {out} -o {out}.json",
)
LINKED = (LINK, *(f"{LINK} && {look}" for look in LOOK))
HOLDS = (
    linked(LINK),
    linked(LINK),
    as_recorded(LINK),
    as_recorded(LINK),
    periods(LINK, "analyze {out}"),
    *(
        then_accepted(LINK, line)
        for line in ("info {out}", "analyze {out}", "report {out} -o {out}.html",
                     "export {out} {out}.pftrace",
                     "convert {out} {out}.N.json", "query {out} 'SELECT * FROM nodes, collectives LIMIT 5'",
                     "compare {out} {out}", "bundle {out} -o {out}.chakra")
    ),
)  # fmt: skip
"""What holds for every recording that is linked."""


def pytorch(folder: Path) -> None:
    """Two ranks with kernels, launches, copies and an all-reduce; and what the observer saw of the first."""
    for rank in (0, 1):
        (folder / f"kineto_{rank}.json").write_text(json.dumps(_kineto(rank)))
        (folder / f"et_{rank}.json").write_text(json.dumps(_observer(rank)))


_OPERATORS = (
    "aten::mm",
    "aten::add_",
    "c10d::allreduce_",
    "aten::copy_",
    "Optimizer.step#AdamW.step",
)


def _kineto(rank: int) -> dict[str, Any]:
    events: list[dict[str, Any]] = [
        {"ph": "X", "cat": "user_annotation", "name": f"ProfilerStep#{rank + 3}", "pid": 9, "tid": 9,
         "ts": 1000.0, "dur": 900.0, "args": {"External id": 1, "Record function id": 1, "Ev Idx": 0}},
        {"name": "process_name", "ph": "M", "ts": 0.0, "pid": 9, "tid": 0, "args": {"name": "python"}},
        {"ph": "s", "id": 2, "pid": 9, "tid": 9, "ts": 1011.0, "cat": "fwdbwd", "name": "fwdbwd"},
        {"ph": "f", "id": 2, "pid": 9, "tid": 10, "ts": 1411.0, "cat": "fwdbwd", "name": "fwdbwd"},
    ]  # fmt: skip
    for i, name in enumerate(_OPERATORS):
        for way in (0, 1):
            number = 10 + 2 * i + way
            begin = 1010.0 + 70 * i + 400 * way
            events += _operator(name, number, begin, 9 + way)
    return {
        "schemaVersion": 1, "record_shapes": 1, "baseTimeNanoseconds": 1_700_000_000_000_000_000,
        "deviceProperties": [{"id": 0, "name": "NVIDIA H200", "totalGlobalMem": 150 << 30, "numSms": 132}],
        "distributedInfo": {
            "backend": "nccl", "rank": rank, "world_size": 2, "pg_count": 1,
            "pg_config": [{"pg_name": "0", "pg_desc": "default_pg", "pg_size": 2, "ranks": [0, 1]}],
        },
        "traceEvents": events, "traceName": "x.json",
    }  # fmt: skip


def _operator(name: str, number: int, begin: float, thread: int) -> list[dict[str, Any]]:
    """An operator, the call that launches its kernel, the kernel, and the arrow between them."""
    arguments: dict[str, Any] = {
        "External id": number, "Record function id": number, "Sequence number": number // 2, "Ev Idx": number,
        "Fwd thread id": 9 if thread > 9 else 0, "Input Dims": [[8, 16], [16, 4]],
        "Input type": ["float", "float"], "Input Strides": [[16, 1], [4, 1]], "Concrete Inputs": ["", ""],
    }  # fmt: skip
    of_device = {
        "External id": number, "device": 0, "context": 1, "stream": 7, "correlation": number,
        "grid": [4, 1, 1], "block": [128, 1, 1], "registers per thread": 32, "shared memory": 0,
    }  # fmt: skip
    kernel, kind = f"void {name}_kernel", "kernel"
    if "allreduce" in name:
        kernel = "ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)"
        of_device |= {
            "stream": 20, "Collective name": "allreduce", "In msg nelems": 128, "Out msg nelems": 128,
            "Group size": 2, "dtype": "Float", "Process Group Name": "0", "Process Group Ranks": "[0, 1]",
            "In split size": "[]", "Out split size": "[]",
        }  # fmt: skip
    elif "copy" in name:
        kernel, kind = "Memcpy DtoD (Device -> Device)", "gpu_memcpy"
        of_device |= {"bytes": 4096, "memory bandwidth (GB/s)": 100.0}
    flow = {"id": number, "cat": "ac2g", "name": "ac2g"}
    call = {"External id": number, "cbid": 211, "correlation": number}
    return [
        {"ph": "X", "cat": "cpu_op", "name": name, "pid": 9, "tid": thread, "ts": begin, "dur": 50.0,
         "args": arguments},
        {"ph": "X", "cat": "cuda_runtime", "name": "cudaLaunchKernel", "pid": 9, "tid": thread,
         "ts": begin + 10, "dur": 8.5, "args": call},
        {"ph": "X", "cat": kind, "name": kernel, "pid": 0, "tid": 7, "ts": begin + 30, "dur": 35.25,
         "args": of_device},
        {"ph": "s", **flow, "pid": 9, "tid": thread, "ts": begin + 10},
        {"ph": "f", "bp": "e", **flow, "pid": 0, "tid": 7, "ts": begin + 30},
    ]  # fmt: skip


_SCHEMAS = {
    "aten::mm": "aten::mm(Tensor self, Tensor mat2) -> Tensor",
    "aten::add_": "aten::add_.Tensor(Tensor(a!) self, Tensor other, *, Scalar alpha=1) -> Tensor(a!)",
    "aten::copy_": "aten::copy_(Tensor(a!) self, Tensor src, bool non_blocking=False) -> Tensor(a!)",
}


def _observer(rank: int) -> dict[str, Any]:
    groups = json.dumps([{"pg_name": "0", "pg_desc": "default_pg", "backend_config": "cuda:nccl",
                          "ranks": [], "group_size": 2, "group_count": 1}])  # fmt: skip
    nodes = [
        _node(1, "[pytorch|profiler|execution_trace|process]", 1, "", [], []),
        _node(2, "[pytorch|profiler|execution_trace|thread]", 1, "", [], []),
        _node(3, "## process_group:init ##", 2, "", [groups], ["String"]),
    ]
    for i, name in enumerate(_OPERATORS):
        for way in (0, 1):
            number = 10 + 2 * i + way
            given = [[30 + i, 40 + i, 0, 128, 4, "cuda:0"], [31 + i, 41 + i, 0, 64, 4, "cuda:0"]]
            nodes.append(
                _node(number, name, 2, _SCHEMAS.get(name, ""), given, ["Tensor(float)"] * 2)
            )
    return {"schema": "1.1.1-chakra.0.0.4", "pid": 9, "time": "x", "start_ts": 1, "nodes": nodes}


def _node(
    number: int, name: str, parent: int, schema: str, values: list[Any], types: list[str]
) -> dict[str, Any]:
    tensors = bool(values) and not isinstance(values[0], str)
    shapes = [[8, 16], [16, 4]] if tensors else [[] for _ in values]
    strides = [[16, 1], [4, 1]] if tensors else [[] for _ in values]
    side = {"values": values, "shapes": shapes, "types": types, "strides": strides}
    attributes = {
        "rf_id": number, "fw_parent": 0, "seq_id": number // 2, "scope": 0, "tid": 1 + number % 2,
        "fw_tid": 0, "op_schema": schema, "kernel_backend": "", "kernel_file": "",
    }  # fmt: skip
    return {
        "id": number, "name": name, "ctrl_deps": parent, "inputs": side, "outputs": side,
        "attrs": [{"name": n, "type": "uint64", "value": v} for n, v in attributes.items()],
    }  # fmt: skip


def _kineto_columns() -> Kineto:
    return read_kineto(json.dumps(_kineto(0)).encode())


def nsys(folder: Path) -> None:
    """An export with one process."""
    trace = _kineto_columns()
    file = NsysFile(folder / "report.sqlite")
    base = int(trace.start.min())
    file.begin(trace.base_ns + base)
    file.write(trace, 100, base)
    file.close()


def nsys_parquet(folder: Path) -> None:
    """The same as a folder of tables."""
    nsys(folder)
    parquet_tables(folder / "report.sqlite", folder / "report_pqtdir")
    (folder / "report.sqlite").unlink()


def rocpd(folder: Path) -> None:
    """The same events in a database of ROCm."""
    file = RocpdFile(folder / "results.db")
    file.write(_kineto_columns())
    file.close()


def perfetto(folder: Path) -> None:
    """The same events in a Perfetto trace of ROCm."""
    (folder / "results.pftrace").write_bytes(perfetto_trace(_kineto_columns()))


def rocprof(folder: Path) -> None:
    """Two launches and a copy."""
    size = {"x": 256, "y": 1, "z": 1}

    def record(number: int, start: int, **more: Any) -> dict[str, Any]:
        return {
            "kind": 1, "operation": 0, "thread_id": 7, "correlation_id": {"internal": number},
            "start_timestamp": start, "end_timestamp": start + 900, **more,
        }  # fmt: skip

    device = {
        "agent_id": {"handle": 90}, "queue_id": {"handle": 4}, "kernel_id": 5,
        "workgroup_size": size, "grid_size": size,
    }  # fmt: skip
    copied = {"src_agent_id": {"handle": 90}, "dst_agent_id": {"handle": 90}, "bytes": 64}
    buffers = {
        "hip_api": [record(1, 1000), record(2, 2000), record(3, 3000)],
        "kernel_dispatch": [
            record(1, 2500, dispatch_info=device, stream_id={"handle": 1}),
            record(2, 3500, dispatch_info=device, stream_id={"handle": 1}),
        ],
        "memory_copy": [record(3, 4500, stream_id={"handle": 1}, **copied)],
        "scratch_memory": [{}],
    }
    process = {
        "metadata": {"pid": 3, "node": {"hostname": "box"}},
        "agents": [{"id": {"handle": 90}, "type": 2, "product_name": "MI300X"}],
        "strings": {"buffer_records": [
            {"kind": "NONE", "operations": []},
            {"kind": "HIP_RUNTIME_API", "operations": ["hipLaunchKernel"]},
        ]},
        "kernel_symbols": [{"kernel_id": 5, "formatted_kernel_name": "gemm"}],
        "buffer_records": buffers,
    }  # fmt: skip
    (folder / "results.json").write_text(json.dumps({"rocprofiler-sdk-tool": [process]}))


def flight_recorder(folder: Path) -> None:
    """Two ranks of dumps as JSON."""
    for rank in range(2):
        (folder / f"trace_rank_{rank}.json").write_text(json.dumps(dump_of(rank, 2, 4, 0, 2)))


def flight_recorder_pickle(folder: Path) -> None:
    """The same as PyTorch pickles them."""
    for rank in range(2):
        data = pickle.dumps(dump_of(rank, 2, 4, 0, 2), protocol=2)
        (folder / f"nccl_trace_rank_{rank}").write_bytes(data)


def nccl_inspector(folder: Path) -> None:
    """Two ranks, three collectives."""
    for rank in (0, 1):
        head = {
            "header": {"id": "0xabc", "rank": rank, "n_ranks": 2, "nnodes": 1},
            "metadata": {"inspector_output_format_version": "v4.1", "hostname": "box", "pid": rank},
        }
        lines = [
            {**head, "coll_perf": {
                "coll": "AllReduce", "coll_sn": n, "coll_msg_size_bytes": 1 << 20,
                "coll_exec_time_us": 700.0,
                "event_trace_ts": {"coll_start": n * 1000.0, "coll_stop": n * 1000.0 + 700},
            }}
            for n in range(3)
        ]  # fmt: skip
        (folder / f"inspector-{rank}.log").write_text("\n".join(map(json.dumps, lines)))


def forward_passes(folder: Path) -> None:
    """Two data-parallel ranks of four passes, of which one was not written."""
    lines = [
        forward_pass("w", rank, n, 10.0 * n, prompts=n % 2) for rank in (0, 1) for n in (1, 2, 4, 5)
    ]
    (folder / "fpm.jsonl").write_text("\n".join(lines))


def snapshot(folder: Path) -> None:
    """A memory history beside a Kineto file."""
    (folder / "kineto_0.json").write_text(json.dumps(_kineto(0)))
    events = [("alloc", 100), ("alloc", 50), ("free_requested", 100), ("free_completed", 100)]
    said = {
        "segments": [{"device": 0, "total_size": 2**21, "allocated_size": 70, "address": 5}],
        "device_traces": [
            [
                {"action": a, "size": n, "time_us": 1_700_000_000_001_000 + i, "addr": 1}
                for i, (a, n) in enumerate(events)
            ]
        ],
    }
    (folder / "snapshot_0.pickle").write_bytes(pickle.dumps(said))


def xplane(folder: Path) -> None:
    """A profile of an H200, of every list the first few."""
    packed = (DATA / "xla" / "run.xplane.pb.gz").read_bytes()
    (folder / "run.xplane.pb").write_bytes(_shortened(gzip.decompress(packed), (1, 3)))


def _shortened(data: bytes, inside: tuple[int, ...], most: int = 12) -> bytes:
    """A message in which no field comes more than `most` times, nor in the messages at the path `inside`."""
    seen: Counter[int] = Counter()
    kept = []
    for begin, end, tag, value in wire_fields(data):
        seen[tag] += 1
        if isinstance(value, bytes) and inside and tag >> 3 == inside[0]:
            value = _shortened(value, inside[1:])
            kept.append(varint(tag) + varint(len(value)) + value)
        elif seen[tag] <= most:
            kept.append(data[begin:end])
    return b"".join(kept)


_GATHERED = (
    "  %all = f32[64,64]{1,0} all-gather(%made), channel_id=3, "
    "replica_groups={{0,1,2,3}}, dimensions={0}\n"
)


def hlo_text(folder: Path) -> None:
    """A module with a loop, collectives and a message."""
    (folder / "module").write_text(HLO.replace("  ROOT %out", _GATHERED + "  ROOT %out"))


def hlo_protobuf(folder: Path) -> None:
    """A module as XLA serializes it."""
    packed = (DATA / "xla" / "train_step.hlo.pb.gz").read_bytes()
    (folder / "module").write_bytes(gzip.decompress(packed))


def _read_module(folder: Path) -> None:
    traces_of(parse_hlo((folder / "module").read_bytes(), "module"))


def _look_at_module(command: str) -> Step:
    def look(folder: Path) -> None:
        out = folder.parent / "out"
        write(traces_of(parse_hlo((folder / "module").read_bytes(), "module")), out)
        main(command.format(out=out).split(), standalone_mode=False)

    return look


HLO_LOOK = tuple(_look_at_module(command) for command in LOOK[:4])


def _link_pair(folder: Path) -> None:
    """Links the first rank's two files, in memory."""
    observer = read_observer((folder / "et_0.json").read_bytes(), "et_0.json")
    kineto = read_kineto((folder / "kineto_0.json").read_bytes(), "kineto_0.json")
    link_rank(0, observer, kineto)


def _link_with(read: Callable[[Path], list[Kineto]], name: str) -> Step:
    def link_all(folder: Path) -> None:
        for kineto in read(folder / name):
            link_rank(0, None, kineto)

    return link_all


def _read_pftrace(path: Path) -> list[Kineto]:
    return read_perfetto(path.read_bytes(), path.name)


def _link_rocprof(folder: Path) -> None:
    for kineto in read_processes((folder / "results.json").read_bytes(), "results.json"):
        link_rank(0, None, kineto)


def _link_xplane(folder: Path) -> None:
    for kineto in read_devices((folder / "run.xplane.pb").read_bytes(), "run.xplane.pb").values():
        link_rank(0, None, kineto)


def _read_with(read: Callable[[bytes, str], object], files: str = "*") -> Step:
    def read_all(folder: Path) -> None:
        for file in folder.glob(files):
            read(file.read_bytes(), file.name)

    return read_all


_DUMPS = _read_with(read_dump)


def _workload(name: str, text: str, mutate: Mutate) -> Format:
    def write(folder: Path) -> None:
        (folder / "workload").write_text(text)

    return Format(
        name,
        write,
        {"*": mutate},
        _read_workload,
        (f"{_OPEN}", "simulate {in}/workload --machine dgx-h100:2"),
    )


_OPEN = "info {in}/workload"


def _read_workload(folder: Path) -> None:
    data = (folder / "workload").read_bytes()
    workload = workload_of(data[:65536])
    if workload is not None:
        workload.read({"workload": data}).trace(0)


def _binary_goal(folder: Path) -> None:
    (folder / "workload").write_bytes(goal_binary(parse_goal(foreign_workloads.GOAL.encode(), "x")))


WORKLOADS = [
    _workload("goal", foreign_workloads.GOAL, mutate_words),
    _workload("simai", foreign_workloads.SIMAI, mutate_words),
    _workload("astra1", foreign_workloads.ASTRA1, mutate_words),
    _workload("aicb", foreign_workloads.AICB, mutate_csv),
    _workload("param-comms", foreign_workloads.PARAM, mutate_json),
    _workload("msccl-workload", foreign_workloads.MSCCL, mutate_xml),
    _workload("mscclpp-workload", foreign_workloads.MSCCLPP, mutate_json),
    Format("goal-binary", _binary_goal, {"*": mutate_protobuf}, _read_workload),
]

RECORDINGS = [
    *WORKLOADS,
    Format("kineto", pytorch, {"kineto_0*": mutate_json}, _link_pair, LINKED, holds=HOLDS),
    Format("observer", pytorch, {"et_0*": mutate_json}, _link_pair, LINKED, holds=HOLDS),
    Format("nsys", nsys, {"*": mutate_sqlite}, _link_with(read_nsys, "report.sqlite"), LINKED, holds=HOLDS),
    Format("nsys-parquet", nsys_parquet, {"*/*": mutate_parquet}, _link_with(read_nsys, "report_pqtdir"),
           LINKED, holds=HOLDS),
    Format("rocpd", rocpd, {"*": mutate_sqlite}, _link_with(read_rocpd, "results.db"), LINKED, holds=HOLDS),
    Format("perfetto", perfetto, {"*": mutate_protobuf}, _link_with(_read_pftrace, "results.pftrace"), LINKED,
           holds=HOLDS),
    Format("rocprof", rocprof, {"*": mutate_json}, _link_rocprof, LINKED, holds=HOLDS),
    Format("flight-recorder", flight_recorder, {"*": mutate_json}, _DUMPS, LINKED, holds=HOLDS),
    Format("flight-recorder-pickle", flight_recorder_pickle, {"*": mutate_pickle}, _DUMPS, LINKED,
           holds=HOLDS),
    Format("nccl-inspector", nccl_inspector, {"*": mutate_json_lines}, _read_with(read_inspector), LINKED,
           holds=HOLDS),
    Format("snapshot", snapshot, {"snapshot*": mutate_pickle}, _read_with(read_snapshot, "snapshot*"),
           (LINK, f"{LINK} && analyze {{out}}")),
    Format("forward-passes", forward_passes, {"*": mutate_json_lines}, _read_with(read_forward_passes),
           LINKED, holds=HOLDS),
    Format("xplane", xplane, {"*": mutate_protobuf}, _link_xplane, LINKED, holds=HOLDS),
    Format("hlo-text", hlo_text, {"*": mutate_words}, _read_module, HLO_LOOK),
    Format("hlo-protobuf", hlo_protobuf, {"*": mutate_protobuf}, _read_module, HLO_LOOK),
]  # fmt: skip
