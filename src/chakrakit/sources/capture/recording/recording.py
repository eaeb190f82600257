"""Recording: what one rank did, as plain data that crosses from the rank's process to ours."""

from __future__ import annotations

import msgspec


class Signature(msgspec.Struct, frozen=True, array_like=True):
    """An operator on tensors of given shapes: everything that does not differ between its calls."""

    name: str
    """As PyTorch's own traces spell it: `aten::mm`."""
    inputs_shapes: str
    inputs_types: str
    inputs_strides: str
    outputs_shapes: str
    outputs_types: str
    outputs_strides: str
    inputs_values: str
    flops: int
    """Of matrix products, convolutions and attention."""
    vector_ops: int
    """Of everything else, one per element and pass."""
    moved: int
    """Bytes an ideal kernel reads and writes."""
    dtype: str
    op_type: str
    is_host: bool
    """Looks at memory differently or allocates: no kernel runs."""


class Comm(msgspec.Struct, array_like=True):
    """A collective or message. `kind` is a CollectiveType, or SEND or RECV of `sources.pytorch`."""

    kind: int
    group: str
    """Name of the process group in the rank's own program."""
    in_bytes: int
    out_bytes: int
    dtype: str
    peer: int = -1
    """Place of the peer, or of the root, in the group."""
    tag: int = 0
    in_splits: list[int] = []
    out_splits: list[int] = []


class Op(msgspec.Struct, array_like=True):
    """One call. `reads` and `writes` are numbers of storages; `comm` is an index or -1."""

    signature: int
    module: int
    phase: int
    step: int
    reads: list[int]
    writes: list[int]
    comm: int = -1
    waits_for: int = -1
    """For a wait: the operator that it completes."""
    alloc: int = 0
    free: int = 0
    is_host: bool = False
    micro_batch: int = -1


class Group(msgspec.Struct, frozen=True, array_like=True):
    """A process group somebody made: every rank makes all of them, in the same order."""

    name: str
    """Empty where this rank is no member."""
    ranks: tuple[int, ...]
    label: str
    """What the program calls it: a mesh dimension's name, a description, or ""."""


class Recording(msgspec.Struct, kw_only=True):
    """Everything captured of one rank."""

    rank: int
    world: int
    ops: list[Op] = []
    signatures: list[Signature] = []
    comms: list[Comm] = []
    modules: list[str] = []
    groups: list[Group] = []
    steps: list[int] = []
    parameters: int = 0
    peak_bytes: int = 0
    start_bytes: int = 0
    """Memory held when the first captured step began."""
    stubbed: list[str] = []
    warnings: list[str] = []
    mail: dict[str, bytes] = {}
    """What this rank told others in words; see `standins/mail.py`."""
    first_digest: str = ""
    """What the rank did in its first step, as `folding/digest.py` hashes it."""
    failure: str = ""
    """Why there is nothing here, in the words for the user."""
    traceback: str = ""
    """The script's own error."""


PHASES = ("forward", "backward", "recompute", "optimizer", "other")
"""Values of `Op.phase`."""
