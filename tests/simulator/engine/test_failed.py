"""Blame: which link and which ranks, however many ranks are simulated as one."""

from __future__ import annotations

import random
import re

import pytest

from chakrakit import Binding, CollectiveType, Groups, TraceBuilder, TraceSet
from chakrakit.errors import DeadlockError
from chakrakit.machines import load_machine
from chakrakit.simulator.engine import Disturbance, Fault, native


def sharded(ranks: int, tensor: int = 8) -> TraceSet:
    """Work, an all-reduce within every node and one across the nodes; all ranks share a body."""
    t = TraceBuilder()
    first = t.comp("work", duration_ns=1000)
    inside = t.collective("tp", CollectiveType.ALL_REDUCE, 1 << 20, deps=[first], pg_name="tp")
    t.collective("dp", CollectiveType.ALL_REDUCE, 1 << 20, deps=[inside], pg_name="dp")
    nodes = {f"t{n}": range(n * tensor, (n + 1) * tensor) for n in range(ranks // tensor)}
    across = {f"d{i}": range(i, ranks, tensor) for i in range(tensor)}
    bindings = {
        r: Binding(0, groups={"tp": f"t{r // tensor}", "dp": f"d{r % tensor}"})
        for r in range(ranks)
    }
    return TraceSet(
        [t.build()], bindings, Groups({k: tuple(v) for k, v in (nodes | across).items()})
    )


def stopped(ranks: int, fault: Fault, fold: bool) -> str:
    """What the error says."""
    machine = load_machine(f"dgx-h100:{ranks // 8}")
    options = native.SimulationOptions(fold=fold, disturbance=Disturbance(faults=(fault,)))
    with pytest.raises(DeadlockError) as error:
        native.run(sharded(ranks), machine, options)
    return str(error.value)


def dead_link(ranks: int, rank: int, fold: bool) -> bool:
    """Whether the link of a rank to its switch is blamed, with the rank and its group."""
    links = load_machine(f"dgx-h100:{ranks // 8}").links
    switch = int(links.dst[(links.src == rank).argmax()])
    said = stopped(ranks, Fault("link", (rank, switch), 0, 0.0), fold)
    named = re.search(
        r"the link (.+?) has failed, which (.+?) use in all-reduce 0 of group (\w+)", said
    )
    assert named is not None, said
    return (
        f"device {rank}" in named[1].split(" → ")
        and f"rank {rank}" in named[2].split(" and ")
        and named[3] == f"t{rank // 8}"
    )


def dead_device(ranks: int, rank: int, fold: bool) -> bool:
    """Whether the rank whose device has failed is blamed."""
    return f"the device of rank {rank} has failed" in stopped(
        ranks, Fault("device", rank, 0, 0.0), fold
    )


@pytest.mark.parametrize("fold", [True, False])
@pytest.mark.parametrize("blamed", [dead_link, dead_device])
def test_what_has_failed_is_named_folded_or_not(blamed, fold: bool) -> None:
    """`python tests/simulator/engine/test_failed.py` plants a hundred, on up to 4,096 ranks."""
    assert blamed(64, 41, fold)


if __name__ == "__main__":
    rng = random.Random(1)
    right = 0
    for number in range(100):
        ranks = rng.choice((8, 64, 256, 1024, 4096))
        rank = rng.randrange(ranks)
        blame = dead_link if number % 2 else dead_device
        right += all(blame(ranks, rank, fold) for fold in (True, False))
    print(f"{right} of 100 right, each folded and not")
