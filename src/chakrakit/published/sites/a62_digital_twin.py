"""A62, a digital twin of a data centre's energy: what a forecast of its power is worth to its cooling.

A hall's servers draw a daily course of power with bursts. Cooling that follows a forecast runs where it is
efficient; cooling set for the peak runs at part load. A linear forecast stands for the LSTM.
"""

from __future__ import annotations

import numpy as np

from chakrakit.arrays import F64
from chakrakit.published import Case, Claim, Figures, Setting, Study, least, most

HOURS = 14 * 24
FIXED, MARGIN = 0.35, 0.05
"""The share of cooling's power that does not follow the load (an estimate from part-load curves of chillers),
and what is kept above a forecast."""
COOLING = 0.3
"""Watts of cooling for a watt of servers at full load: a PUE of 1.3."""


def course(swing: float, seed: int) -> F64:
    """Power of the servers by the hour, as a share of the most they draw."""
    rng = np.random.default_rng([seed, 5])
    day = 0.5 + 0.5 * np.sin(2 * np.pi * np.arange(HOURS) / 24)
    bursts = np.clip(rng.standard_normal(HOURS), -2, 2) * 0.1
    return np.clip(1 - swing * (1 - day) + swing * bursts, 0.05, 1.0)


def forecast(load: F64, window: int) -> F64:
    """The hour to come from those of the day before and the last ones, by least squares of the first week."""
    rows = [[*load[i - window : i].tolist(), load[i - 24]] for i in range(24 + window, HOURS)]
    target = load[24 + window :]
    known = 7 * 24
    weights = np.linalg.lstsq(np.array(rows[:known]), target[:known], rcond=None)[0]
    return np.asarray(np.r_[load[: 24 + window], np.array(rows) @ weights], np.float64)


def measure(case: Case, setting: Setting, seed: int) -> Figures:
    """PUE of the second week, and the hours in which cooling was short."""
    load = course(case["swing"], seed)
    ahead = (
        forecast(load, setting["window"])
        if setting["forecast"]
        else np.full(HOURS, setting["level"])
    )
    capacity = np.clip(ahead + MARGIN, 0.1, 1.0)[-7 * 24 :]
    used = load[-7 * 24 :]
    short = used > capacity + 1e-9
    running = np.where(short, 1.0, capacity)  # what was short is run at full load for the hour
    cooling = COOLING * (FIXED * running + (1 - FIXED) * used)
    pue = 1 + float(cooling.sum() / used.sum())
    return {"pue": pue, "overhead": pue - 1, "short": float(short.mean()), "health": 1 / (pue - 1)}


STUDY = Study(
    id="A62",
    system="Digital twin of a data centre's energy",
    family="sites",
    strength="side cost",
    claims=[Claim("a better PUE (no figure was published)", 1.0, 2.0)],
    rests_on={"power of a site around its devices": "machines/fabric/machine.py"},
    cases=lambda quick: [{"swing": s} for s in (0.05, 0.4, 0.8)],
    sides={
        "forecast": [{"forecast": True, "window": w, "level": 0.0} for w in (1, 3)],
        "set for a level": [{"forecast": False, "window": 0, "level": v} for v in (1.0, 0.9, 0.8)],
    },
    idea="forecast",
    measure=measure,
    better=("overhead", "min"),
    health="health",
    gone=lambda case: bool(case["swing"] <= 0.05),
    ablate={"a forecast": {"forecast": False, "level": 1.0}},
    predictions={
        "the more the load swings, the more is gained": lambda t: (
            least(t.gains(swing=0.8)) - most(t.gains(swing=0.4))
        ),
        "a steady load gains nothing": lambda t: 1.02 - most(t.gains(swing=0.05)),
        "cooling is short in less than a tenth of the hours": lambda t: (
            0.1 - t.figure("short").max(axis=0)
        ),
    },
    decides="the margin, 0.05 of the most that servers draw: bursts are drawn anew every hour and "
    "spread by a tenth of the swing, 0.04 and 0.08, which no forecast knows. Cooling is short in 14 % "
    "and 32 % of the hours.",
    cannot_say="A building's air and water, sensors, and an LSTM: the forecast here is linear.",
)
