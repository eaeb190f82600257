"""Recordings that lie: cycles of parents, clocks that run backwards, ranks that disagree."""

# ruff: noqa: E501 - a table, one case a line

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from chakrakit.commands import main
from fuzz.attacks.attack import Attack
from fuzz.formats.recordings import flight_recorder, nccl_inspector, pytorch, rocprof

Change = Callable[[Any], object]


def _changed(seed: Callable[[Path], object], file: str, change: Change) -> Callable[[Path], object]:
    """The valid recording with one JSON file changed."""

    def make(folder: Path) -> None:
        seed(folder)
        path = folder / file
        lines = path.suffix == ".log"
        said = (
            [json.loads(t) for t in path.read_text().splitlines()]
            if lines
            else json.loads(path.read_text())
        )
        change(said)
        path.write_text("\n".join(map(json.dumps, said)) if lines else json.dumps(said))

    return make


def _node(tree: Any, number: int) -> Any:
    return next(n for n in tree["nodes"] if n["id"] == number)


def _each_other(tree: Any) -> None:
    _node(tree, 10)["ctrl_deps"], _node(tree, 11)["ctrl_deps"] = 11, 10


def _itself(tree: Any) -> None:
    _node(tree, 10)["ctrl_deps"] = 10


def _threads(tree: Any) -> None:
    for said in _node(tree, 10)["attrs"]:
        if said["name"] == "tid":
            said["value"] = 10**9


def _wide(tree: Any) -> None:
    _node(tree, 13)["inputs"]["shapes"][1][1] = 2**65


def _linked(make: Callable[[Path], object]) -> Callable[[Path], object]:
    """The recording and, beside it, the run that it is linked into."""

    def link(folder: Path) -> None:
        make(folder)
        main(["link", str(folder), "-o", str(folder / "run"), "--jobs", "1"], standalone_mode=False)

    return link


def _world(tree: Any) -> None:
    tree["distributedInfo"]["world_size"] = 3 * 10**8


def _nested(tree: Any) -> None:
    tree["traceEvents"] += [
        {"ph": "X", "cat": "cpu_op", "name": f"f{i % 7}", "pid": 9, "tid": 77, "ts": 5000 + i * 0.01,
         "dur": 2000 - i * 0.02, "args": {}}
        for i in range(40_000)
    ]  # fmt: skip


def _stamp(value: object) -> Change:
    """A kernel whose begin is something else."""

    def change(tree: Any) -> None:
        next(e for e in tree["traceEvents"] if e.get("cat") == "kernel")["ts"] = value

    return change


def _lasting(duration: object) -> Change:
    """A kernel that takes this long."""

    def change(tree: Any) -> None:
        next(e for e in tree["traceEvents"] if e.get("cat") == "kernel")["dur"] = duration

    return change


def _one_range(tree: Any) -> None:
    first = min(e["ts"] for e in tree["traceEvents"] if "dur" in e)
    tree["traceEvents"] += [
        {"ph": "X", "cat": "user_annotation", "name": f"ProfilerStep#{k}", "pid": 9, "tid": 9, "ts": first,
         "dur": 9000.0, "args": {}}
        for k in (3, 99_999_999_999)
    ]  # fmt: skip


def _clock(days: float) -> Change:
    """A rank whose clock is so many days ahead."""

    def change(tree: Any) -> None:
        for entry in tree["entries"]:
            for key in (
                "time_created_ns",
                "time_discovered_started_ns",
                "time_discovered_completed_ns",
            ):
                entry[key] = entry[key] and entry[key] + int(days * 86400e9)

    return change


def _alone(change: Change) -> Callable[[Path], object]:
    """The flight recorder of one rank alone."""

    def make(folder: Path) -> None:
        _changed(flight_recorder, "trace_rank_0.json", change)(folder)
        (folder / "trace_rank_1.json").unlink()

    return make


def _outsider(tree: Any) -> None:
    tree["rank"] = 7


def _number_twice(tree: Any) -> None:
    tree["entries"].append(dict(tree["entries"][0]))


def _lacks_collective(tree: Any) -> None:
    tree["traceEvents"] = [e for e in tree["traceEvents"] if "nccl" not in e["name"]]


def _steps_backwards(tree: Any) -> None:
    tree["traceEvents"] += [
        {"ph": "X", "cat": "user_annotation", "name": f"ProfilerStep#{9 - k}", "pid": 9, "tid": 9,
         "ts": 2000.0 + 900 * k, "dur": 800.0, "args": {}}
        for k in range(3)
    ]  # fmt: skip


