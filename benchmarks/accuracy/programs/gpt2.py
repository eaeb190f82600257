"""A training step of GPT-2 (124M) as transformers computes it: batch 8 of 1,024 tokens, bf16, fused AdamW."""

import math

import torch
from torch import Tensor, nn
from torch.nn import functional

HIDDEN, HEADS, LAYERS, VOCABULARY, BATCH, SEQUENCE = 768, 12, 12, 50257, 8, 1024


class Projection(nn.Module):
    """A linear layer whose weight lies as (inputs, outputs)."""

    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(inputs, outputs))
        self.bias = nn.Parameter(torch.zeros(outputs))

    def forward(self, x: Tensor) -> Tensor:
        out = torch.addmm(self.bias, x.view(-1, x.size(-1)), self.weight)
        return out.view(*x.shape[:-1], out.size(-1))


class Block(nn.Module):
    """Attention and a feed-forward layer, each after a normalisation."""

    def __init__(self) -> None:
        super().__init__()
        self.ln_1, self.ln_2 = nn.LayerNorm(HIDDEN), nn.LayerNorm(HIDDEN)
        self.c_attn, self.c_proj = Projection(HIDDEN, 3 * HIDDEN), Projection(HIDDEN, HIDDEN)
        self.c_fc, self.mlp_proj = Projection(HIDDEN, 4 * HIDDEN), Projection(4 * HIDDEN, HIDDEN)
        self.drop = nn.Dropout(0.1)

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.drop(self.c_proj(self._attention(self.ln_1(x))))
        return x + self.drop(self.mlp_proj(_gelu(self.c_fc(self.ln_2(x)))))

    def _attention(self, x: Tensor) -> Tensor:
        parts = (
            p.view(*p.shape[:2], HEADS, -1).transpose(1, 2) for p in self.c_attn(x).split(HIDDEN, 2)
        )
        query, key, value = parts
        key, value = torch.cat([key], 2), torch.cat([value], 2)
        out = functional.scaled_dot_product_attention(
            query, key, value, dropout_p=0.1, is_causal=True
        )
        return out.transpose(1, 2).reshape(x.shape)


def _gelu(x: Tensor) -> Tensor:
    inner = math.sqrt(2.0 / math.pi) * (x + 0.044715 * torch.pow(x, 3.0))
    return 0.5 * x * (1.0 + torch.tanh(inner))


class GPT2(nn.Module):
    """The model, its head sharing the embedding's weights."""

    def __init__(self) -> None:
        super().__init__()
        self.wte, self.wpe = nn.Embedding(VOCABULARY, HIDDEN), nn.Embedding(SEQUENCE, HIDDEN)
        self.h, self.ln_f = nn.ModuleList(Block() for _ in range(LAYERS)), nn.LayerNorm(HIDDEN)
        self.drop = nn.Dropout(0.1)

    def forward(self, ids: Tensor, labels: Tensor) -> Tensor:
        x = self.wte(ids) + self.wpe(torch.arange(ids.size(1), device=ids.device)[None])
        x = self.drop(x)
        for block in self.h:
            x = block(x)
        logits = functional.linear(self.ln_f(x), self.wte.weight).float()
        labels = functional.pad(labels, (0, 1), value=-100)[..., 1:].contiguous()
        return functional.cross_entropy(
            logits.view(-1, VOCABULARY), labels.view(-1), ignore_index=-100
        )


def main() -> None:
    device = torch.device("cuda")
    model = GPT2().to(device, torch.bfloat16)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)
    ids = torch.randint(0, VOCABULARY, (BATCH, SEQUENCE), device=device)
    for _ in range(3):
        loss = model(ids, ids)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)


if __name__ == "__main__":
    main()
