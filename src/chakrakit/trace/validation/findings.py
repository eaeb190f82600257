"""Findings of validation: the report, the collector that bounds it, and the spool of what is read again."""

from __future__ import annotations

import io
import tempfile
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from chakrakit.arrays import I64, U8, U64
from chakrakit.results import Result
from chakrakit.trace.model import Trace
from chakrakit.trace.validation.codes import CODES, Severity, by_name

KEEP = 20
"""Findings of one code and rank that are listed; all are counted."""

_NAME_CHARACTERS = 80
"""Of a name in a message: the usual width of a terminal."""


class Finding(Result, msgspec.Struct, kw_only=True, omit_defaults=False):
    """One thing that is wrong. `count` is how many like it this entry stands for."""

    code: str
    severity: Severity
    rank: int | None = None
    node: int | None = None
    name: str | None = None
    message: str
    count: int = 1
    offset: int | None = None


class Repair(Result, msgspec.Struct, kw_only=True):
    """One kind of repair, and how often it was made."""

    code: str
    rank: int | None = None
    count: int
    message: str


class ValidationReport(Result, msgspec.Struct, kw_only=True):
    """All that was found. `ok` means no errors; `counts` is exact where `findings` lists the first few."""

    ok: bool
    findings: list[Finding] = []
    counts: dict[str, int] = {}
    errors: int = 0
    warnings: int = 0
    infos: int = 0
    ranks: int = 0
    nodes: int = 0
    """Of all bodies: ranks that share one are checked once."""
    bodies: int = 0
    repairs: list[Repair] = []
    span_ns: int | None = None
    """Of the body whose plain reading is farthest from its own times: what the times say."""
    plain_span_ns: int | None = None
    """The same body read plainly: each node after all it depends on, with its whole duration."""


def printable(text: str) -> str:
    """Text that is safe to print: control characters escaped, the middle of long text left out."""
    safe = (c if c.isprintable() else c.encode("unicode_escape").decode() for c in shortened(text))
    return "".join(safe)


def shortened(text: str) -> str:
    """Text without the middle of what is too long for a message."""
    return (
        text if len(text) <= _NAME_CHARACTERS else f"{text[: _NAME_CHARACTERS - 20]}…{text[-19:]}"
    )


def name_at(trace: Trace, row: int) -> str:
    """A node's name, safe to print."""
    return printable(str(trace.names[row].as_py() or ""))


def _apart(spans: tuple[int, int]) -> float:
    """How far the plain reading is from the times, as a share of them."""
    return abs(spans[1] - spans[0]) / max(spans[0], 1)


