"""A16, AURORA: a repair is made only where the evidence names one fault; otherwise nobody touches the node.

Incidents of several kinds move the signals of a node's monitoring, some of them the same ones. From the mean
of a few samples follows how likely each kind is, given what each does to signals and how signals scatter. The
right repair mends the node; that of another kind makes matters worse. A gate abstains below a certainty. It
is held against acting always, and against a limit that the strongest signal has to pass.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from chakrakit.arrays import F64
from chakrakit.campaigns import SCATTER, SIGNALS, SIGNS, Incident, telemetry
from chakrakit.published import Case, Claim, Figures, Setting, Study, least, most

HARM = 5.0
"""What a wrong repair costs, in right ones: a node that is drained and tested for nothing, and still fails.
Assumed; the share of wrong repairs is a figure of its own."""
INCIDENTS = 200


def kinds_of(case: Case) -> list[str]:
    """The kinds of incidents that happen."""
    return list(SIGNS)[: case["kinds"]]


def signature(kind: str, severity: float) -> F64:
    """What an incident of a kind does to each signal; milder ones do a part of it."""
    moved = [SIGNS[kind].get(name, 1.0) - 1 for name in SIGNALS]
    return 1 + severity * np.array(moved)


def evidence(case: Case, seed: int) -> tuple[list[str], F64]:
    """The kinds of incidents, each on a node of its own, and the mean of what monitoring shows of it."""
    rng = np.random.default_rng([seed, 16])
    kinds = [kinds_of(case)[n] for n in rng.integers(case["kinds"], size=INCIDENTS)]
    incidents = [Incident(node, kind, 0, case["samples"]) for node, kind in enumerate(kinds)]
    shown = telemetry(INCIDENTS, case["samples"], incidents, seed).values.mean(axis=2).T
    whole = np.array([signature(kind, 1.0) for kind in kinds])
    mild = np.array([signature(kind, case["severity"]) for kind in kinds])
    return kinds, np.asarray(shown * mild / whole)


def certainties(case: Case, shown: F64) -> F64:
    """How likely each kind is for each incident, if all are as frequent."""
    spread = np.array([SCATTER[name] for name in SIGNALS]) / np.sqrt(case["samples"])
    expected = np.array([signature(kind, case["severity"]) for kind in kinds_of(case)])
    away = ((shown[:, None] - expected) / (spread * expected)) ** 2
    weight = -away.sum(axis=2) / 2
    likely = np.exp(weight - weight.max(axis=1, keepdims=True))
    return np.asarray(likely / likely.sum(axis=1, keepdims=True))


def measure(case: Case, setting: Setting, seed: int) -> Figures:
    """Right and wrong repairs, as shares of incidents, and what they come to together."""
    kinds, shown = evidence(case, seed)
    likely = certainties(case, shown)
    spread = np.array([SCATTER[name] for name in SIGNALS]) / np.sqrt(case["samples"])
    strongest = (abs(shown - 1) / spread).max(axis=1)
    acts = likely.max(axis=1) >= setting["certain"]
    acts &= strongest >= setting["beyond"]
    named = np.array(kinds_of(case))[likely.argmax(axis=1)]
    right = float((acts & (named == kinds)).mean())
    wrong = float((acts & (named != kinds)).mean())
    return {"score": 1 + right - HARM * wrong, "repaired": right, "destructive": wrong}


def cases(quick: bool) -> Sequence[Case]:
    """Incidents that show clearly and hardly, of many kinds and of one."""
    severities = (0.05, 0.1) if quick else (0.05, 0.1, 0.2, 1.0)
    mixed = [{"kinds": 5, "severity": s, "samples": n} for s in severities for n in (4, 16)]
    return [*mixed, *({"kinds": 1, "severity": s, "samples": 4} for s in severities)]


def way(certain: float = 0.0, beyond: float = 0.0) -> Setting:
    """A gate on certainty, and one on the strongest signal in standard deviations."""
    return {"certain": certain, "beyond": beyond}


STUDY = Study(
    id="A16",
    system="AURORA",
    family="resilience",
    strength="direction",
    claims=[
        Claim("no destructive repairs", 0.0, 0.005, figure="destructive"),
        Claim("62 % of incidents repaired", 0.55, 0.7, figure="repaired"),
        Claim("3 ms for a decision", 0.003, 0.003, "not simulable"),
    ],
    rests_on={
        "incidents that share symptoms": "campaigns/telemetry.py",
        "signals that scatter": "campaigns/telemetry.py",
    },
    cases=cases,
    sides={
        "AURORA": [way(certain=x) for x in (0.8, 0.9, 0.97, 0.99)],
        "limit on a signal, tuned": [way(beyond=x) for x in (0.0, 1.0, 2.0, 3.0, 4.0, 6.0)],
        "acts always": [way()],
    },
    idea="AURORA",
    untuned=["acts always"],
    measure=measure,
    better=("score", "max"),
    health="score",
    gone=lambda case: bool(case["kinds"] == 1),
    ablate={"the gate": {"certain": 0.0}},
    predictions={
        "nothing is gained with one kind of fault": lambda t: (
            0.02 - most(abs(t.gains(kinds=1) - 1))
        ),
        "the gate makes fewer than 2 % of repairs wrong": lambda t: (
            0.02 - most(t.figure("destructive"))
        ),
        "acting always is wrong more often where signs are faint": lambda t: (
            least(t.figure("destructive", "acts always", kinds=5, severity=0.05)) - 0.05
        ),
        "more samples let it repair more": lambda t: (
            least(t.figure("repaired", severity=0.05, samples=16, kinds=5))
            - most(t.figure("repaired", severity=0.05, samples=4, kinds=5))
        ),
    },
    decides="how faint the signs are, and how much worse a wrong repair is than none.",
    cannot_say="How a language model reads logs, how long it takes, and what signs real incidents share.",
)
