"""What serving comes to: latencies, batches, caches and energy of small streams under many settings."""

from __future__ import annotations

import pytest

from support.commands import data
from support.kept_results import compare

STREAM = "poisson{rate=4,n=60,prompt=600,output=40}"
SETTINGS = {
    "plain": ("llama3.1-8b", "dgx-h100"),
    "h200": ("llama3.1-8b", "dgx-h200", "--tp", 2),
    "sglang": ("llama3.1-8b", "dgx-h100", "--engine", "sglang"),
    "experts": ("mixtral-8x7b", "dgx-h100", "--tp", 4),
    "latent": ("deepseek-v3-16b", "dgx-h200", "--tp", 2),
    "replicas": ("llama3.1-8b", "dgx-h100", "--replicas", 2, "--router", "least"),
    "apart": ("llama3.1-8b", "dgx-h100", "--prefill", 1, "--decode", 1),
    "small cache": ("llama3.1-8b", "dgx-h100", "--kv-blocks", 400),
    "fp8": ("llama3.1-8b", "dgx-h100", "--quantization", "fp8"),
    "pipeline": ("llama3.1-70b", "dgx-h100", "--tp", 4, "--pp", 2),
    "other device": ("llama3.1-8b", "dgx-a100"),
    "clocked": ("llama3.1-8b", "dgx-h100", "--clock", 1200),
    "ranks together": ("mixtral-8x7b", "dgx-h100", "--tp", 2, "--dp", 2, "--ep", 2),
    "roofline": ("llama3.1-8b", "dgx-h100", "--compute", "roofline"),
}


@pytest.mark.parametrize("name", SETTINGS)
def test_kept_figures_of_served_streams(name: str) -> None:
    model, machine, *options = SETTINGS[name]
    words = ("serve", "--model", model, "--machine", machine, "--requests", STREAM, *options)
    compare(f"served-{name.replace(' ', '-')}", data(*words))
