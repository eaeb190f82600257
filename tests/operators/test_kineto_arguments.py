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
