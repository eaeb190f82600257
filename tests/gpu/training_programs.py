"""Training programs as users write them: `python training_programs.py NAME` takes three steps on a GPU.

`captured_operators.py` records them there and captures them without it. The models are small enough to start
within seconds and large enough that memory is theirs, not the workspaces of libraries.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import torch
from torch import nn
from torch.nn import functional

PROGRAMS: dict[str, Callable[[], None]] = {}
STEPS = 3
COMPILED = False


def program(function: Callable[[], None]) -> Callable[[], None]:
    PROGRAMS[function.__name__] = function
    return function


def steps(
    model: nn.Module,
    loss_of: Callable[[], torch.Tensor],
    optimizer: torch.optim.Optimizer,
    *,
    autocast: bool = False,
    clip: float = 0.0,
) -> None:
    if COMPILED:
        model.compile()
    for step in range(STEPS):
        with torch.autocast("cuda", torch.bfloat16, enabled=autocast):
            loss = loss_of()
        loss.backward()
        if clip:
            nn.utils.clip_grad_norm_(model.parameters(), clip)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        print(f"step {step} loss {loss.item():.4f}")


def tokens(vocabulary: int, batch: int, length: int) -> torch.Tensor:
    return torch.randint(vocabulary, (batch, length), device="cuda")


def language_model(
    model: Any, vocabulary: int, batch: int, length: int, *, autocast: bool, fused: bool = False
) -> None:
    model = model.to("cuda").train()
    ids = tokens(vocabulary, batch, length)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=fused or None)
    steps(model, lambda: model(input_ids=ids, labels=ids).loss, optimizer, autocast=autocast)


def classifier(model: nn.Module, batch: int, side: int, *, channels_last: bool = False) -> None:
    layout = torch.channels_last if channels_last else torch.contiguous_format
    model = model.to("cuda", memory_format=layout).train()
    images = torch.randn(batch, 3, side, side, device="cuda").to(memory_format=layout)
    labels = torch.randint(1000, (batch,), device="cuda")
    optimizer = torch.optim.SGD(model.parameters(), 0.1, momentum=0.9, weight_decay=1e-4)

    def loss() -> torch.Tensor:
        return functional.cross_entropy(model(images), labels, label_smoothing=0.1)

    steps(model, loss, optimizer, autocast=True)


@program
def llama() -> None:
    from transformers import LlamaConfig, LlamaForCausalLM

    config = LlamaConfig(
        hidden_size=1024, intermediate_size=2816, num_hidden_layers=6, num_attention_heads=16,
        num_key_value_heads=4, vocab_size=32000,
    )  # fmt: skip
    model = LlamaForCausalLM(config).to(torch.bfloat16)
    language_model(model, 32000, 4, 1024, autocast=False, fused=True)


@program
def gpt2() -> None:
    from transformers import GPT2Config, GPT2LMHeadModel

    model = GPT2LMHeadModel(GPT2Config(n_layer=6))
    language_model(model, 50257, 4, 512, autocast=True)


@program
def bert() -> None:
    from transformers import BertConfig, BertForMaskedLM

    model = BertForMaskedLM(BertConfig(num_hidden_layers=6))
    language_model(model, 30522, 16, 512, autocast=True)


@program
def t5() -> None:
    from transformers import T5Config, T5ForConditionalGeneration

    model = T5ForConditionalGeneration(
        T5Config(num_layers=4, num_decoder_layers=4, decoder_start_token_id=0)
    )
    language_model(model, 32128, 16, 256, autocast=False)


@program
def qwen3_moe() -> None:
    from transformers import Qwen3MoeConfig, Qwen3MoeForCausalLM

    config = Qwen3MoeConfig(
        hidden_size=512, intermediate_size=1024, moe_intermediate_size=256, num_experts=8,
        num_experts_per_tok=2, num_hidden_layers=4, num_attention_heads=8, num_key_value_heads=2,
        head_dim=64, vocab_size=32000,
    )  # fmt: skip
    model = Qwen3MoeForCausalLM(config).to(torch.bfloat16)
    language_model(model, 32000, 4, 1024, autocast=False)


@program
def vit() -> None:
    from transformers import ViTConfig, ViTForImageClassification

    model = ViTForImageClassification(ViTConfig(num_hidden_layers=6, num_labels=1000)).to("cuda")
    images = torch.randn(64, 3, 224, 224, device="cuda")
    labels = torch.randint(1000, (64,), device="cuda")
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    steps(model, lambda: model(pixel_values=images, labels=labels).loss, optimizer, autocast=True)


@program
def resnet50() -> None:
    import torchvision

    classifier(torchvision.models.resnet50(), 64, 224, channels_last=True)


@program
def swin() -> None:
    import torchvision

    classifier(torchvision.models.swin_t(), 32, 224)


@program
def convnext() -> None:
    import torchvision

    classifier(torchvision.models.convnext_tiny(), 32, 224)


class Block(nn.Module):
    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.ln_1, self.ln_2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.c_attn = nn.Linear(width, 3 * width, bias=False)
        self.c_proj = nn.Linear(width, width, bias=False)
        self.mlp = nn.Sequential(
            nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width), nn.Dropout(0.1)
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        batch, length, width = x.shape
        parts = self.c_attn(self.ln_1(x)).split(width, dim=2)
        q, k, v = (p.view(batch, length, self.heads, -1).transpose(1, 2) for p in parts)
        y = functional.scaled_dot_product_attention(q, k, v, dropout_p=0.1, is_causal=True)
        x = x + self.c_proj(y.transpose(1, 2).contiguous().view(batch, length, width))
        return x + self.mlp(self.ln_2(x))


class GPT(nn.Module):
    def __init__(self, width: int = 768, layers: int = 4, vocabulary: int = 50304) -> None:
        super().__init__()
        self.wte, self.wpe = nn.Embedding(vocabulary, width), nn.Embedding(1024, width)
        self.blocks = nn.ModuleList(Block(width, 12) for _ in range(layers))
        self.ln_f = nn.LayerNorm(width)
        self.lm_head = nn.Linear(width, vocabulary, bias=False)
        self.wte.weight = self.lm_head.weight

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        x = self.wte(ids) + self.wpe(torch.arange(ids.shape[1], device=ids.device))
        for block in self.blocks:
            x = block(x)
        return self.lm_head(self.ln_f(x))


@program
def nanogpt() -> None:
    """In the manner of nanoGPT's train.py: two micro-batches, clipped gradients, a fused optimizer."""
    torch.backends.cuda.matmul.allow_tf32 = True
    model = GPT().to("cuda")
    decayed = [p for p in model.parameters() if p.dim() >= 2]
    others = [p for p in model.parameters() if p.dim() < 2]
    groups = [{"params": decayed, "weight_decay": 0.1}, {"params": others, "weight_decay": 0.0}]
    optimizer = torch.optim.AdamW(groups, lr=6e-4, betas=(0.9, 0.95), fused=True)
    data = torch.randint(50304, (100_000,))
    for _ in range(STEPS):
        for _ in range(2):
            at = torch.randint(len(data) - 513, (8,))
            x = (
                torch.stack([data[i : i + 512] for i in at])
                .pin_memory()
                .to("cuda", non_blocking=True)
            )
            y = (
                torch.stack([data[i + 1 : i + 513] for i in at])
                .pin_memory()
                .to("cuda", non_blocking=True)
            )
            with torch.amp.autocast("cuda", dtype=torch.bfloat16):
                logits = model(x)
                loss = functional.cross_entropy(logits.view(-1, logits.size(-1)), y.view(-1)) / 2
            loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)


