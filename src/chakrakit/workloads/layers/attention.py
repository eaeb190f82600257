"""The attention core: which keys queries meet, scores and weighted values, and context parallelism.

Cutting the sequence over `cp`, queries stay where they are; keys and values are gathered (`gather`),
passed round in a ring of messages (`ring`), come from every rank that has some of those that are met
(`blocks`), or heads are traded for sequence (`ulysses`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from typing import NamedTuple

from chakrakit.operators import SOFTMAX, attention_flops
from chakrakit.workloads.layers.sharding import BYTES, Dim, Tensor
from chakrakit.workloads.layers.tape import BlockNode, Grads, Tape


class Stretch(NamedTuple):
    """Tokens of one sequence that are processed together, on top of those that are cached."""

    new: int
    cached: int


@dataclass(frozen=True)
class Reach:
    """Which keys a causal query meets: all before it, or fewer.

    Every `stride` tokens are one key. A query meets the `most` last keys, or, where attention is
    `sparse`, `most` keys of its own choice. With `chunk` it meets those of its own chunk of tokens.
    """

    most: int = 0
    stride: int = 1
    sparse: bool = False
    chunk: int = 0

    def pairs(self, stretch: Stretch) -> Fraction:
        """Query–key pairs: half a square over new tokens, all over cached ones, cut off at the limit.

        A single new token meets every cached token and itself.
        """
        new, cached = stretch
        if new == 1:
            return self._met(cached + 1)
        return self._area(cached + new) - self._area(cached)

    def read(self, stretch: Stretch) -> Fraction:
        """Keys that are read from the cache."""
        new, cached = stretch
        limit = self.most * (new if self.sparse else 1)
        if self.chunk:
            return Fraction(cached % self.chunk)
        return min(Fraction(cached, self.stride), Fraction(limit or cached + 1))

    def held(self, tokens: int) -> Fraction:
        """Keys that are kept of so many tokens."""
        keys = Fraction(tokens, self.stride)
        most = self.chunk or (0 if self.sparse else self.most)
        return min(keys, Fraction(most)) if most else keys

    def _met(self, place: int) -> Fraction:
        if self.chunk:
            return Fraction((place - 1) % self.chunk + 1)
        keys = Fraction(place, self.stride)
        return min(keys, Fraction(self.most)) if self.most else keys

    def _area(self, upto: int) -> Fraction:
        """Keys that the queries up to a place meet, counted as an area under their line."""
        if self.chunk:
            whole, rest = divmod(upto, self.chunk)
            return Fraction(whole * self.chunk**2 + rest**2, 2)
        limit = self.most * self.stride
        if not limit or upto <= limit:
            return Fraction(upto**2, 2 * self.stride)
        return Fraction(limit**2, 2 * self.stride) + (upto - limit) * self.most


ALL = Reach()


@dataclass(frozen=True)
class KeyExchange:
    """A rank's part of attention in blocks: its tokens, and by distance what it has to do with other ranks.

    At distance d, `pairs` and `needs` are the query–key pairs with, and the tokens of, keys of the d-th rank
    before it on the axis `cp`; `gives` are tokens whose keys the d-th rank after it needs. At 0 it is the
    rank itself.
    """

    tokens: int
    pairs: tuple[Fraction, ...]
    needs: tuple[int, ...]
    gives: tuple[int, ...]

    @staticmethod
    def even(ranks: int, tokens: int, pairs: Fraction) -> KeyExchange:
        """As in a ring: everybody has the same, and needs all keys."""
        all_alike = (tokens,) * ranks
        return KeyExchange(tokens, (pairs / ranks**2,) * ranks, all_alike, all_alike)


@dataclass(frozen=True)
class Core:
    """How attention runs. `pairs`: query–key pairs of the micro-batch, over all of a sequence's ranks.

    `stretches` say what the pairs are of, so that attention which meets fewer keys can count its own;
    without them every kind of attention has the same pairs. `cached`: bytes this rank reads from the
    cache of earlier tokens.
    """

    pairs: Fraction
    kernel: str = "flash"
    context: str = "gather"
    dropout: bool = False
    cached: int = 0
    stretches: tuple[Stretch, ...] = ()
    reach: Reach = ALL
    key_bytes: float = 0.0
    """Bytes of one cached key with its value on this rank."""
    exchange: KeyExchange | None = None
    """Context blocks: this rank's part."""

    def within(self, reach: Reach, key_bytes: float) -> Core:
        """The same for attention of this reach, whose cached keys have so many bytes each."""
        pairs = self.pairs
        if reach != ALL and self.stretches:
            pairs = sum((reach.pairs(s) for s in self.stretches), Fraction(0))
        read = sum((reach.read(s) for s in self.stretches), Fraction(0))
        cached = round(float(read) * key_bytes)
        return replace(self, pairs=pairs, reach=reach, cached=cached, key_bytes=key_bytes)


