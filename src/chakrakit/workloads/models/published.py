"""The models that are built in, as their papers and published configurations have them."""

from __future__ import annotations

from functools import cache
from typing import Any

from chakrakit.workloads.description import Decoder, Diffusion, Model, Recommender, Vision

GPT: dict[str, Any] = {
    "norm": "layer",
    "activation": "gelu",
    "bias": True,
    "tied": True,
    "positions": 2048,
    "dropout": True,
    "kernel": "unfused",
}
"""What all GPT models share, as Megatron-LM trained them."""


def _gpt3() -> dict[str, Decoder]:
    """Brown et al. 2020, table 2.1."""
    sizes = {
        "125m": (12, 768, 12),
        "350m": (24, 1024, 16),
        "760m": (24, 1536, 16),
        "1.3b": (24, 2048, 16),
        "2.7b": (32, 2560, 32),
        "6.7b": (32, 4096, 32),
        "13b": (40, 5120, 40),
        "175b": (96, 12288, 96),
    }
    return {
        f"gpt3-{n}": Decoder(name=f"gpt3-{n}", layers=a, hidden=d, heads=h, vocab=50257, **GPT)
        for n, (a, d, h) in sizes.items()
    }


def _megatron() -> dict[str, Decoder]:
    """Narayanan et al. 2021, table 1, and the 22B and 530B of Korthikanti et al. 2022."""
    sizes = {
        "1.7b": (24, 2304, 24),
        "3.6b": (30, 3072, 32),
        "7.5b": (36, 4096, 32),
        "18.4b": (40, 6144, 48),
        "39.1b": (48, 8192, 64),
        "76.1b": (60, 10240, 80),
        "145.6b": (80, 12288, 96),
        "310.1b": (96, 16384, 128),
        "529.6b": (105, 20480, 128),
        "1008b": (128, 25600, 160),
        "22b": (48, 6144, 64),
        "175b": (96, 12288, 96),
        "530b": (105, 20480, 128),
        "1t": (128, 25600, 160),
    }
    return {
        f"megatron-{n}": Decoder(
            name=f"megatron-{n}", layers=a, hidden=d, heads=h, vocab=51200, **GPT
        )
        for n, (a, d, h) in sizes.items()
    }


def _llama(
    name: str,
    layers: int,
    hidden: int,
    heads: int,
    kv: int,
    ffn: int,
    vocab: int,
    context: int,
    tied: bool = False,
) -> Decoder:
    return Decoder(
        name=name,
        layers=layers,
        hidden=hidden,
        heads=heads,
        kv_heads=kv,
        ffn=ffn,
        vocab=vocab,
        context=context,
        tied=tied,
    )


def _llamas() -> list[Decoder]:
    return [
        _llama("llama2-7b", 32, 4096, 32, 32, 11008, 32000, 4096),
        _llama("llama2-13b", 40, 5120, 40, 40, 13824, 32000, 4096),
        _llama("llama2-70b", 80, 8192, 64, 8, 28672, 32000, 4096),
        _llama("llama3-8b", 32, 4096, 32, 8, 14336, 128256, 8192),
        _llama("llama3-70b", 80, 8192, 64, 8, 28672, 128256, 8192),
        _llama("llama3.1-8b", 32, 4096, 32, 8, 14336, 128256, 131072),
        _llama("llama3.1-70b", 80, 8192, 64, 8, 28672, 128256, 131072),
        _llama("llama3.1-405b", 126, 16384, 128, 8, 53248, 128256, 131072),
        _llama("llama3.2-1b", 16, 2048, 32, 8, 8192, 128256, 131072, tied=True),
        _llama("llama3.2-3b", 28, 3072, 24, 8, 8192, 128256, 131072, tied=True),
    ]


def _mixtrals() -> list[Decoder]:
    shared: dict[str, Any] = {"kv_heads": 8, "experts": 8, "top_k": 2}
    return [
        Decoder(
            name="mixtral-8x7b",
            layers=32,
            hidden=4096,
            heads=32,
            ffn=14336,
            expert_ffn=14336,
            vocab=32000,
            context=32768,
            **shared,
        ),
        Decoder(
            name="mixtral-8x22b",
            layers=56,
            hidden=6144,
            heads=48,
            ffn=16384,
            expert_ffn=16384,
            vocab=32768,
            context=65536,
            **shared,
        ),
    ]


