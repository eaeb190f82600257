"""Collect and link in one go: in a program that asks for it, or around one that does not."""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec

from chakrakit.configuration import read_json
from chakrakit.errors import ChakraError, ConfigError, MissingExtra
from chakrakit.parallel import KEEPER
from chakrakit.sources.pytorch.linking import LinkOptions, LinkReport, link
from chakrakit.sources.pytorch.recorder import (
    ENVIRONMENT,
    FOLDER,
    Collector,
    parse_steps,
    rank,
    world_size,
)
from chakrakit.trace.files import scratch, uninterrupted
from chakrakit.trace.sets import Run
from chakrakit.trace.storage import check_output, fresh_directory, write

_WRITTEN = re.compile(r"((et|kineto|times|capture_\d+)_\d+\.json\.gz|card_\d+\.json)(\.part)?")
"""Names of files that collecting writes; others in its folder are never replaced."""


class _RankCard(msgspec.Struct):
    world_size: int


def raw_folder(directory: Path) -> Path:
    """The folder for what the profiler wrote, beside the run's directory."""
    return directory.with_name(directory.name + "-raw")


def check_raw(raw: Path) -> None:
    """Raise a ChakraError if the folder holds anything that collecting did not write."""
    if raw.exists() and not raw.is_dir():
        raise ChakraError(f"{raw}: exists and is not a directory; give another -o, or move it")
    names = sorted(f.name for f in raw.iterdir()) if raw.is_dir() else []
    foreign = [name for name in names if not _WRITTEN.fullmatch(name)]
    if foreign:
        raise ChakraError(
            f"{raw}: is where the recording goes, and has other things in it ({foreign[0]}); "
            "give another -o, or move them"
        )


def recordings(raw: Path) -> list[Path]:
    """The recordings of all ranks; a ConfigError if there are none."""
    names = ("et", "kineto", "capture")
    paths = sorted(p for name in names for p in raw.glob(f"{name}_*.json.gz"))
    if not paths:
        raise ConfigError(
            "nothing was recorded: the program ended before the first of the steps asked for, or took no "
            "optimizer step; give earlier --steps, or name the call that ends a step with --step-ends"
        )
    return paths


def time_recordings(raw: Path) -> tuple[Path, ...]:
    """Kineto's recordings without the observer, by rank."""
    return tuple(sorted(raw.glob("times_*.json.gz"), key=_rank_of))


def _rank_of(path: Path) -> int:
    return int(path.name.split("_")[1].split(".")[0])


def missing_cards(raw: Path, ranks: int) -> list[int]:
    """The ranks that have not written their card, which is the last file of each."""
    return [r for r in range(ranks) if not (raw / f"card_{r}.json").exists()]


def is_complete(raw: Path) -> bool:
    """Whether all ranks have written their cards."""
    cards = [read_json(p, _RankCard, "a rank's card") for p in raw.glob("card_*.json")]
    return bool(cards) and not missing_cards(raw, max(c.world_size for c in cards))


_SITE = """\
import importlib.util
import os
import sys

sys.path.remove(os.path.dirname(os.path.abspath(__file__)))
spec = importlib.util.spec_from_file_location(
    "chakra_recorder", {path!r} + "/__init__.py", submodule_search_locations=[{path!r}]
)
module = importlib.util.module_from_spec(spec)
sys.modules["chakra_recorder"] = module
spec.loader.exec_module(module)
module.install_from_environment()
# Ours stood in front of one that the machine may have.
own = sys.modules.pop("sitecustomize", None)
try:
    import sitecustomize
except ImportError:
    sys.modules["sitecustomize"] = own  # Python looks for it there when this file ends
"""


class Collection:
    """The recording of the surrounding program; `chakrakit.collect` says how to use it.

    Every rank records itself; rank 0 waits for the others' files and links them all. `report` is
    what `chakra link` says, on rank 0, after the context is left.
    """

    def __init__(
        self,
        directory: str | os.PathLike[str],
        steps: tuple[int, int] | str = (10, 12),
        *,
        two_pass: bool | None = None,
        stacks: bool = False,
        wait_s: float = 120.0,
    ) -> None:
        self.directory = Path(directory)
        self.wait_s = wait_s
        self.report: LinkReport | None = None
        window = parse_steps(steps) if isinstance(steps, str) else steps
        self._raw = raw_folder(self.directory)
        self._collector = Collector(self._raw, window, two_pass=two_pass, stacks=stacks)

    def __enter__(self) -> Collection:
        check_raw(self._raw)
        check_output(self.directory)
        try:
            self._collector.__enter__()
        except ModuleNotFoundError as error:
            if error.name != "torch":
                raise
            raise MissingExtra("collecting", "torch") from None
        return self

    def step(self) -> None:
        """Tell the collector that a step has ended."""
        self._collector.step()

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        mine, everyone = rank(), world_size()
        self._collector.finish()
        if kind is None and mine == 0:
            _wait_for(self._raw, everyone, self.wait_s)
            run, self.report = link_collected(self._raw)
            write(run, self.directory)


