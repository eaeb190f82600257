"""The sandbox: what a trace or a plan asks for is held against real tensors before PyTorch is asked."""

from __future__ import annotations

import pytest

from support.recorded import ADD, Sheet, plain, several, tensor
from support.replayed import plan_text

torch = pytest.importorskip("torch")
from chakrakit.replayer.runner.guard import Guard, Refused, Room  # noqa: E402
from chakrakit.replayer.runner.limits import ReplayError, check_plan  # noqa: E402
from chakrakit.replayer.runner.measure import run_plan  # noqa: E402

SETTINGS = {"iterations": 1, "warmup": 0, "timeout_s": 60.0}
GIB = 1 << 30
pytestmark = pytest.mark.filterwarnings("ignore")


def not_covered(sheet, folder):
    """What a replay of one rank could not do, and why."""
    found = run_plan(plan_text(sheet, folder), SETTINGS, None)
    return {n["name"]: n["why"] for n in found["not_covered"]}


# --- from a trace alone -----------------------------------------------------------------------------


def test_a_view_beyond_its_storage_is_not_made(tmp_path):
    """Nobody else checks `_reshape_alias`; filling the view would write past 16 bytes."""
    sheet = Sheet()
    alias = "aten::_reshape_alias(Tensor(a) self, SymInt[] size, SymInt[] stride) -> Tensor(a)"
    size, stride = plain([1 << 20], "GenericList[Int]"), plain([1], "GenericList[Int]")
    view = tensor(1, 1 << 20)
    sheet.op("aten::add", ADD, [tensor(2, 4), tensor(2, 4), plain(1, "Int")], [tensor(1, 4)])
    sheet.op("aten::_reshape_alias", alias, [tensor(1, 4), size, stride], [view])
    fill = "aten::fill_.Scalar(Tensor(a!) self, Scalar value) -> Tensor(a!)"
    sheet.op("aten::fill_", fill, [view, plain(7, "Int")], [view])
    assert "out of bounds for storage" in not_covered(sheet, tmp_path)["aten::as_strided"]


ADAM = (
    "aten::_fused_adam_(Tensor(a!)[] self, Tensor(b!)[] grads, Tensor(c!)[] exp_avgs, "
    "Tensor(d!)[] exp_avg_sqs, Tensor(e!)[] max_exp_avg_sqs, Tensor[] state_steps, *, float lr, "
    "float beta1, float beta2, float weight_decay, float eps, bool amsgrad, bool maximize, "
    "Tensor? grad_scale=None, Tensor? found_inf=None) -> ()"
)


def test_an_optimizer_whose_state_is_too_small_is_not_called(tmp_path):
    lists = [several(tensor(1, 1 << 20)), several(tensor(2, 1 << 20)), several(tensor(3, 4))]
    lists += [several(tensor(4, 4)), several(), several(tensor(5, 1))]
    numbers = [plain(x, "Double") for x in (0.1, 0.9, 0.99, 0.0, 1e-8)]
    flags = [plain(False, "Bool")] * 2 + [plain("<None>", "None")] * 2
    sheet = Sheet()
    sheet.op("aten::_fused_adam_", ADAM, [*lists, *numbers, *flags])
    assert "laid out unlike its parameter" in not_covered(sheet, tmp_path)["aten::_fused_adam_"]


def test_normalisation_with_too_few_factors_is_not_called(tmp_path):
    schema = (
        "aten::native_batch_norm(Tensor input, Tensor? weight, Tensor? bias, Tensor? running_mean, "
        "Tensor? running_var, bool training, float momentum, float eps) -> (Tensor, Tensor, Tensor)"
    )
    given = [tensor(1, 2, 4096, 8, 8), *(tensor(n, 2) for n in (2, 3, 4, 5))]
    given += [plain(True, "Bool"), plain(0.1, "Double"), plain(1e-5, "Double")]
    sheet = Sheet()
    sheet.op("aten::native_batch_norm", schema, given, [tensor(6, 2, 4096, 8, 8)])
    why = not_covered(sheet, tmp_path)["aten::native_batch_norm"]
    assert why == "weight has 2 values, not 4096"


