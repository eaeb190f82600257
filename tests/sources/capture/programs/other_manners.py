"""What other people's programs do that the examples here do not, one function each."""

import copy
import json
import sys
import tempfile
from pathlib import Path

import torch
import torch.distributed as dist
import torch.nn.functional as functional
from torch import nn
from torch.nn.attention.flex_attention import flex_attention
from torch.utils.data import DataLoader, TensorDataset


class Reader(nn.Module):
    """Tokens through a recurrent layer to scores of the next ones."""

    def __init__(self, layer: nn.Module, width: int) -> None:
        super().__init__()
        self.tokens, self.layer, self.head = nn.Embedding(50, 16), layer, nn.Linear(width, 50)

    def forward(self, ids, lengths=None):
        x = self.tokens(ids)
        if lengths is not None:
            x = nn.utils.rnn.pack_padded_sequence(
                x, lengths, batch_first=True, enforce_sorted=False
            )
        out, _ = self.layer(x)
        if lengths is not None:
            out, _ = nn.utils.rnn.pad_packed_sequence(out, batch_first=True)
        return self.head(out)


def train(model, *more):
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    ids = torch.randint(0, 50, (4, 6), device="cuda")
    for _ in range(2):
        out = model(ids, *more)
        functional.cross_entropy(out.flatten(0, 1), ids.flatten()).backward()
        optimizer.step()
        optimizer.zero_grad()


def lstm():
    train(Reader(nn.LSTM(16, 32, 2, batch_first=True), 32).cuda())


def packed():
    layer = nn.GRU(16, 32, batch_first=True, bidirectional=True)
    train(Reader(layer, 64).cuda(), torch.tensor([6, 3, 5, 3]))


class Steps(nn.Module):
    """Cells that the script calls step by step."""

    def __init__(self) -> None:
        super().__init__()
        self.lstm, self.gru = nn.LSTMCell(16, 16), nn.GRUCell(16, 16)

    def forward(self, x):
        state, hidden = None, None
        for step in x.unbind(1):
            state = self.lstm(step, state)
            hidden = self.gru(state[0], hidden)
        return hidden


