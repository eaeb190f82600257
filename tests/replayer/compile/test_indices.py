"""What must hold of values that a replay makes up: indices in range, variances positive."""

from __future__ import annotations

import pytest

from chakrakit.replayer.compile.indices import (
    index_limits,
    positive_tensors,
    told_limits,
    unit_tensors,
)
from chakrakit.replayer.compile.memory import contiguous
from chakrakit.replayer.tensors import StorageView
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


def of(*shape, dtype="int64"):
    return StorageView(1, "cpu", dtype, shape, contiguous(shape), 0)


@pytest.mark.parametrize(
    ("name", "given", "plain", "limit"),
    [
        ("embedding", {"weight": [of(50, 8)], "indices": [of(4)]}, {}, 50),
        ("embedding_dense_backward", {"indices": [of(4)]}, {"num_weights": 70}, 70),
        ("gather", {"self": [of(5, 9)], "index": [of(5, 2)]}, {"dim": 1}, 9),
        ("gather", {"self": [of(5, 9)], "index": [of(5, 2)]}, {"dim": "?"}, 5),
        ("nll_loss_forward", {"self": [of(4, 10)], "target": [of(4)]}, {}, 10),
        ("nll_loss_forward", {"self": [of(10)], "target": [of()]}, {}, 10),
        (
            "max_pool2d_with_indices_backward",
            {"self": [of(1, 2, 6, 7)], "indices": [of(1, 2, 3, 3)]},
            {},
            42,
        ),
    ],
)
def test_an_index_stays_below_what_it_chooses_from(name, given, plain, limit):
    assert [size for _, size in index_limits(name, given, plain)] == [limit]


def test_a_list_of_indices_has_one_limit_per_dimension_and_masks_have_none():
    given = {"self": [of(5, 6, 7)], "indices": [of(2), of(5, dtype="bool"), of(2), of(2)]}
    assert [size for _, size in index_limits("index", given, {})] == [5, 7]
    assert index_limits("add", given, {}) == []


def test_roots_are_taken_of_positive_values_and_factors_begin_as_one():
    given = {"self": [of(4, dtype="float32"), None], "weight": [of(4, dtype="float32")]}
    assert positive_tensors("sqrt", given) == [given["self"][0]]
    assert positive_tensors("mul", given) == []
    assert unit_tensors("native_layer_norm", given) == given["weight"]


@pytest.mark.parametrize(
    ("text", "limits"),
    [
        ('{"1":[0,49]}', [50]),
        ('{"0":[0,49]}', []),  # no integers
        ('{"1":[-1,49]}', []),
        ('{"9":[0,49]}', []),
        ("not JSON", []),
        ("", []),
    ],
)
def test_what_the_observer_wrote_of_integers_counts(text, limits):
    given = {"self": [of(4, dtype="float32")], "index": [of(3)]}
    assert [limit for _, limit in told_limits(text, given)] == limits
