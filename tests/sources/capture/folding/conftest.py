"""Recordings of imagined ranks."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest

from chakrakit.sources.capture.recording import CapturedRank, CommCall, CreatedGroup, Op, Signature


def _signature(name: str, flops: int = 0, is_host: bool = False) -> Signature:
    kind = "matmul" if flops else "vector"
    empty = [f for f in Signature.__struct_fields__ if f.startswith(("inputs_", "outputs_"))]
    return Signature(
        name=name,
        **dict.fromkeys(empty, "[]"),
        flops=flops,
        vector_ops=0,
        moved=16,
        dtype="fp32",
        op_type=kind,
        is_host=is_host,
    )


@pytest.fixture
def signature() -> Callable[..., Signature]:
    """Makes a signature by its operator's name."""
    return _signature


@pytest.fixture
def recorded() -> Callable[..., CapturedRank]:
    """Makes a recording from operators: a name, and what it communicates, reads, writes, waits for."""

    def make(
        *ops: tuple[str, dict[str, object]],
        rank: int = 0,
        world: int = 4,
        groups: Sequence[CreatedGroup] = (),
        **more: object,
    ) -> CapturedRank:
        names = list(dict.fromkeys(name for name, _ in ops))
        comms: list[CommCall] = []
        made: list[Op] = []
        for name, told in ops:
            given = dict(told)
            comm = given.pop("comm", None)
            if isinstance(comm, CommCall):
                comms.append(comm)
            fields = {"reads": [], "writes": [], "module": 0, "phase": 0, "step": 0, **given}
            number = len(comms) - 1 if comm is not None else -1
            made.append(Op(signature=names.index(name), comm=number, **fields))
        return CapturedRank(
            rank=rank,
            world=world,
            ops=made,
            signatures=[_signature(n, 100 * n.endswith("mm"), n.endswith("view")) for n in names],
            comms=comms,
            modules=["", "layers.3.mlp"],
            groups=list(groups),
            steps=[0],
            **more,
        )

    return make
