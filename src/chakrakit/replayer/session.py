"""`replay`: a trace compiled, exported, run on this machine, and its result read back."""

from __future__ import annotations

import gzip
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from importlib.resources import files
from importlib.resources.abc import Traversable
from importlib.util import find_spec
from pathlib import Path

import msgspec

from chakrakit.errors import ChakraError, ConfigError, FormatError, MissingExtra, TraceError
from chakrakit.replayer.compile import compile_rank
from chakrakit.replayer.emulate import EmulationPlan, emulate_rank
from chakrakit.replayer.options import ReplayOptions
from chakrakit.replayer.plan import ReplayPlan
from chakrakit.replayer.ranks import ReplayWorld
from chakrakit.replayer.recording import (
    RecordedRows,
    issue_levels,
    load_traces,
    one_step,
    read_settings,
)
from chakrakit.replayer.result import (
    SUMMARY,
    AnyPlan,
    Original,
    ReplayReport,
    Summary,
    read_report,
    replayed_run,
    summarize,
)
from chakrakit.replayer.runner import FOLLOWED, PIPE
from chakrakit.trace.communication import Binding
from chakrakit.trace.files import scratch
from chakrakit.trace.model import Trace
from chakrakit.trace.sets import Card, TraceSet, recorded_step_of
from chakrakit.trace.storage import fresh_directory, write

# A replay as a folder: plans, runner and the trace they came from; `python FOLDER/run.py` runs it.


_RUN = '''\
"""Replays the trace in this folder with PyTorch alone; see --help."""

import sys
from pathlib import Path

FOLDER = Path(__file__).resolve().parent
sys.path.insert(0, str(FOLDER))

from runner.main import main  # noqa: E402

if __name__ == "__main__":
    sys.exit(main(FOLDER))
'''


RESULTS, TRACE = "result", "trace"
"""Folders inside an exported one: what the runner writes, and the step it replays."""


def _copy_code(source: Traversable, target: Path) -> None:
    """Python files of a folder and of those in it, and the list of operators."""
    target.mkdir(parents=True, exist_ok=True)
    for item in source.iterdir():
        if item.is_dir() and item.name != "__pycache__":
            _copy_code(item, target / item.name)
        elif item.name.endswith((".py", ".txt")):
            (target / item.name).write_bytes(item.read_bytes())


def export_plans(
    plans: Sequence[AnyPlan], traces: TraceSet, folder: Path, original: list[Original]
) -> None:
    """Write plans, runner and trace into a new folder, moved into place when it is whole."""
    if folder.exists() and any(folder.iterdir() if folder.is_dir() else [folder]):
        raise ConfigError(f"{folder} exists and is not empty; export to a new folder")
    with fresh_directory(folder) as part:
        _fill(part, plans, traces, original)


def _fill(part: Path, plans: Sequence[AnyPlan], traces: TraceSet, original: list[Original]) -> None:
    _copy_code(files("chakrakit.replayer.runner"), part / "runner")
    (part / "run.py").write_text(_RUN)
    ranks = [summarize(p) for p in plans]
    told = recorded_step_of(traces.card)
    summary = Summary(plans[0].mode, plans[0].device, ranks, told, original)
    (part / SUMMARY).write_bytes(msgspec.json.format(msgspec.json.encode(summary), indent=1))
    if isinstance(plans[0], EmulationPlan):  # its nodes get the times that are measured
        write(traces, part / TRACE)
    for rank, plan in enumerate(plans):
        data = gzip.compress(msgspec.json.encode(plan), 9, mtime=0)
        (part / f"plan_{rank}.json.gz").write_bytes(data)


class ReplayFailed(ChakraError):  # noqa: N818 - reads as what happened
    """A rank of a replay ended badly; the message is what the runner said."""


@dataclass(frozen=True)
class Prepared:
    """Plans of all ranks, and the step of the trace they come from."""

    plans: list[ReplayPlan] | list[EmulationPlan]
    traces: TraceSet
    original: list[Original]
    """What was recorded, for each recorded rank."""


def prepare(traces: TraceSet, options: ReplayOptions) -> Prepared:
    """Compile a step for every rank of the replay; everything that can be checked is."""
    found = one_step(traces, options.step)
    size = options.nproc or len(found)
    world = ReplayWorld(tuple(found), size, traces.groups)
    groups = world.all_groups()
    seen = {rank: _recording(rank, trace, traces.card) for rank, trace in found.items()}
    for recording in seen.values():
        _check_order(recording)
    if not any(t.start_ns.any() for t in found.values()):
        levels = issue_levels(found)
        seen = {rank: replace(recording, level=levels[rank]) for rank, recording in seen.items()}
    ranks = [(seen[world.recorded_rank(r)], world, r, groups, options) for r in range(size)]
    step = TraceSet(
        [seen[r].trace for r in found],
        {r: Binding(r % len(found), world.renamed(r)) for r in range(size)},
        world.named_groups(),
        _card(traces),
    )
    original = [_original(seen[r]) for r in found]
    if options.mode in ("comm", "emulate"):
        return Prepared([emulate_rank(*r) for r in ranks], step, original)
    return Prepared([compile_rank(*r) for r in ranks], step, original)


def _recording(rank: int, trace: Trace, card: Card) -> RecordedRows:
    plain = RecordedRows(rank, trace)
    return replace(plain, settings=read_settings(card, list(plain.kernels)))


