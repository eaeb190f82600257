"""MaxText's rows on TPUs: models, plans and machines as its scripts and base configuration state them.

AI-Hypercomputer/maxtext, src/maxtext/configs/tpu (a script for each model and system), base.yml and
`get_individual_scales`, which scales the base model by powers of two. Tables give TFLOP/s, which are 6 FLOPs
for each parameter and token and half the square of attention.
"""

from __future__ import annotations

from math import log2

from chakrakit import Machine
from chakrakit.machines import parse_machine
from chakrakit.workloads.description import Decoder, Plan, Step, Workload

PEAKS = {"v4": 275e12, "v5e": 197e12, "v5p": 459e12}
"""FLOP/s that the tables' MFU are shares of."""
TORUS = {"v4": "400 Gb/s", "v5e": "400 Gb/s", "v5p": "800 Gb/s"}
"""A link of the presets."""
BETWEEN_SLICES = {"v4": "50 Gb/s", "v5e": "25 Gb/s", "v5p": "50 Gb/s"}
"""A chip's part of the data-centre network: Cloud TPU's documentation has 6.4 Tb/s for 256 v5e and 50 Gb/s
for a v5p; a v4 is taken to have as much. Its latency is assumed."""
CUBES = {
    64: [4, 4, 4],
    128: [4, 4, 8],
    192: [4, 4, 12],
    256: [4, 8, 8],
    512: [8, 8, 8],
    1024: [8, 8, 16],
    2048: [8, 16, 16],
}
"""Chips of a v4's or v5p's slice along each direction, as Cloud TPU's tables of topologies have them."""
REMATS = {"full": "needed", "minimal": "others", "qkv_proj_offloaded": "needed"}
"""What is computed again: all that gradients read; of that all but products; all but the projections to q, k
and v, which no plan here can say."""
_OLDER = {"MaxText-22B": (48, 6144, 24, 24576), "MaxText-52B": (32, 12288, 32, 49152)}
"""Layers, width, heads and width of the MLP of the v4's scripts; their sizes come out with heads of 256 and
two matrices in an MLP, which were the defaults then."""


def is_maxtext(row: dict[str, str]) -> bool:
    return "maxtext" in row["source"]


def chip(row: dict[str, str]) -> str:
    """`v4`, `v5e` or `v5p`."""
    return row["system"].removeprefix("TPU ").partition("-")[0]


def model(row: dict[str, str]) -> Decoder:
    """The base model, scaled: heads and MLP first, then the width, then layers."""
    name = row["model"]
    if name in _OLDER:
        layers, width, heads, ffn = _OLDER[name]
        return Decoder(
            name=name, layers=layers, hidden=width, heads=heads, head_dim=256, ffn=ffn,
            activation="gelu", vocab=32000,
        )  # fmt: skip
    each, over = divmod(round(log2(int(name.removeprefix("MaxText-").removesuffix("B")))), 3)
    wide = 2 ** (each + (over > 0))
    return Decoder(
        name=name, layers=16 * 2**each, hidden=2048 * 2 ** (each + (over > 1)), heads=16 * wide,
        head_dim=128, ffn=7168 * wide, vocab=32000,
    )  # fmt: skip


def workload(row: dict[str, str]) -> Workload:
    """FSDP and tensor parallelism within a slice, gradients reduced between slices."""
    chips, slices, tp = (int(row[k] or 1) for k in ("gpus", "slices", "tp"))
    dp = chips // tp
    plan = Plan(
        dp=dp,
        tp=tp,
        data="fsdp",
        shard=dp // slices,
        recompute=REMATS[row["recompute"]],
        tp_overlap=tp > 1,
    )
    batch = int(row["gbs"])
    step = Step(seq=int(row["seq"]), global_batch=batch, micro_batch=batch // dp)
    return Workload(model=model(row), plan=plan, step=step)


def machine(row: dict[str, str]) -> Machine:
    """Slices of the preset's chips, joined by the data-centre network where there are several."""
    name, slices = chip(row), int(row["slices"])
    chips = int(row["gpus"]) // slices
    dims = [16, 16] if name == "v5e" else CUBES[chips]
    inner = {"topology": "torus", "dims": dims, "bandwidth": TORUS[name], "latency": "500 ns"}
    outer = {"topology": "switch", "size": slices, "latency": "20 us"}
    network = [inner, *[outer | {"bandwidth": BETWEEN_SLICES[name]}] * (slices > 1)]
    return parse_machine({"base": f"tpu-{name}", "network": network}, "slices")


def flops_per_token(row: dict[str, str]) -> float:
    """As MaxText counts them."""
    m = model(row)
    size = m.head_dim or 0
    matrices = 3 if m.activation == "swiglu" else 2
    layer = 4 * m.hidden * m.heads * size + matrices * m.hidden * (m.ffn or 0)
    parameters = m.layers * layer + 2 * m.vocab * m.hidden
    return 6 * (parameters + m.layers * m.heads * size * int(row["seq"]))


def tokens_per_second(row: dict[str, str]) -> float:
    """What a published MFU means, for each chip; it has more digits than the TFLOP/s."""
    return float(row["mfu_pct"]) / 100 * PEAKS[chip(row)] / flops_per_token(row)
