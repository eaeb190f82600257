"""Finds PyTorch's files: what each is, and which belong to the same rank."""

from __future__ import annotations

import re
import zlib
from codecs import BOM_UTF8
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from pathlib import Path

from chakrakit.errors import FormatError
from chakrakit.sources.pytorch.read.kineto import Kineto
from chakrakit.sources.pytorch.read.texts import whole
from chakrakit.trace.files import first_unpacked, unpacked

_HEAD = 1 << 16
"""Bytes read to tell what a file is: 64 KiB hold the fields before the events and the first of these."""
_OBSERVER, _KINETO = "observer", "kineto"
_LARGEST = 1 << 31
"""Processes and ranks are below this, as in 32-bit numbers; larger ones are ignored."""

_CARD = re.compile(r"card_\d+\.json")
"""What a collector writes beside the files of a rank; the linker reads it with them."""


@dataclass(frozen=True)
class SourceFile:
    """One file as its first bytes show it; -1 for numbers they do not hold."""

    path: Path
    kind: str
    pid: int
    rank: int
    numbered: bool
    """Whether events carry record-function ids, which a recording with the observer has."""


@dataclass(frozen=True)
class RecordingPair:
    """Files of one rank; either may be missing."""

    rank: int
    observer: Path | None
    kineto: Path | None
    captures: tuple[Path, ...] = ()
    """Kineto files of the CUDA or HIP graphs that this rank replays, being captured."""
    events: Kineto | None = None
    """What `kineto` holds, where that is another tracer's file."""
    times: Path | None = None
    """A second recording of the same program by Kineto alone, which slows the host less."""
    contents: Mapping[Path, bytes] = field(default_factory=dict)
    """Contents of files that had to be read to tell what they are."""

    @property
    def paths(self) -> list[Path]:
        """The observer's and Kineto's files, without missing ones."""
        return [p for p in (self.observer, self.kineto) if p is not None]

    def content(self, path: Path) -> bytes:
        """One of its files, uncompressed."""
        return self.contents[path] if path in self.contents else read_bytes(path)


@dataclass
class RankFiles:
    """The files of all ranks, and those that were passed over with the reason why."""

    pairs: list[RecordingPair]
    ignored: dict[str, str] = field(default_factory=dict)


def read_bytes(path: Path) -> bytes:
    """A file's bytes, uncompressed and without a mark of their order; what ends early gives what there is."""
    try:
        data = path.read_bytes()
    except OSError as error:
        raise FormatError(f"cannot be read: {error.strerror}", path=str(path)) from None
    return unpacked(data, str(path), cut_off=True).removeprefix(BOM_UTF8)


def read_head(path: Path) -> bytes:
    """A file's first bytes, uncompressed and without a mark of their order."""
    try:
        with path.open("rb") as stream:
            data = stream.read(_HEAD)
    except OSError as error:
        raise FormatError(f"cannot be read: {error.strerror}", path=str(path)) from None
    return first_unpacked(data, 4 * _HEAD).removeprefix(BOM_UTF8)


def _number(pattern: bytes, head: bytes) -> int:
    match = re.search(pattern, head)
    number = whole(match[1], _LARGEST) if match else None
    return -1 if number is None else number


def identify(path: Path) -> SourceFile | None:
    """What a file is; None if it is not one of PyTorch's."""
    try:
        return identify_head(path, read_head(path))
    except zlib.error:
        return None


def identify_head(path: Path, head: bytes) -> SourceFile | None:
    """What a file is, from its first bytes; None if it is not one of PyTorch's."""
    start = head.lstrip()[:1]
    if start not in (b"{", b"["):
        return None
    # As a key: a Chakra trace in JSON has nodes too, and of a linked one the header's attribute `schema`.
    if re.search(rb'"nodes"\s*:\s*\[', head) and re.search(rb'"schema"\s*:', head):
        return SourceFile(path, _OBSERVER, _number(rb'"pid"\s*:\s*(\d+)', head), -1, True)
    if re.search(rb'"(traceEvents|schemaVersion|deviceProperties|displayTimeUnit)"|"ph"\s*:', head):
        pid = _number(rb'"cat"\s*:\s*"(?:cpu_op|user_annotation)"[^{}]*?"pid"\s*:\s*(\d+)', head)
        rank = _number(rb'"distributedInfo"\s*:\s*\{[^{}]*?"rank"\s*:\s*(\d+)', head)
        numbered = re.search(rb'"Record function id"\s*:\s*[1-9]', head) is not None
        return SourceFile(path, _KINETO, pid, rank, numbered)
    return None


def find_pairs(inputs: Iterable[Path]) -> RankFiles:
    """Pairs by what is in the files: process, numbering and rank first, names only then."""
    sources, ignored = [], {}
    for path in _files(inputs):
        source = identify(path)
        if source is not None:
            sources.append(source)
        elif not _CARD.fullmatch(path.name):
            ignored[str(path)] = "neither an observer nor a Kineto file"
    if not sources:
        raise FormatError(
            "no observer or Kineto file among the inputs; give files that PyTorch's profiler wrote",
            path=", ".join(map(str, inputs)) or None,
        )
    return pairs_of(sources, ignored)


