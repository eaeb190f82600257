"""Traces, runs and bundles that no writer of ours makes, and workloads beyond every clock."""

# ruff: noqa: E501 - a table, one case a line

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

import chakrakit as ck
from fuzz.attacks.attack import Attack
from fuzz.formats.traces import bundle, card, run, traces

DAY_NS = 86_400 * 10**9
MACHINE = "--machine dgx-h100"


def _negative(folder: Path) -> None:
    made = ck.Trace.from_columns(
        {"name": ["long"], "type": [4], "duration_ns": [-5], "num_ops": [0]}
    )
    ck.write(ck.TraceSet([made]), folder / "w")


def work(**fields: object) -> Callable[[Path], object]:
    """One rank with one operation."""

    def make(folder: Path) -> None:
        t = ck.TraceBuilder()
        t.comp("long", **fields)
        ck.write(ck.TraceSet([t.build()]), folder / "w")

    return make


def _lag(folder: Path) -> None:
    t = ck.TraceBuilder()
    first, second = t.comp("a", duration_ns=1), t.comp("b", duration_ns=1)
    t.edge(first, second, lag_ns=int(213.5 * DAY_NS))
    ck.write(ck.TraceSet([t.build()]), folder / "w")


def _chain(folder: Path) -> None:
    """Eight ranks of which each works 20 days when the one before it has sent."""
    bodies = []
    for rank in range(8):
        t = ck.TraceBuilder()
        got = [t.recv("r", rank - 1, rank, 8, tag=rank)] if rank else []
        done = t.comp("work", duration_ns=20 * DAY_NS, deps=got)
        if rank < 7:
            t.send("s", rank, rank + 1, 8, tag=rank + 1, deps=[done])
        bodies.append(t.build())
    ck.write(ck.TraceSet(bodies), folder / "w")


def collective(ranks: int, kind: ck.CollectiveType, size: int) -> Callable[[Path], object]:
    """One collective of many ranks that share a body."""

    def make(folder: Path) -> None:
        t = ck.TraceBuilder()
        t.collective("c", kind, size)
        made = ck.TraceSet(
            [t.build()], {i: ck.Binding(0) for i in range(ranks)}, ck.Groups({"": range(ranks)})
        )
        ck.write(made, folder / "w")

    return make


def disagreeing(*sizes: int, **roots: tuple[int, int]) -> Callable[[Path], object]:
    """Two ranks whose broadcast or all-reduce differs."""

    def make(folder: Path) -> None:
        bodies = []
        for rank, size in enumerate(sizes):
            t = ck.TraceBuilder()
            kind = ck.CollectiveType.BROADCAST if roots else ck.CollectiveType.ALL_REDUCE
            t.collective("c", kind, size, pg_name="1", **{k: v[rank] for k, v in roots.items()})
            bodies.append(t.build())
        ck.write(ck.TraceSet(bodies, groups=ck.Groups({"1": (0, 1)})), folder / "w")

    return make


def _fewer_times(folder: Path) -> None:
    run(folder)
    for file in (folder / "run" / "times").glob("*.parquet"):
        table = pq.read_table(file)
        pq.write_table(table.slice(0, table.num_rows - 1), file)


def _late_times(folder: Path) -> None:
    run(folder)
    for file in (folder / "run" / "times").glob("*.parquet"):
        table = pq.read_table(file)
        for name in ("start", "end"):
            at = table.column_names.index(name)
            late = pa.array([107 * DAY_NS] * table.num_rows, pa.int64())
            table = table.set_column(at, name, late)
        pq.write_table(table, file)
    path = folder / "run" / "card.json"
    path.write_text(
        path.read_text()
        .replace('"tick_ps": 1\n', '"tick_ps": 999\n')
        .replace('"tick_ps": 1,', '"tick_ps": 999,')
    )


def _tick(value: int) -> Callable[[Path], object]:
    def make(folder: Path) -> None:
        run(folder)
        path = folder / "run" / "card.json"
        said = json.loads(path.read_text())
        said["tick_ps"] = value
        path.write_text(json.dumps(said))

    return make


def _roof(folder: Path) -> None:
    """A run whose device has peaks that are no numbers, and one that no float holds."""
    run(folder)
    path = folder / "run" / "card.json"
    said = json.loads(path.read_text())
    said["settings"] |= {"device_peaks": {"bf16": {"value": 1}}, "device_peak_tflops": 10**400}
    path.write_text(json.dumps(said))


def _damaged_member(folder: Path) -> None:
    """A bundle of which one byte of a trace has changed."""
    bundle(folder)
    data = bytearray((folder / "run.chakra").read_bytes())
    data[data.index(b"PAR1") + 40] ^= 0xFF
    (folder / "run.chakra").write_bytes(bytes(data))


