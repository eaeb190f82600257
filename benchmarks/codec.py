"""Decode, encode and JSON on nodes of about 455 bytes, beside the protobuf runtime doing the same.

python benchmarks/codec.py [NODES]
"""

from __future__ import annotations

import gc
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # idle BLAS threads burn CPU time

import numpy as np
from oracle import message

from chakrakit.trace import et
from chakrakit.trace.edges import Edges
from chakrakit.trace.trace import Trace

INTEGERS = ("rf_id", "fw_parent", "seq_id", "scope", "tid", "fw_tid", "stream")
SCHEMA = "aten::addmm(Tensor self, Tensor mat1, Tensor mat2, *, Scalar beta=1) -> Tensor"


def sample(n: int) -> Trace:
    """Nodes as the reference converter writes them: tensors as text, ten attributes, two dependencies."""
    i = np.arange(n)
    names = np.array([f"aten::op_{k}" for k in range(500)], dtype=object)
    tensor = "'cuda:0']"
    columns: dict[str, Any] = {
        "id": i + 1,
        "name": names[i % 500],
        "type": np.full(n, 4),
        "start_time_micros": i * 7,
        "duration_micros": i % 100,
        "inputs_values": [f"[[{k}, {k + 1}, 0, 1048576, 4, {tensor}, [{k + 3}, 0, 64, 4, {tensor}]" for k in range(n)],
        "inputs_shapes": ["[[1024, 1024], [64]]"] * n,
        "inputs_types": ["['Tensor(float)', 'Tensor(float)']"] * n,
        "outputs_values": [f"[[{k + 9}, {k + 10}, 0, 1048576, 4, {tensor}]" for k in range(n)],
        "outputs_shapes": ["[[1024, 1024]]"] * n,
        "outputs_types": ["['Tensor(float)']"] * n,
        "is_cpu_op": i % 4 != 0,
        **{name: i % (97 + len(name) * 1000) for name in INTEGERS},
        "op_schema": [SCHEMA] * n,
    }  # fmt: skip
    edges = Edges.of(
        np.concatenate([i[:-1], np.maximum(i[1:] - 3, 0)]),
        np.concatenate([i[1:], i[1:]]),
        np.repeat([1, 0], n - 1),
    )
    return Trace.from_columns(columns, edges)


def cpu(work: Callable[[], Any]) -> tuple[float, Any]:
    gc.collect()
    start = time.process_time()
    result = work()
    return time.process_time() - start, result


def protobuf_encode(columns: dict[str, list[Any]], n: int) -> bytes:
    """Builds a message per node from the columns and serialises it."""
    node_class, out = message("Node"), bytearray(b"\x00")
    for k in range(n):
        node = node_class(id=columns["id"][k], name=columns["name"][k], type=columns["type"][k])
        node.ctrl_deps.extend(columns["ctrl_deps"][k])
        node.data_deps.extend(columns["data_deps"][k])
        node.start_time_micros = columns["start_time_micros"][k]
        node.duration_micros = columns["duration_micros"][k]
        for side in ("inputs", "outputs"):
            info = getattr(node, side)
            info.values = columns[f"{side}_values"][k]
            info.shapes = columns[f"{side}_shapes"][k]
            info.types = columns[f"{side}_types"][k]
        node.attr.add(name="is_cpu_op", bool_val=columns["is_cpu_op"][k])
        for name in INTEGERS:
            node.attr.add(name=name, int64_val=columns[name][k])
        node.attr.add(name="op_schema", string_val=columns["op_schema"][k])
        data = node.SerializeToString()
        size = len(data)
        while size >= 0x80:
            out.append(size & 0x7F | 0x80)
            size >>= 7
        out.append(size)
        out += data
    return bytes(out)