def test_what_is_allocated_is_what_is_asked_for_not_what_was_recorded(tmp_path):
    """4.8 GB recorded as 16 bytes: the size is known before PyTorch is asked for it."""
    schema = (
        "aten::zeros(SymInt[] size, *, ScalarType? dtype=None, Layout? layout=None, "
        "Device? device=None, bool? pin_memory=None) -> Tensor"
    )
    nothing = plain("<None>", "None")
    sheet = Sheet()
    size = plain([1_200_000_000], "GenericList[Int]")
    sheet.op("aten::zeros", schema, [size, plain(6, "Int"), *[nothing] * 3], [tensor(1, 4)])
    why = not_covered(sheet, tmp_path)["aten::zeros"]
    assert why == "gives shape [1200000000] and not [4]"


def test_an_index_limit_that_a_plan_made_up_is_not_believed(tmp_path):
    schema = (
        "aten::max_pool3d_with_indices_backward(Tensor grad_output, Tensor self, int[3] kernel_size, "
        "int[3] stride, int[3] padding, int[3] dilation, bool ceil_mode, Tensor indices) -> Tensor"
    )
    small, large = (2, 3, 2, 2, 2), (2, 3, 4, 4, 4)
    threes = [plain(x, "GenericList[Int,Int,Int]") for x in ([2] * 3, [2] * 3, [0] * 3, [1] * 3)]
    given = [tensor(1, *small), tensor(2, *large), *threes, plain(False, "Bool")]
    sheet = Sheet()
    sheet.op(
        "aten::max_pool3d_with_indices_backward",
        schema,
        [*given, tensor(3, *small, dtype="long int")],
        [tensor(4, *large)],
    )
    plan = plan_text(sheet, tmp_path)
    (indices,) = (e for e in plan["externals"] if e["dtype"] == "int64")
    indices["fill"] = {"kind": "index", "limit": 1 << 60}
    assert run_plan(plan, SETTINGS, None)["not_covered"] == []


# --- plans ------------------------------------------------------------------------------------------


@pytest.fixture
def plan(tmp_path):
    sheet = Sheet()
    sheet.op("aten::add", ADD, [tensor(1, 4), tensor(2, 4), plain(1, "Int")], [tensor(3, 4)])
    return plan_text(sheet, tmp_path)


def huge_external(plan):
    plan["externals"][0]["bytes"] = 1 << 46


def view_beyond(plan):
    plan["externals"][0]["views"][0][2] = [1 << 30]


def negative_stride(plan):
    plan["externals"][0]["views"][0][3] = [-1]


def huge_stand_in(plan):
    step = {"do": "stand_in", "name": "x", "made": [[2, "float32", [1 << 44], [1], 0, "cpu"]]}
    plan["steps"] = [step]


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (huge_external, "GiB on this machine"),
        (view_beyond, "bytes into a storage of"),
        (negative_stride, "a view of shape"),
        (huge_stand_in, "GiB on this machine"),
    ],
)
def test_a_plan_that_takes_more_than_there_is(plan, change, said):
    change(plan)
    with pytest.raises(ReplayError, match=said):
        run_plan(plan, SETTINGS, None)


@pytest.mark.parametrize("time", [{"host_ns": 1 << 62}, {"gap_ns": 1 << 50}, {"device_ns": -5}])
def test_a_plan_that_waits_for_ever_is_refused(plan, time):
    plan["steps"].append({"do": "stand_in", "name": "x", **time})
    with pytest.raises(ReplayError, match="an iteration that waits"):
        check_plan(plan)


def test_an_operator_that_would_resize_what_it_is_given_is_not_called(plan):
    step = plan["steps"][0]
    step.update(overload="out", made=[], outs=[None])
    step["kwargs"] = {"out": {"slot": 3}}
    plan["slots"] = 4
    views = [[3, "float32", [1], [1], 0]]
    plan["externals"].append(
        {
            "bytes": 4,
            "device": "cpu",
            "dtype": "float32",
            "fill": {"kind": "normal"},
            "views": views,
        }
    )
    found = run_plan(plan, SETTINGS, None)
    assert "resizes" in found["not_covered"][0]["why"]


# --- calls ------------------------------------------------------------------------------------------


def f(*shape):
    return torch.zeros(shape)


def i(*values):
    return torch.tensor(values)


