"""The operators that recordings contain, as the list of those that a replay may call.

    python benchmarks/recorded_operators.py FOLDER… > src/chakrakit/replayer/runner/operators.txt

Every file below the folders that PyTorch's execution-trace observer or Kineto wrote is read, and
every captured trace (.et). The observer writes an operator's schema, which names the overload; Kineto and
captures write its arguments, from which a replay chooses the overload. Left out is what writes into a tensor
handed over for its result (`out=`), and what LEFT_OUT names. A line of the list is an overload, whether it
only calls others ("opens") or does the work ("calls"), in how many recordings it is, and three of them.
Needs PyTorch.
"""

from __future__ import annotations

import gzip
import json
import re
import sys
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
import torchgen
from torchgen.gen import parse_native_yaml
from torchgen.model import DispatchKey

import chakrakit as ck
from chakrakit.replayer.compile.from_shapes import Written, made_call
from chakrakit.replayer.recording import RecordedRows
from chakrakit.replayer.runner.calls import choose_overload
from chakrakit.replayer.tensors import Unsupported

LEFT_OUT = {
    "is sparse": """
        _indices _values _nnz _sparse_coo_tensor_unsafe _sparse_coo_tensor_with_dims_and_tensors is_coalesced
        sparse_dim embedding_sparse_backward _embedding_bag_sparse_backward _embedding_bag_backward
    """,
    "gives another shape or memory to a tensor that is there": """
        resize_ resize_as_ set_ as_strided_ detach_ transpose_ record_stream
    """,
    "gives no tensor": """
        is_nonzero is_pinned cudnn_is_acceptable result_type _use_cudnn_ctc_loss _use_miopen_ctc_loss
        _assert_async
    """,
    "takes weights or lengths that nothing holds against their memory": """
        _cudnn_rnn _cudnn_rnn_backward gru lstm _ctc_loss _ctc_loss_backward ctc_loss
    """,
}
"""Why an operator is not called although recordings have it → names."""

GENERATED = """
    mm bmm silu add.Tensor _fused_adamw_ empty_strided scaled_dot_product_attention
    _scaled_dot_product_flash_attention _scaled_dot_product_flash_attention_backward
    _scaled_dot_product_flash_attention_for_cpu _scaled_dot_product_flash_attention_for_cpu_backward
"""
"""What products, attention, optimizers and elements of generated traces become (compile/generated.py)."""


def _only_calling() -> set[str]:
    """Overloads that PyTorch writes down as calling others on every device."""
    folder = Path(torchgen.__file__).parent / "packaged" / "ATen" / "native"
    native = parse_native_yaml(str(folder / "native_functions.yaml"), str(folder / "tags.yaml"))
    return {
        str(function.func.name)
        for function in native.native_functions
        if function.has_composite_implicit_autograd_kernel
        and function.structured_delegate is None
        and not any(native.backend_indices[d].has_kernel(function) for d in _DEVICES)
    }


_DEVICES = (DispatchKey.CPU, DispatchKey.CUDA)
COMPOSITE = _only_calling()
_JSON = re.compile(r"\.json(\.gz)?$")
_OTHERS = ("Dimname", "Generator", "Storage", "Stream")
"""Types of arguments that a plan cannot write."""


def main(folders: list[str]) -> None:
    """Print the list."""
    where: dict[str, set[str]] = defaultdict(set)
    recordings = set()
    for name, overloads in _recordings(folders):
        recordings.add(name)
        for overload in overloads:
            where[overload].add(name)
    for overload in GENERATED.split():
        where[f"aten::{overload}"].add("generated")
    lines = [line for o in sorted(where) if (line := _line(o, where[o]))]
    print(
        f"# {len(lines)} overloads from {len(recordings)} recordings; PyTorch {torch.__version__}."
    )
    print("# Written by benchmarks/recorded_operators.py, which says how; not by hand.")
    print("\n".join(lines))