class Residual(nn.Module):
    def __init__(self, before: int, after: int) -> None:
        super().__init__()
        self.body = nn.Sequential(
            nn.GroupNorm(8, before), nn.SiLU(), nn.Conv2d(before, after, 3, padding=1),
            nn.GroupNorm(8, after), nn.SiLU(), nn.Conv2d(after, after, 3, padding=1),
        )  # fmt: skip
        self.skip = nn.Conv2d(before, after, 1) if before != after else nn.Identity()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.skip(x) + self.body(x)


class UNet(nn.Module):
    def __init__(self, width: int = 64) -> None:
        super().__init__()
        sizes = [width, 2 * width, 4 * width]
        self.first = nn.Conv2d(3, width, 3, padding=1)
        self.down = nn.ModuleList(
            Residual(a, b) for a, b in zip([width, *sizes], sizes, strict=False)
        )
        self.pool = nn.ModuleList(nn.Conv2d(s, s, 3, stride=2, padding=1) for s in sizes)
        self.middle = Residual(sizes[-1], sizes[-1])
        self.up = nn.ModuleList(
            Residual(a + b, b) for a, b in zip([sizes[-1], *sizes[::-1]], sizes[::-1], strict=False)
        )
        self.last = nn.Conv2d(width, 3, 3, padding=1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x, kept = self.first(x), []
        for block, pool in zip(self.down, self.pool, strict=True):
            kept.append(block(x))
            x = pool(kept[-1])
        x = self.middle(x)
        for block in self.up:
            x = functional.interpolate(x, scale_factor=2.0, mode="nearest")
            x = block(torch.cat([x, kept.pop()], dim=1))
        return self.last(x)


@program
def unet() -> None:
    """A denoiser with clipped gradients."""
    model = UNet().to("cuda")
    images = torch.randn(16, 3, 128, 128, device="cuda")
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)

    def loss() -> torch.Tensor:
        noise = torch.randn_like(images)
        return functional.mse_loss(model(images + noise).float(), noise)

    steps(model, loss, optimizer, autocast=True, clip=1.0)


@program
def lstm() -> None:
    emb = nn.Embedding(20000, 512)
    rnn = nn.LSTM(512, 512, num_layers=2, dropout=0.2)
    head = nn.Linear(512, 20000)
    model = nn.ModuleList([emb, rnn, head]).to("cuda")
    ids = tokens(20000, 64, 32)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)

    def loss() -> torch.Tensor:
        out, _ = rnn(emb(ids))
        return functional.cross_entropy(head(out).flatten(0, 1), ids.flatten())

    steps(model, loss, optimizer, clip=0.25)


if __name__ == "__main__":
    torch.manual_seed(0)
    PROGRAMS[sys.argv[1]]()