class Findings:
    """Collects findings: counts all of them, keeps the first `keep` of each code and rank."""

    def __init__(self, keep: int | None = KEEP) -> None:
        self.keep = keep
        self._findings: dict[tuple[str, int | None], list[Finding]] = defaultdict(list)
        self._counts: Counter[tuple[str, int | None]] = Counter()
        self.nodes = 0
        self._spans: tuple[int, int] | None = None

    def plain(self, spans: tuple[int, int] | None) -> None:
        """(own span, plain span) of a body; the one that is farthest off is kept."""
        if spans is not None and (self._spans is None or _apart(spans) > _apart(self._spans)):
            self._spans = spans

    def add(
        self,
        code: str,
        rank: int | None,
        message: str,
        *,
        node: int | None = None,
        name: str | None = None,
        count: int = 1,
        offset: int | None = None,
    ) -> None:
        """One finding."""
        if self.room(code, rank):
            severity = by_name()[code].severity
            finding = Finding(
                code=code,
                severity=severity,
                rank=rank,
                node=node,
                name=name,
                message=message,
                count=count,
                offset=offset,
            )
            self._findings[code, rank].append(finding)
        self._counts[code, rank] += count

    def add_rows(
        self,
        code: str,
        rank: int | None,
        trace: Trace,
        rows: Iterable[int],
        message: Callable[[int], str],
    ) -> None:
        """A finding for each of these rows; the message is made for those that are kept."""
        listed = list(rows) if not hasattr(rows, "__len__") else rows
        listed_rows = [int(r) for r in listed[: self.room(code, rank)]]  # type: ignore[index]
        for row in listed_rows:
            node, name = int(trace.ids[row]), name_at(trace, row)
            self.add(code, rank, message(row), node=node, name=name)
        self.count(code, rank, len(listed) - len(listed_rows))  # type: ignore[arg-type]

    def merge(self, other: Findings) -> None:
        """Adds what was found elsewhere, as if it had been found here after the rest."""
        self.nodes += other.nodes
        self.plain(other._spans)
        for key, findings in other._findings.items():
            self._findings[key] += findings[: self.room(*key)]
        self._counts.update(other._counts)

    def of_rank(self, rank: int) -> Findings:
        """The same findings of a body whose rank was not known when it was read."""
        out = Findings(self.keep)
        out.nodes, out._spans = self.nodes, self._spans
        for (code, _), found in self._findings.items():
            out._findings[code, rank] = [msgspec.structs.replace(f, rank=rank) for f in found]
        out._counts.update({(code, rank): count for (code, _), count in self._counts.items()})
        return out

    def softened(self, code: str) -> Findings:
        """The same with every error as a finding of this code, which is a warning and says what it was."""
        out = Findings(self.keep)
        for (name, rank), found in self._findings.items():
            if by_name()[name].severity != "error":
                out._findings[name, rank] = found
                out.count(name, rank, self._counts[name, rank])
                continue
            for one in found:
                text = f"{name}: {one.message}"
                out.add(code, rank, text, node=one.node, name=one.name, count=one.count)
            out.count(code, rank, self._counts[name, rank] - sum(f.count for f in found))
        return out

    def count(self, code: str, rank: int | None, more: int) -> None:
        """More of the same that are not listed."""
        self._counts[code, rank] += more

    def room(self, code: str, rank: int | None) -> int:
        """How many more of this code and rank would be kept."""
        if self.keep is None:
            return 2**62
        return max(0, self.keep - len(self._findings[code, rank]))

    def report(self, ranks: int, bodies: int = 0) -> ValidationReport:
        """Everything so far: errors first, then in the order of the table of codes and of ranks."""
        counts: Counter[str] = Counter()
        for (code, _), count in self._counts.items():
            counts[code] += count
        by_severity = Counter(dict.fromkeys(("error", "warning", "info"), 0))
        for code, count in counts.items():
            by_severity[by_name()[code].severity] += count
        return ValidationReport(
            ok=not by_severity["error"],
            findings=[f for key in self._order() for f in self._listed(key)],
            counts={c.name: counts[c.name] for c in CODES if counts[c.name]},
            errors=by_severity["error"],
            warnings=by_severity["warning"],
            infos=by_severity["info"],
            ranks=ranks,
            nodes=self.nodes,
            bodies=bodies,
            span_ns=self._spans[0] if self._spans else None,
            plain_span_ns=self._spans[1] if self._spans else None,
        )

    def _order(self) -> list[tuple[str, int | None]]:
        place = {name: i for i, name in enumerate(by_name())}
        severity = ("error", "warning", "info")

        def key(entry: tuple[str, int | None]) -> tuple[int, int, int]:
            code, rank = entry
            return (
                severity.index(by_name()[code].severity),
                place[code],
                -1 if rank is None else rank,
            )

        return sorted((k for k, n in self._counts.items() if n), key=key)

    def _listed(self, key: tuple[str, int | None]) -> list[Finding]:
        findings = self._findings[key]
        more = self._counts[key] - sum(f.count for f in findings)
        if not more:
            return findings
        code, rank = key
        message = f"{more:,} more like these, {self._counts[key]:,} in all"
        rest = Finding(
            code=code, severity=by_name()[code].severity, rank=rank, message=message, count=more
        )
        return [*findings, rest]