def pairs_of(sources: list[SourceFile], ignored: dict[str, str]) -> RankFiles:
    """Which of these files are of one rank; adds to those that are passed over."""
    files = RankFiles([], ignored)
    observers = [s for s in sources if s.kind == _OBSERVER]
    kinetos = _without_merged([s for s in sources if s.kind == _KINETO], ignored)
    contents = _contents(kinetos)
    captures = _captures_among(kinetos, contents)
    _pair_up(observers, [s for s in kinetos if s not in captures], files)
    files.pairs = [_completed(pair, captures, contents, files) for pair in files.pairs]
    return files


def _without_merged(kinetos: list[SourceFile], ignored: dict[str, str]) -> list[SourceFile]:
    """Files of single ranks; one into which an engine merged all ranks is passed over beside them."""
    merged = [s for s in kinetos if _MERGED.match(s.path.name)]
    if not merged or len(merged) == len(kinetos):
        return kinetos
    ignored |= {str(s.path): "holds the events of all ranks, which have files here" for s in merged}
    return [s for s in kinetos if s not in merged]


_CAPTURES = re.compile(rb"StreamBeginCapture")


def _contents(kinetos: list[SourceFile]) -> dict[Path, bytes]:
    """Contents of all files if several may be of one rank, to find captures among them; else {}."""
    ranks = [s.rank for s in kinetos]
    if len(kinetos) < 2 or (min(ranks) >= 0 and len(set(ranks)) == len(ranks)):
        return {}
    return {s.path: read_bytes(s.path) for s in kinetos}


def _captures_among(kinetos: list[SourceFile], contents: Mapping[Path, bytes]) -> list[SourceFile]:
    """Files of graphs being captured, which the steps in the other files may replay."""
    capturing = [s for s in kinetos if _CAPTURES.search(contents.get(s.path, b""))]
    return capturing if len(capturing) < len(kinetos) else []


def _completed(
    pair: RecordingPair,
    captures: list[SourceFile],
    contents: Mapping[Path, bytes],
    files: RankFiles,
) -> RecordingPair:
    """The pair with the captures of its rank, or of no stated rank, and with the contents already read."""
    of_rank = tuple(s.path for s in captures if s.rank in (-1, pair.rank) or len(files.pairs) == 1)
    paths = [*pair.paths, *([pair.times] if pair.times else []), *of_rank]
    return replace(
        pair, captures=of_rank, contents={f: contents[f] for f in paths if f in contents}
    )


def _files(inputs: Iterable[Path]) -> list[Path]:
    out: list[Path] = []
    for path in inputs:
        if path.is_dir():
            out += sorted(p for p in path.rglob("*.json*") if p.is_file())
        elif path.exists():
            out.append(path)
        else:
            raise FormatError("does not exist; give a file or a directory", path=str(path))
    return list(dict.fromkeys(out))


def _pair_up(observers: list[SourceFile], kinetos: list[SourceFile], files: RankFiles) -> None:
    partner: dict[int, int] = {}
    paired: set[int] = set()
    for _, i, j in sorted((-score, i, j) for score, i, j in _scores(observers, kinetos)):
        if i not in partner and j not in paired:
            partner[i] = j
            paired.add(j)
    pairs = [(o, kinetos[partner[i]] if i in partner else None) for i, o in enumerate(observers)]
    unpaired = [k for j, k in enumerate(kinetos) if j not in paired]
    if not observers:
        _number_pairs([(None, k) for k in unpaired], files)
        return
    alone = [o for i, o in enumerate(observers) if i not in partner]
    if alone and unpaired:
        _refuse(alone[0], unpaired[0])
    _number_pairs([*pairs], files)
    _give_times(unpaired, {o.path: o for o in observers}, files)


def _give_times(
    unpaired: list[SourceFile], observers: dict[Path, SourceFile], files: RankFiles
) -> None:
    """Hand every Kineto file recorded without the observer to the rank whose second pass it is."""
    for kineto in unpaired:
        owners = [p for p in files.pairs if _same_rank(p, observers, kineto, len(files.pairs))]
        if len(owners) == 1 and owners[0].times is None:
            pair = owners[0]
            files.pairs[files.pairs.index(pair)] = replace(pair, times=kineto.path)
        else:
            files.ignored[str(kineto.path)] = (
                "no observer file belongs to it; --times takes it for times"
            )


def _same_rank(
    pair: RecordingPair, observers: dict[Path, SourceFile], kineto: SourceFile, ranks: int
) -> bool:
    """By the rank written in the file, else by process, else by folder and number in the names."""
    if pair.observer is None or pair.kineto is None or kineto.numbered:
        return False
    if kineto.rank >= 0:
        return kineto.rank == pair.rank
    near = pair.kineto.parent == kineto.path.parent
    if kineto.pid >= 0 and kineto.pid == observers[pair.observer].pid and near:
        return True
    return near and (ranks == 1 or rank_in_name(kineto.path) == pair.rank)


