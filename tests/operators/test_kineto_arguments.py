"""Arguments as Kineto writes them give the same work as the observer's."""

import pytest

from chakrakit.operators import operation_of, read_call

SHAPES = "[[8192, 768], [768, 32000]]"


def test_a_product_is_one_in_both_spellings():
    observer = read_call("aten::mm", SHAPES, '["Tensor(c10::BFloat16)", "Tensor(c10::BFloat16)"]')
    kineto = read_call("aten::mm", SHAPES, '["c10::BFloat16", "c10::BFloat16"]', values='["", ""]')
    assert operation_of(kineto) == operation_of(observer)
    assert operation_of(kineto).flops == 2 * 8192 * 768 * 32000


@pytest.mark.parametrize(("causal", "written"), [(True, '"True"'), (False, '"False"')])
def test_truths_and_numbers_are_read_from_texts(causal, written):
    def attention(types, values):
        shapes = "[[8, 12, 1024, 64], [8, 12, 1024, 64], [8, 12, 1024, 64], [], [], []]"
        name = "aten::_scaled_dot_product_flash_attention"
        return operation_of(read_call(name, shapes, types, values=values))

    plain = (
        '["Tensor(c10::Half)", "Tensor(c10::Half)", "Tensor(c10::Half)", "Double", "Bool", "Bool"]'
    )
    texts = '["c10::Half", "c10::Half", "c10::Half", "Scalar", "Scalar", "Scalar"]'
    truth = "true" if causal else "false"
    assert attention(texts, f'["", "", "", "0.", {written}, "False"]') == attention(
        plain, f"[[], [], [], 0.0, {truth}, false]"
    )


def test_numbers_of_the_observer_are_no_tensors():
    call = read_call("aten::add", "[[4], [4], []]", '["Tensor(float)", "Tensor(float)", "Int"]')
    assert len(call.tensors) == 2


@pytest.mark.parametrize(
    ("mask", "passes"),
    [("[False, True, True]", 1), ("[True, True, False]", 2), ("[True, False, False]", 1)],
)
def test_gradients_that_nobody_asks_for_are_not_counted(mask: str, passes: int) -> None:
    shapes = "[[8, 16, 14, 14], [8, 3, 16, 16], [16, 3, 3, 3], [], [], [], [], [], [], [], []]"
    types = '["float", "float", "float"' + ', "Scalar"' * 8 + "]"
    values = f'["", "", "", "[16]", "[1, 1]", "[0, 0]", "[1, 1]", "False", "[0, 0]", "1", "{mask}"]'
    call = read_call("aten::convolution_backward", shapes, types, values=values)
    assert operation_of(call).flops == passes * 2 * 8 * 14 * 14 * 16 * 3 * 3 * 3
