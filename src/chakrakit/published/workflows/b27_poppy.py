"""B27, PopPy: calls of a Python program to models and tools run together where they share no data.

A program is one trace: calls in program order, and what each of them reads. Rank 0 runs it, ranks 1 … k are
the workers of a service; a call is a message there and one back. Sequential execution keeps program order.
The idea drops it between calls of which neither writes shared state. The comparator is what a careful
programmer does without a compiler: gather the calls of one loop, so many at a time, and wait for all of them.
"""

from __future__ import annotations

from collections.abc import Sequence

from chakrakit.machines import machine
from chakrakit.published import Case, Claim, Figures, Setting, Study, least, most, seconds_of
from chakrakit.published.workflows.call_program import ProgramCall, ordered, program
from chakrakit.trace.model import TraceBuilder
from chakrakit.trace.sets import TraceSet


def traces(calls: Sequence[ProgramCall], workers: int, order: str, group: int) -> TraceSet:
    """Rank 0 sends calls and waits for answers; call i runs on worker i modulo their number."""
    main, service = TraceBuilder(), [TraceBuilder() for _ in range(workers)]
    answers: list[int] = []
    for i, (call, before) in enumerate(zip(calls, ordered(calls, order, group), strict=True)):
        rank = 1 + i % workers
        data, order_only = ([answers[j] for j in some] for some in (call.reads, before))
        sent = main.send("call", 0, rank, 2000, tag=i, deps=data, ctrl_deps=order_only)
        answers.append(main.recv("answer", rank, 0, 2000, tag=10_000 + i, deps=[sent]))
        worker = service[rank - 1]
        asked = worker.recv("call", 0, rank, 2000, tag=i)
        duration = int(call.milliseconds * 1e6)
        done = worker.comp("work", duration_ns=duration, deps=[asked], is_cpu_op=True)
        worker.send("answer", rank, 0, 2000, tag=10_000 + i, deps=[done])
    return TraceSet.of([main, *service])


def measure(case: Case, setting: Setting, seed: int) -> Figures:
    """Seconds of the program, and the share of that in which the longest chain of data runs."""
    calls = program(case["program"], seed)
    network = {"topology": "switch", "size": case["workers"] + 1, "bandwidth": "1 GB/s"}
    site = machine({"network": [{**network, "latency": "2 ms"}]})
    seconds = seconds_of(
        traces(calls, case["workers"], setting["order"], setting["group"]), site, "measured"
    )
    finish: list[float] = []
    for call in calls:
        finish.append(call.milliseconds + max((finish[r] for r in call.reads), default=0.0))
    busiest = sum(c.milliseconds for c in calls) / case["workers"]
    return {"seconds": seconds, "efficiency": max(*finish, busiest) * 1e-3 / seconds}


def cases(quick: bool) -> Sequence[Case]:
    """Every shape of program on few and on many workers."""
    kinds = ("chain", "map", "stateful") if quick else ("chain", "map", "rounds", "stateful")
    workers = (8,) if quick else (1, 2, 4, 8, 16)
    return [{"program": kind, "workers": k} for kind in kinds for k in workers]


STUDY = Study(
    id="B27",
    system="PopPy",
    family="workflows",
    strength="strong",
    claims=[Claim("up to 6.4 times as fast end to end", 6.4, 6.4)],
    rests_on={
        "messages to a service and back": "simulator/engine/native.py",
        "dependencies of data and of order": "trace/model/edges.py",
        "workers that run one call at a time": "trace/placement/rows.py",
    },
    cases=cases,
    sides={
        "PopPy": [{"order": "any", "group": 0}],
        "gathered by hand": [{"order": "gathered", "group": g} for g in (2, 4, 8, 32)],
        "sequential": [{"order": "sequential", "group": 0}],
    },
    idea="PopPy",
    untuned=["sequential"],
    measure=measure,
    better=("seconds", "min"),
    health="efficiency",
    gone=lambda case: bool(case["program"] == "chain" or case["workers"] == 1),
    ablate={"calls out of order": {"order": "sequential"}},
    predictions={
        "1 times for chains": lambda t: (
            0.02 - most(abs(t.gains("sequential", program="chain") - 1))
        ),
        "1 times with one worker": lambda t: 0.02 - most(abs(t.gains("sequential", workers=1) - 1)),
        "up to min(workers, width) for maps": lambda t: (
            8.0 - most(t.gains("sequential", program="map", workers=8))
        ),
        "over 3 times for a map on 8 workers": lambda t: (
            least(t.gains("sequential", program="map", workers=8)) - 3
        ),
    },
    decides="the comparator: over sequential code the gain is as large as the program is wide. Calls that a "
    "programmer gathers by hand get all of that; what is left is for programs that mix reads and writes.",
    cannot_say="Whether a compiler finds out that calls share no state, and limits on the rate of calls.",
)
