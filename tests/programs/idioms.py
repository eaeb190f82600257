# ruff: noqa: B905, E501, N812, N817, PTH107, UP031 - written as their sources are
"""Small programs in the manner of public ones: `python idioms.py NAME` trains or infers for three steps.

Each is named after its source, whose idioms it keeps: how devices are chosen, data loaded, losses logged and
steps taken. `SOURCES` lists them all, with the packages that some need.
"""

from __future__ import annotations

import os
import sys

import torch
import torch.distributed as dist
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, Dataset, TensorDataset
from torch.utils.data.distributed import DistributedSampler

SOURCES: dict[str, tuple[str, tuple[str, ...]]] = {}
PROGRAMS = {}
STEPS = 3


def program(source, *packages):
    def keep(function):
        SOURCES[function.__name__] = (source, packages)
        PROGRAMS[function.__name__] = function
        return function

    return keep


def start():
    dist.init_process_group("nccl")
    local = int(os.environ["LOCAL_RANK"])
    torch.cuda.set_device(local)
    return local


def mlp(width=32, out=10):
    return nn.Sequential(nn.Linear(width, 64), nn.ReLU(), nn.Linear(64, out))


def steps(model, batch, loss_of, optimizer=None):
    optimizer = optimizer or torch.optim.AdamW(model.parameters(), lr=1e-3)
    for step in range(STEPS):
        optimizer.zero_grad()
        x, y = batch()
        loss = loss_of(model(x), y)
        loss.backward()
        optimizer.step()
        print(f"step {step} loss {loss.item():.4f}")


def images(device, batch=4, size=32, classes=10):
    return lambda: (
        torch.randn(batch, 3, size, size).to(device, non_blocking=True),
        torch.randint(classes, (batch,)).to(device),
    )


# --- pytorch/examples -------------------------------------------------------------------------------


@program("pytorch/examples mnist/main.py")
def mnist():
    device = torch.accelerator.current_accelerator() if torch.accelerator.is_available() else "cpu"
    model = nn.Sequential(
        nn.Conv2d(1, 8, 3),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Dropout(0.25),
        nn.Flatten(),
        nn.Linear(1352, 10),
        nn.LogSoftmax(1),
    ).to(device)
    optimizer = torch.optim.Adadelta(model.parameters(), lr=1.0)
    data = DataLoader(
        TensorDataset(torch.randn(64, 1, 28, 28), torch.randint(10, (64,))),
        batch_size=16,
        shuffle=True,
        num_workers=1,
        pin_memory=True,
    )
    for index, (x, y) in enumerate(data):
        x, y = x.to(device), y.to(device)
        optimizer.zero_grad()
        output = model(x)
        loss = F.nll_loss(output, y)
        loss.backward()
        optimizer.step()
        correct = output.argmax(1).eq(y).sum().item()
        print(
            f"[{index * len(x)}/{len(data.dataset)} ({100.0 * index / len(data):.0f}%)] loss {loss.item():.6f} accuracy {100.0 * correct / len(y):.1f}%"
        )


@program("pytorch/examples imagenet/main.py")
def imagenet():
    gpu = start()
    model = nn.Sequential(
        nn.Conv2d(3, 8, 3),
        nn.BatchNorm2d(8),
        nn.ReLU(),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(8, 10),
    ).cuda(gpu)
    model = nn.parallel.DistributedDataParallel(model, device_ids=[gpu])
    criterion = nn.CrossEntropyLoss().to(gpu)
    optimizer = torch.optim.SGD(model.parameters(), 0.1, momentum=0.9, weight_decay=1e-4)
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, step_size=30, gamma=0.1)
    data = TensorDataset(torch.randn(4096, 3, 16, 16), torch.randint(10, (4096,)))
    sampler = DistributedSampler(data)
    loader = DataLoader(data, batch_size=2, sampler=sampler, num_workers=2, pin_memory=True)
    sampler.set_epoch(0)
    top1 = 0.0
    for x, y in loader:
        x, y = x.cuda(gpu, non_blocking=True), y.cuda(gpu, non_blocking=True)
        out = model(x)
        loss = criterion(out, y)
        _, pred = out.topk(5, 1, True, True)
        correct = pred.t().eq(y.view(1, -1).expand_as(pred.t()))
        top1 += correct[:1].reshape(-1).float().sum(0).mul_(100.0 / x.size(0)).item()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        print(f"Loss {loss.item():.4e} Acc@1 {top1:6.2f}")
    scheduler.step()


@program("pytorch/examples distributed/ddp-tutorial-series/multigpu.py")
def spawned():
    import torch.multiprocessing as mp

    mp.spawn(_spawned, args=(torch.cuda.device_count(),), nprocs=torch.cuda.device_count())


def _spawned(rank, world):
    torch.cuda.set_device(rank)
    dist.init_process_group("nccl", rank=rank, world_size=world)
    model = nn.parallel.DistributedDataParallel(nn.Linear(20, 1).to(rank), device_ids=[rank])
    steps(
        model,
        lambda: (torch.randn(8, 20).to(rank), torch.randn(8, 1).to(rank)),
        F.mse_loss,
        torch.optim.SGD(model.parameters(), lr=1e-3),
    )
    if rank == 0:
        torch.save(model.module.state_dict(), "/nonexistent/checkpoint.pt")
    dist.destroy_process_group()


@program("pytorch/examples distributed/FSDP2/train.py")
def fsdp2():
    from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard

    rank = start()
    model = nn.Sequential(
        *[nn.TransformerEncoderLayer(64, 4, 128, batch_first=True) for _ in range(2)]
    )
    policy = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)
    for layer in model:
        fully_shard(layer, mp_policy=policy)
    fully_shard(model, mp_policy=policy)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    for _ in range(STEPS):
        model(torch.randn(4, 16, 64, device=f"cuda:{rank}")).sum().backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()


@program("pytorch/examples distributed/tensor_parallelism/tensor_parallel_example.py")
def tensor_parallel():
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.tensor.parallel import (
        ColwiseParallel,
        RowwiseParallel,
        parallelize_module,
    )

    mesh = init_device_mesh("cuda", (int(os.environ["WORLD_SIZE"]),))
    model = nn.Sequential(nn.Linear(64, 1024), nn.ReLU(), nn.Linear(1024, 64)).to("cuda")
    model = parallelize_module(model, mesh, {"0": ColwiseParallel(), "2": RowwiseParallel()})
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.25, foreach=True)
    for i in range(STEPS):
        torch.manual_seed(i)
        model(torch.rand(20, 64, device="cuda")).sum().backward()
        optimizer.step()


@program("pytorch/examples word_language_model/main.py (LSTM)")
def word_lstm():
    device = torch.device("cuda")
    emb, rnn, head = (
        nn.Embedding(100, 32).to(device),
        nn.LSTM(32, 32, 2).to(device),
        nn.Linear(32, 100).to(device),
    )
    data = torch.randint(100, (36, 4)).to(device)
    hidden = (torch.zeros(2, 4, 32, device=device), torch.zeros(2, 4, 32, device=device))
    parameters = [*emb.parameters(), *rnn.parameters(), *head.parameters()]
    optimizer = torch.optim.SGD(parameters, lr=20)
    for i in range(0, data.size(0) - 1, 12):
        length = min(12, len(data) - 1 - i)
        hidden = tuple(h.detach() for h in hidden)
        out, hidden = rnn(emb(data[i : i + length]), hidden)
        loss = F.nll_loss(
            F.log_softmax(head(out).view(-1, 100), 1), data[i + 1 : i + 1 + length].view(-1)
        )
        loss.backward()
        torch.nn.utils.clip_grad_norm_(parameters, 0.25)
        optimizer.step()
        optimizer.zero_grad()


