"""Reading and writing whole sets of traces, wherever they live: files, a prefix, a directory, or `-`."""

from __future__ import annotations

import mimetypes
import os
import re
from collections import Counter
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa

from chakrakit.errors import ChakraError, listed
from chakrakit.trace.codecs import (
    format_of,
    is_one_file,
    left_out,
    open_writer,
    read_trace,
    scan_trace,
    write_trace,
)
from chakrakit.trace.communication import Binding, Body, Groups, groups_in, own_rank, read_calls
from chakrakit.trace.files import BundlePath, Source, remove_empty
from chakrakit.trace.model import Trace
from chakrakit.trace.sets import CAPTURED, CAPTURED_VERSION, Card, Run, TraceSet
from chakrakit.trace.storage.directory import (
    check_directory,
    read_directory,
    write_directory,
    write_groups,
)
from chakrakit.trace.storage.places import (
    Place,
    body_files,
    groups_beside,
    groups_beside_file,
    is_stream,
    named_rank,
    place_of,
    placed_together,
    prefix_of,
    rank_files,
    ranked_files,
)

__all__ = ["rank_files", "ranked_files", "read", "write"]

_PLACEHOLDER = re.compile(r"\.N(?=\.(et|parquet|json|feeder\.json)(\.gz|\.zst)?$)")


def read(path: Source) -> TraceSet | Run:
    """Read traces from wherever `path` points. Ranks are read from disk when they are first used.

    Parameters
    ----------
    path
        A file, a prefix of `prefix.N.et`, a directory, a bundle, or `-`.

    Returns
    -------
    A Run where there are times, else a TraceSet.

    Examples
    --------
    >>> ck.write(ck.generate(model="gpt3-125m", dp=2, seq=128, global_batch=2).traces, "w.N.et")
    {}
    >>> ck.read("w")[1].node(1).type
    'COMP_NODE'

    """
    if is_stream(path):
        return _single(read_trace(path), None, Groups())
    place = place_of(path)
    if place.is_dir():
        return read_directory(place, body_files(place), _from_files)
    if isinstance(place, BundlePath):
        return _single(read_trace(place), named_rank(place), Groups())
    if place.exists():
        return _single(read_trace(place), named_rank(place), groups_beside_file(place))
    files: dict[int, Any] = rank_files(path)
    return _from_files(files, groups_beside(place.parent, place.name))


def _single(trace: Trace, rank: int | None, groups: Groups) -> TraceSet | Run:
    """A set of one trace; where nothing names its rank, what it communicates does."""
    kind = Run if trace.is_timed else TraceSet
    all_groups = groups.merged(groups_in(trace))
    if rank is None:
        rank = own_rank(read_calls(trace), all_groups)
    return kind([trace], {rank: Binding(0)}, all_groups, _card_of(trace))


def _from_files(
    files: Mapping[int, Place], groups: Groups, card: Card | None = None
) -> TraceSet | Run:
    """A set with a body per file; the card, or else the beginning of the first file, tells if it is a run.

    Traces that a pass changed still have recorded starts, but they are not a run any more.
    """
    first = next(iter(files.values()))
    bodies: list[Body] = [partial(read_trace, f) for f in files.values()]
    bindings = {rank: Binding(i) for i, rank in enumerate(files)}
    probe = _first_piece(first)
    timed = probe.is_timed if card is None or not card.passes else card.kind == "run"
    kind = Run if timed else TraceSet
    card = card or _card_of(probe).replace(name=prefix_of(first))
    return kind(bodies, bindings, groups.merged(groups_in(probe)), card)


def _card_of(trace: Trace) -> Card:
    """What a file without a card tells: whether it is a captured program that still needs its host."""
    captured = trace.metadata.version == CAPTURED_VERSION and not trace.is_timed
    return Card(tool=CAPTURED if captured else "")


def _first_piece(file: Place) -> Trace:
    pieces = scan_trace(file)
    try:
        return next(pieces)
    finally:
        pieces.close()  # type: ignore[attr-defined]


def write(
    traces: TraceSet | Trace,
    path: str | os.PathLike[str],
    *,
    progress: Callable[[int], Any] | None = None,
) -> dict[str, int]:
    """Write one rank to a file, or all ranks to `prefix.N.et` files, a directory or a bundle.

    With `.N.` in the name there is one file per rank, the groups go to `prefix.json` and a run's times
    into the nodes. A directory and a bundle keep everything.

    Parameters
    ----------
    traces
        A Trace, a TraceSet or a Run.
    path
        The name says the format: `.et`, `.et.gz`, `.et.zst`, `.json`, `.parquet`, `.chakra`; any other name
        is a directory.
    progress
        Called with each rank that was written.

    Returns
    -------
    What the format has no place for: name → how many values.

    Examples
    --------
    >>> builder = ck.TraceBuilder()
    >>> gemm = builder.comp("gemm", duration_ns=1000)
    >>> ck.write(builder.build(), "one.et")
    {}

    """
    target, step = os.fspath(path), progress or (lambda _rank: None)
    if isinstance(traces, Trace):
        traces = TraceSet([traces], {own_rank(read_calls(traces), Groups()): Binding(0)})
    if _PLACEHOLDER.search(target):
        return _write_ranks(traces, target, step)
    if target.endswith(".chakra"):
        from chakrakit.trace.storage.bundle import write_bundle

        write_bundle(traces, target, progress=step)
        return {}
    if not is_one_file(target):
        _refuse_other_format(target)
        write_directory(traces, Path(target), step)
        return {}
    if len(traces) != 1:
        raise ChakraError(
            f"{target}: one file cannot hold {len(traces)} ranks; write a directory, or one file per "
            f"rank with a name like {_per_rank(Path(target))}"
        )
    return write_trace(_own_trace(traces, traces.ranks[0]), target)


