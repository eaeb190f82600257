"""Mixed precision for a GPU, in bfloat16 or float16 (first argument): says the type of every result."""

import sys

import torch
from torch import nn
from torch.nn import functional
from torch.utils.checkpoint import checkpoint

LOW = getattr(torch, sys.argv[1])
model = nn.ModuleDict(
    {
        "embedding": nn.Embedding(10, 64),
        "norm": nn.LayerNorm(64),
        "rms": nn.RMSNorm(64),
        "linear": nn.Linear(64, 64),
        "head": nn.Linear(64, 10),
    }
).to("cuda")
optimizer = torch.optim.AdamW(model.parameters())
scaler = torch.amp.GradScaler("cuda", enabled=LOW is torch.float16)


def heads(x):
    return x.view(2, 16, 4, 16).transpose(1, 2)


def types(x) -> tuple[torch.Tensor, dict[str, torch.dtype]]:
    h = model["linear"](model["norm"](model["embedding"](x)))
    normed = model["norm"](h)
    mixed = functional.scaled_dot_product_attention(heads(normed), heads(normed), heads(h))
    again = checkpoint(lambda t: model["linear"](model["norm"](t)), h, use_reentrant=False)
    loss = functional.cross_entropy(model["head"](again).flatten(0, 1), x.flatten())
    return loss, {
        "linear": h.dtype,
        "layer_norm": normed.dtype,
        "rms_norm": model["rms"](h).dtype,
        "attention": mixed.dtype,
        "softmax": torch.softmax(h, -1).dtype,
        "exp": h.exp().dtype,
        "sum": h.sum().dtype,
        "add": (h + 1).dtype,
        "stack": torch.stack([h, h]).dtype,
        "loss": loss.dtype,
    }


RULES = torch._C._dispatch_get_registrations_for_dispatch_key("AutocastCUDA")
UNTIL_2_11 = set() if "aten::rms_norm" in RULES else {"rms_norm"}

for _ in range(2):
    tokens = torch.randint(0, 10, (2, 16), device="cuda")
    with torch.autocast("cuda", dtype=LOW):
        assert torch.is_autocast_enabled()
        assert torch.get_autocast_dtype("cuda") is LOW
        loss, found = types(tokens)
    low = {name for name, kind in found.items() if kind is LOW}
    if low != {"linear", "attention", "add", "stack", *UNTIL_2_11}:
        raise TypeError(f"in low precision: {sorted(low)}")
    scaler.scale(loss).backward()
    if not all(p.grad.is_cuda for p in model.parameters() if p.grad is not None):
        raise TypeError("a gradient is not on the device")
    scaler.step(optimizer)
    scaler.update()
    optimizer.zero_grad()