def attention(
    tape: Tape,
    name: str,
    q: Tensor,
    k: Tensor,
    v: Tensor,
    core: Core,
    keeps: tuple[Tensor, ...] = (),
    after: tuple[Tensor, ...] = (),
) -> Tensor:
    """softmax(q kᵀ) v for q [b, s, heads, d]; the result is [b, s, heads × d].

    `keeps` are the tensors whose storage q, k and v are, kept once. `after` is what it waits for besides.
    """
    parallel = tape.degrees.get("cp", 1)
    if parallel > 1 and core.context == "ulysses":
        return _by_heads(tape, name, q, k, v, core)
    if parallel > 1 and core.context == "ring":
        return _core(tape, name, q, k, v, core, keeps, ring=parallel)
    if parallel > 1 and core.context == "blocks":
        return _in_blocks(tape, name, (q, k, v), core, keeps)
    k, v = (_with_sequence(tape, t, (), name) for t in (k, v))
    stored = keeps if parallel == 1 else (q, k, v)
    return _core(tape, name, q, k, v, core, stored, after=after)


def _with_sequence(tape: Tape, x: Tensor, axes: tuple[str, ...], name: str) -> Tensor:
    dims = list(x.dims)
    dims[1] = Dim(dims[1].size, axes)
    return tape.reshard(x, Tensor(tuple(dims), x.dtype), name)


def _by_heads(tape: Tape, name: str, q: Tensor, k: Tensor, v: Tensor, core: Core) -> Tensor:
    q, k, v = (_trade(tape, t, name) for t in (q, k, v))
    out = _core(tape, name, q, k, v, core, (q, k, v))
    batch, seq, width = out.dims
    home = Tensor((batch, seq.over("cp"), width.over("tp")), out.dtype)
    return tape.reshard(out, home, name)


def _trade(tape: Tape, x: Tensor, name: str) -> Tensor:
    batch, seq, heads, size = x.dims
    return tape.reshard(x, Tensor((batch, seq.over(), heads.over("tp", "cp"), size), x.dtype), name)


def _core(
    tape: Tape,
    name: str,
    q: Tensor,
    k: Tensor,
    v: Tensor,
    core: Core,
    keeps: tuple[Tensor, ...],
    ring: int = 1,
    after: tuple[Tensor, ...] = (),
) -> Tensor:
    batch, seq, heads, _size = q.dims
    out = Tensor((batch, seq, Dim(heads.size * v.dims[3].size, heads.axes)), q.dtype)
    node = _work(tape, name, q, k, v, out, core)
    kernels = [node] if core.kernel == "flash" or ring > 1 else _separate(tape, node, q, k, v, core)
    place = (
        _round(tape, node, (q, k, v), ring)
        if ring > 1
        else _in_turn(tape, kernels, (q, k, v, *after))
    )
    freed = tape.keep(place, *(keeps or (q, k, v)))
    inner = _scores(tape, q, k, core) if tape.settings.training else 0
    tape.forward[place].alloc += inner
    tape.forward[place].inner = inner
    out = replace(out, node=place)
    if core.kernel == "flash":
        freed += tape.keep(place, out)

    def back(grad: Tensor) -> Grads:
        reads = (q, k, v, out)
        if ring > 1:
            end = _round_back(tape, _doubled(node, freed + inner), grad, reads, ring)
        else:
            end = _back_in_turn(tape, kernels, grad, reads, freed + inner)
        cut = frozenset(("cp",) if tape.degrees.get("cp", 1) > 1 and "cp" in seq.axes else ())
        shared = cut if ring == 1 else frozenset()
        return [
            (q, Tensor(q.dims, q.dtype, node=end)),
            *((t, Tensor(t.dims, t.dtype, shared, end)) for t in (k, v)),
        ]

    return tape.record(out, back)


