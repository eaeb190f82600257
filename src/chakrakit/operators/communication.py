"""Names of communication: which collective an operator, a library's record or a kernel stands for.

This is the one table of such names. A library whose kernels are not here yet takes one line in `KERNELS`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache, lru_cache
from typing import NamedTuple

from chakrakit.patterns import compiled


class LibraryNames(NamedTuple):
    """A communication library by the name under which PyTorch records its calls: `nccl:all_reduce`."""

    name: str
    on_device: bool = False
    """Whether kernels do its work, so that the host's record of it is not the communication itself."""


LIBRARIES = (
    LibraryNames("nccl", on_device=True),
    LibraryNames("rccl", on_device=True),
    LibraryNames("gloo"),
    LibraryNames("mpi"),
    LibraryNames("ucc"),
    LibraryNames("xccl"),
    LibraryNames("hccl"),
)


class KernelNames(NamedTuple):
    """Kernels that move data between ranks, by the last parts of their names: namespaces differ by build."""

    library: str
    pattern: str
    """What a name contains, upper or lower case."""
    kind: str = ""
    """The collective; "" where words of the name say it."""


KERNELS = (
    KernelNames("NCCL", r"nccl(Symk?)?(Dev)?Kernel"),  # Sym, since 2.28 Symk: of symmetric windows
    KernelNames("MSCCL++", r"mscclpp::(\w+::)*\w*(dispatch|combine)", "ALL_TO_ALL"),
    KernelNames("RCCL, MSCCL, MSCCL++", r"rccl|msccl"),
    KernelNames(
        "symmetric memory", r"(multimem|one_shot|two_shot|symm_mem)_\w*all_?reduce", "ALL_REDUCE"
    ),
    KernelNames(
        "symmetric memory", r"(multimem|one_shot|two_shot)_\w*reduce_?scatter", "REDUCE_SCATTER"
    ),
    KernelNames("symmetric memory", r"(multimem|one_shot|two_shot)_\w*all_?gather", "ALL_GATHER"),
    KernelNames("symmetric memory", r"\ballToAllV|exchangeSplitAndOffset", "ALL_TO_ALL"),
    KernelNames(
        "symmetric memory", r"\b((put|wait)_signal_kernel|symmetric_memory::\w*barrier)", "BARRIER"
    ),
    KernelNames("vLLM, SGLang, AITER", r"cross_device_reduce_[12]stage", "ALL_REDUCE"),
    KernelNames("SGLang, vLLM", r"all_reduce_((one|two)_shot|\w*push_kernel)", "ALL_REDUCE"),
    KernelNames("AITER", r"reduce_scatter_cross_device", "REDUCE_SCATTER"),
    KernelNames("AITER", r"allgather_(vec|lastdim|naive)", "ALL_GATHER"),
    KernelNames("QuickReduce", r"quick_?reduce::|allreduce_prototype_(one|two)shot", "ALL_REDUCE"),
    KernelNames(
        "TensorRT-LLM, FlashInfer",
        r"all_?reduce_?fusion_?kernel|(one|two)_?shot_?all_?reduce",
        "ALL_REDUCE",
    ),
    KernelNames("FlashInfer", r"ulysses_a2a", "ALL_TO_ALL"),
    KernelNames(
        "TensorRT-LLM", r"moeA2A(Prepare)?(Dispatch|Combine)|moe_?all_?to_?all", "ALL_TO_ALL"
    ),
    KernelNames("Transformer Engine", r"userbuffers_\w*_rs", "REDUCE_SCATTER"),
    KernelNames("Transformer Engine", r"userbuffers_\w*_ag", "ALL_GATHER"),
    KernelNames("Transformer Engine", r"kuserbuffers_(push|pull)send", "SEND"),
    KernelNames("Transformer Engine", r"kuserbuffers_(push|pull)recv", "RECV"),
    KernelNames("Transformer Engine", r"\buserbuffers_\w*sum_inplace", "ALL_REDUCE"),
    KernelNames("DeepEP", r"(intra|inter)node(_ll)?::cached_notify_combine", "BARRIER"),
    KernelNames(
        "DeepEP",
        r"(intra|inter)node(_ll)?::(cached_)?(notify_)?(dispatch|combine|notify)\b",
        "ALL_TO_ALL",
    ),
    KernelNames(
        "DeepEP", r"internode_ll::clean_low_latency_buffer|(intra|inter)node::barrier", "BARRIER"
    ),
    KernelNames(
        "DeepEP",
        r"\b(deep|hybrid|uccl|nixl)_ep::(\w+::)*(hybrid_)?(dispatch|combine)(_impl|_kernel)?\b",
        "ALL_TO_ALL",
    ),
    KernelNames("DeepEP", r"\bdeep_ep::bucket::\w*(all_reduce|all_gather|reduce_scatter)"),
    KernelNames("DeepEP", r"\bdeep_ep::(\w+::)*pp_send_impl", "SEND"),
    KernelNames("DeepEP", r"\bdeep_ep::(\w+::)*pp_recv_impl", "RECV"),
    KernelNames("DeepEP", r"\bdeep_ep::(\w+::)*barrier_impl", "BARRIER"),
    KernelNames("DeepEP", r"\bdeep_ep::(\w+::)*engram_fetch"),
    KernelNames("pplx, MORI", r"(pplx|mori)::(\w+::)*\w*(dispatch|combine)", "ALL_TO_ALL"),
    KernelNames("pplx", r"\ba2a_(dispatch|combine)_(send|recv)_kernel", "ALL_TO_ALL"),
    KernelNames("Triton-distributed", r"\bkernel_(dispatch|combine)_token", "ALL_TO_ALL"),
    KernelNames("Apex", r"\bpush_pull_halos_1d"),
    KernelNames("MORI", r"\bEp(Dispatch|Combine)\w*Kernel", "ALL_TO_ALL"),
    KernelNames("NVSHMEM", r"\b(barrier|sync)(_all)?_on_stream_kernel", "BARRIER"),
    KernelNames("NVSHMEM", r"\bfcollect_on_stream_kernel", "ALL_GATHER"),
    KernelNames("NVSHMEM", r"\b(reduce|rdxn)_on_stream_kernel", "ALL_REDUCE"),
    KernelNames("NVSHMEM", r"\b(alltoall|broadcast|reducescatter)_on_stream_kernel"),
    KernelNames("NVSHMEM, rocSHMEM", r"(nv|roc)shmem"),
    KernelNames("UCX", r"\buc[pt]_(device|cuda)\w*(put|get)"),
    KernelNames("oneCCL", r"\boneccl|\bccl::\w*(all|reduce|gather|scatter|broadcast)"),
    KernelNames("HCCL", r"\bhcom_|\bhccl"),
)
"""Names as the libraries' public sources have them. One line adds a library's kernels."""

