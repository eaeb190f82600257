"""Models that are not decoders: FLOPs, communication, and ranks that fit together."""

from __future__ import annotations

import numpy as np
import pytest

from chakrakit.trace.validation import validate
from chakrakit.workloads.description import Diffusion, Plan, Recommender, Step, Vision, Workload
from chakrakit.workloads.generate import dry_run, generated
from chakrakit.workloads.models import model_named
from support.joined import join

VIT = Vision(layers=4, hidden=64, heads=4, ffn=128, image=32, patch=8, class_token=False)
VIDEO = Diffusion(
    layers=4,
    hidden=64,
    heads=4,
    ffn=128,
    frames=2,
    height=8,
    width=8,
    channels=4,
    out_channels=4,
    text_tokens=8,
    text_dim=32,
    modulation="shared",
    qk_norm=True,
)
CLICKS = Recommender(tables=[100, 200, 300, 400], dim=16, bottom=[32, 16], top=[32, 1], pooling=2)

CASES = [
    (VIT, Plan(tp=2, pp=2, dp=2)),
    (VIT, Plan(tp=2, cp=2, context="ring", recompute="full")),
    (VIDEO, Plan(tp=2, cp=2, dp=2, data="fsdp")),
    (VIDEO, Plan(cp=4, context="ulysses", pp=2, schedule="zb-v")),
    (CLICKS, Plan(dp=4, ep=4)),
    (CLICKS.replace(interaction="dcn", cross_layers=2, cross_rank=8), Plan(dp=4, ep=2)),
]


@pytest.mark.parametrize(("model", "plan"), CASES)
def test_ranks_fit_together(model, plan: Plan) -> None:
    traces = generated(
        Workload(model=model, plan=plan, step=Step(global_batch=plan.dp * 4))
    ).traces()
    assert not validate(traces).findings
    joined = join(traces)
    joined.run(np.ones(joined.n, np.int64))


@pytest.mark.parametrize(
    "plan", [Plan(), Plan(tp=2), Plan(tp=4, sequence_parallel=False), Plan(pp=4)]
)
def test_vision_flops(plan: Plan) -> None:
    """Three passes of everything, but for the gradient of the pixels, which nobody wants."""
    found = dry_run(generated(Workload(model=VIT, plan=plan, step=Step(global_batch=2))))
    tokens, d = 16, 64
    layer = 2 * tokens * (4 * d * d + 2 * d * 128) + 4 * tokens**2 * d
    patches, head = 2 * tokens * 192 * d, 2 * d * 1000
    extra = sum(r.flops for r in found.replicated)
    assert found.flops_total - extra == 2 * (3 * (4 * layer + head) + 2 * patches)
    assert {r.name.partition(".")[0] for r in found.replicated} <= {"patches", "head"}


def test_video_attends_to_all_frames() -> None:
    """Quadratic in tokens: twice the frames, four times the pairs."""
    core = []
    for frames in (2, 4):
        made = generated(Workload(model=VIDEO.replace(frames=frames), step=Step()))
        columns, names = made.classes[0].program.columns, made.layout.book.names.texts
        core.append(int(columns["flops"][columns["name"] == names.index("attention.core")].sum()))
    assert core[1] == 4 * core[0]
    assert core[0] == 4 * 4 * (2 * 4 * 4) ** 2 * 64


def test_every_feature_of_a_recommender_meets_every_other() -> None:
    """Five vectors of 16 numbers (four tables and the dense part) for each of 8 samples."""
    made = generated(Workload(model=CLICKS, step=Step(global_batch=8, micro_batch=8)))
    columns, names = made.classes[0].program.columns, made.layout.book.names.texts
    flops = columns["flops"][columns["name"] == names.index("interaction")]
    assert flops.tolist() == [2 * 8 * 5 * 5 * 16]


def test_recommender_trades_tables_for_samples() -> None:
    """Each rank's samples' rows of all tables arrive, and their gradients go back."""
    step = Step(global_batch=32, micro_batch=8)
    found = dry_run(generated(Workload(model=CLICKS, plan=Plan(dp=4, ep=4), step=step)))
    comm = {(c.type, c.group): c for c in found.per_rank[0].comm}
    assert comm["ALL_TO_ALL", "ep"].count == 2
    assert comm["ALL_TO_ALL", "ep"].bytes == 2 * 8 * 4 * 16 * 2
    dense = found.parameters - 1000 * 16
    assert (
        comm["ALL_REDUCE", "dp"].bytes == 4 * dense + 4
    )  # tables are on one rank each; and the loss
    assert found.per_rank[0].memory["parameters"] == 2 * (dense + 1000 * 16 // 4)


def test_wan_cost_is_mostly_attention() -> None:
    """75,600 tokens of 81 frames of 720p: attention outweighs the projections."""
    model = model_named("wan2.1-14b")
    assert model.tokens == 75_600
    made = generated(
        Workload(model=model, plan=Plan(cp=8, context="ulysses", recompute="full"), step=Step())
    )
    columns = made.classes[0].program.columns
    assert columns["flops"][columns["core"] > 0].sum() > 0.5 * columns["flops"].sum()
