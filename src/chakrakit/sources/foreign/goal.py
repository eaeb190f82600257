"""GOAL, the schedules of LogGOPSim, htsim and ATLAHS: text, and the binary form that their `txt2bin` makes.

Text: `num_ranks N`, then for each rank `rank R { … }` with one operation a line, `LABEL: send 8b to 1 tag
0`, `LABEL: recv 8b from 0 tag 0`, `LABEL: calc 5000` (ns), each with `cpu N` and, for messages, `nic N`
where it is not 0; and `LABEL requires OTHER` (starts after it ends) or `LABEL irequires OTHER` (starts
after it starts). `//` and `/* */` are comments. A send meets a receive by ranks, tag and order.

Binary, little-endian and without padding: u64 4223; then, counting from here, u32 ranks, u8 highest cpu,
u8 highest nic, and for each rank u64 begin and u64 end of its part. A part has u32 operations, u32
operations that wait for nothing, their numbers, 39 bytes for each operation (u32 how many it waits for,
u8 kind, u32 peer, u64 bytes or ns, u32 tag, u8 cpu, u8 nic, u32 how many wait for its end, u32 where they
are listed, and the same two for its start), and the list.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from chakrakit.errors import FormatError
from chakrakit.trace.communication import MAX_RANKS
from chakrakit.trace.model import EdgeForm, EdgeKind, Edges, NodeType, Trace
from chakrakit.trace.sets import Card, TraceSet

MAGIC = struct.pack("<Q", 4223)
SEND, RECV, CALC = 1, 2, 3
_KINDS = {"send": SEND, "recv": RECV, "calc": CALC}
_TYPES = {SEND: NodeType.COMM_SEND_NODE, RECV: NodeType.COMM_RECV_NODE, CALC: NodeType.COMP_NODE}
ANY = 2**32 - 1
"""A receive from any rank, or of any tag."""
_LARGEST = 2**62
"""Bytes and times stay below it, so that the sum of two is a number of 64 bits."""
_RECORD = np.dtype(
    [
        ("waits", "<u4"),
        ("kind", "u1"),
        ("peer", "<u4"),
        ("size", "<u8"),
        ("tag", "<u4"),
        ("cpu", "u1"),
        ("nic", "u1"),
        ("ends", "<u4"),
        ("ends_at", "<u4"),
        ("starts", "<u4"),
        ("starts_at", "<u4"),
    ]
)
_HEAD = re.compile(rb"(\s|//[^\n]*\n|/\*.*?\*/)*num_ranks\s+\d", re.DOTALL)
_OPERATION = re.compile(
    r"(?:(?P<label>[a-zA-Z]\w*)\s*:\s*)?(?:(?P<way>send|recv)\s+(?P<bytes>\d+)\s*b\s+(?:to|from)\s+(?P<peer>-?\d+)"
    r"(?:\s+tag\s+(?P<tag>-?\d+))?|calc\s+(?P<ns>\d+))(?:\s+cpu\s+(?P<cpu>\d+))?(?:\s+nic\s+(?P<nic>\d+))?"
)
_NEEDS = re.compile(r"([a-zA-Z]\w*)\s+(i?)requires\s+([a-zA-Z]\w*)")


@dataclass
class GoalRank:
    """The operations of one rank as parallel lists; dependencies as pairs of their numbers."""

    kind: list[int] = field(default_factory=list)
    size: list[int] = field(default_factory=list)
    """Bytes of a message, nanoseconds of a calculation."""
    peer: list[int] = field(default_factory=list)
    tag: list[int] = field(default_factory=list)
    cpu: list[int] = field(default_factory=list)
    nic: list[int] = field(default_factory=list)
    names: list[str] = field(default_factory=list)
    ends: list[tuple[int, int]] = field(default_factory=list)
    """The second starts after the first ends."""
    starts: list[tuple[int, int]] = field(default_factory=list)
    """The second starts after the first starts."""

    def __len__(self) -> int:
        return len(self.kind)

    def add(
        self,
        kind: int,
        size: int,
        peer: int = 0,
        tag: int = 0,
        cpu: int = 0,
        nic: int = 0,
        name: str = "",
    ) -> int:
        """Adds an operation and returns its number."""
        row = (kind, size, peer, tag, cpu, nic, name or f"l{len(self.kind) + 1}")
        columns = (self.kind, self.size, self.peer, self.tag, self.cpu, self.nic, self.names)
        for column, value in zip(columns, row, strict=True):
            column.append(value)  # type: ignore[attr-defined]
        return len(self.kind) - 1


def is_goal(head: bytes) -> bool:
    """Whether text begins with `num_ranks`, after comments."""
    return _HEAD.match(head) is not None


def is_binary_goal(head: bytes) -> bool:
    """Whether a file begins with the mark of the binary form."""
    return head.startswith(MAGIC)


def read_goal(data: bytes, path: str) -> TraceSet:
    """The traces of a schedule in text."""
    return traces_of_goal(parse_goal(data, path), path)


def read_binary_goal(data: bytes, path: str) -> TraceSet:
    """The traces of a binary schedule."""
    return traces_of_goal(parse_binary_goal(data, path), path)


# --- text ---------------------------------------------------------------------------------------


def parse_goal(data: bytes, path: str) -> list[GoalRank]:
    """The ranks of a schedule in text, every label checked."""
    text = re.sub(r"/\*.*?\*/", _newlines, data.decode("utf-8", "replace"), flags=re.DOTALL)
    ranks: dict[int, GoalRank] = {}
    size, current, labels = -1, None, dict[str, int]()
    for number, raw in enumerate(text.split("\n"), 1):
        for line in _parts(raw):
            where = f"line {number}"
            if match := re.fullmatch(r"num_ranks\s+(\d{1,9})", line):
                size = int(match[1])
                _check_ranks(size, len(data), path)
            elif match := re.fullmatch(r"rank\s+(\d{1,9})\s*\{", line):
                current, labels = _begun(ranks, int(match[1]), size, f"{path}, {where}"), {}
            elif line == "}":
                current = None
            elif current is None:
                raise FormatError(f"{where}: {line[:60]!r} is outside `rank R {{ … }}`", path=path)
            else:
                _operation(current, labels, line, size, where, path)
    if size < 0 or len(ranks) != size:
        missing = next((r for r in range(max(size, 0)) if r not in ranks), 0)
        raise FormatError(f"num_ranks {size}, of which rank {missing} is missing", path=path)
    return [ranks[r] for r in range(size)]


def _newlines(match: re.Match[str]) -> str:
    return "\n" * match[0].count("\n")


def _parts(line: str) -> Iterator[str]:
    """The statements of a line: braces may stand beside others."""
    bare = line.split("//", 1)[0]
    for part in re.sub(r"([{}])", r"\1\n" if "rank" in bare else r"\n\1\n", bare).split("\n"):
        if part.strip():
            yield part.strip()


def _check_ranks(size: int, room: int, path: str) -> None:
    """Raises if a file of so many bytes cannot hold so many ranks."""
    if not 0 < size <= min(MAX_RANKS, room):
        raise FormatError(f"num_ranks {size:,} in a file of {room:,} bytes", path=path)


def _begun(ranks: dict[int, GoalRank], number: int, size: int, where: str) -> GoalRank:
    if number in ranks or not 0 <= number < size:
        raise FormatError(f"rank {number} twice, or not below num_ranks {size}", path=where)
    return ranks.setdefault(number, GoalRank())


def _operation(
    rank: GoalRank, labels: dict[str, int], line: str, size: int, where: str, path: str
) -> None:
    if match := _NEEDS.fullmatch(line):
        after, before = labels.get(match[1]), labels.get(match[3])
        if after is None or before is None:
            unknown = match[1] if after is None else match[3]
            raise FormatError(f"{where}: no operation {unknown!r} before this line", path=path)
        (rank.starts if match[2] else rank.ends).append((before, after))
        return
    found = _OPERATION.fullmatch(line)
    if found is None:
        raise FormatError(f"{where}: {line[:60]!r} is not an operation of GOAL", path=path)
    amount = int(found["bytes"] or found["ns"])
    peer, tag = int(found["peer"] or 0), int(found["tag"] or 0)
    if peer < 0 or tag < 0 or tag == ANY:
        raise FormatError(
            f"{where}: a receive from any rank or of any tag cannot be read", path=path
        )
    cpu, nic = int(found["cpu"] or 0), int(found["nic"] or 0)
    if amount >= _LARGEST or peer >= size or tag > ANY or max(cpu, nic) > 255:
        raise FormatError(f"{where}: a number is too large, or there is no such rank", path=path)
    name = found["label"] or ""
    if name in labels:
        raise FormatError(f"{where}: {name!r} is an operation above already", path=path)
    number = rank.add(_KINDS[found["way"] or "calc"], amount, peer, tag, cpu, nic, name)
    if name:
        labels[name] = number


def goal_text(ranks: Sequence[GoalRank]) -> Iterator[str]:
    """A schedule in text, line by line; operations are called l1, l2 and so on."""
    yield f"num_ranks {len(ranks)}\n"
    for number, rank in enumerate(ranks):
        yield f"\nrank {number} {{\n"
        for i in range(len(rank)):
            yield f"l{i + 1}: {_operation_text(rank, i)}\n"
        for word, pairs in (("requires", rank.ends), ("irequires", rank.starts)):
            for before, after in pairs:
                yield f"l{after + 1} {word} l{before + 1}\n"
        yield "}\n"


def _operation_text(rank: GoalRank, i: int) -> str:
    cpu = f" cpu {rank.cpu[i]}" if rank.cpu[i] else ""
    if rank.kind[i] == CALC:
        return f"calc {rank.size[i]}{cpu}"
    way = "send" if rank.kind[i] == SEND else "recv"
    nic = f" nic {rank.nic[i]}" if rank.nic[i] else ""
    side = "to" if rank.kind[i] == SEND else "from"
    return f"{way} {rank.size[i]}b {side} {rank.peer[i]} tag {rank.tag[i]}{cpu}{nic}"


# --- binary -------------------------------------------------------------------------------------


def parse_binary_goal(data: bytes, path: str) -> list[GoalRank]:
    """The ranks of a binary schedule, every offset checked before it is used."""
    body = memoryview(data)[len(MAGIC) :]
    if not is_binary_goal(data) or len(body) < 6:
        raise FormatError("does not begin as a binary GOAL schedule does", path=path)
    (size,) = struct.unpack_from("<I", body)
    _check_ranks(size, (len(body) - 6) // 16, path)
    table = np.frombuffer(body, "<u8", 2 * size, 6).reshape(size, 2)
    return [_binary_rank(body, int(a), int(b), size, path) for a, b in table]


def _binary_rank(body: memoryview, begin: int, end: int, size: int, path: str) -> GoalRank:
    if not 6 <= begin <= end <= len(body) or end - begin < 8:
        raise FormatError(f"a rank from byte {begin} to {end} of {len(body)}", path=path)
    part = body[begin:end]
    count, roots = struct.unpack_from("<II", part)
    first = 8 + 4 * roots
    listed = first + _RECORD.itemsize * count
    if listed > len(part) or (len(part) - listed) % 4:
        raise FormatError(f"{count:,} operations do not fit into {len(part):,} bytes", path=path)
    rows = np.frombuffer(part, _RECORD, count, first)
    lists = np.frombuffer(part, "<u4", -1, listed).astype(np.int64)
    messages = rows["kind"] != CALC
    wrong = ~np.isin(rows["kind"], (SEND, RECV, CALC)) | (rows["size"] >= _LARGEST)
    if (wrong | (messages & (rows["peer"] >= size))).any():
        raise FormatError("an operation of an unknown kind, size or peer", path=path)
    if (messages & (rows["tag"] == ANY)).any():
        raise FormatError("a message of any tag cannot be read", path=path)
    ends, starts = (_listed(rows, lists, name, path) for name in ("ends", "starts"))
    names = [f"l{i + 1}" for i in range(count)]
    columns = [rows[c].tolist() for c in ("kind", "size", "peer", "tag", "cpu", "nic")]
    return GoalRank(*columns, names=names, ends=ends, starts=starts)  # type: ignore[misc]


def _listed(
    rows: NDArray[np.void], lists: NDArray[np.int64], name: str, path: str
) -> list[tuple[int, int]]:
    """Dependencies of one sort as pairs."""
    counts, at = rows[name].astype(np.int64), rows[f"{name}_at"].astype(np.int64)
    at = np.where(counts > 0, at, 0)
    if (at + counts > len(lists)).any() or int(counts.sum()) > len(lists):
        raise FormatError("a list of dependencies reaches beyond the file", path=path)
    before = np.repeat(np.arange(len(rows)), counts)
    within = np.arange(len(before)) - np.repeat(np.cumsum(counts) - counts, counts)
    after = lists[np.repeat(at, counts) + within]
    if (after >= len(rows)).any():
        raise FormatError("a dependency on an operation that there is not", path=path)
    return list(zip(before.tolist(), after.tolist(), strict=True))


def goal_binary(ranks: Sequence[GoalRank]) -> bytes:
    """A schedule in the binary form."""
    parts = [_binary_part(rank) for rank in ranks]
    begin = 6 + 16 * len(ranks)
    offsets = np.cumsum([begin, *map(len, parts)])
    table = np.stack([offsets[:-1], offsets[1:]], axis=1).astype("<u8").tobytes()
    cpu = max((max(r.cpu, default=0) for r in ranks), default=0)
    nic = max((max(r.nic, default=0) for r in ranks), default=0)
    return b"".join([MAGIC, struct.pack("<IBB", len(ranks), cpu, nic), table, *parts])


def _binary_part(rank: GoalRank) -> bytes:
    rows = np.zeros(len(rank), _RECORD)
    for name in ("kind", "size", "peer", "tag", "cpu", "nic"):
        rows[name] = getattr(rank, name)
    sorts = {"ends": rank.ends, "starts": rank.starts}
    after: list[list[list[int]]] = [[[], []] for _ in range(len(rank))]
    for sort, pairs in enumerate(sorts.values()):
        for before, then in pairs:
            after[before][sort].append(then)
            rows["waits"][then] += 1
    lists: list[int] = []
    for row, (ends, starts) in zip(rows, after, strict=True):
        row["ends"], row["ends_at"] = len(ends), len(lists)
        lists += ends
        row["starts"], row["starts_at"] = len(starts), len(lists)
        lists += starts
    roots = np.flatnonzero(rows["waits"] == 0).astype("<u4")
    head = struct.pack("<II", len(rank), len(roots))
    return head + roots.tobytes() + rows.tobytes() + np.array(lists, "<u4").tobytes()


# --- as traces ----------------------------------------------------------------------------------


def traces_of_goal(ranks: Sequence[GoalRank], path: str) -> TraceSet:
    """The schedule as traces: calculations are compute nodes, a cpu is a stream."""
    card = Card(tool="GOAL", source=[path])
    return TraceSet([_trace(rank, number) for number, rank in enumerate(ranks)], card=card)


def _trace(rank: GoalRank, number: int) -> Trace:
    kind, size = np.array(rank.kind, np.int64), np.array(rank.size, np.int64)
    peer, calc = np.array(rank.peer, np.int64), kind == CALC
    columns = {
        "name": rank.names,
        "type": [int(_TYPES[k]) for k in rank.kind],
        "duration_micros": np.where(calc, size // 1000, 0),
        "duration_ns": _where(calc, size),
        "is_cpu_op": np.zeros(len(kind), np.bool_),
        "comm_size": _where(~calc, size),
        "comm_src": _where(~calc, np.where(kind == SEND, number, peer)),
        "comm_dst": _where(~calc, np.where(kind == SEND, peer, number)),
        # Tags have 32 bits here and there, with a sign there: which messages meet stays the same.
        "comm_tag": _where(~calc, np.array(rank.tag, np.uint32).view(np.int32)),
        "stream": np.array(rank.cpu, np.int64),
        "nic": np.array(rank.nic, np.int64),
    }
    return Trace.from_columns(columns, _edges(rank))


def _where(mask: NDArray[np.bool_], values: NDArray[np.integer]) -> list[int | None]:
    return [v if m else None for m, v in zip(mask.tolist(), values.tolist(), strict=True)]


def _edges(rank: GoalRank) -> Edges | None:
    pairs = [*rank.ends, *rank.starts]
    if not pairs:
        return None
    src, dst = zip(*pairs, strict=True)
    forms = [EdgeForm.FINISH_START] * len(rank.ends) + [EdgeForm.START_START] * len(rank.starts)
    return Edges.of(np.array(src), np.array(dst), int(EdgeKind.DATA), np.array(forms))
