"""A Llama-like model, or one with experts, under a plan: --dp, --tp, --pp, --ep, --data ddp|fsdp, --sp."""

import argparse
from contextlib import nullcontext

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed import _functional_collectives as funcol
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.pipelining import PipelineStage, Schedule1F1B, ScheduleGPipe
from torch.distributed.tensor import DTensor, Replicate, Shard
from torch.distributed.tensor.parallel import (
    ColwiseParallel,
    PrepareModuleInput,
    RowwiseParallel,
    SequenceParallel,
    loss_parallel,
    parallelize_module,
)
from torch.nn import functional

parser = argparse.ArgumentParser()
for name, value in (
    ("dp", 1),
    ("tp", 1),
    ("pp", 1),
    ("ep", 1),
    ("experts", 0),
    ("top_k", 2),
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
parser.add_argument("--vocab-parallel", action="store_true")
parser.add_argument("--fused", action="store_true")
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


class Mixture(nn.Module):
    """Every token goes to its top experts, in equal parts over the ranks that hold them, and back."""

    def __init__(self) -> None:
        super().__init__()
        self.router = nn.Linear(args.hidden, args.experts, bias=False)
        self.experts = Experts()

    def exchange(self, x):
        equal = [x.shape[0] // args.ep] * args.ep
        return funcol.all_to_all_single_autograd(x, equal, equal, experts_mesh["ep"].get_group())

    def forward(self, x):
        flat = x.flatten(0, 1)
        scores, chosen = torch.softmax(self.router(flat), -1).topk(args.top_k)
        order = torch.argsort(chosen.flatten())
        tokens = flat[order // args.top_k]
        if args.ep > 1:
            tokens = self.exchange(tokens)
        tokens = tokens.view(args.ep, args.experts // args.ep, -1, args.hidden).transpose(0, 1)
        made = self.experts(tokens.flatten(1, 2))
        made = made.view(args.experts // args.ep, args.ep, -1, args.hidden).transpose(0, 1)
        made = made.reshape(-1, args.hidden)
        if args.ep > 1:
            made = self.exchange(made)
        weighed = made * scores.flatten()[order].unsqueeze(1)
        return torch.zeros_like(flat).index_add(0, order // args.top_k, weighed).view(x.shape)


class Experts(nn.Module):
    """The experts of one rank: `ep` ranks have all of them between them."""

    def __init__(self) -> None:
        super().__init__()
        count = args.experts // args.ep
        self.up = self.shared(torch.empty(count, args.hidden, 2 * args.ffn))
        self.down = self.shared(torch.empty(count, args.ffn, args.hidden))

    def shared(self, weight):
        if args.ep == 1:
            return nn.Parameter(weight)
        return nn.Parameter(DTensor.from_local(weight, experts_mesh["ep"], [Shard(0)]))

    def forward(self, x):
        up, down = (w.to_local() if isinstance(w, DTensor) else w for w in (self.up, self.down))
        gate, value = torch.bmm(x, up).chunk(2, -1)
        return torch.bmm(functional.silu(gate) * value, down)


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm1, self.norm2 = nn.RMSNorm(args.hidden), nn.RMSNorm(args.hidden)
        self.attention, self.mlp = Attention(), Mixture() if args.experts else FeedForward()

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
    if args.vocab_parallel:
        whole = {
            "embedding": RowwiseParallel(input_layouts=Replicate(), output_layouts=Shard(1)),
            "norm": SequenceParallel(),
            "head": ColwiseParallel(input_layouts=Shard(1), use_local_output=False),
        }
    parallelize_module(model, mesh, whole)


def loss_of(logits, targets):
    return functional.cross_entropy(logits.flatten(0, 1), targets.flatten())


dist.init_process_group("gloo")
rank, world = dist.get_rank(), dist.get_world_size()
names = ("pp", "dp", "tp")
mesh = init_device_mesh("cpu", (args.pp, args.dp, args.tp), mesh_dim_names=names)
experts_mesh = None
if args.ep > 1:
    experts_mesh = init_device_mesh(
        "cpu", (world // args.ep, args.ep), mesh_dim_names=("edp", "ep")
    )
torch.set_default_dtype(torch.bfloat16)
place = mesh["pp"].get_local_rank()
with torch.device("meta"):
    model = Llama(args.layers // args.pp, place == 0, place == args.pp - 1)
if args.tp > 1:
    tensor_parallel(model, mesh["tp"])
experts = {p: n for n, p in model.named_parameters() if ".experts." in n and args.ep > 1}
if args.data == "fsdp":
    alone = set(experts) if args.ep == args.dp else set()
    for layer in model.layers:
        if 1 < args.ep < args.dp:
            fully_shard(layer.mlp.experts, mesh=experts_mesh["edp"])
        fully_shard(layer, mesh=mesh["dp"], ignored_params=alone)
    fully_shard(model, mesh=mesh["dp"], ignored_params=alone)
model.to_empty(device="cpu")
if args.data == "ddp" and args.dp > 1:
    model._ddp_params_and_buffers_to_ignore = list(experts.values())
    model = nn.parallel.DistributedDataParallel(model, process_group=mesh["dp"].get_group())
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=args.fused or None)
schedule = None
if args.pp > 1:
    kind = {"1f1b": Schedule1F1B, "gpipe": ScheduleGPipe}[args.schedule]
    stage = PipelineStage(model, place, args.pp, torch.device("cpu"), group=mesh["pp"].get_group())
    schedule = kind(stage, args.micro_batches, loss_fn=loss_of)
for _ in range(3):
    batch = args.micro_batch * (args.micro_batches if schedule else 1)
    x = torch.randint(0, args.vocab, (batch, args.seq))
    if schedule is None:
        with loss_parallel() if args.vocab_parallel else nullcontext():
            logits = model(x)
            loss_of(logits.float() if args.vocab_parallel else logits, x).backward()
        if args.data == "ddp" and 1 < args.ep < args.dp:
            for name, parameter in model.named_parameters():
                if ".experts." in name:
                    held = parameter.grad.to_local()
                    dist.all_reduce(held, group=experts_mesh["edp"].get_group())
    elif place == 0:
        schedule.step(x)
    elif place == args.pp - 1:
        schedule.step(target=x)
    else:
        schedule.step()
    optimizer.step()
    optimizer.zero_grad()
