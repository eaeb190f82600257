"""Training programs whose kernels are shorter than their launches: `python launch_bound.py CASE`.

They need PyTorch alone. On a GPU, `--measure` prints the time of a step, steps back to back.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable, Iterator
from functools import partial
from itertools import pairwise

import torch
from torch import nn
from torch.nn import functional

DEVICE = "cuda"


class Block(nn.Module):
    """A small transformer block with separate projections."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.query, self.key, self.value = (nn.Linear(width, width) for _ in range(3))
        self.out, self.up, self.down = (
            nn.Linear(width, width),
            nn.Linear(width, 4 * width),
            nn.Linear(4 * width, width),
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        b, s, w = x.shape
        y = self.norm1(x)
        q, k, v = (
            f(y).view(b, s, self.heads, w // self.heads).transpose(1, 2)
            for f in (self.query, self.key, self.value)
        )
        a = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(a.transpose(1, 2).reshape(b, s, w))
        return x + self.down(functional.gelu(self.up(self.norm2(x))))


class SmallGPT(nn.Module):
    """A language model of a few small blocks."""

    def __init__(self, layers: int, width: int) -> None:
        super().__init__()
        self.embedding = nn.Embedding(8192, width)
        self.blocks = nn.ModuleList(Block(width, 4) for _ in range(layers))
        self.head = nn.Linear(width, 8192)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        x = self.embedding(tokens)
        for block in self.blocks:
            x = block(x)
        return self.head(x)


class SmallConv(nn.Module):
    """Residual convolutions on small images."""

    def __init__(self, width: int, depth: int) -> None:
        super().__init__()
        self.first = nn.Conv2d(3, width, 3, padding=1)
        self.layers = nn.ModuleList(
            nn.Sequential(nn.Conv2d(width, width, 3, padding=1), nn.BatchNorm2d(width), nn.ReLU())
            for _ in range(depth)
        )
        self.last = nn.Linear(width, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.first(x)
        for layer in self.layers:
            x = x + layer(x)
        return self.last(x.mean((2, 3)))


class Unrolled(nn.Module):
    """A recurrent cell called in a Python loop."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.cell = nn.GRUCell(width, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        state = torch.zeros_like(x[0])
        for item in x:
            state = self.cell(item, state)
        return state


Step = Callable[[], None]
Parameters = Iterator[nn.Parameter]
MakesOptimizer = Callable[[Parameters], torch.optim.Optimizer]


def train(
    model: nn.Module,
    optimizer: torch.optim.Optimizer,
    loss: Callable[[], torch.Tensor],
    *,
    autocast: bool = False,
    reads_loss: bool = False,
) -> Step:
    def step() -> None:
        with torch.autocast(DEVICE, torch.bfloat16, enabled=autocast):
            value = loss()
        value.backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        if reads_loss:
            value.item()

    return step


def gpt(layers: int, width: int, *, fused: bool, autocast: bool, reads_loss: bool = False) -> Step:
    model = SmallGPT(layers, width).to(DEVICE)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=fused)
    tokens = torch.randint(0, 8192, (4, 128), device=DEVICE)

    def loss() -> torch.Tensor:
        return functional.cross_entropy(model(tokens).flatten(0, 1), tokens.flatten())

    return train(model, optimizer, loss, autocast=autocast, reads_loss=reads_loss)


def conv() -> Step:
    model = SmallConv(64, 48).to(DEVICE)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    images = torch.randn(16, 3, 32, 32, device=DEVICE)
    labels = torch.randint(0, 10, (16,), device=DEVICE)
    return train(
        model, optimizer, lambda: functional.cross_entropy(model(images), labels), autocast=True
    )


def mlp() -> Step:
    layers = [m for _ in range(48) for m in (nn.Linear(512, 512), nn.ReLU())]
    model = nn.Sequential(*layers).to(DEVICE)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-4)
    x = torch.randn(64, 512, device=DEVICE)
    return train(model, optimizer, lambda: functional.mse_loss(model(x), x))


def recurrent() -> Step:
    model = Unrolled(256).to(DEVICE)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    x = torch.randn(96, 32, 256, device=DEVICE)
    return train(model, optimizer, lambda: model(x).square().mean())


class Residual(nn.Module):
    """Two convolutions with normalisation around which the input passes."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.first = nn.Conv2d(width, width, 3, padding=1, bias=False)
        self.second = nn.Conv2d(width, width, 3, padding=1, bias=False)
        self.norm1, self.norm2 = nn.BatchNorm2d(width), nn.BatchNorm2d(width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = functional.relu(self.norm1(self.first(x)))
        return functional.relu(x + self.norm2(self.second(y)))


def sgd(parameters: Parameters) -> torch.optim.Optimizer:
    return torch.optim.SGD(parameters, lr=0.01, momentum=0.9)


def residual(optimizer: MakesOptimizer, *, autocast: bool, channels_last: bool) -> Step:
    head = (nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(32, 10))
    model = nn.Sequential(nn.Conv2d(3, 32, 3), *(Residual(32) for _ in range(20)), *head).to(DEVICE)
    images = torch.randn(8, 3, 32, 32, device=DEVICE)
    if channels_last:
        model, images = (x.to(memory_format=torch.channels_last) for x in (model, images))
    labels = torch.randint(0, 10, (8,), device=DEVICE)
    update = optimizer(model.parameters())
    return train(
        model, update, lambda: functional.cross_entropy(model(images), labels), autocast=autocast
    )


def _encoder(layers: int) -> nn.Sequential:
    each = (nn.TransformerEncoderLayer(256, 4, 1024, batch_first=True) for _ in range(layers))
    return nn.Sequential(*each).to(DEVICE)


def encoder(optimizer: MakesOptimizer, *, autocast: bool) -> Step:
    model = _encoder(12).train()
    x = torch.randn(2, 64, 256, device=DEVICE)
    update = optimizer(model.parameters())
    return train(model, update, lambda: model(x).square().mean(), autocast=autocast)


def translator() -> Step:
    """PyTorch's own transformer with an encoder and a decoder, in bf16 with a fused optimizer."""
    model = nn.Transformer(768, 12, 4, 4, 3072, dropout=0.0, batch_first=True)
    model = model.to(DEVICE, torch.bfloat16)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)
    a, b = (torch.randn(24, 384, 768, device=DEVICE, dtype=torch.bfloat16) for _ in range(2))
    return train(model, optimizer, lambda: model(a, b).float().square().mean())


def groupnormed() -> Step:
    def layer(before: int, after: int) -> nn.Sequential:
        return nn.Sequential(
            nn.Conv2d(before, after, 3, padding=1), nn.GroupNorm(4, after), nn.SiLU()
        )

    layers = [layer(4, 32), *(layer(32, 32) for _ in range(30)), nn.Conv2d(32, 4, 1)]
    model = nn.Sequential(*layers).to(DEVICE)
    x = torch.randn(2, 4, 32, 32, device=DEVICE)
    optimizer = torch.optim.AdamW(model.parameters())
    return train(model, optimizer, lambda: functional.mse_loss(model(x), x), autocast=True)


def lstm() -> Step:
    layers, head = nn.LSTM(128, 128, 2, batch_first=True).to(DEVICE), nn.Linear(128, 128).to(DEVICE)
    x = torch.randn(8, 32, 128, device=DEVICE)
    model = nn.ModuleList([layers, head])
    optimizer = torch.optim.AdamW(model.parameters())
    return train(model, optimizer, lambda: head(layers(x)[0]).square().mean())


class TinyViT(nn.Module):
    """ViT-Ti/16: twelve blocks of 192 over 14 × 14 patches and a class token."""

    def __init__(self) -> None:
        super().__init__()
        self.patches = nn.Conv2d(3, 192, 16, 16)
        self.token = nn.Parameter(torch.zeros(1, 1, 192))
        self.positions = nn.Parameter(torch.zeros(1, 197, 192))
        self.blocks = nn.ModuleList(
            nn.TransformerEncoderLayer(192, 3, 768, 0.0, "gelu", batch_first=True, norm_first=True)
            for _ in range(12)
        )
        self.norm, self.head = nn.LayerNorm(192), nn.Linear(192, 1000)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        x = self.patches(images).flatten(2).transpose(1, 2)
        x = torch.cat([self.token.expand(len(x), -1, -1), x], 1) + self.positions
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x[:, 0]))


def vit_tiny() -> Step:
    model = TinyViT().to(DEVICE)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    images = torch.randn(2, 3, 224, 224, device=DEVICE)
    labels = torch.randint(0, 1000, (2,), device=DEVICE)
    return train(model, optimizer, lambda: functional.cross_entropy(model(images), labels))


class Gates(nn.Module):
    """An LSTM cell written by hand: two projections, four gates, two states."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.input, self.state = nn.Linear(width, 4 * width), nn.Linear(width, 4 * width)

    def forward(
        self, x: torch.Tensor, hidden: torch.Tensor, cell: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        i, f, g, o = (self.input(x) + self.state(hidden)).chunk(4, 1)
        cell = torch.sigmoid(f) * cell + torch.sigmoid(i) * torch.tanh(g)
        return torch.sigmoid(o) * torch.tanh(cell), cell


def gates() -> Step:
    model = Gates(256).to(DEVICE)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    x = torch.randn(40, 16, 256, device=DEVICE)

    def loss() -> torch.Tensor:
        hidden = cell = torch.zeros(16, 256, device=DEVICE)
        for item in x:
            hidden, cell = model(item, hidden, cell)
        return hidden.square().mean()

    return train(model, optimizer, loss)


class Convolution(nn.Module):
    """A layer of a graph network: messages along edges, summed at their ends."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.message, self.own, self.norm = (
            nn.Linear(width, width),
            nn.Linear(width, width),
            nn.LayerNorm(width),
        )

    def forward(self, x: torch.Tensor, source: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        sent = functional.relu(self.message(x[source]))
        received = torch.zeros_like(x).index_add(0, target, sent)
        return x + functional.relu(self.norm(self.own(x) + received))


def graph() -> Step:
    layers = nn.ModuleList(Convolution(64) for _ in range(16)).to(DEVICE)
    head = nn.Linear(64, 7).to(DEVICE)
    nodes, edges = 2000, 8000
    x = torch.randn(nodes, 64, device=DEVICE)
    source, target = (torch.randint(0, nodes, (edges,), device=DEVICE) for _ in range(2))
    labels = torch.randint(0, 7, (nodes,), device=DEVICE)
    optimizer = torch.optim.Adam([*layers.parameters(), *head.parameters()], lr=1e-3)

    def loss() -> torch.Tensor:
        y = x
        for layer in layers:
            y = layer(y, source, target)
        return functional.cross_entropy(head(y), labels)

    return train(layers, optimizer, loss)


def _perceptron(*widths: int) -> nn.Sequential:
    layers: list[nn.Module] = []
    for before, after in pairwise(widths):
        layers += [nn.Linear(before, after), nn.Tanh()]
    return nn.Sequential(*layers[:-1]).to(DEVICE)


def actor_critic() -> Step:
    """Two small networks with an optimizer each, and a slow copy of one that follows it."""
    actor, critic, slow = (
        _perceptron(24, 256, 256, 256, 6),
        _perceptron(30, 256, 256, 256, 1),
        _perceptron(30, 256, 256, 256, 1),
    )
    optimizers = [torch.optim.Adam(m.parameters(), lr=3e-4) for m in (actor, critic)]
    state, following = (torch.randn(256, 24, device=DEVICE) for _ in range(2))
    action, reward = torch.randn(256, 6, device=DEVICE), torch.randn(256, 1, device=DEVICE)

    def update(k: int, value: torch.Tensor) -> None:
        optimizers[k].zero_grad(set_to_none=True)
        value.backward()
        optimizers[k].step()

    def step() -> None:
        with torch.no_grad():
            goal = reward + 0.99 * slow(torch.cat([following, actor(following)], 1))
        update(1, functional.mse_loss(critic(torch.cat([state, action], 1)), goal))
        update(0, -critic(torch.cat([state, torch.tanh(actor(state))], 1)).mean())
        with torch.no_grad():
            for old, new in zip(slow.parameters(), critic.parameters(), strict=True):
                old.mul_(0.995).add_(new, alpha=0.005)

    return step


class Mixing(nn.Module):
    """A block of MLP-Mixer: one perceptron over tokens, one over channels."""

    def __init__(self, tokens: int, width: int) -> None:
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.over_tokens = nn.Sequential(
            nn.Linear(tokens, 2 * tokens), nn.GELU(), nn.Linear(2 * tokens, tokens)
        )
        self.over_channels = nn.Sequential(
            nn.Linear(width, 2 * width), nn.GELU(), nn.Linear(2 * width, width)
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x + self.over_tokens(self.norm1(x).transpose(1, 2)).transpose(1, 2)
        return x + self.over_channels(self.norm2(x))


def mixer() -> Step:
    model = nn.Sequential(*(Mixing(49, 128) for _ in range(16))).to(DEVICE)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, fused=True)
    x = torch.randn(4, 49, 128, device=DEVICE)
    return train(model, optimizer, lambda: model(x).square().mean(), autocast=True)


CASES: dict[str, Callable[[], Step]] = {
    "gpt": lambda: gpt(8, 256, fused=False, autocast=False),
    "gpt_autocast": lambda: gpt(8, 256, fused=True, autocast=True),
    "gpt_item": lambda: gpt(8, 256, fused=True, autocast=False, reads_loss=True),
    "conv": conv,
    "mlp": mlp,
    "recurrent": recurrent,
    "residual": lambda: residual(sgd, autocast=False, channels_last=False),
    "residual_last": lambda: residual(sgd, autocast=True, channels_last=True),
    "residual_adamw": lambda: residual(torch.optim.AdamW, autocast=True, channels_last=False),
    "encoder": lambda: encoder(torch.optim.AdamW, autocast=False),
    "encoder_autocast": lambda: encoder(partial(torch.optim.AdamW, fused=True), autocast=True),
    "translator": translator,
    "groupnormed": groupnormed,
    "lstm": lstm,
    "vit_tiny": vit_tiny,
    "gates": gates,
    "graph": graph,
    "actor_critic": actor_critic,
    "mixer": mixer,
}


def measure(step: Step, steps: int = 50) -> dict[str, float]:
    """Milliseconds of a step, steps back to back, and how long the host needs to launch one."""
    for _ in range(10):
        step()
    torch.cuda.synchronize()
    begin = time.perf_counter()
    for _ in range(steps):
        step()
    torch.cuda.synchronize()
    whole = time.perf_counter() - begin
    return {"step_ms": whole / steps * 1e3, "peak_gib": torch.cuda.max_memory_allocated() / 2**30}


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("case", choices=CASES)
    parser.add_argument("--measure", action="store_true")
    arguments = parser.parse_args()
    torch.manual_seed(0)
    step = CASES[arguments.case]()
    if arguments.measure:
        print(json.dumps({"case": arguments.case} | measure(step)), flush=True)
    else:
        for _ in range(3):
            step()


if __name__ == "__main__":
    main()
