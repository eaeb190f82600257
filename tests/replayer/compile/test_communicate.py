"""Communication operators of a recording: their group, tensors and reduction, in groups of any size."""

from __future__ import annotations

import pytest

from chakrakit.errors import TraceError
from chakrakit.replayer.plan import Collective
from chakrakit.sources.pytorch.recorder import REDUCE_MARK
from support.recorded import ALL_REDUCE, Sheet, plain, tensor
from support.replayed import plan_of, reduce_of


def recorded(*groups: tuple[str, list[int]]) -> Sheet:
    sheet = Sheet()
    sheet.groups(*(groups or (("0", [0]),)))
    return sheet


def test_an_operator_has_its_tensors_its_group_and_its_reduction(tmp_path) -> None:
    sheet = recorded()
    sheet.op("c10d::allreduce_", ALL_REDUCE, reduce_of(1))
    plan = plan_of(sheet, tmp_path)
    step = plan.steps[0]
    assert isinstance(step, Collective)
    assert (step.op, step.reduce, step.wait) == ("all_reduce", "sum", False)
    assert plan.groups[step.group].ranks == [0]
    assert step.inputs == step.outputs


def test_the_reduction_is_what_the_collector_wrote_around_the_call(tmp_path) -> None:
    sheet = recorded()
    mark = sheet.op(f"{REDUCE_MARK}max", "", [])
    sheet.op("c10d::allreduce_", ALL_REDUCE, reduce_of(1), parent=mark)
    steps = plan_of(sheet, tmp_path).steps
    assert [s.reduce for s in steps if isinstance(s, Collective)] == ["max"]


def test_an_unknown_reduction_is_refused_with_those_there_are(tmp_path) -> None:
    sheet = recorded()
    mark = sheet.op(f"{REDUCE_MARK}median", "", [])
    sheet.op("c10d::allreduce_", ALL_REDUCE, reduce_of(1), parent=mark)
    with pytest.raises(TraceError, match=r"no reduction 'median'; there are sum"):
        plan_of(sheet, tmp_path)


GATHER = (
    "c10d::_allgather_base_(Tensor output_tensor, Tensor input_tensor, "
    "__torch__.torch.classes.c10d.ProcessGroup process_group, bool async_op=True, int timeout=-1) "
    "-> (Tensor, __torch__.torch.classes.c10d.Work)"
)


@pytest.mark.parametrize(("shrink", "sizes"), [("keep", (4, 4)), ("scale", (16, 16))])
def test_a_gather_of_a_lone_rank_keeps_its_part_or_its_whole(
    tmp_path, shrink: str, sizes: tuple[int, int]
) -> None:
    """Four elements of each of four ranks, of which one was recorded."""
    sheet = recorded(("0", [0, 1, 2, 3]))
    group, asynchronous = plain("<Object>", "Object"), plain(True, "Bool")
    given = [tensor(2, 16), tensor(1, 4), group, asynchronous, plain(-1, "Int")]
    sheet.op("c10d::_allgather_base_", GATHER, given)
    plan = plan_of(sheet, tmp_path, shrink=shrink)
    step = plan.steps[0]
    views = {view[0]: view for external in plan.externals for view in external.views}
    assert (step.op, views[step.inputs[0]][2], views[step.outputs[0]][2]) == (
        "all_gather_flat",
        [sizes[0]],
        [sizes[1]],
    )
