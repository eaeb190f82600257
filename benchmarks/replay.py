"""Replay against the original, in the same run: processor time per step, and the loop's own cost.

Models are trained with one thread, recorded with `chakrakit.collect`, and replayed. Times are processor
time, medians over steps. The last table is what an operator on 4×4 tensors costs the host: replayed, and
in a loop of eager PyTorch.
"""

from __future__ import annotations

import os
import tempfile
import time
from pathlib import Path
from statistics import median

os.environ.setdefault("OMP_NUM_THREADS", "1")

import torch
from torch import nn

import chakrakit as ck
from chakrakit.replayer import ReplayOptions, replay

STEPS = 7


class Block(nn.Module):
    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.mlp = nn.Sequential(
            nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width)
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        b, s, w = x.shape
        parts = self.qkv(self.norm1(x)).view(b, s, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        mixed = nn.functional.scaled_dot_product_attention(*parts.unbind(0), is_causal=True)
        x = x + self.out(mixed.transpose(1, 2).reshape(b, s, w))
        return x + self.mlp(self.norm2(x))


class Gpt(nn.Module):
    def __init__(self, layers: int, width: int, heads: int, words: int = 2048) -> None:
        super().__init__()
        self.words = words
        self.token, self.place = nn.Embedding(words, width), nn.Embedding(256, width)
        self.blocks = nn.Sequential(*(Block(width, heads) for _ in range(layers)))
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, words, bias=False)

    def forward(self, batch: int, length: int) -> torch.Tensor:
        tokens = torch.randint(0, self.words, (batch, length))
        x = self.token(tokens) + self.place(torch.arange(length))
        scores = self.head(self.norm(self.blocks(x)))
        return nn.functional.cross_entropy(scores.view(-1, self.words), tokens.view(-1))


def convolutions(channels: int, depth: int) -> nn.Module:
    layers: list[nn.Module] = [nn.Conv2d(3, channels, 3, padding=1)]
    for _ in range(depth):
        layers += [nn.Conv2d(channels, channels, 3, padding=1), nn.BatchNorm2d(channels), nn.ReLU()]
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(channels, 10))


def gpt_step(layers: int, width: int):
    model = Gpt(layers, width, 8)
    optimizer = torch.optim.AdamW(model.parameters())

    def step() -> None:
        optimizer.zero_grad()
        model(8, 128).backward()
        optimizer.step()

    return step


def conv_step(channels: int, depth: int):
    model = convolutions(channels, depth)
    optimizer = torch.optim.AdamW(model.parameters())

    def step() -> None:
        optimizer.zero_grad()
        out = model(torch.randn(16, 3, 32, 32))
        nn.functional.cross_entropy(out, torch.randint(0, 10, (16,))).backward()
        optimizer.step()

    return step


def processor_ms(step) -> float:
    times = []
    for _ in range(STEPS):
        begin = time.process_time_ns()
        step()
        times.append(time.process_time_ns() - begin)
    return median(times) / 1e6


def compared(name: str, step, folder: Path) -> None:
    processor_ms(step)
    original = processor_ms(step)
    with ck.collect(folder / "run", steps=(2, 3)) as collected:
        for _ in range(4):
            step()
            collected.step()
    report = replay(str(folder / "run"), ReplayOptions(), iterations=STEPS, warmup=2)
    assert report is not None
    replayed = report.ranks[0].cpu_ns / 1e6
    covered = report.coverage
    print(
        f"{name:<28} {original:9.1f} ms {replayed:9.1f} ms {replayed / original - 1:+8.1%} "
        f"{covered.count:7.1%} {covered.time:7.1%}"
    )


def dispatch() -> None:
    """A plan of small operators against the same in a loop."""
    from chakrakit.replayer.runner.guard import memory_budget
    from chakrakit.replayer.runner.program import PlanProgram

    steps = [
        {
            "do": "call",
            "op": "aten::add",
            "overload": "Tensor",
            "args": [{"slot": 0}, {"slot": 1}],
            "outs": [2],
        },
        {
            "do": "call",
            "op": "aten::view",
            "overload": "",
            "args": [{"slot": 2}, [16]],
            "outs": [3],
            "free": [2],
        },
        {
            "do": "call",
            "op": "aten::mul",
            "overload": "Tensor",
            "args": [{"slot": 3}, {"slot": 3}],
            "outs": [4],
            "free": [3, 4],
        },
    ]
    repeat = 10_000
    with torch.inference_mode():
        program = PlanProgram(
            torch, {"slots": 5, "steps": steps}, "cpu", [], memory_budget(torch, "cpu", 1)
        )
        x, y = program.slots[:2] = torch.randn(4, 4), torch.randn(4, 4)
        program.check()

        def eager() -> None:
            a = x + y
            b = a.view(16)
            _ = b * b

        for name, run in (("replayed", program.run), ("eager, inference mode", eager)):
            print(f"{name:<28} {_each(run, repeat):6.2f} µs per operator")
    x, y = torch.randn(4, 4, requires_grad=True), torch.randn(4, 4)
    print(f"{'eager, with autograd':<28} {_each(eager, repeat):6.2f} µs per operator")


def _each(run, repeat: int) -> float:
    best = []
    for _ in range(5):
        begin = time.process_time_ns()
        for _ in range(repeat):
            run()
        best.append((time.process_time_ns() - begin) / repeat / 3000)
    return min(best)


def main() -> None:
    torch.set_num_threads(1)
    print(f"{'':<28} {'original':>12} {'replayed':>12} {'':>8}   count    time")
    for name, step in (
        ("gpt 2×128", gpt_step(2, 128)),
        ("gpt 6×512", gpt_step(6, 512)),
        ("cnn 16×2", conv_step(16, 2)),
        ("cnn 64×8", conv_step(64, 8)),
    ):
        with tempfile.TemporaryDirectory() as folder:
            compared(name, step, Path(folder))
    dispatch()


if __name__ == "__main__":
    main()
