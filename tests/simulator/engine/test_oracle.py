"""The fast engine, folded and not, against the slow one in plain Python."""

import pytest

from chakrakit.errors import DeadlockError
from chakrakit.simulator.engine import native
from support.random_workloads import contended_case, crowded_case, random_case
from support.slow_engine import Oracle

FACTORS: list[float] = []


def native_times(traces, machine, network, fold, share):
    out = native.run(
        traces, machine, native.SimulationOptions(network=network, fold=fold, share_compute=share)
    )
    found = {}
    for i, rank in enumerate(traces.ranks):
        c = out.classes.rank[i]
        rows = slice(out.offset[c], out.offset[c + 1])
        found[rank] = (out.start[rows].tolist(), out.end[rows].tolist())
    return found, out.classes.factor


def chosen(traces, machine, network):
    """The algorithms that the fast engine chose, which are not what is compared."""
    try:
        out = native.run(traces, machine, native.SimulationOptions(network=network, fold=False))
    except DeadlockError:
        return {}
    found = zip(out.instances.what, out.instances.size, out.instances.algorithm, strict=True)
    return {(what[0], what[1], size): name for what, size, name in found}


def oracle_times(traces, machine, network, share):
    slow = machine.devices[0].comm_slowdown
    names = chosen(traces, machine, network)
    run = Oracle(traces, machine, network, slowdown=slow, share=share, chosen=names).run()
    found = {r: ([], []) for r in traces.ranks}
    for node in run.nodes:
        found[node.rank][0].append(node.start)
        found[node.rank][1].append(node.end)
    return found


def compare(seed: int, case=random_case) -> float | None:
    traces, machine, symmetric = case(seed)
    network = "flow" if seed % 3 else "analytical"
    share = seed % 5 == 0
    slow = oracle_times(traces, machine, network, share)
    if any(-1 in ends for _, ends in slow.values()):
        for fold in (True, False):
            with pytest.raises(DeadlockError):
                native_times(traces, machine, network, fold, share)
        return None
    folded, factor = native_times(traces, machine, network, True, share)
    alone, _ = native_times(traces, machine, network, False, share)
    assert folded == alone, seed
    assert folded == slow, seed
    if symmetric:
        assert factor >= 4, (seed, factor)
    return factor


@pytest.mark.parametrize("block", range(4))
def test_folded_unfolded_and_the_oracle_agree(block):
    factors = [compare(seed) for seed in range(block * 30, block * 30 + 30)]
    assert any(factors)


@pytest.mark.parametrize("block", range(2))
def test_they_agree_where_communication_needs_room_on_devices(block):
    factors = [compare(seed, crowded_case) for seed in range(block * 30, block * 30 + 30)]
    assert any(factors)


@pytest.mark.parametrize("block", range(4))
def test_skipped_work_is_put_back_when_it_is_disturbed(block):
    ring = native.Algorithms(dict.fromkeys(("all-reduce", "all-gather", "reduce-scatter"), "ring"))
    for seed in range(block * 10, block * 10 + 10):
        compare_contended(seed, ring if seed % 2 else native.Algorithms())


def compare_contended(seed: int, algorithms: native.Algorithms) -> None:
    traces, machine = contended_case(seed)
    slow = Oracle(traces, machine, "flow", algorithms).run()
    for fold in (True, False):
        out = native.run(
            traces, machine, native.SimulationOptions(fold=fold, algorithms=algorithms)
        )
        ends = [out.end[out.offset[c] : out.offset[c + 1]].tolist() for c in out.classes.rank]
        assert [e for rank in ends for e in rank] == [node.end for node in slow.nodes], seed


@pytest.mark.slow
@pytest.mark.parametrize("block", range(100))
def test_folded_unfolded_and_the_oracle_agree_on_many(block):
    for seed in range(1000 + block * 100, 1100 + block * 100):
        compare(seed)
        if block % 20 == 0:
            compare(seed, crowded_case)
