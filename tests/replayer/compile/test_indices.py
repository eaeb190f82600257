"""What must hold of values that a replay makes up."""

from __future__ import annotations

import pytest

from chakrakit.replayer.compile.indices import (
    index_limits,
    positive_tensors,
    told_limits,
    unit_tensors,
)
from chakrakit.replayer.plan import Tensor
from support.recorded import ADD, EMBEDDING, Sheet, plain, tensor
from support.replayed import ONE, plan_of


def test_indices_stay_below_the_rows_they_choose_from(tmp_path):
    sheet = Sheet()
    given = [tensor(1, 50, 8), tensor(2, 6, dtype="long int"), plain(-1, "Int")]
    given += [plain(False, "Bool")] * 2
    sheet.op("aten::embedding", EMBEDDING, given, [tensor(3, 6, 8)])
    fills = {e.dtype: (e.fill.kind, e.fill.limit) for e in plan_of(sheet, tmp_path).externals}
    assert fills == {"float32": ("normal", 0), "int64": ("index", 50)}


def test_an_index_that_was_copied_limits_what_it_was_copied_from(tmp_path):
    sheet = Sheet()
    clone = "aten::clone(Tensor self, *, MemoryFormat? memory_format=None) -> Tensor"
    indices = tensor(2, 6, dtype="long int")
    sheet.op(
        "aten::clone", clone, [indices, plain("<None>", "None")], [tensor(4, 6, dtype="long int")]
    )
    given = [tensor(1, 50, 8), tensor(4, 6, dtype="long int"), plain(-1, "Int")]
    given += [plain(False, "Bool")] * 2
    sheet.op("aten::embedding", EMBEDDING, given, [tensor(3, 6, 8)])
    found = [e.fill.limit for e in plan_of(sheet, tmp_path).externals if e.dtype == "int64"]
    assert found == [50]


def test_a_dimension_that_is_no_number_is_taken_for_the_first(tmp_path):
    schema = "aten::index_select(Tensor self, int dim, Tensor index) -> Tensor"
    given = [tensor(1, 8, 4), plain([0], "GenericList[Int]"), tensor(2, 3, dtype="long int")]
    sheet = Sheet()
    sheet.op("aten::index_select", schema, given, [tensor(3, 3, 4)])
    sheet.op("aten::add", ADD, [tensor(3, 3, 4), tensor(3, 3, 4), ONE], [tensor(4, 3, 4)])
    limits = [e.fill.limit for e in plan_of(sheet, tmp_path).externals if e.dtype == "int64"]
    assert limits == [8]


def given(**tensors):
    """Tensors by argument, each of a shape."""
    return {
        name: [None if s is None else Tensor(i, "cpu", "int64", s, (), 0) for s in shapes]
        for i, (name, shapes) in enumerate(tensors.items())
    }


@pytest.mark.parametrize(
    ("operator", "tensors", "plain_values", "limits"),
    [
        ("embedding", {"weight": [(50, 8)], "indices": [(6,)]}, {}, [50]),
        ("gather", {"self": [(3, 7)], "index": [(3, 2)]}, {"dim": 1}, [7]),
        ("gather", {"self": [(3, 7)], "index": [(3, 2)]}, {"dim": 9}, []),
        ("embedding_dense_backward", {"indices": [(6,)]}, {"num_weights": 12}, [12]),
        ("nll_loss_forward", {"self": [(4, 10)], "target": [(4,)]}, {}, [10]),
        ("index", {"self": [(4, 50)], "indices": [None, (2,)]}, {}, [50]),
        ("add", {"self": [(4,)], "other": [(4,)]}, {}, []),
    ],
)
def test_one_more_than_the_largest_index_that_is_safe(operator, tensors, plain_values, limits):
    found = index_limits(operator, given(**tensors), plain_values)
    assert [limit for _, limit in found] == limits


def test_roots_and_logarithms_need_what_is_above_zero_and_norms_factors_of_one():
    tensors = given(self=[(4,)], exp_avg_sqs=[(4,), None])
    assert positive_tensors("sqrt", tensors) == tensors["self"]
    assert positive_tensors("_fused_adam_", tensors) == tensors["exp_avg_sqs"][:1]
    assert positive_tensors("add", tensors) == []
    weight = given(weight=[(8,)])
    assert unit_tensors("native_layer_norm", weight) == weight["weight"]
    assert unit_tensors("mm", weight) == []


@pytest.mark.parametrize(
    ("text", "limits"),
    [
        ('{"1": [0, 49]}', [50]),
        ('{"1": [-1, 49]}', []),  # not an index
        ('{"9": [0, 1]}', []),
        ("", []),
        ("nonsense", []),
    ],
)
def test_what_the_observer_wrote_of_integers(text, limits):
    tensors = given(weight=[(50, 8)], indices=[(6,)])
    assert [limit for _, limit in told_limits(text, tensors)] == limits
