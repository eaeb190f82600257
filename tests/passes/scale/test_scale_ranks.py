"""Scaled traces are what generating or recording at that size would give, and the way back is exact."""

from __future__ import annotations

from random import Random

import msgspec
import pytest

import chakrakit
from chakrakit import Binding, CollectiveType, Groups, TraceBuilder, TraceSet
from chakrakit.errors import ChakraError, ConfigError, TraceError
from chakrakit.passes.base import map_bodies
from chakrakit.passes.scale import ScaleRanks
from chakrakit.simulator.results import simulate
from chakrakit.workloads.description import Plan, Step, Workload
from chakrakit.workloads.generate import generate
from chakrakit.workloads.models import model_named
from support import paths
from support.comparing import differences, files
from support.random_plans import random_workload
from support.recorded import linked
from support.replicas import AR, DP, TP, set_of

DATA = paths.DATA / "pytorch"

MODELS = {
    "gpt3, ddp": ("gpt3-125m", {"data": "ddp"}, 2, 6),
    "llama, ddp tp pp": ("llama3.1-8b", {"data": "ddp", "tp": 2, "pp": 2}, 2, 5),
    "llama, zero1 tp": ("llama3.1-8b", {"data": "zero1", "tp": 2, "bucket_mb": 100}, 4, 8),
    "llama, zero2 pp": ("llama3.1-8b", {"data": "zero2", "pp": 2, "bucket_mb": 100}, 4, 2),
    "qwen3, fsdp": ("qwen3-0.6b", {"data": "fsdp"}, 4, 16),
    "qwen3, fsdp in odd shares": ("qwen3-0.6b", {"data": "fsdp"}, 8, 24),
    "llama, fsdp in shards of 4": ("llama3.1-8b", {"data": "fsdp", "shard": 4}, 8, 16),
    "llama, context": ("llama3.1-8b", {"data": "ddp", "cp": 2, "tp": 2}, 2, 4),
    "mixtral, zero1 ep": ("mixtral-8x7b", {"data": "zero1", "ep": 2, "bucket_mb": 100}, 4, 12),
    "mixtral, ep tp pp": ("mixtral-8x7b", {"data": "ddp", "ep": 4, "tp": 2, "pp": 2}, 8, 16),
    "mixtral, fsdp ep": ("mixtral-8x7b", {"data": "fsdp", "ep": 2}, 4, 8),
    "llama, data outermost": ("llama3.1-8b", {"tp": 2, "pp": 2, "order": "tp-pp-cp-dp"}, 2, 4),
    "llama, dualpipe": ("llama3.1-8b", {"pp": 2, "schedule": "dualpipe"}, 2, 4),
    "deepseek, fsdp ep": ("deepseek-v3-16b", {"data": "fsdp", "ep": 4}, 8, 32),
    "vit, ddp": ("vit-b-16", {"data": "ddp"}, 2, 8),
    "dit, fsdp": ("dit-s-2", {"data": "fsdp"}, 2, 4),
}


def workload(model, plan, dp):
    """Two layers, four micro-batches a replica, whatever their number."""
    small = msgspec.structs.replace(model_named(model), layers=2)
    step = Step(seq=256, micro_batch=1, global_batch=4 * dp)
    return Workload(model=small, plan=Plan(**plan, dp=dp), step=step)


@pytest.mark.first(1)
@pytest.mark.parametrize("case", MODELS.values(), ids=MODELS.keys())
def test_scaling_is_generating_at_that_size_to_the_tick_and_back_is_identity(case, tmp_path):
    model, plan, few, many = case
    small, large = (generate(workload(model, plan, dp)) for dp in (few, many))
    scaled = small | ScaleRanks(len(large))
    assert differences(scaled, large) == []
    machine = f"dgx-h100:{-(-len(large) // 8)}"
    ends = [simulate(t, machine, compute="roofline").outcome.makespan_ps for t in (scaled, large)]
    assert ends[0] == ends[1] > 0
    assert files(scaled | ScaleRanks(len(small)), tmp_path / "a") == files(small, tmp_path / "b")


@pytest.mark.first(1)
@pytest.mark.parametrize(
    "name", ["llama, ddp tp pp", "llama, context", "mixtral, fsdp ep", "qwen3, fsdp"]
)
def test_without_names_roles_are_told_by_what_groups_do(name, tmp_path):
    """Files per rank number their groups and name no roles; the simulated time is still the generated one."""
    model, plan, few, many = MODELS[name]
    small, large = (generate(workload(model, plan, dp)) for dp in (few, many))
    chakrakit.write(small, tmp_path / "w.N.et")
    plain = chakrakit.read(tmp_path / "w")
    scaled = plain | ScaleRanks(len(large))
    machine = f"dgx-h100:{-(-len(large) // 8)}"
    ends = [simulate(t, machine, compute="roofline").outcome.makespan_ps for t in (scaled, large)]
    assert ends[0] == ends[1]
    assert differences(scaled | ScaleRanks(len(small)), plain) == []