def _work(
    tape: Tape, name: str, q: Tensor, k: Tensor, v: Tensor, out: Tensor, core: Core
) -> BlockNode:
    heads = q.dims[2].local(tape.degrees)
    sharing = q.dims[1].size / q.dims[1].local(tape.degrees)
    scores = core.pairs / Fraction(sharing) * heads
    flops = attention_flops(scores, int(q.dims[3].size), int(v.dims[3].size))
    moved = sum(t.bytes(tape.degrees) for t in (q, k, v, out))
    moved += core.cached
    shapes = ",".join(_met_shapes(tape, q, k, v, core))
    return BlockNode(
        name,
        "attention",
        flops,
        bytes=moved,
        dtype=q.dtype,
        core=True,
        shapes=f"[{shapes}]",
        reach=core.reach,
        key_bytes=core.key_bytes,
    )


def selection(tape: Tape, name: str, q: Tensor, k: Tensor, core: Core) -> Tensor:
    """Scores of small queries and keys, of which a top-k chooses the keys that attention meets.

    Nothing is learned through the choice, so it has no gradient. Ranks that share a sequence choose for
    their queries, and need the keys of all.
    """
    k = _with_sequence(tape, k, (), name)
    heads, size = q.dims[2].local(tape.degrees), int(q.dims[3].size)
    sharing = Fraction(q.dims[1].size) / q.dims[1].local(tape.degrees)
    flops = attention_flops(core.pairs / sharing * heads, size, 0)
    moved = sum(t.bytes(tape.degrees) for t in (q, k)) + core.cached
    shapes = ",".join(_heads_first(tape, t) for t in (q, k))
    node = BlockNode(
        name,
        "attention",
        flops,
        bytes=moved,
        dtype=q.dtype,
        shapes=f"[{shapes}]",
        reach=core.reach,
        key_bytes=core.key_bytes,
    )
    return Tensor(q.dims[:2], q.dtype, node=tape.emit(node, [q, k]), needs_grad=False)


def _score_bytes(tape: Tape, q: Tensor, k: Tensor) -> int:
    """Bytes of all scores of this rank, as unfused attention writes them down."""
    return _rows(tape, q) * int(k.dims[1].local(tape.degrees)) * BYTES[q.dtype]


def _separate(
    tape: Tape, node: BlockNode, q: Tensor, k: Tensor, v: Tensor, core: Core
) -> list[BlockNode]:
    """Unfused attention is three kernels that hand the scores on through memory."""
    scores = _score_bytes(tape, q, k)
    sizes = [t.bytes(tape.degrees) for t in (q, k, v)]
    first = node.flops * int(q.dims[3].size) // (int(q.dims[3].size) + int(v.dims[3].size))
    ops, moved = SOFTMAX.forward * scores // BYTES[q.dtype], 2 * scores
    if core.dropout:  # in, out, and a mask of a byte
        ops, moved = ops * 7 // 5, moved + 2 * scores + scores // BYTES[q.dtype]
    template = node.again(core=True)
    return [
        replace(
            template, name=f"{node.name}.scores", flops=first, bytes=sizes[0] + sizes[1] + scores
        ),
        replace(
            template,
            name=f"{node.name}.softmax",
            op="vector",
            flops=0,
            vector_ops=ops,
            bytes=moved,
            shapes="",
        ),
        replace(
            template,
            name=f"{node.name}.values",
            flops=node.flops - first,
            bytes=scores + sizes[2] + sizes[0],
        ),
    ]


