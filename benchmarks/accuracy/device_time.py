"""Device time of recorded steps from graph and profile: programs that the profile was not measured on."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from claim import machine_of, need, percent, spread, table

from chakrakit import Trace
from chakrakit.machines.device import CostSource, Device, Profiled, find_profile
from chakrakit.sources.pytorch.linking import LinkOptions, link
from chakrakit.trace.placement import on_host

OWN = Path(__file__).parents[2] / "tests" / "data" / "h200"
PROGRAMS = (
    ("dense LM, training", "gpt2_124m_b8_s1024", False),
    ("dense LM, training", "llama_1b_b4_s2048", False),
    ("dense LM, training", "bert", True),
    ("dense LM, training", "llama_3b", False),
    ("dense LM, training", "bert_mlm", False),
    ("dense LM, training", "graphed", False),
    ("T5, training", "encoder_decoder", False),
    ("inference", "llama_1b_infer_b8_s1024", False),
    ("inference, sampling of tokens", "sampling", True),
    ("decode over 8,192 tokens", "decode_cat", True),
    ("mixture of experts", "moe_capacity", True),
    ("mixture of experts", "moe_mixtral", True),
    ("mixture of experts", "moe_shared", False),
    ("mixture of experts", "moe_hf_mixtral", False),
    ("DLRM", "dlrm_sparse", True),
    ("DLRM", "dlrm_dense", False),
    ("ViT", "vit_amp", False),
    ("diffusion, sampling", "unet_sample", True),
    ("diffusion, training", "latent_diffusion", False),
    ("U-Net, training", "unet_training", False),
    ("GAN", "gan", False),
    ("recurrent: LSTM", "lstm", True),
    ("recurrent: LSTM", "lstm_lm", True),
    ("recurrent: GRU", "recogniser", True),
    ("Conformer", "conformer", True),
    ("state space model", "mamba", False),
    ("graph attention", "graph_attention", False),
    ("graph network", "gnn", False),
    ("ConvNeXt", "convnext", False),
    ("ResNet", "resnet50_b128", True),
    ("ResNet", "resnet18_amp", True),
    ("ResNet", "resnet18_fp32", False),
    ("compiled", "gpt2_124m_compiled_b8_s1024", True),
    ("compiled", "gpt_compiled", True),
    ("compiled", "dit_compiled", False),
    ("compiled", "llama_compiled", False),
)
"""Kind, recording, and whether its errors by operator were looked at while the classes were made."""


def measure(data: Path) -> str:
    """The section of docs/accuracy.md."""
    profile = Profiled(find_profile("h200"))
    device = machine_of("dgx-h200").devices[0]
    lines: list[list[str]] = []
    errors: dict[bool, list[float]] = {True: [], False: []}
    for kind, name, seen in PROGRAMS:
        own = OWN / name
        folder = own if own.is_dir() else need(data, "gpu_h200", name)
        trace = link(
            [folder / "et.json.gz", folder / "kineto.json.gz"], LinkOptions(as_recorded=True)
        )[0].trace(0)
        measured, found, beyond = _device_ms(trace, profile, device)
        error = found / measured - 1
        errors[seen].append(error)
        cells = [kind, name, "yes" if seen else "no", f"{measured:.2f}", f"{found:.2f}"]
        lines.append([*cells, percent(error, signed=True), percent(beyond)])
    groups = {
        "not looked at": errors[False],
        "looked at": errors[True],
        "all": errors[False] + errors[True],
    }
    totals = [(name, len(found), *spread(found)) for name, found in groups.items()]
    return "\n\n".join([TEXT, table(HEADS, lines), table(TOTALS, totals)])


def _device_ms(trace: Trace, profile: Profiled, device: Device) -> tuple[float, float, float]:
    """Kernel time of a step as recorded, as predicted, and the share that was extrapolated."""
    costs = profile.costs(trace, device)
    rows = ~on_host(trace)
    found = costs.ps[rows].astype(np.float64)
    beyond = found[costs.source[rows] == CostSource.EXTRAPOLATED].sum() / found.sum()
    return trace.duration_ns[rows].sum() / 1e6, found.sum() / 1e9, float(beyond)


HEADS = ("kind", "recording", "looked at", "measured ms", "predicted ms", "error", "extrapolated")
TITLE = "Device time from graph and profile on one H200"
TEXT = """\
The sum of kernel times of one recorded step (PyTorch 2.11, one NVIDIA H200) against the sum of what the
`h200` profile predicts from the operators' shapes, strides and element types. The profile is measured on
operators run one by one with a cold and with a warm cache, never on these programs. Which
operators it tells apart, and by what, was decided while looking at the recordings marked "yes"; of the others
only the totals were computed. Indices are assumed to be uniform: `moe_capacity` sends many tokens to one row,
which shapes do not show. Recurrent layers (LSTM, GRU) were timed in 51 shapes, too few for what cuDNN chooses
among; the loss of `conformer` (CTC) was not timed at all. `gan` takes 0.8 ms in all, in convolutions
smaller than any that was timed. The clock is the highest; what a power limit adds is not in this table."""
TOTALS = ("recordings", "number", "median absolute error", "90 %", "worst")