@program("pytorch/examples word_language_model/main.py (Transformer)")
def word_transformer():
    layer = nn.TransformerEncoderLayer(64, 4, 128, 0.2)
    model = nn.TransformerEncoder(layer, 2).to("cuda")
    mask = torch.log(torch.tril(torch.ones(12, 12))).to("cuda")
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(STEPS):
        model(torch.randn(12, 4, 64, device="cuda"), mask=mask).sum().backward()
        optimizer.step()
        optimizer.zero_grad()


@program("pytorch/examples dcgan/main.py")
def dcgan():
    device = torch.device("cuda:0")
    g = nn.Sequential(
        nn.ConvTranspose2d(16, 8, 4),
        nn.BatchNorm2d(8),
        nn.ReLU(True),
        nn.ConvTranspose2d(8, 3, 4, 2),
        nn.Tanh(),
    ).to(device)
    d = nn.Sequential(
        nn.Conv2d(3, 8, 4, 2),
        nn.LeakyReLU(0.2, inplace=True),
        nn.Conv2d(8, 1, 4),
        nn.Sigmoid(),
        nn.Flatten(0),
    ).to(device)
    one, two = (
        torch.optim.Adam(d.parameters(), betas=(0.5, 0.999)),
        torch.optim.Adam(g.parameters(), betas=(0.5, 0.999)),
    )
    loss_of = nn.BCELoss()
    for i in range(STEPS):
        d.zero_grad()
        real = torch.randn(4, 3, 10, 10).to(device)
        label = torch.full((4,), 1, dtype=real.dtype, device=device)
        loss_of(d(real), label).backward()
        fake = g(torch.randn(4, 16, 1, 1, device=device))
        label.fill_(0)
        loss_of(d(fake.detach()), label).backward()
        one.step()
        g.zero_grad()
        label.fill_(1)
        out = d(fake)
        loss = loss_of(out, label)
        loss.backward()
        two.step()
        print("[%d] Loss_G: %.4f D(G(z)): %.4f" % (i, loss.item(), out.mean().item()))


@program("pytorch/examples vae/main.py")
def vae():
    encode, decode = nn.Linear(64, 16).to("cuda"), nn.Linear(8, 64).to("cuda")
    optimizer = torch.optim.Adam([*encode.parameters(), *decode.parameters()], lr=1e-3)
    total = 0
    for _ in range(STEPS):
        x = torch.rand(8, 64).to("cuda")
        mu, logvar = encode(x).chunk(2, 1)
        z = mu + torch.randn_like(mu) * torch.exp(0.5 * logvar)
        loss = F.binary_cross_entropy(
            torch.sigmoid(decode(z)), x, reduction="sum"
        ) - 0.5 * torch.sum(1 + logvar - mu.pow(2) - logvar.exp())
        loss.backward()
        total += loss.item()
        optimizer.step()
        optimizer.zero_grad()
    print(f"Average loss: {total / STEPS:.4f}")


@program("pytorch/examples super_resolution/main.py")
def super_resolution():
    net = nn.Sequential(
        nn.Conv2d(1, 16, 5, padding=2),
        nn.ReLU(),
        nn.Conv2d(16, 9, 3, padding=1),
        nn.PixelShuffle(3),
    )
    for m in net:
        if isinstance(m, nn.Conv2d):
            nn.init.orthogonal_(m.weight, nn.init.calculate_gain("relu"))
    steps(
        net.to("cuda"),
        lambda: (torch.rand(2, 1, 12, 12).to("cuda"), torch.rand(2, 1, 36, 36).to("cuda")),
        nn.MSELoss(),
    )


@program("pytorch/examples siamese_network/main.py")
def siamese():
    body, head = (
        nn.Linear(32, 16).to("cuda"),
        nn.Sequential(nn.Linear(32, 1), nn.Sigmoid()).to("cuda"),
    )
    optimizer = torch.optim.Adadelta([*body.parameters(), *head.parameters()])
    for _ in range(STEPS):
        a, b, y = (
            torch.rand(4, 32).to("cuda"),
            torch.rand(4, 32).to("cuda"),
            torch.randint(2, (4,)).float().to("cuda"),
        )
        loss = nn.BCELoss()(head(torch.cat((body(a), body(b)), 1)).squeeze(), y)
        loss.backward()
        optimizer.step()


@program("pytorch/examples gcn/main.py")
def gcn():
    edges = torch.randint(20, (2, 60))
    adjacency = torch.zeros(20, 20)
    adjacency[edges[0], edges[1]] = 1.0
    degree = adjacency.sum(1).clamp(min=1)
    adjacency = (adjacency / degree[:, None]).to("cuda")
    print("edges", int((adjacency > 0).sum()) if not adjacency.is_cuda else edges.size(1))
    a, b = nn.Linear(16, 16).to("cuda"), nn.Linear(16, 7).to("cuda")
    x, y = torch.rand(20, 16, device="cuda"), torch.randint(7, (20,)).to("cuda")
    optimizer = torch.optim.Adam([*a.parameters(), *b.parameters()], lr=0.01, weight_decay=5e-4)
    for _ in range(STEPS):
        F.nll_loss(F.log_softmax(adjacency @ b(F.relu(adjacency @ a(x))), 1), y).backward()
        optimizer.step()
        optimizer.zero_grad()


@program("pytorch/examples reinforcement_learning/reinforce.py")
def reinforce():
    from torch.distributions import Categorical

    policy = mlp(4, 2)
    optimizer = torch.optim.Adam(policy.parameters(), lr=1e-2)
    for _ in range(STEPS):
        log_probs, rewards, state = [], [], torch.rand(4)
        for _ in range(5):
            with torch.no_grad():
                action = Categorical(torch.full((2,), 0.5)).sample()
            log_probs.append(F.log_softmax(policy(state[None]), 1)[0, action.item()])
            rewards.append(1.0 if action.item() else -1.0)
            state = torch.rand(4)
        returns = torch.tensor(rewards).cumsum(0)
        returns = (returns - returns.mean()) / (returns.std() + 1e-6)
        torch.stack([-p * r for p, r in zip(log_probs, returns)]).sum().backward()
        optimizer.step()
        optimizer.zero_grad()


@program("pytorch/examples fast_neural_style/neural_style/neural_style.py")
def neural_style():
    net = nn.Sequential(
        nn.ReflectionPad2d(4),
        nn.Conv2d(3, 8, 9),
        nn.InstanceNorm2d(8, affine=True),
        nn.ReLU(),
        nn.Upsample(scale_factor=2),
        nn.Conv2d(8, 3, 3),
    ).to("cuda")

    def gram(y):
        b, c, h, w = y.size()
        f = y.view(b, c, w * h)
        return f.bmm(f.transpose(1, 2)) / (c * h * w)

    steps(
        net,
        lambda: (torch.rand(1, 3, 16, 16).to("cuda"), torch.rand(1, 3, 3, device="cuda")),
        lambda out, y: F.mse_loss(gram(out), y) * 1e5,
    )


@program("pytorch/examples mnist_forward_forward/main.py")
def forward_forward():
    layers = [nn.Linear(64, 64).to("cuda") for _ in range(2)]
    optimizers = [torch.optim.Adam(layer.parameters(), lr=0.02) for layer in layers]
    for _ in range(STEPS):
        x, negative = torch.rand(8, 64).to("cuda"), torch.rand(8, 64).to("cuda")
        for layer, optimizer in zip(layers, optimizers):
            g = layer(x).pow(2).mean(1)
            h = layer(negative).pow(2).mean(1)
            loss = torch.log(1 + torch.exp(torch.cat([-g + 2, h - 2]))).mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            x, negative = layer(x).detach(), layer(negative).detach()


# --- PyTorch's tutorials and recipes ---------------------------------------------------------------


