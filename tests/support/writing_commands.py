"""Every command that writes, with what it needs and what lies at its output before."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from support.interrupting import Command
from support.paths import DATA, EXAMPLES

_MODEL = ("--model", "gpt3-125m", "--layers", "2", "--seq", "32", "--global-batch", "8")
_SMALL = "poisson{rate=4,prompt=64,output=8,n=30}"
_JOB = """\
step_seconds: 10
steps: 4000
cluster: {nodes: 16, spares: 1}
failures: {node_mtbf_hours: 500}
checkpoint: {interval_steps: 100, seconds: 5}
recovery: restart
"""
_STUDY = """\
name: tiny
workload:
  model: {base: llama3.1-8b, layers: 1, hidden: 256, ffn: 512, heads: 4, kv_heads: 2, vocab: 1000}
  step: {seq: 16, global_batch: 4}
ranks: 4
axes: {plan.tp: [1, 2]}
machines: [dgx-h100]
simulate: {compute: roofline}
"""
_PROGRAM = """\
from chakrakit.simulator import live


def ping(me, other):
    for turn in range(200):
        yield live.send(other, 1000, turn)
        yield live.receive()


def pong(me, other):
    for turn in range(200):
        yield live.receive()
        yield live.send(other, 1000, turn)


def program(world):
    world.actor(ping, "b", name="a")
    world.actor(pong, "a", name="b")
