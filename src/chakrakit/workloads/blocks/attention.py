"""One layer of attention in blocks as traces: queries stay, keys and values come from whoever has them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from chakrakit.arrays import F64, I64
from chakrakit.trace.communication import Binding, Groups
from chakrakit.trace.model import EdgeKind, Edges, NodeType, Trace
from chakrakit.trace.sets import Card, TraceSet
from chakrakit.workloads.blocks.assignment import assigned
from chakrakit.workloads.blocks.exchange import Assignment, BlockExchange, exchange_of


@dataclass(frozen=True)
class AttentionWork:
    """What a pair and a token amount to on a rank."""

    heads: int = 32
    kv_heads: int = 8
    head_dim: int = 128
    bytes_per_element: int = 2
    backward: bool = False
    token_flops: int = 0
    """FLOPs of all other layers for a token; 0 leaves them out."""

    @property
    def pair_flops(self) -> int:
        """Scores and weighted values of one query–key pair, all heads; a multiply-add is two."""
        return 4 * self.heads * self.head_dim

    @property
    def token_bytes(self) -> int:
        """Keys and values of a token."""
        return 2 * self.kv_heads * self.head_dim * self.bytes_per_element

    @property
    def query_bytes(self) -> int:
        """Queries and results of a token."""
        return 2 * self.heads * self.head_dim * self.bytes_per_element


def attention_traces(assignment: Assignment, work: AttentionWork | None = None) -> TraceSet:
    """Forward, and with `backward` the gradients too, which go back to whoever has the keys."""
    work, exchange = work or AttentionWork(), exchange_of(assignment)
    bodies = [_Rank(r, assignment, exchange, work).trace() for r in range(assignment.ranks)]
    ranks = list(range(assignment.ranks))
    bindings = {rank: Binding(rank) for rank in ranks}
    return TraceSet(bodies, bindings, Groups({"": ranks}), Card(name="attention"))


def generate_attention(
    documents: Sequence[int],
    ranks: int,
    assignment: str = "flops",
    block: int = 1024,
    work: AttentionWork | None = None,
) -> TraceSet:
    """One layer of causal attention over packed documents, in blocks that ranks share.

    Ranks exchange exactly the keys and values that their queries meet.

    Parameters
    ----------
    documents
        Tokens of each document.
    ranks
        How many ranks share them.
    assignment
        `per-document` (every document over all ranks, as in a ring), `whole` (no document is cut), `flops`
        (blocks, packed by their work) or `mixed` (long documents in blocks, as a search finds best).
    block
        Tokens of a block.
    work
        What a pair and a token amount to, and whether there is a backward pass.

    Examples
    --------
    >>> traces = ck.generate_attention([8192, 1024, 512], ranks=4)
    >>> len(traces)
    4

    """
    return attention_traces(assigned(documents, ranks, assignment, block), work)


class _Rank:
    """The rows of one rank: own keys first, then those of others in the order in which they are met."""

    def __init__(
        self, rank: int, assignment: Assignment, exchange: BlockExchange, work: AttentionWork
    ) -> None:
        self.rank, self.work, ranks = rank, work, assignment.ranks
        self.queries = float(assignment.tokens[rank])
        self.before: I64 = (rank - np.arange(ranks)) % ranks
        self.after: I64 = (rank + np.arange(ranks)) % ranks
        self.needs, self.gives = exchange.tokens[rank], exchange.tokens[:, rank]
        self.pairs = exchange.pairs[rank]
        self.columns: dict[str, list[int]] = {n: [] for n in _COLUMNS}
        self.edges: list[tuple[int, int]] = []

    def trace(self) -> Trace:
        arrived = self._messages(self.gives, self.needs, self.after, self.before, -1)
        done = self._pieces(arrived, factor=1)
        if self.work.token_flops:
            moved = int(self.queries * self.work.query_bytes)
            flops = int(self.queries * self.work.token_flops)
            done = self._row(0, 0, num_ops=flops, tensor_size=moved)
        if self.work.backward:
            done = self._pieces(dict.fromkeys(arrived, done), factor=2)
            self._messages(self.needs, self.gives, self.before, self.after, done)
        columns = {name: np.array(values) for name, values in self.columns.items()}
        kind = columns.pop("kind")
        names = np.array(["attention", "keys.send", "keys.recv"])[kind]
        data = {"name": names.tolist(), **columns, "dtype": ["bf16"] * len(kind)}
        data["op_type"] = ["attention" if k == 0 else None for k in kind.tolist()]
        pairs = np.array(self.edges, np.int32).reshape(-1, 2)
        return Trace.from_columns(data, Edges.of(pairs[:, 0], pairs[:, 1], EdgeKind.DATA))

    def _messages(self, out: F64, into: F64, to: I64, of: I64, wait: int) -> dict[int, int]:
        """Messages to and from all others, one at a time either way; gives the row of each that arrives.

        In round k everybody sends to the k-th rank on one side and receives from the k-th on the other: two
        ends of a message are in the same round, so that rounds left out by some hold nobody up for ever.
        """
        rows: dict[int, int] = {}
        for target, source in zip(to[1:].tolist(), of[1:].tolist(), strict=True):
            if out[target] > 0:
                self._message(1, (self.rank, target), out[target], wait)
            if into[source] > 0:
                rows[source] = self._message(2, (source, self.rank), into[source], wait)
        return rows

    def _message(self, kind: int, ends: tuple[int, int], tokens: float, wait: int) -> int:
        """One end of a message; those of gradients wait for a row and have lanes of their own."""
        backward = int(wait >= 0)
        size = int(tokens) * self.work.token_bytes
        row = self._row(
            kind,
            kind + 2 * backward,
            comm_size=size,
            comm_src=ends[0],
            comm_dst=ends[1],
            comm_tag=backward,
        )
        if backward:
            self.edges.append((wait, row))
        return row

    def _pieces(self, arrived: dict[int, int], factor: int) -> int:
        """A kernel for the keys of each rank, on one stream; gives the last."""
        last = -1
        for peer in self.before.tolist():
            if self.pairs[peer] <= 0 and peer != self.rank:
                continue
            share = self.pairs[peer] / max(float(self.pairs.sum()), 1.0)
            moved = (
                self.needs[peer] * self.work.token_bytes
                + share * self.queries * self.work.query_bytes
            )
            last = self._row(
                0,
                0,
                num_ops=int(factor * self.pairs[peer] * self.work.pair_flops),
                tensor_size=int(factor * moved),
            )
            if peer in arrived:
                self.edges.append((arrived[peer], last))
        return last

    def _row(self, kind: int, stream: int, **values: int) -> int:
        types = (NodeType.COMP_NODE, NodeType.COMM_SEND_NODE, NodeType.COMM_RECV_NODE)
        given = {"kind": kind, "type": int(types[kind]), "stream": stream, **values}
        for name, column in self.columns.items():
            column.append(given.get(name, 0))
        return len(self.columns["kind"]) - 1


_COLUMNS = (
    "kind", "type", "stream", "num_ops", "tensor_size", "comm_size", "comm_src", "comm_dst", "comm_tag",
)  # fmt: skip
