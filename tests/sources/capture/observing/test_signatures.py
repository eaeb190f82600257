"""An operator's shapes, types and strides as texts, and the work they mean."""

from __future__ import annotations

import json

import torch

from chakrakit.sources.capture.observing.signatures import Signatures

aten = torch.ops.aten


def made(func, *args, **kwargs):
    signatures = Signatures()
    signatures.number(func, args, kwargs, func(*args, **kwargs))
    return signatures.listed[0]


def test_a_product_says_its_shapes_and_its_work():
    found = made(aten.mm.default, torch.ones(2, 3), torch.ones(4, 3).t())
    assert (found.name, found.inputs_shapes, found.outputs_shapes) == (
        "aten::mm",
        "[[2,3],[3,4]]",
        "[[2,4]]",
    )
    assert (found.inputs_types, found.inputs_strides) == (
        '["Tensor(float)","Tensor(float)"]',
        "[[3,1],[1,3]]",
    )
    assert (found.flops, found.vector_ops, found.moved) == (2 * 2 * 3 * 4, 0, 4 * (6 + 12 + 8))
    assert (found.dtype, found.op_type, found.is_host) == ("fp32", "matmul", False)


def test_a_view_is_the_host_s_and_moves_nothing():
    found = made(aten.t.default, torch.ones(2, 3))
    assert (found.is_host, found.moved, found.vector_ops) == (True, 0, 0)


def test_arguments_that_were_not_given_have_their_defaults():
    """`add` has a factor of 1 that PyTorch's own traces list too."""
    found = made(aten.add.Tensor, torch.ones(2), torch.ones(2))
    assert json.loads(found.inputs_values) == ["<Tensor>", "<Tensor>", 1]
    assert json.loads(found.inputs_types)[2] == "Int"
    assert (found.vector_ops, found.op_type) == (2, "vector")


def test_lists_of_tensors_are_nests_of_shapes():
    found = made(aten.cat.default, [torch.ones(2, 3), torch.ones(1, 3)])
    assert json.loads(found.inputs_shapes)[0] == [[2, 3], [1, 3]]
    assert json.loads(found.inputs_types)[0] == "GenericList[Tensor(float),Tensor(float)]"


def test_an_embedding_is_a_lookup():
    found = made(aten.embedding.default, torch.ones(9, 4, dtype=torch.bfloat16), torch.tensor([1]))
    assert (found.op_type, found.dtype) == ("lookup", "bf16")


def test_calls_that_differ_in_nothing_share_a_number():
    signatures, a = Signatures(), torch.ones(2, 3)
    numbers = [
        signatures.number(aten.neg.default, (x,), {}, x) for x in (a, a.clone(), a.double(), a.t())
    ]
    assert numbers == [0, 0, 1, 2]


def test_an_infinite_number_is_written_as_text():
    found = made(aten.masked_fill.Scalar, torch.ones(2), torch.ones(2).bool(), float("-inf"))
    assert json.loads(found.inputs_values)[2] == "-inf"
