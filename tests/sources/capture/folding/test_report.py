"""What a capture amounts to."""

from __future__ import annotations

from chakrakit.sources.capture.folding import (
    CollectiveFigures,
    Families,
    KindFigures,
    RankKind,
    report_of,
)
from chakrakit.sources.capture.recording import CommCall, CreatedGroup
from chakrakit.trace.model import CollectiveType as C

GROUPS = [CreatedGroup("0", (0, 1), "world")]


def test_figures_of_kinds_and_totals_of_collectives(recorded):
    reduce = {"comm": CommCall(C.ALL_REDUCE, "0", 8, 8, "float32")}
    made = recorded(
        ("aten::mm", {}),
        ("aten::mm", {}),
        ("c10d::allreduce_", reduce),
        ("c10d::allreduce_", reduce),
        world=2,
        groups=GROUPS,
        parameters=12,
        peak_bytes=640,
        stubbed=["torch.save"],
        warnings=["careful"],
    )
    found = report_of([RankKind(made, [0, 1])], Families(GROUPS, 2), ["careful", "and more"])
    assert found.ranks == 2
    assert found.kinds == [KindFigures(2, 4, 200, 12, 640)]
    assert found.collectives == [CollectiveFigures("ALL_REDUCE", "world", 2, 16)]
    assert (found.stubbed, found.warnings) == (["torch.save"], ["careful", "and more"])


def test_a_fused_attention_s_backward_counts_without_the_scores_it_makes_again(recorded, signature):
    """Five products, of which the first was done forward already."""
    made = recorded(("aten::x", {}))
    made.signatures[0] = signature("aten::_flash_attention_backward", flops=500)
    (kind,) = report_of([RankKind(made, [0])], Families((), 1), []).kinds
    assert kind.flops == 400
