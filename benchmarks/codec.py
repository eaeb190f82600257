"""Decode, encode and JSON on nodes of about 455 bytes, beside the protobuf runtime doing the same.

    python benchmarks/codec.py [NODES]

Times are CPU seconds, user and system; ours are the best of three.
"""

from __future__ import annotations

import gc
import importlib.util
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Any

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # idle BLAS threads burn CPU time
sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))

import numpy as np
import pyarrow as pa

import chakrakit.core as core
from chakrakit.trace.codecs import et
from chakrakit.trace.model import Edges, Trace, columns
from support.oracle import bodies_of, message, varint

INTEGERS = ("rf_id", "fw_parent", "seq_id", "scope", "tid", "fw_tid", "stream")
SCHEMA = "aten::addmm(Tensor self, Tensor mat1, Tensor mat2, *, Scalar beta=1) -> Tensor"
GPU = "'cuda:0']"

READ = (
    "import sys; from chakrakit.trace.codecs import et; t = et.read(open(sys.argv[1], 'rb'), 'x')"
)
CLI = "import sys; from chakrakit.commands import main; main({}, standalone_mode=False)"
PEAK = """
import re, sys
print(re.search(r"VmHWM:\\s+(\\d+)", open("/proc/self/status").read())[1], file=sys.stderr)
"""


def sample(n: int) -> Trace:
    """Nodes as the reference converter writes them: tensors as text, nine attributes, two edges."""
    i = np.arange(n)
    names = np.array([f"aten::op_{k}" for k in range(500)], dtype=object)
    data: dict[str, Any] = {
        "id": i + 1,
        "name": names[i % 500],
        "type": np.full(n, 4),
        "start_time_micros": i * 7,
        "duration_micros": i % 100,
        "inputs_values": [
            f"[[{k}, {k + 1}, 0, 1048576, 4, {GPU}, [{k + 3}, 0, 64, 4, {GPU}]" for k in range(n)
        ],
        "inputs_shapes": ["[[1024, 1024], [64]]"] * n,
        "inputs_types": ["['Tensor(float)', 'Tensor(float)']"] * n,
        "outputs_values": [f"[[{k + 9}, {k + 10}, 0, 1048576, 4, {GPU}]" for k in range(n)],
        "outputs_shapes": ["[[1024, 1024]]"] * n,
        "outputs_types": ["['Tensor(float)']"] * n,
        "is_cpu_op": i % 4 != 0,
        **{name: i % (97 + len(name) * 1000) for name in INTEGERS},
        "op_schema": [SCHEMA] * n,
    }
    edges = Edges.of(
        np.concatenate([i[:-1], np.maximum(i[1:] - 3, 0)]),
        np.concatenate([i[1:], i[1:]]),
        np.repeat([1, 0], n - 1),
    )
    return Trace.from_columns(data, edges)


def cpu(work: Callable[[], Any]) -> tuple[float, Any]:
    gc.collect()
    start = time.process_time()
    result = work()
    return time.process_time() - start, result


def best(work: Callable[[], Any], times: int = 3) -> float:
    return min(cpu(work)[0] for _ in range(times))


# --- the protobuf runtime ------------------------------------------------------------------------


def protobuf_encode(lists: dict[str, list[Any]], n: int) -> bytes:
    """Builds a message per node from the columns and serialises it."""
    node_class, out = message("Node"), bytearray(b"\x00")
    for k in range(n):
        node = node_class(id=lists["id"][k], name=lists["name"][k], type=lists["type"][k])
        node.ctrl_deps.extend(lists["ctrl_deps"][k])
        node.data_deps.extend(lists["data_deps"][k])
        node.start_time_micros = lists["start_time_micros"][k]
        node.duration_micros = lists["duration_micros"][k]
        for side in ("inputs", "outputs"):
            info = getattr(node, side)
            info.values = lists[f"{side}_values"][k]
            info.shapes = lists[f"{side}_shapes"][k]
            info.types = lists[f"{side}_types"][k]
        node.attr.add(name="is_cpu_op", bool_val=lists["is_cpu_op"][k])
        for name in INTEGERS:
            node.attr.add(name=name, int64_val=lists[name][k])
        node.attr.add(name="op_schema", string_val=lists["op_schema"][k])
        data = node.SerializeToString()
        out += varint(len(data))
        out += data
    return bytes(out)


def protobuf_lists(data: bytes) -> dict[str, list[Any]]:
    """Parses every node and reads every field into a list per column."""
    node_class = message("Node")
    lists: dict[str, list[Any]] = defaultdict(list)
    nodes = bodies_of(data)
    next(nodes)
    for body in nodes:
        node = node_class.FromString(body)
        lists["id"].append(node.id)
        lists["name"].append(node.name)
        lists["type"].append(node.type)
        lists["start_time_micros"].append(node.start_time_micros)
        lists["duration_micros"].append(node.duration_micros)
        lists["ctrl_deps"].append(list(node.ctrl_deps))
        lists["data_deps"].append(list(node.data_deps))
        for side, info in (("inputs", node.inputs), ("outputs", node.outputs)):
            lists[side + "_values"].append(info.values)
            lists[side + "_shapes"].append(info.shapes)
            lists[side + "_types"].append(info.types)
        for a in node.attr:
            lists[a.name].append(getattr(a, a.WhichOneof("value")))
    return lists


