"""A training step of a Llama of 1.1B parameters as transformers computes it: batch 4 of 2,048, bf16."""

import torch
from torch import Tensor, nn
from torch.nn import functional

HIDDEN, INNER, HEADS, KEYS, LAYERS, VOCABULARY = 2048, 8192, 32, 8, 16, 32000
BATCH, SEQUENCE, SIZE = 4, 2048, 64


class Norm(nn.Module):
    """Root-mean-square normalisation, computed in single precision."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(HIDDEN))

    def forward(self, x: Tensor) -> Tensor:
        wide = x.to(torch.float32)
        variance = wide.pow(2).mean(-1, keepdim=True)
        return self.weight * (wide * torch.rsqrt(variance + 1e-6)).to(x.dtype)


def _linear(inputs: int, outputs: int) -> nn.Linear:
    return nn.Linear(inputs, outputs, bias=False)


class Layer(nn.Module):
    """Attention with rotary positions and fewer keys than queries, and a gated feed-forward layer."""

    def __init__(self) -> None:
        super().__init__()
        self.q_proj, self.o_proj = _linear(HIDDEN, HIDDEN), _linear(HIDDEN, HIDDEN)
        self.k_proj, self.v_proj = _linear(HIDDEN, KEYS * SIZE), _linear(HIDDEN, KEYS * SIZE)
        self.gate_proj, self.up_proj = _linear(HIDDEN, INNER), _linear(HIDDEN, INNER)
        self.down_proj, self.norm_1, self.norm_2 = _linear(INNER, HIDDEN), Norm(), Norm()

    def forward(self, x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
        x = x + self._attention(self.norm_1(x), cos, sin)
        y = self.norm_2(x)
        return x + self.down_proj(functional.silu(self.gate_proj(y)) * self.up_proj(y))

    def _attention(self, x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
        shape = (BATCH, SEQUENCE, -1, SIZE)
        each = (self.q_proj, self.k_proj, self.v_proj)
        query, key, value = (p(x).view(shape).transpose(1, 2) for p in each)
        query, key = query * cos + _turned(query) * sin, key * cos + _turned(key) * sin
        key, value = torch.cat([key], -2), torch.cat([value], -2)
        out = functional.scaled_dot_product_attention(
            query, key, value, is_causal=True, enable_gqa=True
        )
        return self.o_proj(out.transpose(1, 2).contiguous().reshape(BATCH, SEQUENCE, -1))


def _turned(x: Tensor) -> Tensor:
    return torch.cat((-x[..., SIZE // 2 :], x[..., : SIZE // 2]), -1)


class Llama(nn.Module):
    """The model and its loss."""

    def __init__(self) -> None:
        super().__init__()
        self.embed, self.head = nn.Embedding(VOCABULARY, HIDDEN), _linear(HIDDEN, VOCABULARY)
        self.layers, self.norm = nn.ModuleList(Layer() for _ in range(LAYERS)), Norm()

    def forward(self, ids: Tensor) -> Tensor:
        x = self.embed(ids)
        place = torch.arange(SEQUENCE, device=ids.device, dtype=torch.float32)
        angle = torch.outer(place, torch.ones(SIZE // 2, device=ids.device))
        angle = torch.cat((angle, angle), -1)[None, None]
        cos, sin = angle.cos().to(x.dtype), angle.sin().to(x.dtype)
        for layer in self.layers:
            x = layer(x, cos, sin)
        logits = self.head(self.norm(x)).float()
        labels = functional.pad(ids, (0, 1), value=-100)[..., 1:].contiguous()
        return functional.cross_entropy(
            logits.view(-1, VOCABULARY), labels.view(-1), ignore_index=-100
        )


def main() -> None:
    device = torch.device("cuda")
    model = Llama().to(device, torch.bfloat16)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)
    ids = torch.randint(0, VOCABULARY, (BATCH, SEQUENCE), device=device)
    for _ in range(3):
        loss = model(ids)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)


if __name__ == "__main__":
    main()
