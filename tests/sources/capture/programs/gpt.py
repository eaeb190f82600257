"""A small GPT under every kind of parallelism: single, ddp, fsdp, tp, fsdp_tp, pp, ep (first argument)."""

import os
import sys

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed import _functional_collectives as funcol
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.pipelining import PipelineStage, Schedule1F1B
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module
from torch.nn import functional

VOCABULARY, WIDTH, HEADS, LAYERS, LENGTH, BATCH = 512, 128, 4, 2, 64, 4


class Experts(nn.Module):
    """One expert on every rank; tokens go to their experts in equal parts and back."""

    def __init__(self) -> None:
        super().__init__()
        self.world = dist.get_world_size()
        self.gate = nn.Linear(WIDTH, self.world)
        self.up, self.down = nn.Linear(WIDTH, 4 * WIDTH), nn.Linear(4 * WIDTH, WIDTH)

    def exchange(self, x):
        equal = [x.shape[0] // self.world] * self.world
        return funcol.all_to_all_single_autograd(x, equal, equal, dist.group.WORLD)

    def forward(self, x):
        flat = x.view(-1, WIDTH)
        scores = torch.softmax(self.gate(flat), -1)
        order = torch.argsort(scores.argmax(-1))
        sent = self.exchange(flat[order])
        back = self.exchange(self.down(functional.gelu(self.up(sent))))
        out = torch.zeros_like(flat).index_copy(0, order, back)
        return (out * scores.max(-1, keepdim=True).values).view(x.shape)


class Attention(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.q, self.k, self.v, self.o = (nn.Linear(WIDTH, WIDTH) for _ in range(4))

    def forward(self, x):
        batch, length, _ = x.shape
        q, k, v = (
            layer(x).view(batch, length, -1, WIDTH // HEADS).transpose(1, 2)
            for layer in (self.q, self.k, self.v)
        )
        y = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.o(y.transpose(1, 2).reshape(batch, length, -1))


class Mlp(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.up, self.down = nn.Linear(WIDTH, 4 * WIDTH), nn.Linear(4 * WIDTH, WIDTH)

    def forward(self, x):
        return self.down(functional.gelu(self.up(x)))


class Block(nn.Module):
    def __init__(self, experts: bool) -> None:
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.attention = Attention()
        self.mlp = Experts() if experts else Mlp()

    def forward(self, x):
        x = x + self.attention(self.norm1(x))
        return x + self.mlp(self.norm2(x))


class Gpt(nn.Module):
    def __init__(self, experts: bool = False) -> None:
        super().__init__()
        self.tokens, self.places = nn.Embedding(VOCABULARY, WIDTH), nn.Embedding(LENGTH, WIDTH)
        self.blocks = nn.ModuleList(Block(experts) for _ in range(LAYERS))
        self.norm, self.head = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, VOCABULARY, bias=False)

    def forward(self, x):
        if self.tokens is not None:
            x = self.tokens(x) + self.places(torch.arange(x.shape[1]))
        for block in self.blocks:
            x = block(x)
        return x if self.head is None else self.head(self.norm(x))


def tensor_parallel(model, mesh) -> None:
    plan = {f"attention.{n}": ColwiseParallel() for n in "qkv"}
    plan |= {
        "attention.o": RowwiseParallel(),
        "mlp.up": ColwiseParallel(),
        "mlp.down": RowwiseParallel(),
    }
    for block in model.blocks:
        parallelize_module(block, mesh, plan)


def stage(model, rank: int):
    half = LAYERS // 2
    model.blocks = model.blocks[:half] if rank == 0 else model.blocks[half:]
    if rank == 0:
        model.norm = model.head = None
    else:
        model.tokens = model.places = None
    return PipelineStage(model, rank, 2, torch.device("cpu"))


def loss_of(logits, targets):
    return functional.cross_entropy(logits.view(-1, VOCABULARY), targets.view(-1))


def main(mode: str) -> None:
    rank, world = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    if mode != "single":
        dist.init_process_group("gloo")
    torch.manual_seed(0)
    model = Gpt(mode == "ep")
    schedule = None
    if mode == "ddp":
        model = nn.parallel.DistributedDataParallel(model, bucket_cap_mb=0.25)
    if mode == "tp":
        tensor_parallel(model, init_device_mesh("cpu", (world,)))
    if mode == "fsdp_tp":
        mesh = init_device_mesh("cpu", (world // 2, 2), mesh_dim_names=("dp", "tp"))
        tensor_parallel(model, mesh["tp"])
    if mode in ("fsdp", "fsdp_tp"):
        mesh = mesh["dp"] if mode == "fsdp_tp" else init_device_mesh("cpu", (world,))
        for block in model.blocks:
            fully_shard(block, mesh=mesh)
        fully_shard(model, mesh=mesh)
    if mode == "pp":
        schedule = Schedule1F1B(stage(model, rank), 2, loss_fn=loss_of)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    for _ in range(3):
        x, y = (torch.randint(0, VOCABULARY, (BATCH, LENGTH)) for _ in range(2))
        if schedule is None:
            loss_of(model(x), y).backward()
        elif rank == 0:
            schedule.step(x)
        else:
            schedule.step(target=y)
        optimizer.step()
        optimizer.zero_grad()


main(sys.argv[1])
