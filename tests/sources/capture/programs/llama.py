"""A Llama-like model under a plan: --dp, --tp, --pp, --data ddp|fsdp, --sp, sizes of the model."""

import argparse

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.pipelining import PipelineStage, Schedule1F1B, ScheduleGPipe
from torch.distributed.tensor import Replicate, Shard
from torch.distributed.tensor.parallel import (
    ColwiseParallel,
    PrepareModuleInput,
    RowwiseParallel,
    SequenceParallel,
    parallelize_module,
)
from torch.nn import functional

parser = argparse.ArgumentParser()
for name, value in (
    ("dp", 1),
    ("tp", 1),
    ("pp", 1),
    ("layers", 4),
    ("hidden", 256),
    ("ffn", 512),
    ("heads", 8),
    ("kv_heads", 4),
    ("vocab", 1024),
    ("seq", 128),
    ("micro_batch", 1),
    ("micro_batches", 1),
):
    parser.add_argument(f"--{name.replace('_', '-')}", type=int, default=value)
parser.add_argument("--data", default="ddp")
parser.add_argument("--schedule", default="1f1b")
parser.add_argument("--sp", action="store_true")
args = parser.parse_args()
HEAD = args.hidden // args.heads


class Attention(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.wq = nn.Linear(args.hidden, args.heads * HEAD, bias=False)
        self.wk = nn.Linear(args.hidden, args.kv_heads * HEAD, bias=False)
        self.wv = nn.Linear(args.hidden, args.kv_heads * HEAD, bias=False)
        self.wo = nn.Linear(args.heads * HEAD, args.hidden, bias=False)

    def forward(self, x):
        q, k, v = (
            w(x).unflatten(-1, (-1, HEAD)).transpose(1, 2) for w in (self.wq, self.wk, self.wv)
        )
        times = q.shape[1] // k.shape[1]
        k, v = k.repeat_interleave(times, 1), v.repeat_interleave(times, 1)
        y = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.wo(y.transpose(1, 2).flatten(2))


class FeedForward(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.w1 = nn.Linear(args.hidden, args.ffn, bias=False)
        self.w2 = nn.Linear(args.ffn, args.hidden, bias=False)
        self.w3 = nn.Linear(args.hidden, args.ffn, bias=False)

    def forward(self, x):
        return self.w2(functional.silu(self.w1(x)) * self.w3(x))


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm1, self.norm2 = nn.RMSNorm(args.hidden), nn.RMSNorm(args.hidden)
        self.attention, self.mlp = Attention(), FeedForward()

    def forward(self, x):
        x = x + self.attention(self.norm1(x))
        return x + self.mlp(self.norm2(x))


class Llama(nn.Module):
    def __init__(self, layers: int, first: bool, last: bool) -> None:
        super().__init__()
        self.embedding = nn.Embedding(args.vocab, args.hidden) if first else None
        self.layers = nn.ModuleList(Block() for _ in range(layers))
        self.norm = nn.RMSNorm(args.hidden) if last else None
        self.head = nn.Linear(args.hidden, args.vocab, bias=False) if last else None

    def forward(self, x):
        x = x if self.embedding is None else self.embedding(x)
        for layer in self.layers:
            x = layer(x)
        return x if self.head is None else self.head(self.norm(x))


def tensor_parallel(model, mesh) -> None:
    col, row = ColwiseParallel, RowwiseParallel
    cut = {"output_layouts": Shard(1)} if args.sp else {}
    plan = {f"attention.{n}": col() for n in ("wq", "wk", "wv")}
    plan |= {"attention.wo": row(**cut), "mlp.w1": col(), "mlp.w3": col(), "mlp.w2": row(**cut)}
    if args.sp:
        gather = {"input_layouts": (Shard(1),), "desired_input_layouts": (Replicate(),)}
        plan |= {
            "norm1": SequenceParallel(),
            "norm2": SequenceParallel(),
            "attention": PrepareModuleInput(**gather),
            "mlp": PrepareModuleInput(**gather),
        }
    for layer in model.layers:
        parallelize_module(layer, mesh, plan)
    whole = {}
    if args.sp:
        whole = {
            "layers.0": PrepareModuleInput(
                input_layouts=(Replicate(),),
                desired_input_layouts=(Shard(1),),
                use_local_output=True,
            ),
            "norm": SequenceParallel(),
            "head": PrepareModuleInput(
                input_layouts=(Shard(1),),
                desired_input_layouts=(Replicate(),),
                use_local_output=True,
            ),
        }
    parallelize_module(model, mesh, whole)


def loss_of(logits, targets):
    return functional.cross_entropy(logits.flatten(0, 1), targets.flatten())


dist.init_process_group("gloo")
rank, world = dist.get_rank(), dist.get_world_size()
names = ("pp", "dp", "tp")
mesh = init_device_mesh("cpu", (args.pp, args.dp, args.tp), mesh_dim_names=names)
torch.set_default_dtype(torch.bfloat16)
place = mesh["pp"].get_local_rank()
with torch.device("meta"):
    model = Llama(args.layers // args.pp, place == 0, place == args.pp - 1)
if args.tp > 1:
    tensor_parallel(model, mesh["tp"])
if args.data == "fsdp":
    for layer in model.layers:
        fully_shard(layer, mesh=mesh["dp"])
    fully_shard(model, mesh=mesh["dp"])
model.to_empty(device="cpu")
if args.data == "ddp" and args.dp > 1:
    model = nn.parallel.DistributedDataParallel(model, process_group=mesh["dp"].get_group())
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
schedule = None
if args.pp > 1:
    kind = {"1f1b": Schedule1F1B, "gpipe": ScheduleGPipe}[args.schedule]
    stage = PipelineStage(model, place, args.pp, torch.device("cpu"), group=mesh["pp"].get_group())
    schedule = kind(stage, args.micro_batches, loss_fn=loss_of)
for _ in range(3):
    batch = args.micro_batch * (args.micro_batches if schedule else 1)
    x = torch.randint(0, args.vocab, (batch, args.seq))
    if schedule is None:
        loss_of(model(x), x).backward()
    elif place == 0:
        schedule.step(x)
    elif place == args.pp - 1:
        schedule.step(target=x)
    else:
        schedule.step()
    optimizer.step()
    optimizer.zero_grad()