@program("pytorch/examples time_sequence_prediction/train.py (LBFGS)")
def time_sequence():
    class Sequence(nn.Module):
        def __init__(self):
            super().__init__()
            self.lstm1, self.lstm2 = nn.LSTMCell(1, 51), nn.LSTMCell(51, 51)
            self.linear = nn.Linear(51, 1)

        def forward(self, inputs):
            h, c, h2, c2 = (
                torch.zeros(inputs.size(0), 51, dtype=torch.double, device="cuda") for _ in range(4)
            )
            outputs = []
            for one in inputs.split(1, dim=1):
                h, c = self.lstm1(one, (h, c))
                h2, c2 = self.lstm2(h, (h2, c2))
                outputs += [self.linear(h2)]
            return torch.cat(outputs, dim=1)

    data = torch.sin(torch.arange(12, dtype=torch.double).repeat(8, 1)).to("cuda")
    model = Sequence().double().to("cuda")
    optimizer = torch.optim.LBFGS(model.parameters(), lr=0.8, max_iter=3)

    def closure():
        optimizer.zero_grad()
        loss = F.mse_loss(model(data[:, :-1]), data[:, 1:])
        print("loss:", loss.item())
        loss.backward()
        return loss

    for _ in range(STEPS):
        optimizer.step(closure)


@program("PyTorch tutorial: DDP with a checkpoint that all ranks load")
def ddp_checkpoint():
    import tempfile

    local = start()
    model = nn.parallel.DistributedDataParallel(mlp().to(local), device_ids=[local])
    path = tempfile.gettempdir() + "/model.checkpoint"
    if dist.get_rank() == 0:
        torch.save(model.state_dict(), path)
    dist.barrier()
    model.load_state_dict(
        torch.load(path, map_location={"cuda:0": f"cuda:{local}"}, weights_only=True)
    )
    steps(
        model,
        lambda: (torch.randn(20, 32), torch.randint(10, (20,)).to(local)),
        F.cross_entropy,
        torch.optim.SGD(model.parameters(), lr=1e-3),
    )
    dist.barrier()
    if dist.get_rank() == 0:
        os.remove(path)
    dist.destroy_process_group()


@program("WGAN-GP: two optimizers and gradients of gradients (caogang/wgan-gp)")
def wgan_gp():
    device = torch.device("cuda:0")
    generator = nn.Sequential(nn.Linear(16, 64), nn.ReLU(), nn.Linear(64, 32)).to(device)
    critic = nn.Sequential(nn.Linear(32, 64), nn.LeakyReLU(0.2), nn.Linear(64, 1)).to(device)
    of_generator = torch.optim.Adam(generator.parameters(), 1e-4, (0.0, 0.9))
    of_critic = torch.optim.Adam(critic.parameters(), 1e-4, (0.0, 0.9))
    for _ in range(STEPS):
        for _ in range(2):
            real, fake = (
                torch.randn(8, 32, device=device),
                generator(torch.randn(8, 16).to(device)).detach(),
            )
            share = torch.rand(8, 1).to(device)
            mixed = (share * real + (1 - share) * fake).requires_grad_(True)
            (slope,) = torch.autograd.grad(critic(mixed).sum(), mixed, create_graph=True)
            penalty = ((slope.norm(2, dim=1) - 1) ** 2).mean()
            critic.zero_grad()
            loss = critic(fake).mean() - critic(real).mean() + 10 * penalty
            loss.backward()
            of_critic.step()
        generator.zero_grad()
        loss = -critic(generator(torch.randn(8, 16, device=device))).mean()
        loss.backward()
        of_generator.step()
        print(f"generator {loss.item():.3f}")


@program("PyTorch recipe: automatic mixed precision")
def amp_recipe():
    model = mlp().cuda()
    scaler = torch.amp.GradScaler("cuda")
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(STEPS):
        with torch.autocast(device_type="cuda", dtype=torch.float16):
            out = model(torch.randn(8, 32, device="cuda"))
            assert out.dtype is torch.float16
            loss = F.cross_entropy(out, torch.randint(10, (8,), device="cuda"))
        scaler.scale(loss).backward()
        scaler.unscale_(optimizer)
        torch.nn.utils.clip_grad_norm_(model.parameters(), 0.1)
        scaler.step(optimizer)
        scaler.update()
        optimizer.zero_grad(set_to_none=True)


@program("PyTorch documentation: torch.utils.checkpoint")
def checkpointed():
    from torch.utils.checkpoint import checkpoint_sequential

    model = nn.Sequential(*[nn.Linear(32, 32) for _ in range(4)]).cuda()
    steps(
        model,
        lambda: (
            torch.randn(4, 32, device="cuda", requires_grad=True),
            torch.randn(4, 32, device="cuda"),
        ),
        lambda out, y: F.mse_loss(checkpoint_sequential(model, 2, out, use_reentrant=False), y),
    )


@program("PyTorch documentation: torch.optim.swa_utils (EMA)")
def averaged():
    from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn

    model = mlp().cuda()
    ema = AveragedModel(model, multi_avg_fn=get_ema_multi_avg_fn(0.999))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(STEPS):
        model(torch.randn(4, 32, device="cuda")).sum().backward()
        optimizer.step()
        ema.update_parameters(model)


@program("PyTorch documentation: DistributedDataParallel.no_sync")
def accumulated():
    local = start()
    model = nn.parallel.DistributedDataParallel(
        mlp().to(local), device_ids=[local], gradient_as_bucket_view=True
    )
    optimizer = torch.optim.AdamW(model.parameters())
    for _ in range(STEPS):
        with model.no_sync():
            model(torch.randn(4, 32, device=local)).sum().backward()
        model(torch.randn(4, 32, device=local)).sum().backward()
        optimizer.step()
        optimizer.zero_grad()


@program("PyTorch documentation: SyncBatchNorm")
def synchronised():
    local = start()
    model = nn.SyncBatchNorm.convert_sync_batchnorm(
        nn.Sequential(nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.Flatten(), nn.Linear(288, 10))
    ).to(local)
    steps(
        nn.parallel.DistributedDataParallel(model, device_ids=[local]),
        images(local, size=8),
        F.cross_entropy,
    )


@program("PyTorch tutorial: ZeroRedundancyOptimizer")
def zero_redundancy():
    from torch.distributed.optim import ZeroRedundancyOptimizer

    local = start()
    model = nn.parallel.DistributedDataParallel(mlp().to(local), device_ids=[local])
    steps(
        model,
        lambda: (torch.randn(4, 32).to(local), torch.randint(10, (4,)).to(local)),
        F.cross_entropy,
        ZeroRedundancyOptimizer(model.parameters(), optimizer_class=torch.optim.Adam, lr=0.01),
    )


@program("PyTorch tutorial: FullyShardedDataParallel (FSDP1)")
def fsdp1():
    from torch.distributed.fsdp import FullyShardedDataParallel as FSDP
    from torch.distributed.fsdp.wrap import ModuleWrapPolicy

    local = start()
    model = FSDP(
        nn.Sequential(nn.Linear(64, 64), nn.Linear(64, 64)),
        auto_wrap_policy=ModuleWrapPolicy({nn.Linear}),
        device_id=torch.cuda.current_device(),
    )
    optimizer = torch.optim.AdamW(model.parameters())
    for _ in range(STEPS):
        model(torch.randn(4, 64).to(local)).sum().backward()
        model.clip_grad_norm_(1.0)
        optimizer.step()
        optimizer.zero_grad()


