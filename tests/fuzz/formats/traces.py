"""Traces, runs, bundles and cards: what every command reads."""

from __future__ import annotations

from pathlib import Path

import chakrakit as ck
from chakrakit.sources import read_job_trace
from fuzz.fuzz_format import Format, Step
from fuzz.mutation import Mutate, gzipped, mutate_bundle, mutate_json, mutate_parquet, mutate_yaml
from fuzz.near_valid import mutate_et, mutate_pages, zstd_packed
from fuzz.properties import accepted, kept, then_accepted, written
from support.job_traces import write_job

LOOK = (
    "info {in}/run",
    "validate {in}/run",
    "validate {in}/run --fix -o {out}",
    "analyze {in}/run --faster compute=2",
    "compare {in}/run {in}/run",
    "report {in}/run -o {out}.html",
    "simulate {in}/run --machine dgx-h100",
    "simulate {in}/run --machine dgx-h100 --compute roofline --network analytical",
    "simulate {in}/run --compute measured --communication measured",
    "export {in}/run {out}.pftrace",
    "export {in}/run {out}.json",
    "export {in}/run {out}.dot",
    "convert {in}/run {out}.N.et",
    "convert {in}/run {out}.N.json",
    "convert {in}/run {out}",
    "query {in}/run 'SELECT * FROM nodes, collectives, calls, messages, ranks LIMIT 5'",
    "bundle {in}/run -o {out}.chakra",
    "replay {in}/run --mode emulate --export {out}",
    "transform {in}/run --pass 'scale-ranks{ranks=4, over=[1]}' -o {out}",
    "transform {in}/run --pass compact -o {out}",
    "transform {in}/run --pass portable -o {out}.N.et",
    "transform {in}/run --pass anonymize -o {out}",
    "transform {in}/run --pass edit{scale=0.5} --pass select{ranks=[0]} -o {out}",
)


TAKERS = (
    "info {in}/run",
    "analyze {in}/run",
    "compare {in}/run {in}/run",
    "report {in}/run -o {out}.html",
    "export {in}/run {out}.pftrace",
    "export {in}/run {out}.json",
    "export {in}/run {out}.dot",
    "convert {in}/run {out}.N.et",
    "convert {in}/run {out}.N.json",
    "convert {in}/run {out}",
    "query {in}/run 'SELECT * FROM nodes, collectives, calls, messages, ranks LIMIT 5'",
    "bundle {in}/run -o {out}.chakra",
    "simulate {in}/run --machine dgx-h100",
    "transform {in}/run --pass compact -o {out}",
    "transform {in}/run --pass anonymize -o {out}",
)
"""Commands that take every run; a file without times is taken by those that do not look at times."""
WRITERS = (
    ("validate {in}/run --fix -o {out}.et", "{out}.et"),
    ("convert {in}/run {out}/", "{out}"),
    ("convert {in}/run {out}.N.json", "{out}"),
    ("bundle {in}/run -o {out}.chakra", "{out}.chakra"),
    ("simulate {in}/run --machine dgx-h100 -o {out}", "{out}"),
    ("transform {in}/run --pass compact -o {out}", "{out}"),
    ("transform {in}/run --pass portable -o {out}", "{out}"),
    ("transform {in}/run --pass anonymize -o {out}", "{out}"),
    ("transform {in}/run --pass edit{scale=0.5} -o {out}", "{out}"),
)


def _holding(suffix: str = "", whole: bool = True) -> tuple[Step, ...]:
    """The properties of a trace that is read from a place with this suffix."""
    place = "{in}/run" + suffix
    return (
        *(
            accepted(line.replace("{in}/run", place))
            for line in TAKERS
            if whole or not _of_all(line)
        ),
        *(
            written(line.replace("{in}/run", place), o)
            for line, o in WRITERS
            if whole or not _of_all(line)
        ),
    )


def _of_all(line: str) -> bool:
    """Whether a command needs times, or all ranks and their groups, which one rank's file does not have."""
    commands = ("analyze", "compare", "report", "simulate", "export {in}/run {out}.pftrace")
    return line.startswith((*commands, "export {in}/run {out}.json")) or "portable" in line


def traces() -> ck.TraceSet:
    """Two ranks with computation, collectives and a message."""
    bodies = []
    for rank in (0, 1):
        t = ck.TraceBuilder()
        first = t.comp("mm", duration_ns=1000, num_ops=10**9, tensor_size=4096)
        sent = t.send("s", 0, 1, 64, tag=1, deps=[first]) if rank == 0 else None
        got = t.recv("r", 0, 1, 64, tag=1, deps=[first]) if rank == 1 else sent
        last = t.collective("ar", ck.CollectiveType.ALL_REDUCE, 1 << 20, deps=[got], pg_name="1")
        t.comp("step", duration_ns=500, deps=[last], num_ops=10, tensor_size=8, stream=7, tid=3)
        bodies.append(t.build())
    return ck.TraceSet(bodies, groups=ck.Groups({"1": (0, 1)}))


