"""A04, the illusion of power capping: locked clocks against power caps while a language model decodes.

A generated decode step runs on an H200 at a locked clock, or below a cap. Launched kernel by kernel, the
device may wait for the host, whose time is an input; replayed as a graph, it does not. Power and time are
compared with what was measured on an H200 (decode_power.py): power with what the host took at that clock,
time with one host's time for all clocks of a program.
"""

from __future__ import annotations

import numpy as np

from chakrakit.arrays import F64
from chakrakit.machines.device import clocks_of
from chakrakit.published import Case, Claim, Figures, Judged, Setting, Study, certain, least, most
from chakrakit.published.devices.decode_power import host_time, measured, usual_host_time
from chakrakit.published.devices.decode_step import run

SLOWER = 1.1
"""A setting that makes a step longer than this counts as lost throughput, and not as saved energy."""


def measure(case: Case, setting: Setting, seed: int) -> Figures:
    """Joules of a step where it is hardly slower, power, and how far both are from what was measured."""
    clocks = clocks_of([setting["mhz"]] if setting["mhz"] else (), setting["cap"] or None)
    host_ms = host_time(case, 0)
    seconds, joules = run(case, clocks, seed, host_ms)
    free, whole = run(case, clocks_of((), None), seed, host_ms)
    figures = {
        "joules": joules if seconds <= SLOWER * free else np.inf,
        "per_s": 1 / seconds,
        "watts": whole / free,
        "saved": 1 - joules / whole,
    }
    row = measured(case, setting["mhz"]) if not setting["cap"] else None
    if row is not None:
        took, drew = run(case, clocks, seed, host_time(case, setting["mhz"]))
        figures["power_error"] = abs(drew / took / row.watts - 1)
        usual, _ = run(case, clocks, seed, usual_host_time(case))
        figures["time_error"] = abs(usual * 1e3 / row.ms - 1)
    return figures


def within(t: Judged, name: str, limit: float) -> F64:
    """How far the median error of all settings that were measured and tried stays below a limit."""
    errors = [r.figures[name] for r in t.rows if name in r.figures]
    return certain(bool(errors) and float(np.median(errors)) < limit)


CASES = [
    {"model": m, "batch": b, "how": h}
    for m, b in (("8b", 1), ("8b", 64), ("1b", 1), ("8b", 16), ("8b", 256), ("1b", 16), ("1b", 256))
    for h in ("graph", "eager")
]
STUDY = Study(
    id="A04",
    system="The illusion of power capping",
    family="devices",
    strength="strong",
    claims=[
        Claim("decode draws 137 to 300 W", 137, 300, figure="watts"),
        Claim("a locked clock saves up to 32 % of its energy", 0.32, 0.32, figure="saved"),
    ],
    rests_on={
        "power by class of work and clock": "machines/device/power.py",
        "clocks that are locked, and caps": "machines/device/clocks.py",
        "a device that waits for its host": "simulator/engine/native.py",
    },
    cases=lambda quick: [CASES[1], CASES[2], CASES[5]] if quick else CASES,
    sides={
        "locked clock": [{"mhz": f, "cap": 0} for f in (0, 1695, 1410, 1005)],
        "power cap": [{"mhz": 0, "cap": w} for w in (0, 600, 500, 400, 300)],
    },
    idea="locked clock",
    measure=measure,
    better=("joules", "min"),
    health="per_s",
    gone=lambda case: bool(case["batch"] >= 64 and case["how"] == "graph"),
    ablate={"a lock": {"mhz": 0}},
    predictions={
        "one token of 1B, launched kernel by kernel, draws less than 300 W": lambda t: (
            300 - t.figure("watts", model="1b", batch=1, how="eager")[0]
        ),
        "64 of 8B as a graph draw more than 500": lambda t: (
            t.figure("watts", model="8b", batch=64, how="graph")[0] - 500
        ),
        "where power is below every cap a lock gains": lambda t: (
            least(t.gains(model="1b", batch=1, how="eager")) - 1.02
        ),
        "64 of 8B gain less from a lock than from the best cap plus 2 %": lambda t: (
            1.02 - most(t.gains(model="8b", batch=64, how="graph"))
        ),
        "the median error of time is below 10 %": lambda t: within(t, "time_error", 0.1),
        "and that of power": lambda t: within(t, "power_error", 0.1),
    },
    amended="the device pauses between kernels, and a host that binds takes what an eager row took: after "
    "rows of batch 1 and 64 had been seen. Rows of 8B at batch 16 and 256 were measured after that, "
    "by a program that is kept; that its host takes as long at 256 as at 16 was put in afterwards, "
    "and so were the kernels that programs have beyond the generated step: 3 in a layer of the kept "
    "one, by its source, and 13 of the other, by those that were counted when it was run again. Of "
    "these later rows the kept program's were predicted before they were seen.",
    decides="whether the host or memory bounds a step: 137 to 300 W is what a device draws that waits.",
    cannot_say="How long a host takes, which bounds 28 of 86 measured rows: the same launches took from 12 "
    "to 27 ms in two sessions, and from 5 to 9 in one. The modelled host (31 us for each "
    "operator) is off by -52 to +91 %, and by less than 10 % in 7 of them; where the programs "
    "were captured, its interval holds 13 of 14. Other attention than grouped queries; prefill, "
    "where measured caps bind (500 W cost 21 %).",
)