def _refuse(observer: SourceFile, kineto: SourceFile) -> None:
    raise FormatError(
        f"belongs to process {observer.pid} and {kineto.path} to process {kineto.pid}, so they are "
        "not of the same rank and run; give both files of each rank",
        path=str(observer.path),
    )


def _scores(
    observers: list[SourceFile], kinetos: list[SourceFile]
) -> Iterator[tuple[int, int, int]]:
    """(how surely two files belong together, observer, Kineto) of all that may.

    Files of different processes do not; with thousands of ranks only those of one are looked at.
    """
    of_process: dict[int, list[int]] = {}
    for j, kineto in enumerate(kinetos):
        of_process.setdefault(kineto.pid, []).append(j)
    for i, observer in enumerate(observers):
        same_process = [*of_process.get(observer.pid, ()), *of_process.get(-1, ())]
        for j in set(same_process) if observer.pid != -1 else range(len(kinetos)):
            yield _score(observer, kinetos[j]), i, j


def _score(observer: SourceFile, kineto: SourceFile) -> int:
    """How surely two files of compatible processes belong together."""
    names = (rank_in_name(observer.path), rank_in_name(kineto.path))
    score = 1 + 8 * (observer.pid == kineto.pid != -1) + 4 * kineto.numbered
    score += 2 * (observer.path.parent == kineto.path.parent)
    return score + (names[0] == names[1] and names[0] >= 0)


_SAID = re.compile(r"(?:rank|worker)[_-]?(\d+)(?![a-zA-Z\d])")
"""A rank that a name says itself: vLLM's `dp0_pp0_tp1_rank1.1767.pt.trace`, `worker3_step_12.169.trace`."""
_NUMBER = re.compile(r"[._-](\d+)(?![a-zA-Z\d])|^(\d+)$")


@lru_cache(1 << 16)
def rank_in_name(path: Path) -> int:
    """The rank in a file's name or its folder's, or -1."""
    for text in (path.name.split(".json")[0], path.parent.name):
        said = _SAID.findall(text) or [a or b for a, b in _NUMBER.findall(text)]
        number = whole(said[-1], _LARGEST) if said else None
        if number is not None:
            return number
    return -1


_PLACES = re.compile(
    r"-TP-(\d{1,6})(?:-DP-(\d{1,6}))?(?:-PP-(\d{1,6}))?(?:-EP-\d{1,6})?(?:-([A-Z]+))?\.trace"
)
"""How SGLang names the file of a rank: its place along each axis, and the stage if stages lie apart."""
_MERGED = re.compile(r"^merged-")


def ranks_by_places(paths: Sequence[Path]) -> dict[Path, int]:
    """Ranks of files that are named by places along axes; {} if one of them is not.

    Tensor parallelism is innermost, then stages of a pipeline. Replicas count only where two files would
    be of one rank without them: attention is data-parallel inside a tensor-parallel group.
    """
    matches = [_PLACES.search(path.name) for path in paths]
    if not matches or not all(matches):
        return {}
    places = [tuple(int(m[i] or 0) for i in (2, 3, 1)) for m in matches if m]
    sizes = [1 + max(place[axis] for place in places) for axis in range(3)]
    stages = len({place[1:] for place in places}) == len(places)
    outer = [0 if stages else place[0] for place in places]
    ranks = [(d * sizes[1] + p) * sizes[2] + t for d, (_, p, t) in zip(outer, places, strict=True)]
    return dict(zip(paths, ranks, strict=True))


def _same_rank_twice(first: Path, second: Path, rank: int) -> FormatError:
    stages = [m[4] for m in (_PLACES.search(p.name) for p in (first, second)) if m and m[4]]
    cure = "link them one at a time"
    if len(set(stages)) == 2:
        cure = (
            f"they are of the stages {' and '.join(stages)}: link the files of one stage at a time"
        )
    return FormatError(f"both say rank {rank}; {cure}", path=f"{first} and {second}")


def _number_pairs(
    pairs: list[tuple[SourceFile | None, SourceFile | None]], rank_files: RankFiles
) -> None:
    by_rank: dict[int, RecordingPair] = {}
    by_place = ranks_by_places([kineto.path for _, kineto in pairs if kineto is not None])
    for observer, kineto in pairs:
        files = [s for s in (kineto, observer) if s is not None]
        ranks = [s.rank for s in files if s.rank >= 0]
        ranks = ranks or [by_place[s.path] for s in files if s.path in by_place]
        ranks = ranks or [n for s in files if (n := rank_in_name(s.path)) >= 0 and len(pairs) > 1]
        rank = ranks[0] if ranks else len(by_rank)
        pair = RecordingPair(
            rank, observer.path if observer else None, kineto.path if kineto else None
        )
        if rank in by_rank:
            raise _same_rank_twice(by_rank[rank].paths[0], pair.paths[0], rank)
        by_rank[rank] = pair
    rank_files.pairs += [by_rank[r] for r in sorted(by_rank)]
