"""Traces, runs, bundles and cards: what every command reads."""

from __future__ import annotations

from pathlib import Path

import chakrakit as ck
from fuzz.fuzz_format import Format, Step
from fuzz.hostile import mutated_bytes
from fuzz.mutation import mutate_bundle, mutate_json, mutate_parquet, mutate_protobuf, mutate_yaml
from support.job_traces import write_job

RUN = "{in}/run"
LOOK: tuple[Step, ...] = (
    ("info", RUN),
    ("validate", RUN),
    ("validate", RUN, "--fix", "-o", "{out}"),
    ("analyze", RUN, "--faster", "compute=2"),
    ("compare", RUN, RUN),
    ("report", RUN, "-o", "{out}.html"),
    ("simulate", RUN, "--machine", "dgx-h100"),
    ("simulate", RUN, "--machine", "dgx-h100", "--compute", "roofline", "--network", "analytical"),
    ("simulate", RUN, "--compute", "measured", "--communication", "measured"),
    ("export", RUN, "{out}.pftrace"),
    ("export", RUN, "{out}.json"),
    ("export", RUN, "{out}.dot"),
    ("convert", RUN, "{out}.N.et"),
    ("convert", RUN, "{out}.N.json"),
    ("convert", RUN, "{out}"),
    ("query", RUN, "SELECT * FROM nodes, collectives, calls, messages, ranks LIMIT 5"),
    ("bundle", RUN, "-o", "{out}.chakra"),
    ("replay", RUN, "--mode", "emulate", "--export", "{out}"),
    ("transform", RUN, "--pass", "scale-ranks{ranks=4, over=[1]}", "-o", "{out}"),
    ("transform", RUN, "--pass", "compact", "-o", "{out}"),
    ("transform", RUN, "--pass", "portable", "-o", "{out}.N.et"),
    ("transform", RUN, "--pass", "anonymize", "-o", "{out}"),
    ("transform", RUN, "--pass", "edit{scale=0.5}", "--pass", "select{ranks=[0]}", "-o", "{out}"),
)
READ = ("info", RUN)


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
    return tuple(
        tuple(w.replace(RUN, RUN + suffix) for w in s) for s in LOOK if isinstance(s, tuple)
    )


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


_DIRECTORY = {
    "run/*.json": mutate_json,
    "run/*.et": mutate_protobuf,
    "run/*.parquet": mutate_parquet,
    "run/*/*.parquet": mutate_parquet,
}

TRACES = [
    Format("run", run, _DIRECTORY, READ, LOOK),
    Format("folded-run", folded_run, _DIRECTORY, READ, LOOK),
    Format("et", one_file(".et"), {"*": mutate_protobuf}, ("info", RUN + ".et"), _of(".et")),
    Format("et-zst", one_file(".et.zst"), {"*": mutated_bytes}, ("info", RUN + ".et.zst"), _of(".et.zst")),
    Format("et-gz", one_file(".et.gz"), {"*": mutated_bytes}, ("info", RUN + ".et.gz"), _of(".et.gz")),
    Format("json", one_file(".json"), {"*": mutate_json}, ("info", RUN + ".json"), _of(".json")),
    Format("feeder-json", one_file(".feeder.json"), {"*": mutate_json},
           ("info", RUN + ".feeder.json"), _of(".feeder.json")),
    Format("parquet", one_file(".parquet"), {"*": mutate_parquet},
           ("info", RUN + ".parquet"), _of(".parquet")),
    Format("bundle", bundle, {"*": mutate_bundle}, ("bundle", "{in}/run.chakra", "--check"), _of(".chakra")),
    Format("card", card, {"card.yaml": mutate_yaml},
           ("bundle", RUN, "--card", "{in}/card.yaml", "-o", "{out}.chakra"), (("info", "{out}.chakra"),)),
    Format("job-trace", job_trace, {"*": mutate_parquet}, ("analyze", RUN + ".parquet"), _of(".parquet")),
]  # fmt: skip
