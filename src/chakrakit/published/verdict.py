"""The verdict on a study: computed from what was measured, never written down.

    holds           every claimed figure is inside what was swept, against the best tuned comparator, and the
                    gain is gone where it should be
    holds in part   the idea is better, but a figure is reached only against an untuned comparator, only where
                    one collapsed, or not at all, or the gain is not gone where it should be
    does not hold   the idea is nowhere better than the best tuned comparator
    not decidable   something that the claim rests on is not modelled, or a measurement raised

A study that gives a bound or a side cost cannot know whether a system holds what it promises, and has words
of its own:

    within the bound                every claimed figure is at most the limit, which is 1 where it should be
    partly within the bound         one of them is, or none was published
    beyond the bound                nothing could reach the claimed figure, as costs are counted here
    side cost as claimed            every figure about what is paid beside the headline comes out
    side cost in part as claimed    less is paid than without the idea, and a figure does not come out
    side cost not as claimed        nothing is saved
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

import msgspec
import numpy as np

from chakrakit.arrays import F64
from chakrakit.published.judged import Judged
from chakrakit.published.study import GAIN, Case, Claim, Strength, without
from chakrakit.results import Result

Verdict = Literal[
    "not decidable",
    "does not hold",
    "holds in part",
    "holds",
    "beyond the bound",
    "partly within the bound",
    "within the bound",
    "side cost not as claimed",
    "side cost in part as claimed",
    "side cost as claimed",
]
Grade = Literal[0, 1, 2, 3]
"""Undecided, nothing, some, all of what was claimed."""
_HOLDING: tuple[Verdict, ...] = ("not decidable", "does not hold", "holds in part", "holds")
VERDICTS: Mapping[Strength, tuple[Verdict, ...]] = {
    "strong": _HOLDING,
    "direction": _HOLDING,
    "bound": ("not decidable", "beyond the bound", "partly within the bound", "within the bound"),
    "side cost": (
        "not decidable",
        "side cost not as claimed",
        "side cost in part as claimed",
        "side cost as claimed",
    ),
}
"""What a study of each strength can say, by grade."""
GRADES: tuple[Grade, ...] = (0, 1, 2, 3)
JUDGED_KINDS = ("derived", "ours")
"""Kinds of claims that a measurement can answer."""

SMALL = 0.02
"""A gain of this much is one: smaller ones are within what simulations of equal things may differ by."""
SURE = 0.05
"""A prediction is decided if chance would do the same less often than this, all predictions together."""
HALF = 0.5
FULL, IDLE = 0.99, 0.01
"""A comparator that is busier, or less busy, than this has nothing to lose or nothing to do."""
_DRAWS = 2000
_ENDLESS = 1e9
"""What stands for infinity in a mean."""


class ClaimResult(msgspec.Struct, frozen=True):
    """A claimed figure, and what was measured of it."""

    text: str
    kind: str
    figure: str
    low: float
    high: float
    least: float | None
    most: float | None
    reached: bool | None
    """None for a claim that cannot be judged."""
    note: str = ""


class PredictionResult(msgspec.Struct, frozen=True):
    """What became of a prediction; `p` is corrected for their number (Holm)."""

    text: str
    outcome: Literal["came true", "did not", "undecided", "untested"]
    margin: float | None = None
    p: float | None = None


class CaseResult(msgspec.Struct, frozen=True):
    """One case: what each side chose and got, and the gain with its 95 % interval."""

    case: dict[str, Any]
    gone: bool
    against: str
    gain: float
    low: float
    high: float
    over: dict[str, float]
    """Gain over every other side."""
    figures: dict[str, float]
    chosen: dict[str, dict[str, Any]]
    collapsed: list[str]
    claimed: dict[str, float] = {}
    """Other figures of the idea that claims are about, where they were measured."""
    shown: dict[str, tuple[float, float, float]] = {}
    """What the study shows besides: a mean over seeds, and its 95 % interval."""


class AblationResult(msgspec.Struct, frozen=True):
    """The same study with a key line taken away from the idea."""

    without: str
    verdict: Verdict
    least: float
    most: float
    changed: bool
    """Whether the largest gain differs by more than 2 %."""


class StudyResult(Result, msgspec.Struct, frozen=True, kw_only=True):
    """A study with its verdict and everything that led to it."""

    id: str
    system: str
    family: str
    strength: Strength
    verdict: Verdict
    why: list[str]
    comparator: str
    """The tuned comparator where the gain is largest."""
    figure: str
    better: str
    claims: list[ClaimResult]
    cases: list[CaseResult]
    predictions: list[PredictionResult]
    ablations: list[AblationResult]
    rests_on: dict[str, str]
    cannot_say: str
    decides: str = ""
    amended: str = ""
    errors: list[str] = []
    seeds: int
    quick: bool = False
    commit: str = ""

    def table_rows(self) -> Sequence[msgspec.Struct]:
        """The cases."""
        return self.cases

    @property
    def gains(self) -> tuple[float, float]:
        """The least and the most, where there should be a gain."""
        return _span([c.gain for c in self.cases if not c.gone])

    @property
    def gone_gains(self) -> tuple[float, float]:
        """The least and the most, where there should be none."""
        return _span([c.gain for c in self.cases if c.gone])


def result_of(judged: Judged, *, quick: bool = False, commit: str = "") -> StudyResult:
    """The verdict on what was measured."""
    study = judged.study
    cases = _cases(judged)
    verdict, why = _decided(judged, cases)
    top = max((c for c in cases if not c.gone), key=lambda c: c.gain, default=None)
    return StudyResult(
        id=study.id,
        system=study.system,
        family=study.family,
        strength=study.strength,
        verdict=verdict,
        why=why,
        comparator=top.against if top else "",
        figure=study.better[0],
        better=study.better[1],
        claims=[_claim(judged, claim, cases) for claim in study.claims],
        cases=cases,
        predictions=_predictions(judged),
        ablations=[_ablation(judged, name, cases) for name in study.ablate],
        rests_on=dict(study.rests_on),
        cannot_say=study.cannot_say,
        decides=study.decides,
        amended=study.amended,
        errors=judged.errors,
        seeds=len(judged.seeds),
        quick=quick,
        commit=commit,
    )


def decided(judged: Judged) -> tuple[Verdict, list[str]]:
    """The verdict, and sentences that say why."""
    return _decided(judged, _cases(judged))


def _decided(judged: Judged, cases: Sequence[CaseResult]) -> tuple[Verdict, list[str]]:
    study = judged.study
    missing = [effect for effect, module in study.rests_on.items() if not module]
    if judged.errors:
        return "not decidable", [f"{len(judged.errors)} measurements raised, as {judged.errors[0]}"]
    if missing:
        return "not decidable", [f"nothing here models {effect}" for effect in missing]
    claims = [_claim(judged, claim, cases) for claim in study.claims]
    why = [_said_gain(cases), _said_gone(cases), *(c.note for c in claims if c.note)]
    why += _said_collapse(cases) + _said_ours(claims)
    return VERDICTS[study.strength][_grade(study.strength, cases, claims)], why


def grade_of(verdict: str) -> Grade:
    """How much of what was claimed a verdict grants; comparable within a strength."""
    return next(
        g for words in VERDICTS.values() for g, v in zip(GRADES, words, strict=True) if v == verdict
    )


def _grade(strength: Strength, cases: Sequence[CaseResult], claims: Sequence[ClaimResult]) -> Grade:
    reached = [c.reached for c in claims if c.reached is not None]
    if not any(c.low > 1 and c.gain >= 1 + SMALL for c in cases if not c.gone):
        return 1
    if strength == "bound" and reached and not any(reached):
        return 1  # the most that is possible is less than what was claimed
    gone = [c.gain for c in cases if c.gone]
    vanishes = bool(gone) and max(gone) <= 1 + SMALL
    published = any(c.kind == "derived" for c in claims)
    return 3 if vanishes and published and all(reached) else 2


def swapped(judged: Judged, comparator: str) -> Judged:
    """The idea under the name of a comparator, and that one under the idea's."""
    idea = judged.study.idea
    return judged.relabelled({comparator: idea, idea: comparator})