SPACES = (
    "c10d",
    "c10d_functional",
    "_c10d_functional",
    "_c10d_functional_autograd",
    "_dtensor",
    "symm_mem",
)
"""Namespaces of operators that communicate."""
DISPATCHED = "c10d"
"""The namespace whose operators the others come down to."""
PARAMETERS = "record_param_comms"
"""What PyTorch calls its record of a collective's parameters."""

_WORDS = {
    "allreduce": "ALL_REDUCE",
    "reducescatter": "REDUCE_SCATTER",
    "allgather": "ALL_GATHER",
    "alltoall": "ALL_TO_ALL",
    "broadcast": "BROADCAST",
    "barrier": "BARRIER",
    "reduce": "REDUCE",
    "gather": "GATHER",
    "scatter": "SCATTER",
    "recv": "RECV",
    "send": "SEND",
}
"""Words in names → collectives by Chakra's names, and the two ends of a message. Longer words first:
"reduce_scatter" holds "reduce", "allgather" holds "gather"."""
_BOTH_ENDS = "sendrecv"
"""One kernel for messages and all-to-all alike: the host knows which."""
_WAITS = re.compile(
    r"wait|_wrap_tensor|monitored|get_|set_|init|shutdown|_end_coalescing|_start_coalescing"
)
"""Operators of those namespaces that move no data."""
_OPERATOR = re.compile(r"^(c10d|c10d_functional|_c10d_functional(?:_autograd)?)::(\w+)")
_RECORD = re.compile(rf"^({'|'.join(x.name for x in LIBRARIES)}):(\w+)")
_DEVICE_RECORD = re.compile(rf"^({'|'.join(x.name for x in LIBRARIES if x.on_device)})")
_GENERATED = re.compile(r"^triton_(poi|red|per|tem|for|mm)_")
"""Kernels that a compiler wrote and named after the operators around them: never communication."""
_ALIKE = (
    r"all_?reduce|all_?gather|reduce_?scatter|all_?to_?all|a2a|(intra|inter)_?node|cross_(device|rank|gpu)"
    r"|multimem|nvls|symm_?mem|send_?recv|(one|two)_?shot|nccl|shmem_?(put|get)|lamport|halo|p2p|custom_ar"
    r"|(dispatch|combine)_?(token|send|recv)|(ag|a2a)_gemm|gemm_(rs|ar|a2a)(_|\b)"
)
"""What the name of a kernel that communicates is likely to hold."""
_ENGINES = (
    r"^(symm_mem|vllm|_C_custom_ar|_C_quick_ar|_qr|sgl_kernel|sglang|aiter|trtllm|flashinfer|deep_ep|mori"
    r"|mscclpp|te_cpp|pplx)::\w*(all_?reduce|all_?gather|reduce_?scatter|all_?to_?all|a2a|dispatch|combine"
    r"|broadcast)"
)
"""Operators of engines and libraries whose kernels communicate, and whose arguments are what is sent."""
KINDS = frozenset(_WORDS.values())
"""What a kernel or an operator may stand for."""
NO_COMMUNICATION = "none"
"""The kind that takes kernels out of the table."""


