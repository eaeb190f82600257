"""Kinds of ranks: which ranks run the same program, found by capturing as few of them as possible."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from chakrakit.sources.capture.folding.families import Families, Family
from chakrakit.sources.capture.recording import CapturedRank
from chakrakit.sources.pytorch import names as words

Capture = Callable[[int, bool], CapturedRank]
"""Captures a rank: all that was asked for, or only its first step, to compare."""
MOST_ALONE = 64
"""Up to this many ranks that follow no rule are captured one by one; each costs a run of the first step."""
MOST_HALVINGS = 5
"""How often an axis is halved: at most 33 of its places are captured and stand for those after them."""
MOST_OPERATORS = 1 << 18
"""Operators captured along an axis where every rank may differ: some half a minute of capturing."""
_STEPS = "there and in similar places each rank not captured is taken to be like the one before it"


@dataclass(eq=False)
class RankKind:
    """Ranks with the same program, and the recording of one of them."""

    recording: CapturedRank
    ranks: list[int] = field(default_factory=list)


class Search:
    """Finds the kinds.

    Ranks that are in groups of the same families are compared along one axis at a time; an axis is the
    places in a family's groups. Where messages go along an axis, which makes it a pipeline, every place is
    captured in order; otherwise the two ends are compared and the axis is halved as long as they differ. Two
    ranks, the last and one in the middle, are captured to verify the result.
    """

    def __init__(self, capture: Capture, world: int) -> None:
        self.capture, self.world = capture, world
        self.warnings: list[str] = []
        first = capture(0, True)
        self.families = Families(first.groups, world)
        self._full = {0: first}
        self._digests = {0: first.first_digest}
        self._messages = self._with_messages(first)
        self._halvings = _most_halvings(len(first.ops))

    @property
    def ran(self) -> list[int]:
        """The ranks that were captured, at least for their first step."""
        return sorted({*self._full, *self._digests})

    # --- captures -------------------------------------------------------------------------------

    def _digest(self, rank: int) -> str:
        """What a rank does in its first step; where all so far differ, all it does is captured at once."""
        if rank not in self._digests:
            differ = len(set(self._digests.values())) == len(self._digests) > 1
            recording = self.capture(rank, differ)
            self._digests[rank] = recording.first_digest
            if differ:
                self._full[rank] = recording
        return self._digests[rank]

    def _with_messages(self, recording: CapturedRank) -> list[Family]:
        homes = self.families.of_recorded(recording.groups)
        used = {c.group for c in recording.comms if c.kind in (words.SEND, words.RECV)}
        return [homes[g] for g in used if g in homes]

    # --- finding --------------------------------------------------------------------------------

    def kinds(self) -> list[RankKind]:
        """All kinds, in the order of their lowest ranks."""
        classes: dict[tuple[bool, ...], list[int]] = {}
        for rank in range(self.world):
            key = tuple(p >= 0 for p in self.families.coordinates(rank))
            classes.setdefault(key, []).append(rank)
        alike: dict[str, list[int]] = {}
        for ranks in classes.values():
            for rank, first_digest in self._of_class(ranks).items():
                alike.setdefault(first_digest, []).append(rank)
        return [self._kind(ranks) for ranks in sorted(alike.values(), key=min)]

    def _kind(self, ranks: list[int]) -> RankKind:
        first = min(ranks)
        if first not in self._full:
            self._full[first] = self.capture(first, True)
        return RankKind(self._full[first], sorted(ranks))

    def _of_class(self, ranks: Sequence[int]) -> dict[int, str]:
        """The digest of every rank, most of them by rule."""
        samples = _samples(ranks)
        axes = self._axes(ranks)
        spread = any(a in self._messages for a in axes)
        if not spread and all(self._digest(r) == self._digest(ranks[0]) for r in samples):
            return dict.fromkeys(ranks, self._digest(ranks[0]))
        digests = self._by_rule(ranks, [a for a in axes if self._varies(a, ranks)])
        for rank in samples:
            if self._digest(rank) != digests[rank]:
                return self._one_by_one(ranks, digests, rank)
        return digests

    def _axes(self, ranks: Sequence[int]) -> list[Family]:
        """Families whose places differ between these ranks, without those that repeat another's places."""
        distinct: set[tuple[int, ...]] = set()
        out: list[Family] = []
        smaller = sorted(self.families.listed, key=lambda f: f.size)
        for family in smaller:
            places = tuple(family.position(r) for r in ranks)
            if len(set(places)) < 2 or places in distinct:
                continue
            if family.size == self.world and out and family not in self._messages:
                continue  # the world's order is that of the smaller groups together
            distinct.add(places)
            out.append(family)
        return out

    def _line(self, axis: Family, ranks: Sequence[int]) -> list[int]:
        """Ranks that differ from the first of the class along the axis alone."""
        inside = set(ranks)
        return [r for r in axis.group_of(ranks[0]) if r in inside]

    def _varies(self, axis: Family, ranks: Sequence[int]) -> bool:
        line = self._line(axis, ranks)
        if axis in self._messages and len(line) <= MOST_ALONE:
            return len({self._digest(r) for r in line}) > 1
        return self._digest(line[0]) != self._digest(line[-1])

    def _by_rule(self, ranks: Sequence[int], axes: Sequence[Family]) -> dict[int, str]:
        cuts = [self._segments(axis, ranks) for axis in axes]
        stands_for: dict[tuple[int, ...], int] = {}
        digests: dict[int, str] = {}
        for rank in ranks:
            key = tuple(cut[axis.position(rank)] for axis, cut in zip(axes, cuts, strict=True))
            digests[rank] = self._digest(stands_for.setdefault(key, rank))
        return digests

    def _segments(self, axis: Family, ranks: Sequence[int]) -> dict[int, int]:
        """For each place of the axis, the first of the consecutive places that run the same program."""
        line = self._line(axis, ranks)
        starts = {0, *self._changes(line, 0, len(line) - 1)}
        out, start = {}, 0
        for index, rank in enumerate(line):
            start = index if index in starts else start
            out[axis.position(rank)] = start
        return _spread(out, axis.size)

    def _changes(self, line: Sequence[int], low: int, high: int, halvings: int = 0) -> set[int]:
        """Indices where the program changes, by halving between places that differ."""
        if high - low < 1 or self._digest(line[low]) == self._digest(line[high]):
            inside = [i for i in range(low + 1, high) if line[i] in self._digests]
            return {i for i in inside if self._digest(line[i]) != self._digest(line[i - 1])}
        if high - low == 1:
            return {high}
        if halvings == self._halvings:
            self._warn_of_steps(line[low], line[high])
            return {high}
        middle, more = (low + high) // 2, halvings + 1
        return self._changes(line, low, middle, more) | self._changes(line, middle, high, more)

    def _warn_of_steps(self, low: int, high: int) -> None:
        """Warn once that programs change more often along an axis than places of it are captured."""
        if not any(w.endswith(_STEPS) for w in self.warnings):
            self.warnings.append(
                f"ranks {low} and {high} run different programs and those between them may too; "
                f"{_STEPS}"
            )

    def _one_by_one(
        self, ranks: Sequence[int], by_rule: dict[int, str], odd: int
    ) -> dict[int, str]:
        if len(ranks) <= MOST_ALONE:
            return {r: self._digest(r) for r in ranks}
        if any(w.endswith(_STEPS) for w in self.warnings):
            return by_rule  # which says of such ranks what they are taken to be
        self.warnings.append(
            f"rank {odd} does not run the program its place suggests; it has a separate body, and "
            "other such ranks may have been missed"
        )
        return {**by_rule, odd: self._digest(odd)}


def _most_halvings(operators: int) -> int:
    """How often an axis is halved where a rank calls this many operators."""
    places = MOST_OPERATORS // max(operators, 1)
    return min(max((places - 1).bit_length() - 1, 1), MOST_HALVINGS)


def _samples(ranks: Sequence[int]) -> list[int]:
    """The last rank, and one near the middle; 5/11 of the way avoids the edges of groups of powers of two."""
    return sorted({ranks[-1], ranks[len(ranks) * 5 // 11]})


def _spread(segments: dict[int, int], size: int) -> dict[int, int]:
    """Segments for all places; a place that the line lacks belongs to the segment of the place before it."""
    last, out = 0, {}
    for place in range(size):
        last = segments.get(place, last)
        out[place] = last
    return out