def interval(values: F64) -> tuple[float, float]:
    """The 95 % bootstrap interval of the mean."""
    draws = np.random.default_rng(0).choice(values, (_DRAWS, len(values))).mean(axis=1)
    low, high = np.percentile(draws, [2.5, 97.5])
    return float(low), float(high)


def two_sided_p(values: F64) -> float:
    """How often chance gives a mean this far from 0: Student's test of one number per seed."""
    values = np.nan_to_num(values, posinf=_ENDLESS, neginf=-_ENDLESS)
    spread = float(values.std(ddof=1)) if len(values) > 1 else 0.0
    mean = float(values.mean())
    if spread <= 1e-12 * abs(mean) or mean == 0:
        return 0.0 if mean else 1.0
    freedom = len(values) - 1
    t = abs(mean) / (spread / len(values) ** 0.5)
    # The tails of Student's distribution: with x = tan(a) √ν its density becomes cos(a)^(ν-1).
    angles = np.linspace(0.0, np.pi / 2, 20_001)
    density = np.cos(angles) ** (freedom - 1)
    tail = np.trapezoid(np.where(angles >= np.arctan(t / freedom**0.5), density, 0.0), angles)
    return float(tail / np.trapezoid(density, angles))


def holm(ps: Sequence[float]) -> list[float]:
    """P-values corrected for their number, in the order given."""
    order = np.argsort(ps, kind="stable")
    corrected = [0.0] * len(ps)
    worst = 0.0
    for place, i in enumerate(order):
        worst = max(worst, min(1.0, ps[i] * (len(ps) - place)))
        corrected[i] = worst
    return corrected