def _rows(tape: Tape, q: Tensor) -> int:
    batch, seq, heads, _ = q.dims
    return int(seq.local(tape.degrees) * heads.local(tape.degrees)) * int(batch.size)


def _heads_first(tape: Tape, x: Tensor) -> str:
    """[batch, heads, tokens, size] on this rank, the order recorded attention operators have."""
    batch, seq, heads, size = (int(d.local(tape.degrees)) for d in x.dims)
    return f"[{batch},{heads},{seq},{size}]"


def _met_shapes(tape: Tape, q: Tensor, k: Tensor, v: Tensor, core: Core) -> list[str]:
    """The shapes of queries, keys and values; cached keys, which no tensor of the step holds, are among them.

    Sequences that go on, all by as many tokens, are a batch whose queries meet the keys of their own cache.
    """
    new = {s.new for s in core.stretches}
    tokens = int(q.dims[0].size) * int(q.dims[1].local(tape.degrees))
    if not core.cached or len(new) != 1 or tokens % (each := new.pop()):
        return [_heads_first(tape, t) for t in (q, k, v)]
    read = sum((core.reach.read(s) for s in core.stretches), Fraction(0)) / len(core.stretches)
    lengths = (each, each + round(read), each + round(read))
    heads = [[int(d.local(tape.degrees)) for d in t.dims[2:]] for t in (q, k, v)]
    sizes = zip(lengths, heads, strict=True)
    return [f"[{tokens // each},{count},{length},{size}]" for length, (count, size) in sizes]


def _scores(tape: Tape, q: Tensor, k: Tensor, core: Core) -> int:
    """Bytes of what attention itself keeps besides its operands: scores, or one number per row."""
    rows = _rows(tape, q)
    if core.kernel == "flash":
        return 4 * rows
    softmax = _score_bytes(tape, q, k)
    # with dropout also its output, and a mask of a byte
    return 2 * softmax + softmax // BYTES[q.dtype] if core.dropout else softmax


def _in_turn(tape: Tape, kernels: Sequence[BlockNode], inputs: tuple[Tensor, ...]) -> int:
    """Kernels one after another; gives the last one's place."""
    place = tape.emit(kernels[0], inputs)
    for kernel in kernels[1:]:
        tape.forward.append(kernel)
        kernel.deps, place = [place], place + 1
    return place


def _back_in_turn(
    tape: Tape, kernels: Sequence[BlockNode], grad: Tensor, reads: tuple[Tensor, ...], free: int
) -> int:
    """The gradients of kernels from the last to the first, which frees what was kept."""
    before: list[int] = []
    for kernel in reversed(kernels):
        back = _doubled(kernel, free if kernel is kernels[0] else 0)
        back.deps = before
        before = [tape.emit_backward(back, [] if before else [grad], reads)]
    return before[0]


def _doubled(node: BlockNode, free: int) -> BlockNode:
    """A kernel's gradient: two matmuls for each, twice the bytes."""
    return node.again(
        name=f"{node.name}.dx",
        flops=2 * node.flops,
        vector_ops=2 * node.vector_ops,
        bytes=2 * node.bytes,
        free=free,
    )


def _round(tape: Tape, node: BlockNode, inputs: tuple[Tensor, ...], ring: int) -> int:
    """A node for each block of keys, with the messages that bring the next block."""
    size = sum(t.bytes(tape.degrees) for t in inputs[1:])
    arrived = sorted({t.node for t in inputs[1:]})
    place = -1
    for step in range(ring):
        piece = _piece(node, step, ring)
        place = tape.emit(piece, inputs[:1])
        piece.deps = sorted({*piece.deps, *arrived, *([place - 3] if step else [])})
        if step < ring - 1:
            arrived = _pass_on(
                tape.forward, f"{node.name}.ring{step}", size, arrived, inputs[0].dtype
            )
    return place