def run(folder: Path) -> None:
    """A simulated run as a directory, with times and counters."""
    ck.simulate(traces(), "dgx-h100", compute="roofline", output=folder / "run", detail="full")


def folded_run(folder: Path) -> None:
    """A run whose ranks share bodies."""
    made = ck.generate(model="gpt3-125m", layers=1, dp=2, seq=16, global_batch=2).traces
    ck.simulate(made, "dgx-h100", compute="roofline", output=folder / "run")


def one_file(suffix: str) -> Step:
    """The first rank alone, as a file."""

    def write(folder: Path) -> None:
        made = traces()
        ck.write(ck.TraceSet([made.trace(0)], groups=made.groups), folder / f"run{suffix}")

    return write


def _of(suffix: str) -> tuple[Step, ...]:
    return tuple(command.replace("{in}/run", "{in}/run" + suffix) for command in LOOK)


_OPENS = tuple(
    then_accepted("bundle {in}/run.chakra --check", line.replace("{in}/run", "{in}/run.chakra"))
    for line in TAKERS
)
_FORMATS = (".et", ".et.gz", ".et.zst", ".json", ".parquet")


def bundle(folder: Path) -> None:
    """A run packed."""
    made = ck.simulate(traces(), "dgx-h100", compute="roofline").run()
    ck.bundle(made, folder / "run.chakra", fields=["workload.data.seq_len=4"])


CARD = """\
description: a tiny run
contributor: A. Person
workload:
  model: {phase: training, moe: false, precision: bf16, model_arch: {num_params: 1000, num_layers: 2}}
  data: {batch_size: 4, seq_len: 16, dataset: none}
  hardware: {xpu_spec: {type: H100, total_count: 8},
             network_topo: {topology: rail, bandwidth_gbps: [400, 900]}}
extra: {note: hello, list: [1, 2]}
"""


def card(folder: Path) -> None:
    """Traces and a card beside them."""
    ck.write(traces(), folder / "run")
    (folder / "card.yaml").write_text(CARD)


def job_trace(folder: Path) -> None:
    """A job's table of operations."""
    write_job(folder / "run.parquet", replicas=2, stages=2, batches=2, steps=(1,))


def _read(folder: Path) -> None:
    """Everything that a set or run says of itself and of its ranks."""
    [found] = [p for p in folder.iterdir() if p.name.startswith("run")]
    traces = ck.read(found)
    for rank in traces.ranks:
        trace = traces.trace(rank)
        assert trace.graph.n == len(trace)
        if isinstance(traces, ck.Run):
            traces.times_of(rank)
    assert traces.collectives is not None


def _read_job(folder: Path) -> None:
    read_job_trace(folder / "run.parquet")


_DIRECTORY = {
    "run/*.json": mutate_json,
    "run/*.et": mutate_et,
    "run/*.parquet": mutate_pages,
    "run/*/*.parquet": mutate_pages,
}


def _file(name: str, suffix: str, mutate: Mutate) -> Format:
    """A single rank's trace in a file."""
    holding = _holding(suffix, whole=False)
    if suffix in _FORMATS:
        holding += tuple(kept(suffix, between) for between in _FORMATS if between != suffix)
    return Format(name, one_file(suffix), {"*": mutate}, _read, _of(suffix), holds=holding)


TRACES = [
    Format("run", run, _DIRECTORY, _read, LOOK, holds=_holding()),
    Format("folded-run", folded_run, _DIRECTORY, _read, LOOK, holds=_holding()),
    _file("et", ".et", mutate_et),
    _file("et-zst", ".et.zst", zstd_packed(mutate_et)),
    _file("et-gz", ".et.gz", gzipped(mutate_et)),
    _file("json", ".json", mutate_json),
    _file("feeder-json", ".feeder.json", mutate_json),
    _file("parquet", ".parquet", mutate_pages),
    Format(
        "bundle",
        bundle,
        {"*": mutate_bundle},
        "bundle {in}/run.chakra --check",
        _of(".chakra"),
        holds=(*_holding(".chakra"), *_OPENS),
    ),
    Format(
        "card",
        card,
        {"card.yaml": mutate_yaml},
        "bundle {in}/run --card {in}/card.yaml -o {out}.chakra",
        ("info {out}.chakra",),
    ),
    Format(
        "job-trace",
        job_trace,
        {"*": mutate_parquet},
        _read_job,
        ("analyze {in}/run.parquet", "report {in}/run.parquet -o {out}.html"),
    ),
]