def _cases(judged: Judged) -> list[CaseResult]:
    return [_case(judged, case) for case in judged.cases]


def _case(judged: Judged, case: Case) -> CaseResult:
    study = judged.study
    where = dict(case)
    gains = judged.gains(**where)[0]
    low, high = interval(gains) if np.isfinite(gains).all() else (float(gains.min()),) * 2
    sides = [s for s in study.sides if judged.chosen(case, s)]
    return CaseResult(
        case=where,
        gone=study.gone(case),
        against=judged.against(case),
        gain=float(gains.mean()),
        low=low,
        high=high,
        over={s: float(judged.gains(s, **where).mean()) for s in sides if s != study.idea},
        figures={s: judged.mean(study.better[0], s, case) for s in sides},
        chosen={s: judged.chosen(case, s) for s in sides},
        collapsed=[s for s in sides if s != study.idea and _collapsed(judged, s, case)],
        claimed=_claimed(judged, case),
        shown=_shown(judged, case),
    )


def _shown(judged: Judged, case: Case) -> dict[str, tuple[float, float, float]]:
    """What the study shows of a case; columns that were not measured there are left out."""
    place = judged.cases.index(dict(case))
    found = {}
    for name, column in judged.study.shows.items():
        values = column(judged)[place]
        if np.isfinite(values).all():
            found[name] = (float(values.mean()), *interval(values))
    return found


def _claimed(judged: Judged, case: Case) -> dict[str, float]:
    study = judged.study
    names = [c.figure for c in study.claims if c.kind in JUDGED_KINDS and not c.is_gain]
    values = {name: judged.mean(name, study.idea, case) for name in names}
    return {name: value for name, value in values.items() if not np.isnan(value)}


def _collapsed(judged: Judged, side: str, case: Case) -> bool:
    """Whether a comparator is below half of its own best case, saturated or idle."""
    health = judged.figure(judged.study.health, side).mean(axis=1)
    best = max((h for h in health if not np.isnan(h)), default=0.0)
    own = judged.mean(judged.study.health, side, case)
    busy = judged.mean("busy", side, case)
    return bool(own < HALF * best or busy >= FULL or busy <= IDLE)


def _claim(judged: Judged, claim: Claim, cases: Sequence[CaseResult]) -> ClaimResult:
    measured = [
        (value, case)
        for value, case in zip(_values(judged, claim, cases), cases, strict=True)
        if not np.isnan(value) and claim.where.items() <= case.case.items()
        if not (claim.is_gain and case.gone)
    ]
    least, most = _span([value for value, _ in measured]) if measured else (None, None)
    said = (claim.text, claim.kind, claim.figure, claim.low, claim.high)
    if claim.kind not in JUDGED_KINDS:
        cause = "no simulation can say" if claim.kind == "not simulable" else "put in, not measured"
        return ClaimResult(*said, None, None, None, f"{claim.text}: {cause}")
    parts = (*said, least, most)
    if least is None or most is None:
        return ClaimResult(*parts, False, f"{claim.text}: nothing was measured of it")
    shown = [value for value, case in measured if _counts(claim, case)]
    limit = claim.is_gain or judged.study.strength == "bound"  # what could be more than was claimed
    reached = max(shown, default=-np.inf) >= claim.low and (limit or least <= claim.high)
    note = (
        "" if reached else f"{claim.text}: measured {_told(least, most)}{_elsewhere(claim, cases)}"
    )
    return ClaimResult(*parts, reached, note)


