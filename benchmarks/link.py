"""Linking a synthetic pair: CPU seconds and peak memory of the command, and how they grow.

    python benchmarks/link.py [HOST_OPS …]

Each pair has as many host operators as given, and a quarter as many kernels. The reference linker
needed 31.4 CPU seconds for 32,000 on a machine like ours; the claim is under one. Of memory, the program
itself takes some 100 MB, so the claim is for a pair that is larger than that.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

CLAIM_OPS, CLAIM_SECONDS, CLAIM_MEMORY = 32_000, 1.0, 2.5
REFERENCE_SECONDS = 31.4

_ATTRS = (
    '{{"name": "rf_id", "type": "uint64", "value": {rf}}},'
    '{{"name": "fw_parent", "type": "uint64", "value": 0}},'
    '{{"name": "seq_id", "type": "int64", "value": -1}},'
    '{{"name": "scope", "type": "uint64", "value": 0}},'
    '{{"name": "tid", "type": "uint64", "value": 1}},'
    '{{"name": "fw_tid", "type": "uint64", "value": 0}},'
    '{{"name": "op_schema", "type": "string", "value": '
    '"aten::mul.Tensor(Tensor self, Tensor other) -> Tensor"}},'
    '{{"name": "kernel_backend", "type": "string", "value": ""}},'
    '{{"name": "kernel_file", "type": "string", "value": ""}},'
    '{{"name": "tensor_range", "type": "string", "value": ""}}'
)
_NODE = (
    '{{"id": {id}, "name": "{name}", "ctrl_deps": {parent}, "inputs": {{"values": '
    '[[{t},{s},0,1024,4,"cuda:0"],[{t1},{s1},0,1024,4,"cuda:0"]], "shapes": [[32,32],[32,32]], '
    '"types": ["Tensor(float)","Tensor(float)"], "strides": [[32,1],[32,1]]}}, "outputs": '
    '{{"values": [[{t2},{s2},0,1024,4,"cuda:0"]], "shapes": [[32,32]], "types": '
    '["Tensor(float)"], "strides": [[32,1]]}}, "attrs": [' + _ATTRS + "]}}"
)
_OP = (
    '{{"ph": "X", "cat": "cpu_op", "name": "{name}", "pid": 7, "tid": 7, "ts": {ts}.000, '
    '"dur": {dur}.000, "args": {{"External id": {rf}, "Record function id": {rf}, "Concrete '
    'Inputs": ["", ""], "Input type": ["float", "float"], "Input Strides": [[32, 1], [32, 1]], '
    '"Input Dims": [[32, 32], [32, 32]], "Ev Idx": {rf}}}}}'
)
_CALL = (
    '{{"ph": "X", "cat": "cuda_runtime", "name": "cudaLaunchKernel", "pid": 7, "tid": 7, "ts": '
    '{ts}.500, "dur": 2.000, "args": {{"External id": {rf}, "cbid": 211, "correlation": {rf}}}}}'
)
_KERNEL = (
    '{{"ph": "X", "cat": "kernel", "name": "vectorized_elementwise_kernel<4, {k}>", "pid": 0, '
    '"tid": 7, "ts": {ts}.000, "dur": 5.125, "args": {{"External id": {rf}, "queued": 0, '
    '"device": 0, "context": 1, "stream": 7, "correlation": {rf}, "registers per thread": 32, '
    '"shared memory": 0, "blocks per SM": 1.0, "warps per SM": 4.0, "grid": [32, 1, 1], '
    '"block": [128, 1, 1], "est. achieved occupancy %": 6}}}}'
)


def write_pair(folder: Path, operators: int) -> int:
    """A forest of operators four deep, the innermost launching a kernel; returns bytes written."""
    nodes, events = [], []
    root = '{"id": 1, "name": "[pytorch|profiler|execution_trace|process]", "ctrl_deps": 1}'
    for i in range(operators):
        depth = i % 4
        rf, base = i + 1, (i // 4) * 40
        name = ("aten::linear", "aten::addmm", "aten::mul", "aten::fill_")[depth]
        ids = {
            "t": 10 * i,
            "s": 10 * i + 1,
            "t1": 10 * i + 2,
            "s1": 10 * i + 3,
            "t2": 10 * i + 4,
            "s2": 10 * i + 5,
        }
        nodes.append(_NODE.format(id=i + 2, name=name, parent=i + 1 if depth else 1, rf=rf, **ids))
        events.append(_OP.format(name=name, ts=base + 3 * depth, dur=36 - 6 * depth, rf=rf))
        if depth == 3:
            events.append(_CALL.format(ts=base + 10, rf=rf))
            events.append(_KERNEL.format(ts=base + 20, rf=rf, k=i % 97))
    head = '{"schema": "1.1.1-chakra.0.0.4", "pid": 7, "nodes": ['
    observer = head + ",\n".join([*nodes, root]) + "]}"
    kineto = '{"schemaVersion": 1, "traceEvents": [' + ",\n".join(events) + "]}"
    (folder / "et.json").write_text(observer)
    (folder / "kineto.json").write_text(kineto)
    return len(observer) + len(kineto)


def measure(operators: int) -> dict[str, float]:
    """Run the command once in its own process."""
    with tempfile.TemporaryDirectory() as folder:
        # Another process writes: a child's peak counts what its parent had in memory when it began.
        subprocess.run([sys.executable, __file__, "--write", folder, str(operators)], check=True)
        size = sum(f.stat().st_size for f in Path(folder).iterdir())
        chakra = Path(sys.executable).with_name("chakra")
        child = subprocess.Popen(
            [chakra, "link", folder, "-o", Path(folder) / "run", "--json"], stdout=subprocess.PIPE
        )
        _, status, usage = os.wait4(child.pid, 0)
        assert child.stdout is not None
        report = json.loads(child.stdout.read())
        assert status == 0
        assert report["ranks"][0]["host_ops"]["linked"] == operators
    seconds = usage.ru_utime + usage.ru_stime
    return {
        "operators": operators,
        "json_mb": size / 1e6,
        "cpu_s": seconds,
        "peak_mb": usage.ru_maxrss / 1e3,
        "memory_ratio": usage.ru_maxrss * 1e3 / size,
    }


def main() -> None:
    if sys.argv[1:2] == ["--write"]:
        write_pair(Path(sys.argv[2]), int(sys.argv[3]))
        return
    sizes = [int(a) for a in sys.argv[1:]] or [8_000, 32_000, 128_000]
    print(
        f"{'operators':>10} {'JSON MB':>8} {'CPU s':>7} {'µs/op':>7} {'peak MB':>8} {'× JSON':>7}"
    )
    for size in sizes:
        m = measure(size)
        print(
            f"{size:>10,} {m['json_mb']:>8.1f} {m['cpu_s']:>7.2f} {m['cpu_s'] / size * 1e6:>7.1f} "
            f"{m['peak_mb']:>8.0f} {m['memory_ratio']:>7.2f}"
        )
    print(
        f"reference: {REFERENCE_SECONDS} CPU s for {CLAIM_OPS:,}; claim: under {CLAIM_SECONDS} s, "
        f"and for more than 100 MB a peak under {CLAIM_MEMORY} × JSON"
    )


if __name__ == "__main__":
    main()