def _deepseeks() -> list[Decoder]:
    latent: dict[str, Any] = {"kv_lora": 512, "nope_dim": 128, "rope_dim": 64, "value_dim": 128}
    latent["context"] = 163840
    return [
        Decoder(
            name="deepseek-v3",
            layers=61,
            hidden=7168,
            heads=128,
            ffn=18432,
            vocab=129280,
            q_lora=1536,
            experts=256,
            top_k=8,
            expert_groups=8,
            top_groups=4,
            expert_ffn=2048,
            shared_experts=1,
            dense_layers=3,
            **latent,
        ),
        Decoder(
            name="deepseek-v3-16b",
            layers=27,
            hidden=2048,
            heads=16,
            ffn=10944,
            vocab=102400,
            experts=64,
            top_k=6,
            expert_ffn=1408,
            shared_experts=2,
            dense_layers=1,
            **latent,
        ),
    ]


def _qwens() -> list[Decoder]:
    sizes = {
        "0.6b": (28, 1024, 16, 3072, True),
        "1.7b": (28, 2048, 16, 6144, True),
        "4b": (36, 2560, 32, 9728, True),
        "8b": (36, 4096, 32, 12288, False),
        "14b": (40, 5120, 40, 17408, False),
        "32b": (64, 5120, 64, 25600, False),
    }
    shared: dict[str, Any] = {"vocab": 151936, "head_dim": 128, "qk_norm": True, "context": 40960}
    dense = [
        Decoder(name=f"qwen3-{n}", layers=a, hidden=d, heads=h, kv_heads=8, ffn=f, tied=t, **shared)
        for n, (a, d, h, f, t) in sizes.items()
    ]
    routed = {"30b-a3b": (48, 2048, 32, 6144, 768), "235b-a22b": (94, 4096, 64, 12288, 1536)}
    return dense + [
        Decoder(
            name=f"qwen3-{n}",
            layers=a,
            hidden=d,
            heads=h,
            kv_heads=4,
            ffn=f,
            experts=128,
            top_k=8,
            expert_ffn=e,
            **shared,
        )
        for n, (a, d, h, f, e) in routed.items()
    ]


def _visions() -> list[Vision]:
    sizes = {
        "vit-b-16": (12, 768, 12, 3072, 16),
        "vit-l-16": (24, 1024, 16, 4096, 16),
        "vit-h-14": (32, 1280, 16, 5120, 14),
    }
    return [
        Vision(name=n, layers=a, hidden=d, heads=h, ffn=f, patch=p)
        for n, (a, d, h, f, p) in sizes.items()
    ]


def _diffusions() -> list[Diffusion]:
    sizes = {"s": (12, 384, 6), "b": (12, 768, 12), "l": (24, 1024, 16), "xl": (28, 1152, 16)}
    images = [
        Diffusion(name=f"dit-{n}-2", layers=a, hidden=d, heads=h, ffn=4 * d, classes=1001)
        for n, (a, d, h) in sizes.items()
    ]
    video: dict[str, Any] = {
        "frames": 21,
        "height": 90,
        "width": 160,
        "channels": 16,
        "out_channels": 16,
        "text_tokens": 512,
        "text_dim": 4096,
        "modulation": "shared",
        "qk_norm": True,
    }
    return [
        *images,
        Diffusion(name="wan2.1-1.3b", layers=30, hidden=1536, heads=12, ffn=8960, **video),
        Diffusion(name="wan2.1-14b", layers=40, hidden=5120, heads=40, ffn=13824, **video),
    ]


_CRITEO = [
    40_000_000, 39_060, 17_295, 7_424, 20_265, 3, 7_122, 1_543, 63, 40_000_000, 3_067_956, 405_282, 10,
    2_209, 11_938, 155, 4, 976, 14, 40_000_000, 40_000_000, 40_000_000, 590_152, 12_973, 108, 36,
]  # fmt: skip
"""Rows of the embedding tables of the Criteo 1TB click logs, capped at 40 million as MLPerf does."""


def _recommenders() -> list[Recommender]:
    return [
        Recommender(
            name="dlrm-criteo",
            tables=_CRITEO,
            dim=128,
            bottom=[512, 256, 128],
            top=[1024, 1024, 512, 256, 1],
        ),
        Recommender(
            name="dlrm-dcnv2",
            tables=_CRITEO,
            dim=128,
            bottom=[512, 256, 128],
            top=[1024, 1024, 512, 256, 1],
            pooling=8,
            interaction="dcn",
            cross_layers=3,
            cross_rank=512,
        ),
    ]


@cache
def catalog() -> dict[str, Model]:
    """All models by name."""
    models: dict[str, Model] = {**_gpt3(), **_megatron()}
    for family in (
        _llamas(),
        _mixtrals(),
        _deepseeks(),
        _qwens(),
        _visions(),
        _diffusions(),
        _recommenders(),
    ):
        models |= {m.name: m for m in family}
    return models