def _values(judged: Judged, claim: Claim, cases: Sequence[CaseResult]) -> list[float]:
    """What was measured of a claim's figure, case by case; NaN for cases without it."""
    if claim.figure == GAIN:
        return [c.gain for c in cases]
    if claim.is_gain:
        side = claim.figure.removeprefix(f"{GAIN} over ")
        return [c.over.get(side, np.nan) for c in cases]
    return [float(v) for v in judged.figure(claim.figure).mean(axis=1)]


def _counts(claim: Claim, case: CaseResult) -> bool:
    """Whether a case can show that a claim is right: its comparator stands on its feet."""
    rival = claim.figure.removeprefix(f"{GAIN} over ") if claim.figure != GAIN else case.against
    return not claim.is_gain or (not case.gone and rival not in case.collapsed)


def _elsewhere(claim: Claim, cases: Sequence[CaseResult]) -> str:
    """Where a gain that was not reached would have been."""
    if not claim.is_gain:
        return ""
    meant = [c for c in cases if not c.gone and claim.where.items() <= c.case.items()]
    rivals = {c.against for c in meant}
    if any(c.gain >= claim.low for c in meant) and claim.figure == GAIN:
        return " (reached only where the comparator has collapsed)"
    sides = {side for c in meant for side, gain in c.over.items() if gain >= claim.low} - rivals
    return f" (reached only over {', '.join(sorted(sides))})" if sides else ""


def _said_gain(cases: Sequence[CaseResult]) -> str:
    best = max((c for c in cases if not c.gone), key=lambda c: c.gain, default=None)
    if best is None:
        return "no case in which a gain was expected"
    span = _told(*_span([c.gain for c in cases if not c.gone]))
    return f"gain {span} over the best tuned comparator, the most at {words(best.case)}"


def _said_gone(cases: Sequence[CaseResult]) -> str:
    gone = [c.gain for c in cases if c.gone]
    if not gone:
        return "no case in which the gain should be gone"
    close = all(abs(g - 1) <= SMALL for g in gone)
    return f"where it should be gone {_told(*_span(gone))}" + (
        "" if close else ", not within 2 % of 1"
    )


def _said_collapse(cases: Sequence[CaseResult]) -> list[str]:
    sides = dict.fromkeys(s for c in cases for s in c.collapsed)
    return [
        f"{side} collapsed in {sum(side in c.collapsed for c in cases)} of {len(cases)} cases"
        for side in sides
    ]


def _said_ours(claims: Sequence[ClaimResult]) -> list[str]:
    """A word about figures that nobody published, where there are no others to judge."""
    if any(c.kind == "derived" for c in claims) or not any(c.kind == "ours" for c in claims):
        return []
    return ["no figure was published: those here are ours, which is never enough for `holds`"]


def _predictions(judged: Judged) -> list[PredictionResult]:
    margins = {text: test(judged) for text, test in judged.study.predictions.items()}
    tested = {t: m for t, m in margins.items() if len(m) and not np.isnan(m).any()}
    ps = dict(zip(tested, holm([two_sided_p(m) for m in tested.values()]), strict=True))
    return [_prediction(text, tested.get(text), ps.get(text, 1.0)) for text in margins]


def _prediction(text: str, margins: F64 | None, p: float) -> PredictionResult:
    if margins is None:
        return PredictionResult(text, "untested")
    mean = float(margins.mean())
    if p >= SURE:
        return PredictionResult(text, "undecided", mean, p)
    return PredictionResult(text, "came true" if mean > 0 else "did not", mean, p)


def _ablation(judged: Judged, name: str, cases: Sequence[CaseResult]) -> AblationResult:
    bare = judged.relabelled({without(name): judged.study.idea})
    bare_cases = _cases(bare)
    least, most = _span([c.gain for c in bare_cases if not c.gone])
    full = max(c.gain for c in cases if not c.gone)
    verdict = _decided(bare, bare_cases)[0]
    return AblationResult(name, verdict, least, most, abs(most / full - 1) > SMALL)


def words(values: Case) -> str:
    """A case or setting in words: `ranks 8, batch 1`."""
    return ", ".join(f"{k.replace('_', ' ')} {v}" for k, v in values.items())


def _span(values: Sequence[float]) -> tuple[float, float]:
    return (min(values), max(values)) if values else (float("nan"), float("nan"))


def _told(least: float, most: float) -> str:
    low, high = f"{least:.3g}", f"{most:.3g}"
    return low if low == high else f"{low} to {high}"