class Cells(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.tokens, self.steps, self.head = nn.Embedding(50, 16), Steps(), nn.Linear(16, 50)

    def forward(self, ids):
        last = self.head(self.steps(self.tokens(ids)))
        return last[:, None].expand(-1, ids.shape[1], -1)


def cells():
    train(Cells().cuda())


def copied():
    """A model copied on the host before it goes to the device, and once more there."""
    model = Reader(nn.LSTM(16, 32, batch_first=True), 32)
    teacher = copy.deepcopy(model).cuda()
    counts = copy.deepcopy(torch.arange(5))
    counts += 1
    assert counts.tolist() == [1, 2, 3, 4, 5]
    averaged = copy.deepcopy(teacher)
    assert [p.shape for p in averaged.parameters()] == [p.shape for p in model.parameters()]
    train(teacher)


def selected():
    """Whole numbers of a data set made in the script choose how much is computed."""
    edges = torch.randint(0, 20, (8, 2, 12))
    model = nn.Linear(4, 4).cuda()
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    for (batch,) in DataLoader(TensorDataset(edges), batch_size=4):
        first, second = batch.cuda().unbind(1)
        kept = first[first != second]
        model(torch.zeros(kept.numel(), 4, device="cuda")).sum().backward()
        optimizer.step()


def drawn():
    """A distribution that checks its arguments, a metric in JSON, and a generator on the device."""
    model = nn.Linear(4, 3).cuda()
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    generator = torch.Generator(device="cuda").manual_seed(1)
    assert generator.device.type == "cuda"
    for _ in range(2):
        x = torch.randn(2, 4, device="cuda", generator=generator)
        choice = torch.distributions.Categorical(logits=model(x))
        loss = -choice.log_prob(choice.sample()).mean()
        loss.backward()
        optimizer.step()
        json.dumps({"loss": copy.deepcopy(loss.item())}, indent=2)


def minimised():
    """LBFGS, which evaluates a closure up to five times in a step and decides by what it computed."""
    model = nn.Linear(4, 3).cuda()
    optimizer = torch.optim.LBFGS(model.parameters(), max_iter=5)
    x = torch.randn(2, 4, device="cuda")

    def closure():
        optimizer.zero_grad()
        loss = model(x).square().mean()
        loss.backward()
        return loss

    for _ in range(3):
        optimizer.step(closure)


def masked():
    """Numbers in place of what a mask leaves out, forward and backward."""
    x = torch.randn(4, 8, device="cuda", requires_grad=True)
    mask = torch.ones(4, 8, dtype=torch.bool, device="cuda")
    optimizer = torch.optim.SGD([x], 0.1)
    for _ in range(2):
        torch.where(mask, x, -1e9).topk(2, -1).values.sum().backward()
        optimizer.step()


def saved():
    """The first rank saves, all load what it saved, and the first removes it."""
    dist.init_process_group("nccl")
    rank, path = dist.get_rank(), Path(tempfile.gettempdir()) / "model.pt"
    model = nn.Linear(4, 3).cuda()
    if rank == 0:
        torch.save({"model": model.state_dict(), "epoch": 3}, path)
    dist.barrier()
    checkpoint = torch.load(path, map_location={"cuda:0": f"cuda:{rank}"}, weights_only=True)
    model.load_state_dict(checkpoint["model"])
    assert checkpoint["epoch"] == 3
    if rank == 0:
        path.unlink()
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    for _ in range(2):
        model(torch.randn(2, 4, device="cuda")).sum().backward()
        optimizer.step()


def counted():
    """One process on all GPUs that it sees, a twin on the meta device, and a count printed with `%d`."""
    model = nn.DataParallel(nn.Linear(4, 3).cuda(), device_ids=range(torch.cuda.device_count()))
    twin = copy.deepcopy(model.module).to("meta")
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    correct = 0
    for _ in range(2):
        x, y = torch.randn(8, 4), torch.randint(3, (8,))
        out = model(x)
        functional.cross_entropy(out, y.cuda()).backward()
        optimizer.step()
        correct += out.argmax(1).eq(y.cuda()).sum().item()
        print("Acc: %.3f%% (%d/%d)" % (100.0 * correct / 8, correct, 8))  # noqa: UP031
    assert twin.weight.is_meta
    assert not model.module.weight.is_meta


def flexed():
    """Attention whose mask is a function of the script."""
    q = torch.randn(1, 2, 128, 16, device="cuda", requires_grad=True)
    optimizer = torch.optim.SGD([q], 0.1)
    flex_attention(q, q, q, score_mod=lambda score, b, h, i, j: score + (i - j)).sum().backward()
    optimizer.step()


def transcribed():
    """CTC loss of sequences whose lengths the host knows."""
    model = nn.Linear(8, 10).cuda()
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    for _ in range(2):
        log_probs = model(torch.randn(20, 2, 8, device="cuda")).log_softmax(-1)
        targets = torch.randint(1, 10, (2, 7), device="cuda")
        lengths = torch.tensor([20, 15]), torch.tensor([5, 3])
        functional.ctc_loss(log_probs, targets, *lengths).backward()
        optimizer.step()


def found():
    """What is computed decides how many rows are left."""
    model = nn.Linear(4, 4).cuda()
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    for _ in range(2):
        x = model(torch.randn(8, 4, device="cuda"))
        x[x.sum(1) > 0].mm(x.t()).sum().backward()
        optimizer.step()


def small_job():
    """How many ranks there are, one layer, and its optimizer."""
    dist.init_process_group("nccl")
    model = nn.Linear(4, 4).cuda()
    return dist.get_world_size(), model, torch.optim.SGD(model.parameters(), 0.1)


def exchanged():
    """Ranks tell each other how many rows they send, send them, and make a tensor of as many."""
    ranks, model, optimizer = small_job()
    for _ in range(2):
        sent = torch.full((ranks,), 3).cuda()
        received = torch.empty_like(sent)
        dist.all_to_all_single(received, sent)
        rows = torch.empty(sum(received.tolist()), 4, device="cuda")
        whole = torch.ones(3 * ranks, 4, device="cuda")
        dist.all_to_all_single(rows, whole, received.tolist(), sent.tolist())
        model(rows).sum().backward()
        optimizer.step()


def padded():
    """Ranks tell each other how many rows they have, and pad theirs to the most."""
    ranks, model, optimizer = small_job()
    for _ in range(2):
        rows = model(torch.randn(2 + dist.get_rank() % 2, 4, device="cuda"))
        count = torch.tensor([len(rows)], device="cuda")
        counts = [torch.zeros_like(count) for _ in range(ranks)]
        dist.all_gather(counts, count)
        whole = torch.zeros(max(map(int, counts)), 4, device="cuda")
        dist.all_gather([torch.empty_like(whole) for _ in range(ranks)], whole)
        rows.sum().backward()
        optimizer.step()


def sized():
    """A number of the device is the size of a tensor."""
    x = torch.randn(4, 4, device="cuda", requires_grad=True)
    optimizer = torch.optim.SGD([x], 0.1)
    count = x.argmax().item()
    (torch.ones(count, 4, device="cuda") @ x).sum().backward()
    optimizer.step()


def nothing():
    """A step in which nothing is computed."""
    finished()
    finished()


def finished():
    return None


if __name__ == "__main__":
    globals()[sys.argv[1]]()