def scalable(seed):
    """A random workload and another with more or fewer replicas; None where they cannot be compared."""
    rng = Random(seed)
    small = random_workload(rng)
    dp = small.plan.dp * 2 if rng.random() < 0.7 else small.plan.dp // 2
    # Draws differ with the number of ranks; shards of all ranks are not shards of half of them.
    varied = small.step.imbalance or small.step.lengths.mean
    if min(small.plan.dp, dp) < 2 or varied or small.plan.shard:
        return None
    step = small.step.replace(global_batch=small.step.global_batch // small.plan.dp * dp)
    return small, small.replace(plan=small.plan.replace(dp=dp), step=step)


@pytest.mark.slow
def test_random_plans_scale_as_they_are_generated_or_say_why_not():
    compared = refused = 0
    for seed in range(36):
        pair = scalable(seed)
        if pair is None:
            continue
        try:
            small, large = (generate(one) for one in pair)
        except ConfigError:
            continue
        try:
            scaled = small | ScaleRanks(len(large))
        except TraceError:
            refused += 1
            continue
        assert differences(scaled, large) == [], seed
        assert differences(scaled | ScaleRanks(len(small)), small) == [], seed
        compared += 1
    assert compared >= 8 > refused


def test_a_shard_of_unknown_weights_is_rounded_up_and_comes_back(tmp_path):
    small = map_bodies(
        generate(workload("gpt3-125m", {"data": "fsdp"}, 4)),
        lambda t: t.with_columns({"shards": None}),
    )
    odd = small | ScaleRanks(7)
    kept = odd.body_at(0).has("unsharded")
    assert kept.any()
    phases = odd.body_at(0).nodes.filter(kept)["phase"].to_pylist()
    assert set(phases) == {"optimizer"}
    assert differences(odd | ScaleRanks(3) | ScaleRanks(4), small) == []
    assert files(odd | ScaleRanks(4), tmp_path / "a") == files(small, tmp_path / "b")


def test_a_folded_set_stays_folded():
    small = generate(workload("llama3.1-8b", {"tp": 2, "pp": 2}, 2))
    large = small | ScaleRanks(4096)
    assert (len(large), large.body_count) == (4096, small.body_count)
    assert large.world_size == 4096


# --- recordings -----------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def recorded():
    names = ["cnn_ddp_2", "gpt_fsdp_tp_4", "gpt_pp_2", "mlp_ddp_nccl_1"]
    return {name: linked(name) for name in names}


@pytest.mark.slow
def test_two_ranks_of_ddp_to_64_and_back(recorded, tmp_path):
    run = recorded["cnn_ddp_2"]
    large = run | ScaleRanks(64)
    assert (len(large), large.body_count, dict(large.groups)) == (64, 2, {"1": tuple(range(64))})
    assert large.trace(62).nodes.equals(run.trace(0).nodes)
    assert simulate(large, "dgx-h100:8").makespan_ns >= simulate(run, "dgx-h100").makespan_ns
    assert large.card.passes == ["scale-ranks{ranks=64}"]
    back = large | ScaleRanks(2)
    assert differences(back, run) == []
    assert files(back, tmp_path / "a") == files(
        TraceSet(run.bodies, run.bindings, run.groups), tmp_path / "b"
    )


@pytest.mark.slow
def test_shards_and_parts_of_a_recorded_model_are_told_apart_by_what_they_do(recorded):
    run = recorded["gpt_fsdp_tp_4"]
    large = run | ScaleRanks(64)
    assert large.groups["1"] == tuple(range(0, 64, 2))
    assert large.groups["3"] == (0, 1)
    assert large.groups["3.31"] == (62, 63)
    small, many = (t.body_at(0) for t in (run, large))
    gathers = small.column("comm_type", -1) == CollectiveType.ALL_GATHER
    assert (
        small.column("comm_size", 0)[gathers] == 16 * many.column("comm_size", 0)[gathers]
    ).all()
    assert (small.column("out_size", 0) == many.column("out_size", 0))[gathers].all()
    sums = small.column("comm_type", -1) == CollectiveType.ALL_REDUCE
    assert (small.column("comm_size", 0) == many.column("comm_size", 0))[sums].all()
    assert differences(large | ScaleRanks(4), run) == []


def test_one_recorded_rank_is_scaled_by_its_group_of_one(recorded):
    large = recorded["mlp_ddp_nccl_1"] | ScaleRanks(8)
    assert dict(large.groups) == {"1": tuple(range(8))}
    assert large.body_count == 1


def test_a_pipeline_alone_has_no_replicas(recorded):
    with pytest.raises(TraceError, match="no group is data parallel"):
        _ = recorded["gpt_pp_2"] | ScaleRanks(4)


# --- by hand --------------------------------------------------------------------------------------


def test_a_replica_is_scaled_as_a_whole():
    traces = set_of(DP, (AR, "ab", 1000, "backward"))
    with pytest.raises(TraceError, match="ranks=7: a replica has 2 ranks; give a multiple of 2"):
        _ = traces | ScaleRanks(7)
    for ranks in (0, 2**40):
        with pytest.raises(ConfigError, match=f"ranks={ranks}; it should be from 1 to 16,777,216"):
            ScaleRanks(ranks)


def by_rank(program):
    """Two replicas of two ranks that reduce gradients and do what `program` adds."""
    bodies = []
    for rank in range(4):
        t = TraceBuilder()
        t.collective("c", AR, 1000, pg_name=("a", "b")[rank % 2], phase="backward")
        program(t, rank)
        bodies.append(t.build())
    return TraceSet(bodies, groups=Groups({**DP, **TP}))


def messages(t, rank):
    """The second rank of a replica hears from the first."""
    if rank % 2 == 0:
        t.send("s", rank, rank + 1, 8)
    else:
        t.recv("r", rank - 1, rank, 8)


def roots(t, rank):
    """Of a replica its second rank, of all ranks the very first."""
    own = rank // 2 * 2 + 1
    t.collective("c", CollectiveType.BROADCAST, 9, pg_name=("c", "d")[rank // 2], comm_src=own)
    t.collective("c", CollectiveType.BROADCAST, 9, comm_src=0)


def test_peers_are_those_of_the_own_replica():
    traces = by_rank(messages)
    large = traces | ScaleRanks(8)
    assert [large.trace(6).column(end, -1).tolist() for end in ("comm_src", "comm_dst")] == [
        [-1, 6],
        [-1, 7],
    ]
    assert differences(large | ScaleRanks(4), traces) == []


def test_a_root_of_all_stays_and_a_root_of_a_replica_is_its_own():
    traces = by_rank(roots)
    large = traces | ScaleRanks(8)
    assert large.trace(6).column("comm_src", -1).tolist() == [-1, 7, 0]
    assert differences(large | ScaleRanks(4), traces) == []


def test_a_number_that_means_two_things_is_refused():
    with pytest.raises(
        TraceError, match="rank 0 is the root of 'all ranks' and also another's peer"
    ):
        _ = by_rank(lambda t, rank: (messages(t, rank), roots(t, rank))) | ScaleRanks(8)


def test_ranks_that_were_not_recorded_are_not_made_up():
    traces = set_of(DP, (AR, "ab", 1000, "backward")).select_ranks([0, 1])
    large = traces | ScaleRanks(8)
    assert large.ranks == (0, 1, 4, 5)
    assert large.missing_ranks == (2, 3, 6, 7)
    back = large | ScaleRanks(4)
    assert (back.ranks, back.groups) == (traces.ranks, traces.groups)
    assert all(back.trace(rank).nodes.equals(traces.trace(rank).nodes) for rank in back.ranks)


def test_the_notes_say_what_was_found():
    traces = set_of({**DP, **TP}, (AR, "cd", 1000, "forward"), (AR, "ab", 1000, "backward"))
    notes = ScaleRanks(8).explain(traces, traces | ScaleRanks(8))
    assert (notes["replicas_before"], notes["replicas_after"], notes["ranks_each"]) == (2, 4, 2)
    assert notes["groups"][1] == {
        "group": "a",
        "role": "data parallel",
        "lies": "all replicas",
        "ranks_before": 2,
        "ranks_after": 4,
    }


def test_ranks_that_share_a_program_but_not_the_size_of_a_group_are_refused():
    t = TraceBuilder()
    t.collective("c", AR, 1000, pg_name="dp")
    groups = Groups({"1": [0, 1], "2": [2, 3, 4, 5]})
    bindings = {r: Binding(0, {"dp": "1" if r < 2 else "2"}) for r in range(6)}
    with pytest.raises(ChakraError, match="group"):
        _ = TraceSet([t.build()], bindings, groups) | ScaleRanks(12)