def _piece(node: BlockNode, step: int, ring: int) -> BlockNode:
    """A node's share of step `step`; the last takes what does not divide."""
    share = [
        v // ring if step < ring - 1 else v - v // ring * (ring - 1)
        for v in (node.flops, node.bytes)
    ]
    free = node.free if step == ring - 1 else 0
    return replace(
        node,
        name=f"{node.name}.{step}",
        flops=share[0],
        bytes=share[1],
        free=free,
        deps=[],
        saved=[],
    )


def _pass_on(
    nodes: list[BlockNode], name: str, size: int, after: list[int], dtype: str
) -> list[int]:
    """A message to the next rank of the ring, and one from the previous; gives the latter's place."""
    common = {"comm_size": size, "out_size": size, "dtype": dtype, "core": True}
    nodes.append(BlockNode(f"{name}.send", "send", role="cp_next", deps=list(after), **common))  # type: ignore[arg-type]
    nodes.append(BlockNode(f"{name}.recv", "recv", role="cp_prev", deps=list(after), **common))  # type: ignore[arg-type]
    return [len(nodes) - 1]


def _round_back(
    tape: Tape, node: BlockNode, grad: Tensor, reads: tuple[Tensor, ...], ring: int
) -> int:
    """The ring again: keys and values go round with their gradients."""
    size = 2 * sum(t.bytes(tape.degrees) for t in reads[1:3])
    arrived: list[int] = []
    place = -1
    for step in range(ring):
        piece = _piece(node, step, ring)
        piece.deps = list(arrived)
        if step:
            piece.deps.append(place)
        place = tape.emit_backward(piece, [grad], reads)
        if step < ring - 1:
            arrived = _pass_on(tape.backward, f"{node.name}.ring{step}", size, [place], grad.dtype)
    return place


# --- in blocks ----------------------------------------------------------------------------------
#
# A rank computes with its own keys first, then with those of the rank before it, of the one before that, and
# so on, each as they arrive. All ranks have the same rows; those of distances at which nothing is needed are
# empty, and are left out of a program (`program/exchanges.py`).


def _in_blocks(
    tape: Tape,
    name: str,
    operands: tuple[Tensor, Tensor, Tensor],
    core: Core,
    keeps: tuple[Tensor, ...],
) -> Tensor:
    q, k, v = operands
    batch, seq, heads, _size = q.dims
    out = Tensor((batch, seq, Dim(heads.size * v.dims[3].size, heads.axes)), q.dtype)
    ranks, tokens = tape.degrees["cp"], int(batch.size * seq.local(tape.degrees))
    exchange = core.exchange or KeyExchange.even(ranks, tokens, core.pairs)
    work = _BlockWork(tape, name, operands, out, exchange)
    first, last = work.forward()
    out = replace(out, node=last)
    inner = (
        4 * _rows(tape, q) if tape.settings.training else 0
    )  # one number per row, as flash keeps
    tape.forward[first].alloc += inner
    tape.forward[first].inner = inner
    freed = tape.keep(first, *(keeps or operands), out)

    def back(grad: Tensor) -> Grads:
        end = work.backward(grad, (q, k, v, out), freed + inner)
        return [(t, Tensor(t.dims, t.dtype, node=end)) for t in operands]

    return tape.record(out, back)