# What a check over a stream may need again, in memory while it is small, else in a temporary file.

_SPOOL_BYTES_IN_MEMORY = 64 << 20
"""What a spool keeps in memory, one to two million nodes; beyond that it is a file."""
_LONG_NAME = 400
"""Bytes: shorter names are kept as they are."""


@dataclass(frozen=True)
class Entries:
    """Dependencies of one piece, in rows of the whole trace; the form's top bit is for control."""

    src: U64
    dst: I64
    form: U8


class PieceSpool:
    """Pieces of a trace, reduced to ids, names and dependencies; written once, read when needed.

    17 bytes per dependency, 12 per node and the distinct names of each piece. The file goes when the
    spool does.
    """

    def __init__(self) -> None:
        # Lives as long as this object, so no `with`.
        self._file = tempfile.SpooledTemporaryFile(_SPOOL_BYTES_IN_MEMORY)  # noqa: SIM115
        self._pieces: list[tuple[int, int, int, int, int]] = []
        self.rows = 0

    def add(self, piece: Trace, entries: Entries) -> None:
        """Appends a piece."""
        place = self._file.tell()
        names = _packed_names(piece.names)
        for array in (piece.ids, entries.src, entries.dst, entries.form):
            self._file.write(np.ascontiguousarray(array).data.cast("B") if len(array) else b"")
        self._file.write(names)
        self._pieces.append((self.rows, len(piece), len(entries.src), place, len(names)))
        self.rows += len(piece)

    def ids(self) -> Iterator[tuple[int, U64]]:
        """(first row, ids) of each piece."""
        for first, rows, _, place, _ in self._pieces:
            self._file.seek(place)
            yield first, np.frombuffer(self._file.read(8 * rows), np.uint64)

    def entries(self) -> Iterator[Entries]:
        """The dependencies of each piece."""
        for _, rows, count, place, _ in self._pieces:
            self._file.seek(place + 8 * rows)
            src = np.frombuffer(self._file.read(8 * count), np.uint64)
            dst = np.frombuffer(self._file.read(8 * count), np.int64)
            yield Entries(src, dst, np.frombuffer(self._file.read(count), np.uint8))

    def nodes(self, rows: list[int]) -> dict[int, tuple[int, str]]:
        """Id and name (safe to print) of some rows."""
        by_row: dict[int, tuple[int, str]] = {}
        for first, count, edges, place, size in self._pieces:
            rows_here = [r for r in rows if first <= r < first + count]
            if not rows_here:
                continue
            self._file.seek(place)
            ids = np.frombuffer(self._file.read(8 * count), np.uint64)
            self._file.seek(place + 8 * count + 17 * edges)
            names = pa.ipc.open_stream(self._file.read(size)).read_all().column(0)
            for row in rows_here:
                by_row[row] = int(ids[row - first]), printable(names[row - first].as_py() or "")
        return by_row


def _packed_names(names: pa.ChunkedArray) -> bytes:
    """Names with their middles cut out, since only some are ever shown, as an Arrow stream."""
    out = io.BytesIO()
    column = short_names(names)
    with pa.ipc.new_stream(out, pa.schema([("name", column.type)])) as writer:
        writer.write_table(pa.table({"name": column}))
    return out.getvalue()


def short_names(names: pa.ChunkedArray) -> pa.ChunkedArray:
    """Names without the middles of long ones, in one dictionary."""
    parts = [_shortened(chunk) for chunk in names.chunks]
    return pa.chunked_array(parts, names.type).unify_dictionaries()


def _shortened(chunk: pa.DictionaryArray) -> pa.DictionaryArray:
    names = chunk.dictionary
    if len(names) and pc.max(pc.binary_length(names)).as_py() > _LONG_NAME:
        names = pa.array([shortened(name) for name in names.to_pylist()], names.type)
    return pa.DictionaryArray.from_arrays(chunk.indices, names, safe=False)