def _original(seen: RecordedRows) -> Original:
    """What a replay of this rank is compared with."""
    span = seen.trace.end_ns.max() - seen.trace.start_ns.min()
    return Original(int(span), seen.kernel_ns, dict(seen.kernels))


def _card(traces: TraceSet) -> Card:
    """What is known of the recorded step goes along: it is what a replay is compared with."""
    card = Card(name=traces.card.name, tool="chakra replay", source=traces.card.source)
    known = recorded_step_of(traces.card)
    return known.put(card) if known else card


def _check_order(seen: RecordedRows) -> None:
    """What waits for itself can be done in no order."""
    circle = seen.trace.graph.find_cycle()
    if circle is not None and len(circle):
        place = seen.place(int(circle[0]))
        raise TraceError(
            f"{place} waits for itself, over {len(circle)} nodes; chakra validate --fix"
        )


def export(path: str, folder: Path, options: ReplayOptions) -> Prepared:
    """Compile a trace into a folder that runs by itself."""
    made = prepare(load_traces(path), options)
    export_plans(made.plans, made.traces, folder, made.original)
    return made


def replay(
    path: str,
    options: ReplayOptions,
    *,
    iterations: int = 10,
    warmup: int = 3,
    timeout_s: float = 300.0,
    output: Path | None = None,
) -> ReplayReport | None:
    """Replay a trace on this machine; with `output`, leave the replayed run there.

    `path` may also be a folder made by `export` that was run elsewhere: then only its result is read.
    Under torchrun every rank calls this, and only the first gets the report; the others get None.
    """
    folder = Path(path)
    if (folder / SUMMARY).is_file():
        return finish(folder, output)
    if find_spec("torch") is None:
        raise MissingExtra("replay", "torch")
    ranks = int(os.environ.get("WORLD_SIZE", 0)) if "RANK" in os.environ else 0
    with scratch("chakra-replay") as folder:
        place = folder / "replay"
        export(path, place, replace(options, nproc=ranks) if ranks else options)
        command = [
            sys.executable,
            str(place / "run.py"),
            "--iterations",
            str(iterations),
            "--warmup",
            str(warmup),
            "--timeout",
            str(timeout_s),
        ]
        if options.allow_generated_code:
            command.append("--allow-generated-code")
        if output is None and options.device == "cpu":
            command.append("--no-profile")
        if ranks:
            return _under_torchrun(command, place, ranks, timeout_s, output)
        run_folder(command, temporary=folder)
        return finish(place, output)


def _under_torchrun(
    command: list[str], place: Path, ranks: int, timeout_s: float, output: Path | None
) -> ReplayReport | None:
    """One rank of several that torchrun started: they meet in a folder of the machine's temporary one."""
    run = f"{os.environ.get('TORCHELASTIC_RUN_ID', '')}-{os.environ.get('MASTER_PORT', '')}"
    results = Path(tempfile.gettempdir()) / f"chakra-replay-{os.getuid()}-{run}"
    first = os.environ["RANK"] == "0"
    if first:  # nobody ends before this rank has begun, so what is there is of another time
        shutil.rmtree(results, ignore_errors=True)
        results.mkdir(mode=0o700)
    run_folder([*command, "--out", str(results)])
    if not first:
        return None
    wanted = [results / f"rank_{r}.json" for r in range(ranks)]
    deadline = time.monotonic() + timeout_s
    while not all(p.is_file() for p in wanted) and time.monotonic() < deadline:
        time.sleep(0.05)
    try:
        return finish(place, output, results)
    finally:
        shutil.rmtree(results, ignore_errors=True)


def run_folder(command: list[str], temporary: Path | None = None) -> None:
    """Run an exported folder; what it says of an error becomes one. It does not outlive this process.

    What the runner puts into the machine's temporary folder goes to `temporary`.
    """
    place = {} if temporary is None else {"TMPDIR": str(temporary)}
    reader, writer = os.pipe()
    try:
        with subprocess.Popen(
            command,
            stderr=subprocess.PIPE,
            text=True,
            errors="replace",
            pass_fds=[reader],
            env={**os.environ, **place, PIPE: str(reader)},
        ) as process:
            os.close(reader)
            assert process.stderr is not None
            try:
                said = process.stderr.read()
            except BaseException:
                process.terminate()
                raise
    finally:
        os.close(writer)
    if process.returncode:
        raise ReplayFailed(_explain(said.splitlines(), process.returncode))


def _explain(lines: list[str], code: int) -> str:
    """What the starter said, and of the ranks the one that failed first by itself."""
    told = [line.removeprefix("error: ") for line in lines if line.startswith("error: ")]
    own = [
        line.replace("error: ", "", 1)
        for line in lines
        if line.startswith("rank ") and ": error: " in line and FOLLOWED not in line
    ]
    if told or own:
        return "; ".join([*told[:1], *own[:1]])
    return "\n".join(lines[-5:]) or f"the replay ended with code {code}"


def finish(folder: Path, output: Path | None, results: Path | None = None) -> ReplayReport:
    """The report of a folder that was run, and its run."""
    results = results or folder / RESULTS
    if not results.is_dir():
        raise FormatError(f"has not been run; run python {folder}/run.py first", path=str(folder))
    report = read_report(folder, results)
    if output is not None:
        from chakrakit.trace.storage import write

        write(replayed_run(folder, results, report), output)
    return report