"""

_COLLECTIVES = "collective,members,bytes,time_us\n" + "".join(
    f"{name},{members},{1 << k},{8 + (1 << k) / 1e5}\n"
    for name in ("all_reduce", "all_gather")
    for members in (2, 8)
    for k in range(10, 20, 2)
)


def _chakra(*words: str) -> None:
    code = "import sys; from chakrakit.commands import main; main(sys.argv[1:])"
    subprocess.run([sys.executable, "-c", code, *words], check=True, stdout=subprocess.DEVNULL)


def make_inputs(folder: Path) -> None:
    """Traces, two runs, a recording, a bundle, a job and a study, in a process of their own.

    The process that starts the commands has to stay without threads.
    """
    _chakra("generate", *_MODEL, "--dp", "8", "-o", f"{folder}/w")
    for name, machine in (("run", "dgx-h100"), ("other", "dgx-a100")):
        roofline = ("--machine", machine, "--compute", "roofline")
        _chakra("simulate", f"{folder}/w", *roofline, "-o", f"{folder}/{name}")
    _chakra("generate", *_MODEL, "--dp", "8", "--recompute", "full", "-o", f"{folder}/before")
    _chakra("generate", *_MODEL, "--dp", "8", "--recompute", "full", "-o", f"{folder}/before.N.et")
    _chakra("bundle", f"{folder}/run", "-o", f"{folder}/run.chakra")
    shutil.copytree(DATA / "pytorch" / "cnn_ddp_2", folder / "recorded")
    _chakra("link", f"{folder}/recorded", "-o", f"{folder}/linked")
    rows = [
        {"op": "mm", "shape": [n, n, n], "us": n / 9, "flops": 2.0 * n**3} for n in range(9, 999)
    ]
    (folder / "micro.json").write_text(json.dumps({"gpu": "some", "rows": rows}))
    (folder / "collectives.csv").write_text(_COLLECTIVES)
    (folder / "job.yaml").write_text(_JOB)
    (folder / "study.yaml").write_text(_STUDY)
    (folder / "program.py").write_text(_PROGRAM)
    _make_library(folder)
    Old.inputs = folder


def _make_library(folder: Path) -> None:
    place = folder / "library"
    place.mkdir()
    _chakra("bundle", f"{folder}/w", "-o", f"{place}/one.chakra")
    code = (
        "import sys; from pathlib import Path; from chakrakit.trace.library import entry_of, write_index\n"
        "place = Path(sys.argv[1])\n"
        "write_index(place, [entry_of(place / 'one.chakra', machine='dgx-h100', step_ns=1e6)])"
    )
    subprocess.run([sys.executable, "-c", code, str(place)], check=True)


class Old:
    """What lies at an output before the command: copies of inputs."""

    inputs = Path()

    @staticmethod
    def folder(source: str, name: str = "o") -> Callable[[Path], object]:
        """A directory of another trace."""
        return lambda out: shutil.copytree(Old.inputs / source, out / name)

    @staticmethod
    def ranks(name: str = "o") -> Callable[[Path], object]:
        """One file per rank of another trace."""

        def copy(out: Path) -> None:
            for file in Old.inputs.glob("before.*.et"):
                shutil.copy(file, out / file.name.replace("before", name))
            if (Old.inputs / "before.json").exists():
                shutil.copy(Old.inputs / "before.json", out / f"{name}.json")

        return copy

    @staticmethod
    def file(name: str) -> Callable[[Path], object]:
        """A file of something else."""
        return lambda out: (out / name).write_text("old\n")


_TRAIN = str(EXAMPLES / "collect_ddp" / "train.py")
_TORCHRUN = (sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "1")
_ALL = [
    Command("generate", ("generate", *_MODEL, "--dp", "8", "-o", "{out}/o"), Old.folder("before")),
    Command("generate-ranks", ("generate", *_MODEL, "--dp", "8", "-o", "{out}/o.N.et"), Old.ranks()),
    Command("convert", ("convert", "{in}/w", "{out}/o.N.et"), Old.ranks()),
    Command("convert-json", ("convert", "{in}/w", "{out}/o.N.json")),
    Command("convert-parquet", ("convert", "{in}/w", "{out}/o.N.parquet")),
    Command("convert-one", ("convert", "{in}/before.0.et", "{out}/o.et.zst"), Old.file("o.et.zst")),
    Command("transform", ("transform", "{in}/w", "--pass", "compact", "-o", "{out}/o"), Old.folder("before")),
    Command("simulate", ("simulate", "{in}/w", "--machine", "dgx-h100", "--compute", "roofline",
                         "-o", "{out}/o"), Old.folder("other")),
    Command("simulate-jobs", ("simulate", "{in}/w", "{in}/before", "--machine", "dgx-h100:2", "--compute",
                              "roofline", "-o", "{out}/o")),
    Command("link", ("link", "{in}/recorded", "-o", "{out}/o"), Old.folder("other")),
    Command("bundle", ("bundle", "{in}/run", "-o", "{out}/o.chakra"), Old.file("o.chakra")),
    Command("extract", ("bundle", "{in}/run.chakra", "--extract", "{out}/o")),
    Command("fix", ("validate", "{in}/before.0.et", "--fix", "-o", "{out}/o.et"), Old.file("o.et")),
    Command("timeline", ("export", "{in}/run", "{out}/o.pftrace"), Old.file("o.pftrace")),
    Command("chrome", ("export", "{in}/run", "{out}/o.json"), Old.file("o.json")),
    Command("graph", ("export", "{in}/run", "{out}/o.dot"), Old.file("o.dot")),
    Command("report", ("report", "{in}/run", "-o", "{out}/o.html"), Old.file("o.html")),
    Command("calibrate", ("calibrate", "{in}/micro.json", "-o", "{out}/o.json"), Old.file("o.json")),
    Command("calibrate-library", ("calibrate", "--collectives", "--machine", "dgx-h100",
                                  "{in}/collectives.csv", "-o", "{out}/o.json"), Old.file("o.json")),
    Command("campaign", ("campaign", "{in}/job.yaml", "--histories", "5", "-o", "{out}/o"),
            Old.folder("other")),
    Command("serve", ("serve", "--model", "gpt3-125m", "--machine", "dgx-h100", "--compute", "roofline",
                      "--requests", _SMALL, "-o", "{out}/o"), Old.folder("other")),
    Command("search", ("search", "--model", "gpt3-125m", "--gpus", "2", "--machine", "dgx-h100",
                       "--seq", "64", "--batch", "2", "--compute", "roofline",
                       "-o", "{out}/o"), Old.folder("before")),
    Command("export-replay", ("replay", "{in}/linked", "--export", "{out}/o")),
    Command("get", ("get", "one", "--from", "{in}/library", "-o", "{out}/o")),
    Command("live", ("live", "{in}/program.py", "-o", "{out}/o"), Old.folder("other")),
    Command("conformance", ("conformance", "-o", "{out}/o")),
    Command("demo", ("demo", "-o", "{out}/o"), resumes=True),
    Command("study", ("study", "A23", "--quick", "-o", "{out}/o", "--jobs", "2"), varies=True, resumes=True),
    Command("sweep-workers", ("sweep", "{in}/study.yaml", "-o", "{out}/o", "--jobs", "2"), varies=True,
            resumes=True),
    Command("sweep", ("sweep", "{in}/study.yaml", "-o", "{out}/o", "--jobs", "1"), varies=True, resumes=True),
]  # fmt: skip
_WITH_PYTORCH = [
    Command("replay", ("replay", "{in}/linked", "--iterations", "2", "--warmup", "0", "-o", "{out}/o"),
            Old.folder("other"), varies=True),
    Command("collect", ("collect", "--steps", "1:2", "-o", "{out}/o", "--", *_TORCHRUN, _TRAIN),
            Old.folder("other"), varies=True),
    Command("capture", ("capture", "--ranks", "2", "-o", "{out}/o", "--", sys.executable, _TRAIN),
            Old.folder("other")),
]  # fmt: skip
COMMANDS = {command.name: command for command in _ALL}
WITH_PYTORCH = {command.name: command for command in _WITH_PYTORCH}
"""These take seconds each: they are stopped by hand."""
