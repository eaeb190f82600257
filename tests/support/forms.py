"""Closed forms, written without the package: what a workload must amount to.

A multiply-add is two FLOPs; `b` is a micro-batch, `t`, `c`, `p`, `n` are tp, cp, pp and dp.
"""

from __future__ import annotations

from chakrakit.workloads.description import Decoder, Plan, Step

BYTES = {"bf16": 2, "fp16": 2, "fp32": 4}


def matmul_weights(m: Decoder, moe: bool) -> int:
    """Weights of a layer that multiply one token."""
    d = m.head_dim or m.hidden // m.heads
    kv = m.kv_heads or m.heads
    attention = m.hidden * (m.heads + 2 * kv) * d + m.heads * d * m.hidden
    if m.kv_lora:
        key = m.nope_dim + m.rope_dim
        query = (
            m.hidden * m.q_lora + m.q_lora * m.heads * key if m.q_lora else m.hidden * m.heads * key
        )
        attention = (
            query
            + m.hidden * (m.kv_lora + m.rope_dim)
            + m.kv_lora * m.heads * (m.nope_dim + m.value_dim)
            + m.heads * m.value_dim * m.hidden
        )
    matrices = 3 if m.activation == "swiglu" else 2
    if not moe:
        return attention + matrices * m.hidden * (m.ffn or 4 * m.hidden)
    experts = (m.top_k + m.shared_experts) * matrices * m.hidden * m.expert_ffn
    return attention + m.hidden * m.experts + experts


def attention_flops(m: Decoder, seq: int) -> int:
    """Scores and weighted values of one sequence in one layer, forward."""
    d = m.head_dim or m.hidden // m.heads
    widths = m.nope_dim + m.rope_dim + m.value_dim if m.kv_lora else 2 * d
    full = 2 * seq * seq * m.heads * widths
    return full // 2 if m.causal and m.kernel == "flash" else full


def training_flops(m: Decoder, plan: Plan, step: Step) -> int:
    """Three passes of every matmul over every token, and what recompute adds."""
    tokens = step.global_batch * step.seq
    vocab = -(-m.vocab // plan.tp) * plan.tp if plan.vocab_parallel else m.vocab
    dense = m.dense_layers if m.experts else m.layers
    layers = (
        dense * matmul_weights(m, False) + (m.layers - dense) * matmul_weights(m, True)
        if m.experts
        else m.layers * matmul_weights(m, False)
    )
    cores = m.layers * step.global_batch * attention_flops(m, step.seq)
    total = 3 * (2 * tokens * (layers + m.hidden * vocab) + cores)
    if plan.recompute == "full":
        total += 2 * tokens * layers + cores
    if plan.recompute == "selective":
        total += cores
    return total


def rank_weights(m: Decoder, plan: Plan, layers: int, first: bool, last: bool) -> int:
    """Parameters on a rank of a stage, before data parallelism; gated MLP, RMS norms, no biases."""
    d = m.head_dim or m.hidden // m.heads
    kv = m.kv_heads or m.heads
    layer = (
        m.hidden * (m.heads + 2 * kv) * d + m.heads * d * m.hidden + 3 * m.hidden * m.ffn
    ) // plan.tp
    table = m.vocab * m.hidden // plan.tp
    return layers * (layer + 2 * m.hidden) + (first + last) * table + last * m.hidden


def gpt_parameters(layers: int, hidden: int, vocab: int, seq: int) -> float:
    """Narayanan et al. 2021, equation 2."""
    return (
        12 * layers * hidden**2 * (1 + 13 / (12 * hidden) + (vocab + seq) / (12 * layers * hidden))
    )