def protobuf_decode(data: bytes) -> dict[str, list[Any]]:
    """Parses every node and reads every field into the same columns."""
    node_class = message("Node")
    fields = ("id", "name", "type", "start_time_micros", "duration_micros")
    columns: dict[str, list[Any]] = {}
    view, position, end = memoryview(data), 1, len(data)
    rows = 0
    while position < end:
        size = shift = 0
        while True:
            byte = data[position]
            position += 1
            size |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                break
        node = node_class.FromString(view[position : position + size])
        position += size
        for f in fields:
            columns.setdefault(f, []).append(getattr(node, f))
        for f in ("ctrl_deps", "data_deps"):
            columns.setdefault(f, []).extend(getattr(node, f))
        for side in ("inputs", "outputs"):
            info = getattr(node, side)
            columns.setdefault(side + "_values", []).append(info.values)
            columns.setdefault(side + "_shapes", []).append(info.shapes)
            columns.setdefault(side + "_types", []).append(info.types)
        for a in node.attr:
            columns.setdefault(a.name, []).append(getattr(a, a.WhichOneof("value")))
        rows += 1
    return columns


def child(code: str, *args: str) -> tuple[float, int]:
    """CPU seconds and peak RSS in bytes of a fresh process."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    script = (
        code
        + "\nimport resource,sys;print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss,file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", script, *args], capture_output=True, check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    seconds = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return seconds, int(done.stderr.split()[-1]) * 1024


def main() -> None:
    n = int(sys.argv[1]) if len(sys.argv) > 1 else 1_000_000
    trace = sample(n)
    columns = {c: trace.nodes.column(c).to_pylist() for c in trace.nodes.column_names}
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "sample.0.et"
        ours, _ = min((cpu(lambda: list(et.frames(trace))) for _ in range(3)), key=lambda r: r[0])
        with path.open("wb") as file:
            et.EtWriter(file).write(trace)
        size = path.stat().st_size
        theirs, data = cpu(lambda: protobuf_encode(columns, n))
        assert data == path.read_bytes(), "the protobuf runtime writes other bytes"
        print(f"{n:,} nodes of {size / n:.0f} bytes, {size / 1e6:.0f} MB")
        copy = cpu(lambda: np.frombuffer(data, np.uint8).copy())[0]
        print(f"plain memory copy   {size / copy / 1e9:6.2f} GB/s")
        print(
            f"encode  {ours:7.2f} s  {size / ours / 1e9:5.2f} GB/s   protobuf {theirs:7.2f} s   {theirs / ours:5.1f}x"
        )
        del columns

        def decode() -> Trace:
            with path.open("rb") as stream:
                return et.read(stream, "sample")

        ours = min(cpu(decode)[0] for _ in range(3))
        theirs, found = cpu(lambda: protobuf_decode(data))
        assert len(found["id"]) == n
        del found, data
        print(
            f"decode  {ours:7.2f} s  {size / ours / 1e9:5.2f} GB/s   protobuf {theirs:7.2f} s   {theirs / ours:5.1f}x"
        )

        read = (
            "import sys; from chakrakit.trace import et; t = et.read(open(sys.argv[1],'rb'), 'x')"
        )
        seconds, peak = child(read, str(path))
        print(f"decode in a fresh process: peak memory {peak / size:.2f}x the file")
        convert = "import sys; from chakrakit.cli import main; main(['convert', sys.argv[1], sys.argv[2]], standalone_mode=False)"
        seconds, peak = child(convert, str(path), str(Path(folder) / "out.json"))
        print(
            f".et -> JSON {seconds:.2f} s, {n / seconds:,.0f} nodes per CPU second, peak {peak / size:.2f}x the file"
        )
        info = "import sys; from chakrakit.cli import main; main(['info', sys.argv[1]], standalone_mode=False)"
        seconds, peak = child(info, str(path))
        print(f"chakra info {seconds:.2f} s, peak {peak / size:.2f}x the file")
    for name, code in (
        ("import chakrakit", "import chakrakit"),
        (
            "chakra --help",
            "from chakrakit.cli import main; main(['--help'], standalone_mode=False)",
        ),
    ):
        print(f"{name}: {min(child(code)[0] for _ in range(3)):.3f} s")


if __name__ == "__main__":
    main()