BAD = {
    "layer norm, a mean too few": (
        torch.ops.aten.native_layer_norm_backward.default,
        (f(4, 8), f(4, 8), [8], f(1, 1), f(4, 1), None, None, [True, False, False]),
    ),
    "group norm, sizes beside the tensor": (
        torch.ops.aten.native_group_norm.default,
        (f(1, 4, 2, 2), None, None, 1, 4, 1 << 20, 2, 1e-5),
    ),
    "embedding's gradient of other rows": (
        torch.ops.aten.embedding_dense_backward.default,
        (f(2, 8), torch.zeros(1000, dtype=torch.long), 10, -1, False),
    ),
    "lists of different lengths": (torch.ops.aten._foreach_add_.List, ([f(4), f(4)], [f(4)])),
    "lists of different shapes": (torch.ops.aten._foreach_mul_.List, ([f(4)], [f(400)])),
    "an empty list": (torch.ops.aten._foreach_copy_.default, ([], [f(4)])),
    "a convolution's weight of other channels": (
        torch.ops.aten.convolution.default,
        (f(1, 3, 8, 8), f(4, 5, 3, 3), None, [1, 1], [0, 0], [1, 1], False, [0, 0], 1),
    ),
    "a convolution's gradient of another shape": (
        torch.ops.aten.convolution_backward.default,
        (
            f(1, 4, 60, 60),
            f(1, 3, 8, 8),
            f(4, 3, 3, 3),
            [4],
            [1, 1],
            [0, 0],
            [1, 1],
            False,
            [0, 0],
            1,
            [True, True, True],
        ),
    ),
    "attention's sums of other queries": (
        torch.ops.aten._scaled_dot_product_flash_attention_for_cpu_backward.default,
        (f(1, 2, 64, 8), *[f(1, 2, 64, 8)] * 3, f(1, 2, 64, 8), f(1, 2, 1), 0.0, False),
    ),
    "a pooled gradient of other windows": (
        torch.ops.aten.max_pool2d_with_indices_backward.default,
        (
            f(1, 1, 64, 64),
            f(1, 1, 4, 4),
            [2, 2],
            [2, 2],
            [0, 0],
            [1, 1],
            False,
            torch.zeros(1, 1, 64, 64, dtype=torch.long),
        ),
    ),
    "a spectrum of another length": (
        torch.ops.aten._fft_c2r.default,
        (torch.zeros(4, dtype=torch.complex64), [0], 0, 1 << 20),
    ),
    "a transform along a dimension that is not there": (
        torch.ops.aten._fft_r2c.default,
        (f(4), [3], 0, True),
    ),
    "weights of other classes": (
        torch.ops.aten.nll_loss_forward.default,
        (f(4, 10), torch.zeros(4, dtype=torch.long), f(2), 1, -100),
    ),
    "unscaling by a list": (
        torch.ops.aten._amp_foreach_non_finite_check_and_unscale_.default,
        ([f(4)], f(0), f(1)),
    ),
    "a number of nothing": (torch.ops.aten._local_scalar_dense.default, (f(0),)),
}


def examined(operator, arguments, made=(), **named):
    names = [a.name for a in operator._schema.arguments if not a.kwarg_only]
    given = dict(zip(names, arguments, strict=False)) | named
    guard = Guard(torch, Room({"cpu": GIB}))
    return given, guard.examine(operator, given, list(made))


@pytest.mark.parametrize("kind", ["dtype", "layout", "memory_format"])
@pytest.mark.parametrize("number", [2**31 - 1, -1, 99, 1.5, True])
def test_a_kind_that_pytorch_has_not_numbered(kind, number):
    """It is taken on trust: `randperm` with element type 2147483647 ends the process."""
    with pytest.raises(Refused, match=kind):
        examined(torch.ops.aten.randperm.default, [4], **{kind: number})


@pytest.mark.parametrize("case", BAD)
def test_arguments_that_do_not_fit_together(case):
    with pytest.raises(Refused):
        examined(*BAD[case])


def test_more_than_the_room_is_refused_before_it_is_taken():
    with pytest.raises(ReplayError, match="GiB on this machine"):
        examined(torch.ops.aten.repeat.default, (f(1024), [1 << 20]))