class _BlockWork:
    """The rows of one rank: kernels by distance, and messages of keys and of their gradients."""

    def __init__(
        self,
        tape: Tape,
        name: str,
        operands: tuple[Tensor, Tensor, Tensor],
        out: Tensor,
        exchange: KeyExchange,
    ) -> None:
        self.tape, self.name, self.exchange = tape, name, exchange
        self.q, self.k, self.v = operands
        self.moved = sum(t.bytes(tape.degrees) for t in (self.q, out))
        self.all_pairs = max(sum(exchange.pairs), Fraction(1, 2))
        self.heads = self.q.dims[2].local(tape.degrees)
        self.distances = range(1, len(exchange.pairs))

    def forward(self) -> tuple[int, int]:
        """Everything forward; gives the places of the own keys' kernel, which stays, and of the last."""
        tape, made = self.tape, sorted({self.k.node, self.v.node})
        own = place = tape.emit(self._kernel(0), (self.q, self.k, self.v))
        for distance in self.distances:
            arrived = self._message(tape.forward, "keys", distance, made)
            kernel = self._kernel(distance)
            kernel.deps = [place, arrived]
            tape.forward.append(kernel)
            place = len(tape.forward) - 1
        return own, place

    def backward(self, grad: Tensor, reads: tuple[Tensor, ...], free: int) -> int:
        """Keys come again, and their gradients go back to whoever has them, where they are added up."""
        tape, rows = self.tape, self.tape.backward
        place = tape.emit_backward(_doubled(self._kernel(0), 0), [grad], reads)
        returned = []
        for distance in self.distances:
            arrived = self._message(rows, "keys", distance, [grad.node])
            kernel = _doubled(self._kernel(distance), 0)
            kernel.deps = [place, arrived]
            place = tape.emit_backward(kernel, [], reads)
            returned.append(self._message(rows, "grads", -distance, [place]))
        added = sum(self.exchange.gives[1:])
        elements = added * self.token_bytes // BYTES[self.k.dtype]
        total = BlockNode(
            f"{self.name}.dkv",
            "vector",
            vector_ops=elements,
            bytes=3 * added * self.token_bytes,
            dtype=self.k.dtype,
            free=free,
            deps=[place, *returned],
        )
        return tape.emit_backward(total)

    def _kernel(self, distance: int) -> BlockNode:
        """Own queries with the keys of the rank at a distance; it reads queries by its share of the pairs."""
        pairs, needs = self.exchange.pairs[distance], self.exchange.needs[distance]
        flops = attention_flops(
            pairs * self.heads, int(self.q.dims[3].size), int(self.v.dims[3].size)
        )
        return BlockNode(
            f"{self.name}.{distance}",
            "attention",
            flops,
            bytes=round(float(pairs / self.all_pairs) * self.moved) + needs * self.token_bytes,
            dtype=self.q.dtype,
            core=True,
            shapes=self.shapes.format(needs),
            role=f"keys:{-distance}" if distance else "",
        )

    @cached_property
    def shapes(self) -> str:
        """Shapes of the operands, with a place for the number of keys."""
        own = _heads_first(self.tape, self.q)
        met = []
        for x in (self.k, self.v):
            heads, size = (int(d.local(self.tape.degrees)) for d in x.dims[2:])
            met.append(f"[{int(x.dims[0].size)},{heads},{{0}},{size}]")
        return f"[{own},{','.join(met)}]"

    @cached_property
    def token_bytes(self) -> int:
        """Keys and values of a token on this rank."""
        one = (Dim(1), Dim(1))
        tensors = (replace(t, dims=(*one, *t.dims[2:])) for t in (self.k, self.v))
        return sum(t.bytes(self.tape.degrees) for t in tensors)

    def _message(self, rows: list[BlockNode], what: str, distance: int, after: list[int]) -> int:
        """A message to the rank at a distance, and one from that on the other side; gives the latter's place.

        Gradients go the other way than keys.
        """
        sizes = (self.exchange.gives, self.exchange.needs)
        out, into = (
            s[abs(distance)] * self.token_bytes for s in sizes[:: 1 if distance > 0 else -1]
        )
        name = f"{self.name}.{what}{abs(distance)}"
        for op, size, peer in (("send", out, distance), ("recv", into, -distance)):
            rows.append(
                BlockNode(
                    f"{name}.{op}",
                    op,
                    comm_size=size,
                    out_size=size,
                    dtype=self.k.dtype,
                    role=f"{what}:{peer}",
                    deps=list(after),
                    core=True,
                )
            )
        return len(rows) - 1
