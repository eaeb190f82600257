"""The fast engine, folded and not, against the slow one in plain Python."""

import pytest

from chakrakit.errors import DeadlockError
from chakrakit.simulator.engine import native
from support.random_workloads import contended_case, crowded_case, random_case
from support.slow_engine import Oracle


def simulated(traces, machine, network, fold, share):
    """What the fast engine finds, or None where it finds a deadlock."""
    options = native.SimulationOptions(network=network, fold=fold, share_compute=share)
    try:
        return native.run(traces, machine, options)
    except DeadlockError:
        return None


def times(out, traces):
    """Start and end of each rank's rows."""
    found = {}
    for i, rank in enumerate(traces.ranks):
        c = out.classes.rank[i]
        rows = slice(out.offset[c], out.offset[c + 1])
        found[rank] = (out.start[rows].tolist(), out.end[rows].tolist())
    return found


def furthest(some, others):
    """Picoseconds between times that should be equal: quotients of sums in another order may round up."""
    pairs = ((some[r][k], others[r][k]) for r in some for k in (0, 1))
    return max(abs(a - b) for x, y in pairs for a, b in zip(x, y, strict=True))


def chosen(out):
    """The algorithms that the fast engine chose, which are not what is compared."""
    found = zip(out.instances.what, out.instances.size, out.instances.algorithm, strict=True)
    return {(what[0], what[1], size): name for what, size, name in found}


def oracle_times(traces, machine, network, share, names):
    slow = machine.devices[0].comm_slowdown
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
    folded = simulated(traces, machine, network, True, share)
    alone = simulated(traces, machine, network, False, share)
    slow = oracle_times(traces, machine, network, share, chosen(alone) if alone else {})
    if any(-1 in ends for _, ends in slow.values()):
        assert folded is alone is None, seed
        return None
    assert times(folded, traces) == times(alone, traces), seed
    assert furthest(times(alone, traces), slow) <= 1, seed
    if symmetric:
        assert folded.classes.factor >= 4, (seed, folded.classes.factor)
    return folded.classes.factor


@pytest.mark.slow
def test_folded_unfolded_and_the_oracle_agree():
    factors = [compare(seed) for seed in range(40)]
    assert any(factors)


@pytest.mark.slow
def test_they_agree_where_communication_needs_room_on_devices():
    factors = [compare(seed, crowded_case) for seed in range(20)]
    assert any(factors)


@pytest.mark.parametrize(
    "block", [0, *(pytest.param(b, marks=pytest.mark.slow) for b in (1, 2, 3))]
)
def test_skipped_work_is_put_back_when_it_is_disturbed(block):
    ring = native.Algorithms(dict.fromkeys(("all-reduce", "all-gather", "reduce-scatter"), "ring"))
    for seed in range(block * 10, block * 10 + 10):
        compare_contended(seed, ring if seed % 2 else native.Algorithms())


def compare_contended(seed: int, algorithms: native.Algorithms) -> None:
    traces, machine = contended_case(seed)
    runs = [
        native.run(traces, machine, native.SimulationOptions(fold=fold, algorithms=algorithms))
        for fold in (True, False)
    ]
    slow = Oracle(traces, machine, "flow", algorithms, chosen(runs[1])).run()
    for out in runs:
        ends = [out.end[out.offset[c] : out.offset[c + 1]].tolist() for c in out.classes.rank]
        assert [e for rank in ends for e in rank] == [node.end for node in slow.nodes], seed


@pytest.mark.slow
@pytest.mark.parametrize("block", range(6))
def test_folded_unfolded_and_the_oracle_agree_on_many(block):
    for seed in range(1000 + block * 100, 1100 + block * 100):
        compare(seed)
        if seed % 5 == block % 5:
            compare(seed, crowded_case)