# --- values -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("operator", "arguments", "name", "bound"),
    [
        (torch.ops.aten.embedding.default, (f(9, 2), i(100, -5, 3)), "indices", 9),
        (torch.ops.aten.index_select.default, (f(9, 2), 0, i(9, 1)), "index", 9),
        (torch.ops.aten.gather.default, (f(3, 7), 1, i([7, 0])), "index", 7),
        (torch.ops.aten.scatter_add.default, (f(5), 0, i(5, 1), f(2)), "index", 5),
        (torch.ops.aten.nll_loss_forward.default, (f(2, 6), i(6, -3), None, 1, -100), "target", 6),
    ],
)
def test_an_index_out_of_range_is_replaced_by_one_in_range(operator, arguments, name, bound):
    given, replaced = examined(operator, arguments)
    assert (name, -1) in replaced
    assert 0 <= int(given[name].min()) <= int(given[name].max()) < bound


def test_an_index_for_each_dimension_and_masks_among_them():
    index = torch.ops.aten.index.Tensor
    given, _ = examined(index, (f(4, 50), [None, i(50, 7)]), [[4, 2]])
    assert int(given["indices"][1].max()) < 50
    given, _ = examined(index, (f(8, 3), [torch.zeros(8, dtype=torch.bool)]), [[5, 3]])
    assert int(given["indices"][0].sum()) == 5


@pytest.mark.parametrize(
    ("operator", "arguments", "shape", "name", "holds"),
    [
        (torch.ops.aten.nonzero.default, (f(6, 2),), [7, 2], "self", lambda t: t.sum() == 7),
        (
            torch.ops.aten.masked_select.default,
            (f(9), torch.ones(9, dtype=torch.bool)),
            [4],
            "mask",
            lambda t: t.sum() == 4,
        ),
        (
            torch.ops.aten.repeat_interleave.Tensor,
            (i(9, 9, 9),),
            [10],
            "repeats",
            lambda t: t.sum() == 10,
        ),
        (
            torch.ops.aten.bincount.default,
            (i(0, 0, 90), None, 4),
            [6],
            "self",
            lambda t: t.max() == 5,
        ),
        (
            torch.ops.aten._unique2.default,
            (i(1, 1, 1, 1, 1),),
            [3],
            "self",
            lambda t: len(t.unique()) == 3,
        ),
    ],
)
def test_results_as_long_as_recorded(operator, arguments, shape, name, holds):
    """Counts per expert are in the shapes: what is looked through is made to give as many."""
    given, _ = examined(operator, arguments, [shape])
    assert bool(holds(given[name]))
    found = operator(*given.values())
    assert list((found[0] if isinstance(found, tuple) else found).shape) == shape


def test_segments_are_in_order_and_fill_the_rows():
    grouped = torch.ops.aten._grouped_mm.default
    ends = torch.tensor([900, 3, 0, 8], dtype=torch.int32)
    half = torch.bfloat16
    given, _ = examined(grouped, (f(64, 16).to(half), f(4, 16, 8).to(half), ends))
    assert given["offs"].tolist() == [16, 32, 48, 64]


def test_bags_share_the_rows_evenly_where_nobody_says_how():
    bag = torch.ops.aten._embedding_bag.default
    zeros = torch.zeros(4, dtype=torch.long)
    given, _ = examined(bag, (f(50, 2), torch.full((12,), 99), zeros))
    assert given["offsets"].tolist() == [0, 3, 6, 9]
    assert int(given["indices"].max()) < 50


def test_shares_and_probabilities_are_such():
    given, _ = examined(torch.ops.aten.multinomial.default, (torch.full((3,), torch.nan), 2))
    assert given["self"].tolist() == [1, 1, 1]
    loss = torch.ops.aten.binary_cross_entropy.default
    given, _ = examined(loss, (f(3) + 2, f(3) - 1))
    assert [given["self"].max(), given["target"].min()] == [0.5, 0.5]


def test_indices_that_are_in_range_by_how_they_were_made_stay_as_computed():
    guard = Guard(torch, Room({"cpu": GIB}))
    scores = torch.rand(6, 8)
    topk = torch.ops.aten.topk.default
    values, chosen = topk(scores, 2)
    guard.done(topk, {"self": scores, "k": 2, "dim": -1}, [values, chosen])
    gather = {"self": scores, "dim": 1, "index": chosen.view(6, 2)}
    assert guard.examine(torch.ops.aten.gather.default, gather, []) == {}
    chosen.add_(1)
    guard.done(torch.ops.aten.add_.Scalar, {"self": chosen, "other": 1}, [])
    assert guard.examine(torch.ops.aten.gather.default, gather, [])