def _recordings(folders: list[str]) -> Iterator[tuple[str, set[str]]]:
    """Name of each recording and overloads in it; a recording may be several files."""
    for folder in map(Path, folders):
        for path in sorted(p for p in folder.rglob("*") if p.is_file()):
            found = _operators(path)
            if found:
                place = path.parent.relative_to(folder)
                yield str(place if place.parts else path.name.partition(".")[0]), found


def _operators(path: Path) -> set[str]:
    if path.name.endswith(".et"):
        return set(_captured(path))
    if not _JSON.search(path.name):
        return set()
    try:
        data = path.read_bytes()
        content: Any = json.loads(gzip.decompress(data) if path.name.endswith(".gz") else data)
    except ValueError:
        return set()
    rows = content if isinstance(content, dict) else {}
    observed = {_schema(n).partition("(")[0] for n in _items(rows, "nodes")}
    events = [e for e in _items(rows, "traceEvents") if e.get("cat") == "cpu_op"]
    called = (_from_kineto(str(e["name"]), e.get("args", {})) for e in events)
    return {o for o in (*observed, *called) if o}


def _captured(path: Path) -> Iterator[str]:
    """Overloads of a captured trace, by their arguments."""
    traces = ck.read(path)
    trace = traces.trace(traces.ranks[0])
    for row, name in enumerate(trace.nodes["name"].to_pylist()):
        if name.startswith("aten::"):
            given = RecordedRows(0, trace).arguments(row, "inputs")
            yield _overload(Written(name, given.shapes, given.types, given.strides, given.values))


def _from_kineto(name: str, told: dict[str, Any]) -> str:
    fields = ("Input Dims", "Input type", "Input Strides", "Concrete Inputs")
    return _overload(Written(name, *(told.get(f, []) for f in fields)))


def _overload(written: Written) -> str:
    """The overload that a replay would choose for these arguments, or the one without a name; "" for none."""
    packet = getattr(torch.ops.aten, written.name.removeprefix("aten::"), None)
    if packet is None or not written.name.startswith("aten::"):
        return ""
    plain = [o for n in packet.overloads() if not _writes_out(o := getattr(packet, n))]
    try:
        call = made_call(written, lambda dtype, shape, strides: 0)
        step = {"op": written.name, "args": call.args, "overload": call.overload}
        as_tensors = torch._C._should_allow_numbers_as_tensors(packet.__name__)
        chosen = choose_overload(plain, step, as_tensors)
    except Unsupported:
        chosen = None
    if chosen is None:  # recorded without arguments
        return written.name if "default" in packet.overloads() else ""
    return str(chosen.name())


def _writes_out(operator: Any) -> bool:
    return any(a.is_out for a in operator._schema.arguments)


def _items(rows: dict[str, Any], key: str) -> list[dict[str, Any]]:
    found = rows.get(key)
    return [i for i in found if isinstance(i, dict)] if isinstance(found, list) else []


def _schema(node: dict[str, Any]) -> str:
    """Where the observer of one version or another writes it."""
    attributes = {a.get("name"): a.get("value") for a in node.get("attrs", [])}
    return str(node.get("op_schema") or attributes.get("op_schema") or "")


def _line(overload: str, where: set[str]) -> str:
    """A line of the list; "" for what is not called."""
    namespace, _, rest = overload.partition("::")
    name, _, variant = rest.partition(".")
    packet = getattr(torch.ops.aten, name, None) if namespace == "aten" else None
    operator = getattr(packet, variant or "default", None)
    if operator is None or not torch._C._dispatch_has_kernel(operator.name()):
        return ""  # of TorchScript's lists and numbers
    if any(name in names.split() for names in LEFT_OUT.values()):
        return ""
    arguments = operator._schema.arguments
    needed = [str(a.type) for a in arguments if not a.has_default_value()]
    if _writes_out(operator) or any(o in kind for kind in needed for o in _OTHERS):
        return ""
    composite = overload.removeprefix("aten::") in COMPOSITE
    some = " ".join(sorted(where)[:3])
    return f"{overload} {'opens' if composite else 'calls'} {len(where)} {some}"


if __name__ == "__main__":
    main(sys.argv[1:])
