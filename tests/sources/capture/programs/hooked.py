"""Gradients reduced by a communication hook (first argument), in processes the script starts itself."""

import sys

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch import nn
from torch.distributed.algorithms.ddp_comm_hooks import default_hooks, powerSGD_hook
from torch.nn.parallel import DistributedDataParallel


def own(_, bucket):
    done = dist.all_reduce(bucket.buffer() / dist.get_world_size(), async_op=True).get_future()
    return done.then(lambda future: future.value()[0] * 1)


def register(model, name: str) -> None:
    if name == "power":
        state = powerSGD_hook.PowerSGDState(
            None, matrix_approximation_rank=2, start_powerSGD_iter=2
        )
        model.register_comm_hook(state, powerSGD_hook.powerSGD_hook)
    else:
        hook = own if name == "own" else default_hooks.fp16_compress_hook
        model.register_comm_hook(None, hook)


def train(rank: int, world: int, name: str) -> None:
    dist.init_process_group("gloo", rank=rank, world_size=world)
    model = DistributedDataParallel(nn.Linear(64, 64, bias=False))
    register(model, name)
    matrices = torch.optim.SGD(model.parameters(), lr=0.1)
    others = torch.optim.SGD([nn.Parameter(torch.zeros(4))], lr=0.1)
    for _ in range(3):
        model(torch.randn(4, 64)).sum().backward()
        matrices.step()
        others.step()
        matrices.zero_grad()


if __name__ == "__main__":
    mp.spawn(train, args=(4, sys.argv[1]), nprocs=4)