def _compressed(folder: Path) -> None:
    """A few hundred bytes that unpack to gigabytes."""
    with pa.CompressedOutputStream(str(folder / "w.et.zst"), "zstd") as stream:
        for _ in range(64):
            stream.write(bytes(16 << 20))


def _old_set(folder: Path) -> None:
    bodies = [traces().trace(0).select([0]) for _ in range(4)]
    ck.write(ck.TraceSet(bodies), folder / "x.N.et")
    ck.write(ck.TraceSet(bodies[:2]), folder / "w.N.et")


def _diary(folder: Path) -> None:
    run(folder)
    (folder / "run" / "counters" / "mine.csv").write_text("dear diary")


def _foreign_card(folder: Path) -> None:
    run(folder)
    (folder / "d").mkdir()
    (folder / "d" / "card.json").write_text('{"name": "business"}')


def _card_of(content: bytes) -> Callable[[Path], object]:
    def make(folder: Path) -> None:
        card(folder)
        (folder / "run" / "card.json").write_bytes(content)

    return make


def _both(name: str, make: Callable[[Path], object], says: str, unsound: int = 1) -> list[Attack]:
    """What one command refuses, the others refuse as well."""
    path = "{in}/run"
    commands = (
        f"validate {path}",
        f"info {path}",
        f"analyze {path}",
        f"bundle {path} -o {{out}}.chakra",
    )
    return [
        Attack(f"{name}, {c.split()[0]}", make, c, says, unsound if c.startswith("validate") else 2)
        for c in commands
    ]


_SIMULATE = f"simulate {{in}}/w {MACHINE}"
TRACES = [
    Attack("a kernel of 213.5 days, roofline", work(duration_ns=int(213.5 * DAY_NS)), f"{_SIMULATE} --compute roofline", "50 days|53 days|days"),
    Attack("a negative duration, roofline", _negative, f"{_SIMULATE} --compute roofline", "-5"),
    Attack("a lag of 213.5 days", _lag, _SIMULATE, "days"),
    Attack("a chain of 8 ranks × 20 days", _chain, _SIMULATE, "days"),
    Attack("sizes of an all-reduce disagree", disagreeing(64, 128), _SIMULATE, "64.*128|128.*64"),
    Attack("a negative size on one rank", disagreeing(64, -1), _SIMULATE, "-1|less than 0|negative"),
    Attack("roots of a broadcast disagree", disagreeing(64, 64, comm_src=(0, 1)), _SIMULATE, "root"),
    Attack("a straggler that is not there", disagreeing(64, 64), f"{_SIMULATE} --straggler 9=2", "no rank 9"),
    Attack("all-to-all of 12,000 ranks", collective(12_000, ck.CollectiveType.ALL_TO_ALL, 1 << 20), "simulate {in}/w --machine dgx-h100:1500", ""),
    Attack("all-to-all of 20,000 ranks", collective(20_000, ck.CollectiveType.ALL_TO_ALL, 1 << 20), "simulate {in}/w --machine dgx-h100:2500", ""),
    Attack("all-reduce of 2^20 ranks", collective(1 << 20, ck.CollectiveType.ALL_REDUCE, 1 << 20), "simulate {in}/w --machine dgx-h100:131072", "131,072 is the largest", large=True),
    *_both("times with fewer rows than nodes", _fewer_times, "times"),
    *_both("times 107 days on", _late_times, "days"),
    *_both("ticks of 10^15 ps", _tick(10**15), "tick_ps"),
    *_both("ticks of 0 ps", _tick(0), "tick_ps", 2),
    Attack("a bundle with a damaged member, --check", _damaged_member, "bundle {in}/run.chakra --check", "damaged or changed", 1),
    Attack("a bundle with a damaged member, info", _damaged_member, "info {in}/run.chakra", "damaged or changed"),
    Attack("a bundle with a damaged member, validate", _damaged_member, "validate {in}/run.chakra", "damaged or changed", 1),
    Attack("1 GB of zeros in a small .et.zst", _compressed, _SIMULATE.replace("{in}/w", "{in}/w.et.zst"), ""),
    Attack("a smaller set over a larger one", _old_set, "convert {in}/w {in}/x.N.et", "of another set"),
    Attack("a run with somebody's file, replaced", _diary, "simulate {in}/run --machine dgx-h100 -o {in}/run", "would replace the workload"),
    Attack("a folder with a foreign card, replaced", _foreign_card, "simulate {in}/run --machine dgx-h100 -o {in}/d", "other things"),
    Attack("peaks that are no numbers", _roof, "analyze {in}/run", "How well is the device used", 0),
    Attack("a card that is no text", _card_of(b"\xff\xfe{"), "info {in}/run", "not a card"),
    Attack("a card nested 100,000 deep", _card_of(b'{"extra":' + b"[" * 100_000), "info {in}/run", "not a card"),
]  # fmt: skip
