"""Attention: heads, lengths and saved sums that fit together."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .refusal import Given, count, need, sizes


def _given(given: Given, name: str) -> Any:
    return given.get(name) if given.get(name) is not None else None


def _heads_first(given: Given) -> list[int]:
    """Query, key and value as batch × heads × length × width; gives the result's shape."""
    query, key, value = (given[n] for n in ("query", "key", "value"))
    need(query.dim() == key.dim() == value.dim() == 4, "queries, keys and values have 4 dimensions")
    need(min(sizes(query) + sizes(key) + sizes(value)) > 0, "attention to nothing")
    need(sizes(key)[:3] == sizes(value)[:3], "as many values as keys")
    need(query.shape[0] == key.shape[0] and query.shape[3] == key.shape[3], "keys of other queries")
    need(query.shape[1] % key.shape[1] == 0, "heads that do not divide")
    lengths = [int(query.shape[2]), int(key.shape[2])]
    for name in ("attn_mask", "attn_bias"):
        bias = _given(given, name)
        if bias is not None:
            whole = [int(query.shape[0]), int(query.shape[1]), *lengths]
            need(_expands(sizes(bias), whole), f"{name} of another shape")
    return [*sizes(query)[:3], int(value.shape[3])]


def _expands(shape: list[int], whole: list[int]) -> bool:
    if len(shape) > len(whole):
        return False
    tail = whole[len(whole) - len(shape) :]
    return all(a in (1, b) for a, b in zip(shape, tail, strict=True))


def _backward(given: Given) -> None:
    out = _heads_first(given)
    grad = given.get("grad_out", given.get("grad_out_"))
    need(grad is not None and sizes(grad) == out, "a gradient of another shape")
    need(sizes(given["out"]) == out, "a result of another shape")
    sums = sizes(given["logsumexp"])
    rows = out[0] * out[1]
    need(len(sums) >= 3 and sums[:2] == out[:2] and sums[2] >= out[2], "sums of another shape")
    need(count(given["logsumexp"]) >= rows * out[2], "not one sum per query")
    for name, wanted in (("max_q", out[2]), ("max_k", int(given["key"].shape[2]))):
        need(given.get(name) is None or int(given[name]) == wanted, f"{name} of another length")
    for name in ("cum_seq_q", "cum_seq_k"):
        tensor = _given(given, name)
        need(tensor is None or count(tensor) in (0, out[0] + 1), f"{name} of another batch")


def _lengths_first(given: Given) -> None:
    """Flash attention itself: batch × length × heads × width, or all tokens in one row."""
    query, key, value = (given[n] for n in ("query", "key", "value"))
    packed = _given(given, "cum_seq_q") is not None or _given(given, "cu_seqlens_q") is not None
    need(query.dim() == key.dim() == value.dim(), "queries, keys and values of other dimensions")
    need(query.dim() == 4 or (query.dim() == 3 and packed), "no batches and no packed tokens")
    need(min(sizes(query) + sizes(key) + sizes(value)) > 0, "attention to nothing")
    need(sizes(key)[:-1] == sizes(value)[:-1] and query.shape[-1] == key.shape[-1], "other keys")
    need(query.shape[-2] % key.shape[-2] == 0, "heads that do not divide")
    need(packed or query.shape[0] == key.shape[0], "keys of other batches")
    for name, tensor in (("max_q", query), ("max_k", key)):
        found = given.get(name)
        longest = int(tensor.shape[-3]) * (int(tensor.shape[0]) if tensor.dim() == 4 else 1)
        need(found is None or 0 < int(found) <= longest, f"{name} beyond what there is")
    for name in ("seqused_k", "alibi_slopes", "seqlen_k", "bias", "block_table"):
        need(_given(given, name) is None, f"{name} is not replayed")
    grad = given.get("grad_out", given.get("grad_out_"))
    if grad is not None:
        wanted = [*sizes(query)[:-1], int(value.shape[-1])]
        need(sizes(grad) == wanted and sizes(given["out"]) == wanted, "a gradient of another shape")
        rows = count(query) // int(query.shape[-1])
        need(count(given["logsumexp"]) >= rows, "not one sum per query")


ATTENTION: dict[str, Callable[[Given], Any]] = {
    **dict.fromkeys(
        [
            "_scaled_dot_product_flash_attention",
            "_scaled_dot_product_efficient_attention",
            "_scaled_dot_product_cudnn_attention",
            "_scaled_dot_product_flash_attention_for_cpu",
            "scaled_dot_product_attention",
            "_scaled_dot_product_attention_math",
            "_cudnn_attention_forward",
        ],
        _heads_first,
    ),
    **dict.fromkeys(
        [
            "_scaled_dot_product_flash_attention_backward",
            "_scaled_dot_product_efficient_attention_backward",
            "_scaled_dot_product_cudnn_attention_backward",
            "_scaled_dot_product_flash_attention_for_cpu_backward",
            "_cudnn_attention_backward",
        ],
        _backward,
    ),
    **dict.fromkeys(
        [
            "_flash_attention_forward",
            "_flash_attention_backward",
            "_efficient_attention_forward",
            "_efficient_attention_backward",
        ],
        _lengths_first,
    ),
}
