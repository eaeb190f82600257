"""Reductions give what the recorded operator gives, on real ranks and given inputs."""

from __future__ import annotations

import subprocess
import sys
from types import SimpleNamespace

import pytest

from chakrakit.errors import TraceError
from chakrakit.replayer import ReplayOptions
from chakrakit.replayer.runner import collectives
from chakrakit.replayer.runner.collectives import issue
from chakrakit.replayer.session import prepare
from chakrakit.sources.pytorch.linking import link
from support.recorded import FUNCTIONAL, Sheet, plain, tensor

torch = pytest.importorskip("torch")


RANK = """
import os, sys, torch, torch.distributed as dist
from chakrakit.replayer.runner.collectives import issue
rank, store = int(sys.argv[1]), sys.argv[2]
dist.init_process_group("gloo", init_method=f"file://{store}", rank=rank, world_size=2)
group = dist.distributed_c10d._get_default_group()
MINE = [torch.tensor([1.0, 5.0, -2.0, 8.0]), torch.tensor([3.0, 2.0, -4.0, 8.0])]
WANTED = {
    "sum": [4, 7, -6, 16], "avg": [2, 3.5, -3, 8], "max": [3, 5, -2, 8],
    "min": [1, 2, -4, 8], "product": [3, 10, 8, 64],
}
for how, wanted in WANTED.items():
    given = MINE[rank].clone()
    issue(group, {"op": "all_reduce", "reduce": how}, [given], [given]).wait()
    assert given.tolist() == wanted, (how, given)
    whole, part = MINE[rank].clone(), torch.zeros(2)
    issue(group, {"op": "reduce_scatter_flat", "reduce": how}, [whole], [part]).wait()
    assert part.tolist() == wanted[2 * rank : 2 * rank + 2], (how, part)
    given = MINE[rank].clone()
    issue(group, {"op": "reduce", "reduce": how, "root": 1}, [given], [given]).wait()
    assert rank == 0 or given.tolist() == wanted, (how, given)
dist.barrier()
dist.destroy_process_group()
os._exit(0)  # gloo's threads may outlive the group, which ends an interpreter that winds down
"""


@pytest.mark.slow
def test_two_ranks_reduce_by_every_operator(tmp_path):
    ranks = [
        subprocess.Popen(
            [sys.executable, "-c", RANK, str(r), str(tmp_path / "store")], stderr=subprocess.PIPE
        )
        for r in range(2)
    ]
    said = [r.communicate(timeout=120)[1].decode() for r in ranks]
    assert [r.returncode for r in ranks] == [0, 0], said


RECORDED = """
import sys, torch, torch.distributed as dist
from chakrakit.sources.pytorch.recorder import Collector
dist.init_process_group("gloo", init_method=f"file://{sys.argv[1]}/store", rank=0, world_size=1)
with Collector(sys.argv[1] + "/raw", (0, 1), two_pass=False, overhead=False) as collector:
    given = torch.ones(4)
    dist.all_reduce(given, dist.ReduceOp.MAX)
    dist.all_reduce(given, op=dist.ReduceOp.PRODUCT)
    dist.all_reduce(given)
    collector.step()
dist.destroy_process_group()
"""


@pytest.mark.slow
def test_the_collector_writes_down_how_a_collective_reduces(tmp_path):
    subprocess.run([sys.executable, "-c", RECORDED, str(tmp_path)], check=True, timeout=120)
    plan = prepare(link([tmp_path / "raw"])[0], ReplayOptions()).plans[0]
    assert [s.reduce for s in plan.steps if s.__class__.__name__ == "Collective"] == [
        "max",
        "product",
        "sum",
    ]


def test_a_reduction_that_there_is_not(tmp_path):
    sheet = Sheet()
    sheet.groups(("0", [0]))
    given = [tensor(1, 4), plain("explode", "String"), plain("0", "String")]
    sheet.op("_c10d_functional::all_reduce", FUNCTIONAL, given, [tensor(2, 4)])
    with pytest.raises(TraceError, match="no reduction 'explode'; there are sum, avg"):
        prepare(sheet.traces(tmp_path), ReplayOptions())


class Group:
    """Notes what is asked of a process group."""

    def __init__(self):
        self.asked = []

    def __getattr__(self, name):
        return lambda *args: self.asked.append((name, args)) or "work"


@pytest.mark.parametrize(
    ("step", "name", "args"),
    [
        (
            {"op": "all_to_all_flat", "in_splits": [1], "out_splits": [2]},
            "alltoall_base",
            ("o", "i", [2], [1]),
        ),
        ({"op": "all_gather"}, "allgather", ([["o"]], ["i"])),
        ({"op": "send", "root": 3, "tag": 7}, "send", (["i"], 3, 7)),
        ({"op": "recv", "root": 3}, "recv", (["o"], 3, 0)),
        ({"op": "all_gather_coalesced"}, "allgather_into_tensor_coalesced", (["o"], ["i"])),
    ],
)
def test_how_each_is_issued(step, name, args):
    group = Group()
    assert issue(group, step, ["i"], ["o"]) == "work"
    assert group.asked == [(name, args)]


def test_roots_and_reductions_are_options():
    group = Group()
    issue(group, {"op": "reduce", "root": 2, "reduce": "max"}, ["i"], ["o"])
    issue(group, {"op": "scatter", "root": 1}, [], ["o"])
    (_, (_, reduce)), (_, (outputs, inputs, scatter)) = group.asked
    assert (reduce.rootRank, reduce.reduceOp) == (2, torch.distributed.ReduceOp.MAX)
    assert (outputs, inputs, scatter.rootRank) == (["o"], [], 1)


def test_a_library_that_cannot_divide_is_given_a_sum_which_is_divided(monkeypatch):
    monkeypatch.setattr(collectives, "_averages", lambda group: False)
    group, whole, exact = Group(), torch.tensor([-7]), torch.tensor([7.0])
    group.size = lambda: 2
    group.allreduce = lambda *args: SimpleNamespace(wait=lambda: None)
    for given in (whole, exact):
        issue(group, {"op": "all_reduce", "reduce": "avg"}, [], [given]).wait()
    assert (whole.item(), exact.item()) == (-3, 3.5)