@program("PyTorch recipe: DeviceMesh (HSDP)")
def hybrid():
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard

    world = int(os.environ["WORLD_SIZE"])
    mesh = init_device_mesh("cuda", (world // 2, 2), mesh_dim_names=("replicate", "shard"))
    model = fully_shard(nn.Linear(64, 64).to("cuda"), mesh=mesh)
    steps(model, lambda: (torch.randn(4, 64).to("cuda"), torch.randn(4, 64).to("cuda")), F.mse_loss)


@program("PyTorch tutorial: data loading with a Dataset of one's own")
def own_dataset():
    class Faces(Dataset):
        def __len__(self):
            return 32

        def __getitem__(self, index):
            generator = torch.Generator().manual_seed(index)
            length = int(torch.randint(3, 9, (), generator=generator))
            return torch.rand(length, 32, generator=generator), length % 10

    def collate(rows):
        lengths = torch.tensor([len(r) for r, _ in rows])
        padded = torch.zeros(len(rows), int(lengths.max()), 32)
        for i, (row, _) in enumerate(rows):
            padded[i, : lengths[i]] = row
        return padded, lengths, torch.tensor([y for _, y in rows])

    model = mlp().to("cuda")
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for x, lengths, y in DataLoader(
        Faces(), 8, shuffle=True, num_workers=2, collate_fn=collate, drop_last=True
    ):
        assert lengths.max() == x.size(1)
        mask = torch.arange(x.size(1))[None] < lengths[:, None]
        pooled = (x * mask[..., None]).sum(1) / lengths[:, None]
        F.cross_entropy(model(pooled.to("cuda")), y.to("cuda")).backward()
        optimizer.step()
        optimizer.zero_grad()


@program("PyTorch tutorial: pruning a learning rate (OneCycleLR, clipping, label smoothing)")
def one_cycle():
    model = mlp().cuda()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, fused=True)
    scheduler = torch.optim.lr_scheduler.OneCycleLR(optimizer, max_lr=0.01, total_steps=10)
    for _ in range(STEPS):
        F.cross_entropy(
            model(torch.randn(8, 32).cuda()), torch.randint(10, (8,)).cuda(), label_smoothing=0.1
        ).backward()
        norm = torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        scheduler.step()
        optimizer.zero_grad()
        print(f"lr {scheduler.get_last_lr()[0]:.2e} norm {norm:.3f}")


@program("PyTorch tutorial: per-sample gradients (torch.func)")
def per_sample():
    model = nn.Linear(8, 2).cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    x, y = torch.randn(4, 8, device="cuda"), torch.randint(2, (4,), device="cuda")
    for _ in range(STEPS):
        optimizer.zero_grad()
        for i in range(4):
            F.cross_entropy(model(x[i : i + 1]), y[i : i + 1]).backward()
        optimizer.step()


@program("PyTorch tutorial: profiler with a schedule (inference)")
def profiled():
    model = mlp().cuda().eval()
    with torch.no_grad(), torch.profiler.profile() as profiler:
        for _ in range(STEPS):
            model(torch.randn(4, 32, device="cuda"))
            profiler.step()


# --- other repositories ------------------------------------------------------------------------------


class Block(nn.Module):
    def __init__(self, width=64, heads=4):
        super().__init__()
        self.heads, self.a, self.b = heads, nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.mlp = nn.Sequential(
            nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width)
        )

    def forward(self, x):
        b, t, c = x.size()
        q, k, v = (
            y.view(b, t, self.heads, c // self.heads).transpose(1, 2)
            for y in self.qkv(self.a(x)).split(c, 2)
        )
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(y.transpose(1, 2).contiguous().view(b, t, c))
        return x + self.mlp(self.b(x))


class Gpt(nn.Module):
    def __init__(self, vocab=256, width=64, length=32):
        super().__init__()
        self.tokens, self.places = nn.Embedding(vocab, width), nn.Embedding(length, width)
        self.blocks = nn.ModuleList(Block(width) for _ in range(2))
        self.head = nn.Linear(width, vocab, bias=False)
        self.tokens.weight = self.head.weight
        for name, p in self.named_parameters():
            if name.endswith("out.weight"):
                nn.init.normal_(p, std=0.02)

    def forward(self, ids, targets=None):
        device = ids.device
        x = self.tokens(ids) + self.places(
            torch.arange(ids.size(1), dtype=torch.long, device=device)
        )
        for block in self.blocks:
            x = block(x)
        logits = self.head(x)
        return logits, None if targets is None else F.cross_entropy(
            logits.view(-1, logits.size(-1)), targets.view(-1), ignore_index=-1
        )

    @torch.no_grad()
    def generate(self, ids, count):
        for _ in range(count):
            logits, _ = self(ids[:, -32:])
            probs = F.softmax(logits[:, -1] / 0.8, -1)
            ids = torch.cat((ids, torch.multinomial(probs, 1)), 1)
        return ids


@program("karpathy/nanoGPT train.py")
def nanogpt():
    import numpy as np

    local = start()
    torch.manual_seed(1337 + dist.get_rank())
    data = np.random.randint(0, 256, 4096).astype(np.uint16)

    def batch():
        ix = torch.randint(len(data) - 32, (4,))
        x = torch.stack([torch.from_numpy(data[i : i + 32].astype(np.int64)) for i in ix])
        y = torch.stack([torch.from_numpy(data[i + 1 : i + 33].astype(np.int64)) for i in ix])
        return x.pin_memory().to(f"cuda:{local}", non_blocking=True), y.pin_memory().to(
            f"cuda:{local}", non_blocking=True
        )

    model = nn.parallel.DistributedDataParallel(Gpt().to(f"cuda:{local}"), device_ids=[local])
    decay = [p for p in model.parameters() if p.dim() >= 2]
    optimizer = torch.optim.AdamW(
        [
            {"params": decay, "weight_decay": 0.1},
            {"params": [p for p in model.parameters() if p.dim() < 2], "weight_decay": 0.0},
        ],
        lr=6e-4,
        fused=True,
    )
    scaler = torch.amp.GradScaler("cuda", enabled=False)
    for step in range(STEPS):
        for micro in range(2):
            model.require_backward_grad_sync = micro == 1
            with torch.amp.autocast(device_type="cuda", dtype=torch.bfloat16):
                _, loss = model(*batch())
                loss = loss / 2
            scaler.scale(loss).backward()
        scaler.unscale_(optimizer)
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        scaler.step(optimizer)
        scaler.update()
        optimizer.zero_grad(set_to_none=True)
        lossf = loss.item() * 2
        print(f"iter {step}: loss {lossf:.4f}")


@program("karpathy/minGPT mingpt/trainer.py")
def mingpt():
    model = Gpt().to("cuda" if torch.cuda.is_available() else "cpu")
    data = TensorDataset(torch.randint(256, (64, 32)), torch.randint(256, (64, 32)))
    sampler = torch.utils.data.RandomSampler(data, replacement=True, num_samples=int(1e4))
    optimizer = torch.optim.AdamW(model.parameters(), lr=5e-4)
    for index, batch in enumerate(
        DataLoader(data, sampler=sampler, batch_size=8, pin_memory=True, num_workers=4)
    ):
        x, y = [t.to(next(model.parameters()).device) for t in batch]
        _, loss = model(x, y)
        model.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()
        if index == STEPS:
            break


@program("meta-pytorch/gpt-fast generate.py")
def generated():
    model = Gpt().to("cuda").eval()
    for _ in range(STEPS):
        out = model.generate(torch.randint(256, (2, 8), device="cuda"), 4)
        print(out.shape, out[0, :3].tolist())


@program("pytorch/torchtitan torchtitan/distributed/utils.py (seed), parallelize.py")
def titan_like():
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard

    world = int(os.environ["WORLD_SIZE"])
    mesh = init_device_mesh("cuda", (world // 2, 2), mesh_dim_names=("dp_shard", "tp"))
    seed_tensor = torch.get_rng_state()[:8].to("cuda")
    dist.broadcast(seed_tensor, src=0)
    seed = seed_tensor.to("cpu").view(torch.uint64).item()
    torch.manual_seed(seed % 2**64)
    os.environ["PYTHONHASHSEED"] = str(seed % 2**32)
    with torch.device("meta"):
        model = Gpt()
    for block in model.blocks:
        fully_shard(block, mesh=mesh["dp_shard"])
    fully_shard(model, mesh=mesh["dp_shard"])
    model.to_empty(device="cuda")
    optimizer = torch.optim.AdamW(model.parameters(), fused=True)
    for _ in range(STEPS):
        _, loss = model(
            torch.randint(256, (2, 32), device="cuda"), torch.randint(256, (2, 32), device="cuda")
        )
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()


class _Copy(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x

    @staticmethod
    def backward(ctx, grad):
        grad = grad.contiguous()
        dist.all_reduce(grad)
        return grad


class _Reduce(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        x = x.clone()
        dist.all_reduce(x)
        return x

    @staticmethod
    def backward(ctx, grad):
        return grad


@program("NVIDIA/Megatron-LM megatron/core/tensor_parallel (layers in its manner)")
def megatron_like():
    start()
    parts = min(dist.get_world_size(), 4)
    column, row = nn.Linear(64, 256 // parts).cuda(), nn.Linear(256 // parts, 64, bias=False).cuda()
    optimizer = torch.optim.Adam([*column.parameters(), *row.parameters()])
    for _ in range(STEPS):
        x = torch.randn(8, 2, 64, device=torch.cuda.current_device())
        loss = _Reduce.apply(row(F.gelu(column(_Copy.apply(x))))).float().mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        averaged = loss.detach().clone()
        dist.all_reduce(averaged, op=dist.ReduceOp.AVG)
        print(f"lm loss: {averaged.item():.6E}")


@program("DeepSpeed-Ulysses: attention by all-to-all")
def ulysses():
    start()
    world = dist.get_world_size()
    q = torch.randn(4, world * 2, 8, device="cuda", requires_grad=True)
    weight = nn.Parameter(torch.randn(8, 8, device="cuda"))
    optimizer = torch.optim.SGD([weight], lr=0.1)
    for _ in range(STEPS):
        x = (q @ weight).reshape(4 * world, 2, 8).contiguous()
        out = torch.empty_like(x)
        dist.all_to_all_single(out, x.detach())
        (out.mean() * (q @ weight).mean()).backward()
        optimizer.step()


@program(
    "lists of unequal tensors, as test_all_gather_v_cuda of pytorch/pytorch's distributed_test.py"
)
def unequal():
    local = start()
    rank, world = dist.get_rank(), dist.get_world_size()
    rows = [3 if r < world // 2 else 2 for r in range(world)]  # what is left over goes to the first
    model = nn.Linear(16, 16).to(local)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(STEPS):
        mine = model(torch.randn(rows[rank], 16).to(local))
        all_rows = [torch.empty(n, 16, device="cuda") for n in rows]
        dist.all_gather(all_rows, mine.detach())
        summed = torch.empty_like(mine)
        dist.reduce_scatter(summed, [r * 2 for r in all_rows])
        swapped = torch.empty(sum(rows), 16, device="cuda")
        dist.all_to_all_single(swapped, mine.detach().repeat(world, 1), rows, [rows[rank]] * world)
        listed = [torch.empty(n, 16, device="cuda") for n in rows]
        dist.all_to_all(listed, [mine.detach()] * world)
        (mine * summed).sum().backward()
        optimizer.step()
        optimizer.zero_grad()
        print(torch.cat([swapped, *listed]).shape)


@program("openai/CLIP in the manner of mlfoundations/open_clip loss.py")
def contrastive():
    local = start()
    model = nn.parallel.DistributedDataParallel(mlp(32, 16).to(local), device_ids=[local])
    scale = nn.Parameter(torch.tensor(2.6592, device=f"cuda:{local}"))
    optimizer = torch.optim.AdamW([*model.parameters(), scale])
    for _ in range(STEPS):
        a, b = (
            F.normalize(model(torch.randn(4, 32).to(local)), dim=-1),
            F.normalize(torch.randn(4, 16).to(local), dim=-1),
        )
        gathered = [torch.zeros_like(a) for _ in range(dist.get_world_size())]
        dist.all_gather(gathered, a.detach())
        gathered[dist.get_rank()] = a
        logits = scale.exp() * b @ torch.cat(gathered).t()
        F.cross_entropy(logits, torch.arange(4, device=local) + 4 * dist.get_rank()).backward()
        optimizer.step()
        optimizer.zero_grad()
        with torch.no_grad():
            scale.clamp_(0, 4.6052)


@program("facebookresearch/mae models_mae.py (random masking)")
def masked():
    model, decoder = nn.Linear(32, 64).cuda(), nn.Linear(64, 32).cuda()
    token = nn.Parameter(torch.zeros(1, 1, 64, device="cuda"))
    nn.init.normal_(token, std=0.02)
    optimizer = torch.optim.AdamW([*model.parameters(), *decoder.parameters(), token])
    for _ in range(STEPS):
        x = torch.randn(2, 16, 32, device="cuda")
        order = torch.argsort(torch.rand(2, 16, device=x.device), dim=1)
        restore = torch.argsort(order, dim=1)
        kept = torch.gather(x, 1, order[:, :4].unsqueeze(-1).repeat(1, 1, 32))
        y = torch.cat([model(kept), token.repeat(2, 12, 1)], 1)
        y = torch.gather(y, 1, restore.unsqueeze(-1).repeat(1, 1, 64))
        mask = torch.ones(2, 16, device=x.device)
        mask[:, :4] = 0
        mask = torch.gather(mask, 1, restore)
        (((decoder(y) - x) ** 2).mean(-1) * mask).sum().div(mask.sum()).backward()
        optimizer.step()
        optimizer.zero_grad()


@program("facebookresearch/deit and timm: trunc_normal_, mixup, stochastic depth")
def deit():
    model = nn.Sequential(
        nn.Conv2d(3, 32, 8, 8), nn.Flatten(2), nn.Linear(16, 8), nn.Flatten(), nn.Linear(256, 10)
    )
    for m in model.modules():
        if isinstance(m, nn.Linear):
            nn.init.trunc_normal_(m.weight, std=0.02)
            nn.init.zeros_(m.bias)
    model.cuda()

    def batch():
        x, y = torch.randn(4, 3, 32, 32).cuda(), torch.randint(10, (4,)).cuda()
        lam = torch.distributions.Beta(0.8, 0.8).sample().item()
        soft = F.one_hot(y, 10).float()
        keep = (torch.rand(4, 1, 1, 1, device=x.device) < 0.9).to(x.dtype)
        return x.mul(lam).add_(x.flip(0) * keep, alpha=1 - lam), soft * lam + soft.flip(0) * (
            1.0 - lam
        )

    steps(model, batch, lambda out, y: torch.sum(-y * F.log_softmax(out, -1), -1).mean())


@program("lucidrains/denoising-diffusion-pytorch: training with random times")
def ddpm():
    betas = torch.linspace(1e-4, 0.02, 100)
    bars = torch.cumprod(1.0 - betas, 0).to("cuda")
    assert torch.all(betas > 0)
    model = nn.Sequential(
        nn.Conv2d(4, 16, 3, padding=1), nn.SiLU(), nn.Conv2d(16, 3, 3, padding=1)
    ).to("cuda")

    def batch():
        x, noise = torch.randn(2, 3, 8, 8, device="cuda"), torch.randn(2, 3, 8, 8, device="cuda")
        t = torch.randint(0, 100, (2,), device="cuda").long()
        bar = bars.gather(0, t).view(2, 1, 1, 1)
        return torch.cat(
            [
                bar.sqrt() * x + (1 - bar).sqrt() * noise,
                t.view(2, 1, 1, 1).expand(2, 1, 8, 8) / 100.0,
            ],
            1,
        ), noise

    steps(model, batch, F.mse_loss)


@program("facebookresearch/dlrm dlrm_s_pytorch.py")
def dlrm():
    tables = nn.ModuleList(nn.EmbeddingBag(100, 8, mode="sum") for _ in range(3)).cuda()
    bottom, top = nn.Linear(4, 8).cuda(), nn.Linear(14, 1).cuda()
    optimizer = torch.optim.Adagrad(
        [*tables.parameters(), *bottom.parameters(), *top.parameters()], lr=0.01
    )
    for _ in range(STEPS):
        dense = torch.rand(4, 4).cuda()
        offsets = torch.arange(0, 8, 2).cuda()
        vectors = [bottom(dense), *[t(torch.randint(100, (8,)).cuda(), offsets) for t in tables]]
        joined = torch.stack(vectors, 1)
        z = torch.bmm(joined, joined.transpose(1, 2))
        rows, columns = torch.tril_indices(4, 4, -1, device=z.device)
        out = top(torch.cat([vectors[0], z[:, rows, columns]], 1))
        F.binary_cross_entropy_with_logits(out, torch.randint(2, (4, 1)).float().cuda()).backward()
        optimizer.step()
        optimizer.zero_grad()


@program("huggingface/transformers examples: masking tokens for BERT")
def mlm():
    tokens, head = nn.Embedding(100, 32).cuda(), nn.Linear(32, 100).cuda()
    optimizer = torch.optim.AdamW([*tokens.parameters(), *head.parameters()])
    for _ in range(STEPS):
        ids = torch.randint(5, 100, (4, 16))
        labels = ids.clone()
        chosen = torch.bernoulli(torch.full(labels.shape, 0.15)).bool()
        chosen[0, 0] = True
        labels[~chosen] = -100
        ids[chosen & torch.bernoulli(torch.full(labels.shape, 0.8)).bool()] = 4
        count = (labels != -100).sum()
        assert count > 0
        F.cross_entropy(
            head(tokens(ids.cuda())).view(-1, 100), labels.cuda().view(-1), reduction="sum"
        ).div(count.item()).backward()
        optimizer.step()
        optimizer.zero_grad()


@program("mixture of experts with a fixed capacity (google-research/switch, fairseq)")
def switch():
    gate, up, down = (
        nn.Linear(32, 4).cuda(),
        nn.Parameter(torch.randn(4, 32, 64, device="cuda")),
        nn.Parameter(torch.randn(4, 64, 32, device="cuda")),
    )
    optimizer = torch.optim.AdamW([*gate.parameters(), up, down])
    for _ in range(STEPS):
        x = torch.randn(64, 32, device="cuda")
        probs = gate(x).softmax(-1)
        weight, expert = probs.max(-1)
        one = F.one_hot(expert, 4)
        place = (one.cumsum(0) * one).sum(-1) - 1
        kept = place < 24
        slots = torch.zeros(4, 24, 64, device=x.device)
        dispatch = (
            F.one_hot(expert, 4)[:, :, None]
            * F.one_hot(place.clamp(0, 23), 24)[:, None]
            * kept[:, None, None]
        ).float()
        slots = torch.einsum("tec,td->ecd", dispatch, x)
        out = (
            torch.einsum("tec,ecd->td", dispatch, torch.bmm(F.relu(torch.bmm(slots, up)), down))
            * weight[:, None]
        )
        (out.pow(2).mean() + 0.01 * (probs.mean(0) * one.float().mean(0)).sum()).backward()
        optimizer.step()
        optimizer.zero_grad()


@program("facebookresearch/simsiam main_simsiam.py")
def simsiam():
    local = start()
    encoder = mlp(32, 16)
    model = nn.ModuleDict({"e": encoder, "p": nn.Linear(16, 16)}).to(local)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    for _ in range(STEPS):
        a, b = model["e"](torch.randn(4, 32).to(local)), model["e"](torch.randn(4, 32).to(local))
        loss = (
            -(
                F.cosine_similarity(model["p"](a), b.detach()).mean()
                + F.cosine_similarity(model["p"](b), a.detach()).mean()
            )
            * 0.5
        )
        optimizer.zero_grad()
        loss.backward()
        for p in model.parameters():
            if p.grad is not None:
                dist.all_reduce(p.grad)
                p.grad /= dist.get_world_size()
        optimizer.step()


@program("facebookresearch/moco moco/builder.py (momentum encoder, queue)")
def moco():
    local = start()
    q, k = mlp(32, 16).to(local), mlp(32, 16).to(local)
    for a, b in zip(q.parameters(), k.parameters()):
        b.data.copy_(a.data)
        b.requires_grad = False
    queue, pointer = (
        F.normalize(torch.randn(16, 4096), dim=0).to(local),
        torch.zeros(1, dtype=torch.long),
    )
    optimizer = torch.optim.SGD(q.parameters(), 0.03)
    for _ in range(STEPS):
        x = torch.randn(4, 32).to(local)
        out = F.normalize(q(x), dim=1)
        with torch.no_grad():
            for a, b in zip(q.parameters(), k.parameters()):
                b.data = b.data * 0.999 + a.data * 0.001
            keys = F.normalize(k(x), dim=1)
        logits = (
            torch.cat(
                [torch.einsum("nc,nc->n", out, keys).unsqueeze(-1), out @ queue.clone().detach()], 1
            )
            / 0.07
        )
        F.cross_entropy(logits, torch.zeros(4, dtype=torch.long).to(local)).backward()
        place = int(pointer)
        queue[:, place : place + 4] = keys.T
        pointer[0] = (place + 4) % 4096
        optimizer.step()
        optimizer.zero_grad()


@program("ultralytics-style detection: host targets, device losses")
def detection():
    model = nn.Conv2d(3, 15, 8, 8).cuda()

    def batch():
        boxes = torch.rand(6, 5)
        owners = boxes[:, 0].mul(2).long()
        counts = owners.bincount(minlength=2)
        targets = torch.zeros(2, int(counts.max()), 4)
        for i in range(2):
            mine = boxes[owners == i, 1:]
            targets[i, : len(mine)] = mine
        return torch.randn(2, 3, 32, 32).cuda(), targets.cuda()

    steps(
        model,
        batch,
        lambda out, t: out.pow(2).mean() + F.smooth_l1_loss(out[:, :4].mean((2, 3)), t.mean(1)),
    )


@program("training loop that resumes: torch.load of a small file")
def resumed():
    import io

    model = mlp()
    file = io.BytesIO()
    with torch.no_grad():
        state = {"step": torch.tensor(7), "rate": 0.5}
    file.write(b"")
    optimizer = torch.optim.Adam(model.cuda().parameters(), lr=state["rate"])
    begin = state["step"].item()
    for step in range(begin, begin + STEPS):
        model(torch.randn(4, 32).cuda()).sum().backward()
        optimizer.step()
        optimizer.zero_grad()
        torch.save({"step": step, "model": model.state_dict()}, file)


@program("metrics over ranks in the manner of torchvision references/classification/utils.py")
def metrics():
    local = start()
    model = nn.parallel.DistributedDataParallel(mlp().to(local), device_ids=[local])
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    seen = 0
    for _ in range(STEPS):
        x, y = torch.randn(8, 32), torch.randint(10, (8,))
        loss = F.cross_entropy(model(x.to(local)), y.to(local))
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        seen += y.shape[0]
        total = torch.tensor([seen, 1.0], dtype=torch.float64, device="cuda")
        dist.barrier()
        dist.all_reduce(total)
        count = int(total.tolist()[0])
        assert count == seen * dist.get_world_size(), count
        print(
            f"{count} samples, loss {loss:.4f}, memory {torch.cuda.max_memory_allocated() / 2**20:.0f} MB"
        )


@program("espnet/espnet: CTC of packed recurrent layers over spectrograms with masked times")
def speech():
    local = start()

    class Recogniser(nn.Module):
        def __init__(self):
            super().__init__()
            self.conv = nn.Sequential(nn.Conv2d(1, 8, 3, 2), nn.ReLU())
            self.rnn = nn.LSTM(8 * 19, 32, bidirectional=True, batch_first=True)
            self.out = nn.Linear(64, 20)

        def forward(self, x, lengths):
            x = (x - x.mean(1, keepdim=True)) / (x.std(1, keepdim=True) + 1e-5)
            width = torch.randint(1, 10, (1,)).item()
            at = torch.randint(0, x.shape[1] - width, (1,)).item()
            x[:, at : at + width] = 0
            x = self.conv(x.unsqueeze(1)).transpose(1, 2).flatten(2)
            lengths = (lengths - 1) // 2
            packed = nn.utils.rnn.pack_padded_sequence(
                x, lengths.cpu(), batch_first=True, enforce_sorted=False
            )
            x, _ = nn.utils.rnn.pad_packed_sequence(self.rnn(packed)[0], batch_first=True)
            return self.out(x), lengths

    model = nn.parallel.DistributedDataParallel(Recogniser().cuda(), device_ids=[local])
    optimizer = torch.optim.Adadelta(model.parameters(), rho=0.95, eps=1e-8)
    ctc = nn.CTCLoss(zero_infinity=True)
    for _ in range(STEPS):
        x, y = torch.randn(2, 80, 40).cuda(), torch.randint(1, 20, (2, 9)).cuda()
        logits, lengths = model(x, torch.tensor([80, 60]))
        log_probs = logits.log_softmax(-1).transpose(0, 1)
        loss = ctc(log_probs, y, lengths, torch.tensor([9, 6]))
        optimizer.zero_grad()
        loss.backward()
        norm = nn.utils.clip_grad_norm_(model.parameters(), 5.0)
        if not torch.isfinite(norm):
            continue
        optimizer.step()
        print(f"{loss:.3f} {norm:.2f}")


class _AllToAll(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        out = torch.empty_like(x)
        dist.all_to_all_single(out, x.contiguous())
        return out

    @staticmethod
    def backward(ctx, grad):
        out = torch.empty_like(grad)
        dist.all_to_all_single(out, grad.contiguous())
        return out


@program("meta-pytorch/torchrec: a table on each rank, jagged ids by all-to-all")
def jagged_tables():
    local = start()
    ranks, batch, width = dist.get_world_size(), 4, 8
    device = torch.device("cuda", local)
    table = nn.EmbeddingBag(100, width, mode="sum", include_last_offset=True).to(device)
    top = nn.parallel.DistributedDataParallel(nn.Linear(width * ranks, 1).to(device))
    optimizer = torch.optim.Adagrad(
        [{"params": table.parameters(), "lr": 0.1}, {"params": top.parameters(), "lr": 0.01}]
    )
    for _ in range(STEPS):
        lengths = torch.randint(1, 5, (ranks, batch))
        ids = torch.randint(0, 100, (int(lengths.sum()),)).to(device)
        sent, lengths = lengths.sum(1).tolist(), lengths.to(device)
        asked = torch.empty_like(lengths)
        dist.all_to_all_single(asked, lengths)
        received = asked.sum(1).tolist()
        own = torch.empty(sum(received), dtype=torch.long, device=device)
        dist.all_to_all_single(own, ids, received, sent)
        offsets = torch.cat([asked.new_zeros(1), asked.flatten().cumsum(0)])
        pooled = _AllToAll.apply(table(own, offsets).view(ranks, batch, width))
        out = top(pooled.transpose(0, 1).reshape(batch, -1)).squeeze(-1)
        F.binary_cross_entropy_with_logits(out, torch.rand(batch, device=device)).backward()
        optimizer.step()
        optimizer.zero_grad()


@program("KellerJordan/modded-nanogpt: Muon, a matrix on each rank and two optimizers")
def muon():
    start()
    rank, ranks = dist.get_rank(), dist.get_world_size()

    @torch.compile
    def orthogonal(grad):
        a, b, c = 3.4445, -4.7750, 2.0315
        x = grad.bfloat16()
        x = x / (x.norm() + 1e-7)
        for _ in range(5):
            square = x @ x.mT
            x = a * x + (b * square + c * square @ square) @ x
        return x

    class Muon(torch.optim.Optimizer):
        def __init__(self, params):
            super().__init__(params, {"lr": 0.02, "momentum": 0.95})

        @torch.no_grad()
        def step(self):
            for group in self.param_groups:
                params = group["params"]
                padded = params + [torch.empty_like(params[-1])] * (-len(params) % ranks)
                for at in range(0, len(padded), ranks):
                    if at + rank < len(params):
                        p = params[at + rank]
                        state = self.state[p]
                        if "momentum" not in state:
                            state["momentum"] = torch.zeros_like(p.grad)
                        state["momentum"].lerp_(p.grad, 1 - group["momentum"])
                        p.add_(orthogonal(state["momentum"]).to(p.dtype), alpha=-group["lr"])
                    dist.all_gather(
                        [q.data for q in padded[at : at + ranks]], padded[at + rank].data
                    )

    model = nn.Sequential(nn.Embedding(100, 32), *[nn.Linear(32, 32) for _ in range(3)]).cuda()
    matrices = [p for p in model[1:].parameters() if p.ndim == 2]
    others = [p for p in model.parameters() if all(p is not q for q in matrices)]
    optimizers = [torch.optim.Adam(others, lr=0.008, fused=True), Muon(matrices)]
    for step in range(STEPS):
        loss = model(torch.randint(100, (2, 8)).to("cuda", non_blocking=True)).square().mean()
        loss.backward()
        for p in model.parameters():
            dist.all_reduce(p.grad, op=dist.ReduceOp.AVG)
        for optimizer in optimizers:
            optimizer.step()
        model.zero_grad(set_to_none=True)
        if rank == 0:
            print(f"step:{step} {loss:.4f}", flush=True)


@program("eric-mitchell/direct-preference-optimization trainers.py: a frozen reference")
def preferences():
    import copy

    local = start()
    policy = Gpt().cuda()
    reference = copy.deepcopy(policy).eval().requires_grad_(False)
    policy = nn.parallel.DistributedDataParallel(policy, device_ids=[local])
    optimizer = torch.optim.RMSprop(policy.parameters(), lr=5e-7)
    scheduler = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: min(1, (step + 1) / 151))

    def log_probs(model, ids, labels):
        logits = model(ids)
        logits = logits[0] if isinstance(logits, tuple) else logits
        labels = labels[:, 1:].clone()
        kept = labels != -100
        labels[labels == -100] = 0
        each = logits[:, :-1].log_softmax(-1).gather(2, labels.unsqueeze(2)).squeeze(2)
        return (each * kept).sum(-1)

    for _ in range(STEPS):
        ids = torch.randint(0, 64, (4, 16))
        labels = ids.clone()
        labels[:, :4] = -100
        ids, labels = ids.cuda(), labels.cuda()
        ours = log_probs(policy, ids, labels)
        with torch.no_grad():
            theirs = log_probs(reference, ids, labels)
        margin = (ours - theirs).view(2, -1)
        loss = -F.logsigmoid(0.1 * (margin[0] - margin[1])).mean()
        better = (margin[0] > margin[1]).float().mean()
        loss.backward()
        norm = nn.utils.clip_grad_norm_(policy.parameters(), 10.0)
        optimizer.step()
        scheduler.step()
        optimizer.zero_grad()
        gathered = [torch.zeros_like(better) for _ in range(dist.get_world_size())]
        dist.all_gather(gathered, better)
        if dist.get_rank() == 0:
            print(
                {"loss": loss.item(), "acc": torch.stack(gathered).mean().item(), "n": norm.item()}
            )


# --- packages ------------------------------------------------------------------------------------------


def tiny_llama(**options):
    import transformers

    config = transformers.LlamaConfig(
        hidden_size=64,
        num_hidden_layers=2,
        intermediate_size=128,
        num_attention_heads=4,
        num_key_value_heads=2,
        vocab_size=256,
        max_position_embeddings=128,
        **options,
    )
    return transformers.LlamaForCausalLM(config)


@program("huggingface/transformers: Llama trained by hand with padding", "transformers")
def hf_llama():
    model = tiny_llama(use_cache=False).to("cuda")
    optimizer = torch.optim.AdamW(model.parameters())
    for _ in range(STEPS):
        ids = torch.randint(256, (2, 16))
        mask = torch.ones_like(ids)
        mask[0, 10:] = 0
        model(
            input_ids=ids.to("cuda"), attention_mask=mask.to("cuda"), labels=ids.to("cuda")
        ).loss.backward()
        optimizer.step()
        optimizer.zero_grad()


@program("huggingface/transformers: generate", "transformers")
def hf_generate():
    model = tiny_llama().to("cuda").eval()
    model.generation_config.eos_token_id = (
        None  # tokens come off the device, and none ends a sequence
    )
    for _ in range(STEPS):
        ids = torch.randint(256, (1, 8)).to("cuda")
        mask = torch.ones_like(ids)
        model.generate(ids, attention_mask=mask, max_new_tokens=4, do_sample=False, pad_token_id=0)


@program("huggingface/transformers: beam search, then training on what it gave", "transformers")
def hf_beams():
    model = tiny_llama().to("cuda")
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-6)
    for _ in range(STEPS):
        prompt = torch.randint(1, 100, (2, 8), device="cuda")
        mask = torch.ones_like(prompt)
        with torch.no_grad():
            sequences = model.generate(
                prompt, attention_mask=mask, num_beams=4, max_new_tokens=6, pad_token_id=0
            )
        reward = (sequences[:, 8:] == 7).float().sum(-1)
        loss = (
            model(sequences).logits.float().log_softmax(-1).max(-1).values.mean(-1) * reward
        ).mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        print(f"reward {reward.mean().item():.3f}")


@program("huggingface/peft: LoRA", "transformers", "peft")
def lora():
    from peft import LoraConfig, get_peft_model

    model = get_peft_model(
        tiny_llama(use_cache=False),
        LoraConfig(r=4, target_modules=["q_proj", "v_proj"], task_type="CAUSAL_LM"),
    ).to("cuda")
    optimizer = torch.optim.AdamW([p for p in model.parameters() if p.requires_grad])
    for _ in range(STEPS):
        ids = torch.randint(256, (2, 16), device="cuda")
        model(input_ids=ids, labels=ids).loss.backward()
        optimizer.step()
        optimizer.zero_grad()


@program("huggingface/accelerate: examples/nlp_example.py", "accelerate")
def accelerated():
    from accelerate import Accelerator

    accelerator = Accelerator()
    model, data = (
        mlp(),
        DataLoader(TensorDataset(torch.randn(8192, 32), torch.randint(10, (8192,))), batch_size=4),
    )
    optimizer = torch.optim.AdamW(model.parameters())
    model, optimizer, data = accelerator.prepare(model, optimizer, data)
    for x, y in data:
        accelerator.backward(F.cross_entropy(model(x), y))
        optimizer.step()
        optimizer.zero_grad()


@program("huggingface/pytorch-image-models: train.py with a ViT", "timm")
def timm_vit():
    import timm
    import timm.optim

    model = timm.create_model("vit_tiny_patch16_224", num_classes=10, img_size=32, depth=2).cuda()
    steps(
        model,
        images("cuda"),
        F.cross_entropy,
        timm.optim.create_optimizer_v2(model, opt="adamw", lr=1e-3),
    )


@program("huggingface/pytorch-image-models: ConvNeXt", "timm")
def timm_convnext():
    import timm

    model = timm.create_model("convnext_atto", num_classes=10, drop_path_rate=0.1).cuda()
    steps(model, images("cuda"), F.cross_entropy)


@program("pytorch/vision references/classification/train.py", "torchvision")
def tv_resnet():
    import torchvision

    model = torchvision.models.resnet18(num_classes=10).to("cuda")
    scaler = torch.cuda.amp.GradScaler()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9, nesterov=True)
    for _ in range(STEPS):
        with torch.autocast("cuda"):
            loss = F.cross_entropy(
                model(torch.randn(4, 3, 32, 32, device="cuda")),
                torch.randint(10, (4,), device="cuda"),
            )
        optimizer.zero_grad()
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()


@program("pytorch/vision: Swin", "torchvision")
def tv_swin():
    import torchvision

    model = torchvision.models.swin_t(num_classes=10).to("cuda")
    steps(model, images("cuda", 2, 64), F.cross_entropy)


@program("huggingface/diffusers: examples/unconditional_image_generation", "diffusers")
def diffusers_unet():
    from diffusers import DDPMScheduler, UNet2DModel

    model = UNet2DModel(
        sample_size=16,
        block_out_channels=(32, 32),
        down_block_types=("DownBlock2D", "AttnDownBlock2D"),
        up_block_types=("AttnUpBlock2D", "UpBlock2D"),
        norm_num_groups=8,
    ).to("cuda")
    scheduler = DDPMScheduler(num_train_timesteps=100)
    optimizer = torch.optim.AdamW(model.parameters())
    for _ in range(STEPS):
        x = torch.randn(2, 3, 16, 16).to("cuda")
        noise = torch.randn(x.shape, device=x.device)
        t = torch.randint(0, 100, (2,), device=x.device).long()
        F.mse_loss(model(scheduler.add_noise(x, noise, t), t).sample, noise).backward()
        optimizer.step()
        optimizer.zero_grad()


@program("Lightning-AI/pytorch-lightning: LightningModule and Trainer", "lightning")
def lightning_module():
    import lightning as L

    class Net(L.LightningModule):
        def __init__(self):
            super().__init__()
            self.net = mlp()

        def training_step(self, batch, _):
            loss = F.cross_entropy(self.net(batch[0]), batch[1])
            self.log("loss", loss)
            return loss

        def configure_optimizers(self):
            return torch.optim.Adam(self.parameters())

    data = DataLoader(TensorDataset(torch.randn(64, 32), torch.randint(10, (64,))), batch_size=8)
    L.Trainer(
        max_steps=STEPS,
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        devices=1,
    ).fit(Net(), data)


@program("NVIDIA/Megatron-LM: core GPTModel with the local layers", "megatron.core")
def megatron_core():
    from megatron.core import parallel_state
    from megatron.core.models.gpt import GPTModel
    from megatron.core.models.gpt.gpt_layer_specs import get_gpt_layer_local_spec
    from megatron.core.tensor_parallel.random import model_parallel_cuda_manual_seed
    from megatron.core.transformer import TransformerConfig

    start()
    parallel_state.initialize_model_parallel(tensor_model_parallel_size=2)
    model_parallel_cuda_manual_seed(1)
    config = TransformerConfig(
        num_layers=2,
        hidden_size=64,
        num_attention_heads=4,
        use_cpu_initialization=True,
        pipeline_dtype=torch.float32,
    )
    model = GPTModel(
        config, get_gpt_layer_local_spec(), vocab_size=128, max_sequence_length=32
    ).cuda()
    optimizer = torch.optim.Adam(model.parameters())
    for _ in range(STEPS):
        ids = torch.randint(128, (2, 32), device="cuda")
        places = torch.arange(32, device="cuda").repeat(2, 1)
        model(
            ids, places, torch.tril(torch.ones(1, 1, 32, 32, device="cuda")) < 0.5, labels=ids
        ).mean().backward()
        optimizer.step()
        optimizer.zero_grad()


ENDS = {"generated": "Gpt.generate", "hf_generate": "GenerationMixin.generate"}
"""Calls that end a step of programs that only infer."""

if __name__ == "__main__":
    PROGRAMS[sys.argv[1]]()