@lru_cache(1 << 14)
def collective_of(name: str) -> str:
    """The collective that a name stands for: ALL_REDUCE, …, SEND or RECV; "" where it cannot be told."""
    word = re.sub(r"[_\-\s]", "", name.lower())
    if _BOTH_ENDS in word:
        return ""
    return next((kind for piece, kind in _WORDS.items() if piece in word), "")


@lru_cache(1 << 14)
def is_communication(name: str) -> bool:
    """Whether this operator of a communication namespace moves data, and does not merely wait."""
    match = _OPERATOR.match(name)
    return match is not None and not _WAITS.search(match[2])


def is_dispatched(name: str) -> bool:
    """Whether an operator is one that functional collectives come down to, and moves data."""
    return name.startswith(f"{DISPATCHED}::") and is_communication(name)


def is_record(name: str) -> bool:
    """Whether a host row is a library's own record of a call (`nccl:all_reduce`)."""
    return _RECORD.match(name) is not None


def is_device_record(name: str) -> bool:
    """Whether a row's name begins with a library whose kernels do the work."""
    return _DEVICE_RECORD.match(name) is not None


def is_engine_operator(name: str) -> bool:
    """Whether an operator of a serving engine or a library is communication, if kernels of its own are."""
    return re.match(_ENGINES, name) is not None


@dataclass(frozen=True)
class CommunicationKernels:
    """Which kernels are communication: those of `KERNELS`, and patterns of one's own that come first."""

    added: tuple[tuple[str, str], ...] = ()
    """(pattern, kind): a regular expression and one of `KINDS`, or "none" for no communication."""

    def kind(self, name: str) -> str | None:
        """The collective of a kernel by the table, "" where only words of its name tell; None for others."""
        for pattern, kind in self.added:
            if re.search(pattern, name, re.IGNORECASE):
                return None if kind == NO_COMMUNICATION else kind
        return _kernel_kind(name)

    def is_kernel(self, name: str) -> bool:
        """Whether a device row's name is that of a kernel that communicates."""
        return self.kind(name) is not None

    def is_alike(self, name: str) -> bool:
        """Whether a kernel looks like communication, and neither the table nor a pattern decides it."""
        decided = any(re.search(pattern, name, re.IGNORECASE) for pattern, _ in self.added)
        generated = _GENERATED.match(name) is not None
        if decided or generated or is_kernel(name):
            return False
        return re.search(_ALIKE, name, re.IGNORECASE) is not None


KNOWN_KERNELS = CommunicationKernels()
"""The table as it stands."""


@cache
def _any_kernel() -> re.Pattern[str]:
    """The table's patterns in one, which most names do not match; made when a kernel is first asked about."""
    return re.compile("|".join(f"(?:{k.pattern})" for k in KERNELS), re.IGNORECASE)


@lru_cache(1 << 14)
def _kernel_kind(name: str) -> str | None:
    if _GENERATED.match(name) or not _any_kernel().search(name):
        return None
    rows = (k for k in KERNELS if re.search(k.pattern, name, re.IGNORECASE))
    return next((k.kind for k in rows), "")


def is_kernel(name: str) -> bool:
    """Whether a device row's name is that of a library's kernel."""
    return _kernel_kind(name) is not None


def added_kernel(text: str) -> tuple[str, str]:
    """`REGEX=KIND` as a pattern and its kind: `my_reduce=all-reduce`, `fused_gather=none`."""
    pattern, _, word = text.rpartition("=")
    kind = word.strip().upper().replace("-", "_")
    kind = NO_COMMUNICATION if kind == NO_COMMUNICATION.upper() else kind
    if not pattern or kind not in KINDS | {NO_COMMUNICATION}:
        kinds = ", ".join(sorted(k.lower().replace("_", "-") for k in KINDS))
        raise ValueError(f"write it as REGEX=KIND, the kind one of {kinds}, none")
    try:
        compiled(pattern)
    except ValueError as error:
        raise ValueError(f"{pattern!r} is not a regular expression: {error}") from None
    return pattern, kind