def protobuf_decode(data: bytes) -> pa.Table:
    """The same table the decoder makes."""
    lists = protobuf_lists(data)
    table = {}
    for name, values in lists.items():
        kind = columns.FIELD_TYPES.get(name)
        if name == "name":
            table[name] = pa.array(values).dictionary_encode()
        else:
            table[name] = pa.array(values, kind)
    return pa.table(table)


# --- the figures ---------------------------------------------------------------------------------


def report(what: str, size: int, ours: float, theirs: float) -> None:
    rate = f"{size / ours / 1e9:5.2f} GB/s"
    print(f"{what}  {ours:7.2f} s  {rate}   protobuf {theirs:7.2f} s   {theirs / ours:5.1f}x")


def copies(data: bytes) -> None:
    """What memory itself can do: onto pages in use, and onto fresh ones."""
    source = np.frombuffer(data, np.uint8)
    fresh, target = min((cpu(source.copy) for _ in range(3)), key=lambda found: found[0])
    warm = best(lambda: np.copyto(target, source))
    gigabytes = len(data) / 1e9
    print(
        f"plain memory copy {gigabytes / warm:.2f} GB/s, to new pages {gigabytes / fresh:.2f} GB/s"
    )


def encoding(trace: Trace, path: Path) -> bytes:
    """Writes the file, checks it against protobuf's, and gives its bytes."""
    ours = best(lambda: list(et.frames(trace)))
    with path.open("wb") as file:
        et.EtWriter(file).write(trace)
    lists = {c: trace.nodes.column(c).to_pylist() for c in trace.nodes.column_names}
    theirs, data = cpu(lambda: protobuf_encode(lists, len(trace)))
    assert data == path.read_bytes(), "the protobuf runtime writes other bytes"
    print(f"{len(trace):,} nodes of {len(data) / len(trace):.0f} bytes, {len(data) / 1e6:.0f} MB")
    report("encode", len(data), ours, theirs)
    return bytes(data)


def read(path: Path) -> Trace:
    with path.open("rb") as stream:
        return et.read(stream, path.name)


def decoding(path: Path, data: bytes) -> None:
    ours = best(lambda: read(path))
    theirs, found = cpu(lambda: protobuf_decode(data))
    same = read(path).nodes.unify_dictionaries()
    for name in same.column_names:
        kind = columns.FIELD_TYPES.get(name)
        left = same.column(name).cast(pa.string()) if name == "name" else same.column(name)
        right = found.column(name).cast(pa.string() if name == "name" else kind or left.type)
        assert left.equals(right), f"the protobuf runtime reads another {name}"
    report("decode", len(data), ours, theirs)


def to_json(path: Path, out: Path) -> None:
    """A file to JSON text in pieces."""
    with path.open("rb") as stream, out.open("wb") as sink:
        first = True
        for piece in et.scan(stream, path.name):
            for frames in et.frames(piece):
                sink.write(core.json_nodes(frames, first))
                first = False


def child(code: str, *args: str) -> tuple[float, int]:
    """CPU seconds and peak memory in bytes of a fresh process."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    command = [sys.executable, "-c", code + PEAK, *args]
    done = subprocess.run(command, capture_output=True, check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    seconds = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return seconds, int(done.stderr.split()[-1]) * 1024


def processes(path: Path, n: int) -> None:
    size = path.stat().st_size
    seconds, peak = child(READ, str(path))
    print(f"read in a fresh process  {seconds:.2f} s, peak memory {peak / size:.2f}x the file")
    seconds = best(lambda: to_json(path, path.with_suffix(".json")))
    print(f".et to JSON text         {seconds:.2f} s, {n / seconds:,.0f} nodes per CPU second")
    if importlib.util.find_spec("chakrakit.commands") is None:
        return
    for command in (["convert", str(path), str(path.with_suffix(".json"))], ["info", str(path)]):
        seconds, peak = child(CLI.format(command))
        rate = f"{n / seconds:,.0f} nodes per CPU second, peak memory {peak / size:.2f}x the file"
        print(f"chakra {command[0]:17} {seconds:.2f} s, {rate}")
    for name, code in (
        ("import chakrakit", "import chakrakit"),
        ("chakra --help", CLI.format(["--help"])),
    ):
        print(f"{name:24} {min(child(code)[0] for _ in range(3)):.3f} s")


def main() -> None:
    n = int(sys.argv[1]) if len(sys.argv) > 1 else 1_000_000
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "sample.0.et"
        data = encoding(sample(n), path)
        copies(data)
        decoding(path, data)
        del data
        processes(path, n)


if __name__ == "__main__":
    main()