def _per_rank(path: Path) -> str:
    """The name with a place for the rank before its endings: `a.N.parquet`, `a.N.et.gz`."""
    stem, *endings = path.name.split(".")
    return ".".join([stem, "N", *endings])


def write_with_requests(run: Run, path: str | os.PathLike[str], requests: pa.Table) -> None:
    """A run that served requests, as a directory with their table in it."""
    target = os.fspath(path)
    if not _names_directory(target):
        raise ChakraError(f"{target}: a run with its requests is a directory; give a name for one")
    _refuse_other_format(target)
    write_directory(run, Path(target), requests=requests)


def check_output(path: str | os.PathLike[str]) -> None:
    """Raises, before any work is done, if `write` would refuse to replace the directory that is there."""
    target = os.fspath(path)
    if _names_directory(target):
        _refuse_other_format(target)
        check_directory(Path(target))


def _names_directory(target: str) -> bool:
    return not (is_one_file(target) or is_placeholder(target) or target.endswith(".chakra"))


def _refuse_other_format(target: str) -> None:
    """Refuses to write a directory whose name ends like a file of another format."""
    kind, packing = mimetypes.guess_type(Path(target).name, strict=False)
    if (kind or packing) and not Path(target).is_dir():
        suffix = "".join(Path(target).suffixes[-2 if packing else -1 :])
        raise ChakraError(
            f"{target}: traces cannot be written as {suffix}; use .et, .json, .feeder.json or .parquet "
            "(.et and .json also with .gz or .zst), .chakra for a bundle, or a name without a suffix "
            "for a directory"
        )


def _own_trace(traces: TraceSet, rank: int) -> Trace:
    """A rank's trace as it is written to one file: a run's with its times."""
    return traces.timed_trace(rank) if isinstance(traces, Run) else traces.trace(rank)


def _write_ranks(traces: TraceSet, pattern: str, step: Callable[[int], Any]) -> dict[str, int]:
    """One file per rank, all in place at the end or none: a set is never half old and half new."""
    format_of(pattern)
    prefix = Path(_PLACEHOLDER.split(pattern)[0])
    _refuse_mixture(traces, prefix)
    left_out: Counter[str] = Counter()
    missing = [folder for folder in prefix.parents if not folder.exists()]
    try:
        prefix.parent.mkdir(parents=True, exist_ok=True)
        with placed_together(prefix) as folder:
            for rank in traces.ranks:
                file = folder / _PLACEHOLDER.sub(f".{rank}", Path(pattern).name)
                left_out.update(write_trace(_own_trace(traces, rank), file))
                step(rank)
            if traces.groups:
                write_groups(traces.groups, folder / f"{prefix.name}.json")
    except BaseException as error:
        remove_empty(missing)
        if isinstance(error, OSError):
            raise ChakraError(f"{pattern}: cannot be written: {error.strerror or error}") from None
        raise
    return dict(left_out)


def _refuse_mixture(traces: TraceSet, prefix: Path) -> None:
    """Refuses a prefix with files of ranks that this set lacks: they would be read as part of it."""
    old = ranked_files(prefix.parent, prefix.name) if prefix.parent.is_dir() else {}
    foreign_ranks = sorted(set(old) - set(traces.ranks))
    if foreign_ranks:
        raise ChakraError(
            f"{prefix}: ranks {listed(foreign_ranks)} of another set are there "
            f"({old[foreign_ranks[0]].name}), and would be read together with these; remove them, "
            "or give another name"
        )


def is_placeholder(target: str | os.PathLike[str]) -> bool:
    """Whether a name means one file per rank: it has `.N.` before the format."""
    return bool(_PLACEHOLDER.search(os.fspath(target)))


# From one place and format to another, in pieces where a single file goes to a single file.


Step = Callable[[int, int | None], Any]
"""Called with how many pieces or ranks are done, and of how many (None: not known)."""


def convert(
    path: Source, target: str | os.PathLike[str], step: Step = lambda _done, _total: None
) -> dict[str, int]:
    """Converts; returns what the target's format has no place for: name → how many values."""
    files = rank_files(path)
    to_file = is_one_file(target) and not is_placeholder(target)
    if to_file and len(files) == 1 and not _is_folded(path):
        return _stream(next(iter(files.values())), target, step)
    traces = read(path)
    ranks_written = 0

    def count(_rank: int) -> None:
        nonlocal ranks_written
        ranks_written += 1
        step(ranks_written, len(traces))

    return write(traces, target, progress=count)


def _is_folded(path: Source) -> bool:
    """Whether a directory says more about its ranks than the bodies do."""
    place = None if is_stream(path) else place_of(path)
    return place is not None and (place / "ranks.parquet").is_file()


def _stream(source: Source, target: str | os.PathLike[str], step: Step) -> dict[str, int]:
    with open_writer(target) as writer:
        for number, piece in enumerate(scan_trace(source), 1):
            writer.write(piece)
            step(number, None)
    return left_out(writer)