def _wait_for(raw: Path, ranks: int, seconds: float) -> None:
    until = time.monotonic() + seconds
    while missing := missing_cards(raw, ranks):
        if time.monotonic() > until:
            raise ConfigError(
                f"{raw}: ranks {missing} wrote nothing within {seconds:g} s; "
                "link what is there with `chakra link`"
            )
        time.sleep(0.05)


def link_collected(raw: Path, undilate: bool = False) -> tuple[Run, LinkReport]:
    """Link the recordings in a folder."""
    options = LinkOptions(times=time_recordings(raw), undilate=undilate)
    return link(recordings(raw), options)


def collect_command(
    command: Sequence[str],
    directory: Path,
    steps: str,
    *,
    two_pass: bool | None = None,
    stacks: bool = False,
    step_ends: str = "",
) -> LinkReport:
    """Run a program unchanged, recording the steps asked for, and link what comes out.

    A step ends with the optimizer's, or where `step_ends` names a function, when that returns.

    The recording grows under a hidden name. It and the run appear together at the end; only if it cannot be
    linked does the recording appear alone, so that it is not lost.
    """
    window, two_pass = _window(steps, two_pass)
    raw = raw_folder(directory.absolute())
    check_raw(raw)
    check_output(directory)
    settings = {"steps": window, "two_pass": two_pass, "stacks": stacks, "step_ends": step_ends}
    failure = None
    with contextlib.ExitStack() as signals, fresh_directory(raw) as recorded:
        code = _recorded(command, {**settings, "directory": str(recorded)})
        _check_recorded(recorded, command, code)
        try:
            run, report = link_collected(recorded)
            signals.enter_context(uninterrupted())  # until the recording has followed the run
            write(_with_final_paths(run, report, recorded, raw), directory)
        except ChakraError as error:
            failure = str(error).replace(str(recorded), str(raw))
    if failure is not None:
        raise ChakraError(f"{failure} (the recording is kept in {raw}; `chakra link` reads it)")
    if code:
        report.ranks[0].warnings.append(f"the program ended with exit code {code} after recording")
    return report


def _window(text: str, two_pass: bool | None) -> tuple[tuple[int, int], bool]:
    """The steps to record, and whether to record as many before them with Kineto alone.

    The first optimizer step is over when a program that is not changed begins to record itself.
    """
    try:
        first, last = parse_steps(text)
    except ValueError as error:
        raise ConfigError(str(error)) from None
    count = last - first
    least = 1 + count if two_pass else 1
    if first < least:
        raise ConfigError(
            f"--steps {text}: step 0 is over before it can be recorded"
            + (", and two passes need as many steps before these" if two_pass else "")
            + f"; give --steps {least}:{least + count} or later"
        )
    return (first, last), first > count if two_pass is None else two_pass


def _check_recorded(recorded: Path, command: Sequence[str], code: int) -> None:
    """Raise if ranks are missing; a program may fail after its window, when all have been written."""
    if code and not is_complete(recorded):
        raise ChakraError(
            f"{command[0]} ended with exit code {code} before all ranks had written; see its output. "
            "PyTorch's observer is not safe beside gloo's threads: after a crash, try again"
        )
    recordings(recorded)


def _recorded(command: Sequence[str], settings: dict[str, Any]) -> int:
    """Run the program so that it records itself; returns its exit code and removes its temporary files."""
    with scratch("chakra-collect") as folder:
        site, temporary = folder / "site", folder / "tmp"
        site.mkdir()
        temporary.mkdir()
        (site / "sitecustomize.py").write_text(_SITE.format(path=str(FOLDER.absolute())))
        path = os.pathsep.join(p for p in (str(site), os.environ.get("PYTHONPATH", "")) if p)
        variables = {
            ENVIRONMENT: json.dumps(settings),
            "PYTHONPATH": path,
            "TMPDIR": str(temporary),
        }
        return _run(command, {**os.environ, **variables})


def _with_final_paths(run: Run, report: LinkReport, recorded: Path, raw: Path) -> Run:
    """The run and, changed in place, the report with the recording's final paths instead of hidden ones."""

    def final_paths(files: Sequence[str]) -> list[str]:
        return [file.replace(str(recorded), str(raw)) for file in files]

    for linked in report.ranks:
        linked.files = final_paths(linked.files)
    return run.with_card(run.card.replace(source=final_paths(run.card.source)))


def _run(command: Sequence[str], env: dict[str, str]) -> int:
    """The program's exit code; all that it started ends with this process."""
    if shutil.which(command[0]) is None:
        raise ConfigError(
            f"cannot run {command[0]}: No such file, or not a program; give the program after --"
        )
    kept = [sys.executable, "-I", "-S", str(KEEPER), *command]
    with subprocess.Popen(kept, env=env, stdout=sys.stderr) as process:
        return _waited(process)


_PATIENCE_S = 10.0
"""Seconds a launcher has to end its ranks after SIGTERM; then it is killed, and may leave some behind."""


def _waited(process: subprocess.Popen[bytes]) -> int:
    """The exit code. The keeper that is told to end ends all that the program started."""
    try:
        return process.wait()
    except BaseException:
        process.terminate()
        try:
            process.wait(_PATIENCE_S)
        except subprocess.TimeoutExpired:
            process.kill()
        raise