def _twice(tree: Any) -> None:
    for group in tree["pg_config"].values():
        group["ranks"] = "[0, 1, 1]"


def _other_size(tree: Any) -> None:
    for entry in tree["entries"]:
        entry["input_sizes"] = entry["output_sizes"] = [[7]]


def _other_type(tree: Any) -> None:
    for entry in tree["entries"]:
        entry["input_dtypes"] = entry["output_dtypes"] = ["Double"]


def _days_later(tree: Any) -> None:
    for key in ("coll_start", "coll_stop"):
        tree[-1]["coll_perf"]["event_trace_ts"][key] += 107 * 86400e6


def _rank_lacks(tree: Any) -> None:
    del tree[-1]


def _backwards(tree: Any) -> None:
    process = tree["rocprofiler-sdk-tool"][0]["buffer_records"]["kernel_dispatch"]
    process[0]["end_timestamp"] = process[0]["start_timestamp"] - 2000


LINK = "link {in} -o {out}"


def _observer(name: str, change: Change, says: str) -> Attack:
    return Attack(
        name, _changed(pytorch, "et_0.json", change), "link {in}/et_0.json -o {out}", says
    )


def _pytorch(
    name: str, change: Change, says: str, file: str = "kineto_0.json", exit: int = 2
) -> Attack:
    return Attack(name, _changed(pytorch, file, change), LINK, says, exit)


RECORDINGS = [
    _observer("observer: two nodes each other's parents", _each_other, "1[01], 1[01].*parents"),
    _observer("observer: a node its own parent", _itself, "node 10 is its own parent"),
    _pytorch("observer: a thread number of 10^9", _threads, "", "et_0.json", exit=0),
    Attack("observer: an operand of 2^65 columns", _linked(_changed(pytorch, "et_0.json", _wide)), "compare {in}/run {in}/run", "nothing: it takes as long", 0),
    _pytorch("Kineto: a world of 3·10^8 ranks", _world, "world_size"),
    _pytorch("Kineto: 40,000 nested events", _nested, "", exit=0),
    _pytorch("Kineto: a time that is text", _stamp("abc"), "a time that is not a number", exit=0),
    _pytorch("Kineto: a time of 2^62 µs", _stamp(2**62), "no clock shows"),
    _pytorch("Kineto: a time ten days away", _stamp(1000 + 10 * 86400e6), "nothing begins or ends for 240.0 of its 240.0 hours", exit=0),
    _pytorch("Kineto: a kernel of a day", _lasting(86400e6), "nothing begins or ends for 24.0 of its 24.0 hours", exit=0),
    _pytorch("Kineto: two names for the range of one step", _one_range, "", exit=0),
    _pytorch("Kineto: a time a hundred days away", _stamp(1000 + 100 * 86400e6), "100.0 days from the others"),
    _pytorch("Kineto: one rank lacks a collective", _lacks_collective, "linked 2 ranks", exit=0),
    _pytorch("Kineto: steps numbered backwards", _steps_backwards, "", exit=0),
    Attack("flight recorder: a rank twice in a group", _changed(flight_recorder, "trace_rank_0.json", _twice), LINK, "twice", 0),
    Attack("flight recorder: ranks disagree on sizes", _changed(flight_recorder, "trace_rank_0.json", _other_size), LINK, "contradicts itself: collective-size", 0),
    Attack("flight recorder: ranks disagree on types", _changed(flight_recorder, "trace_rank_0.json", _other_type), LINK, "contradicts itself", 0),
    Attack("flight recorder: a rank's clock is a day ahead", _changed(flight_recorder, "trace_rank_0.json", _clock(1)), LINK, "nothing begins or ends for 24.0 of", 0),
    Attack("flight recorder: ranks recorded 107 days apart", _changed(flight_recorder, "trace_rank_0.json", _clock(107)), LINK, "not ranks of one job"),
    Attack("flight recorder: a rank outside its group, alone", _alone(_outsider), LINK, "contradicts itself: not-a-member", 0),
    Attack("flight recorder: a number twice, on one rank", _alone(_number_twice), LINK, "contradicts itself: collective-seq", 0),
    Attack("Inspector: times 107 days apart", _changed(nccl_inspector, "inspector-0.log", _days_later), LINK, "days"),
    Attack("Inspector: one rank lacks a collective", _changed(nccl_inspector, "inspector-0.log", _rank_lacks), LINK, "contradicts itself: collective-missing", 0),
    Attack("rocprofv3: a kernel ends before it begins", _changed(rocprof, "results.json", _backwards), LINK, "1 events end before they begin", 0),
]  # fmt: skip
