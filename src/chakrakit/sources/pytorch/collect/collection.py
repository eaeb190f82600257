"""Collect and link in one go: in a program that asks for it, or around one that does not."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import msgspec

from chakrakit.configuration import read_json
from chakrakit.errors import ChakraError, ConfigError, MissingExtra
from chakrakit.parallel import end_with_parent
from chakrakit.sources.pytorch.linking import LinkOptions, LinkReport, link
from chakrakit.sources.pytorch.recorder import (
    ENVIRONMENT,
    FOLDER,
    Collector,
    parse_steps,
    rank,
    world_size,
)
from chakrakit.trace.files import scratch
from chakrakit.trace.storage import write


def raw_folder(directory: Path) -> Path:
    """Where what the profiler wrote is kept: beside the run, which is a directory of its own."""
    return directory.with_name(directory.name + "-raw")


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


class collect:  # noqa: N801 - reads as a verb where it is used
    """Record steps of the surrounding program and leave a linked run in `directory`.

        with chakrakit.collect("run", steps=(10, 12)) as c:
            for batch in data:
                train(batch)
                c.step()

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
        self._collector = Collector(
            raw_folder(self.directory), window, two_pass=two_pass, stacks=stacks
        )

    def __enter__(self) -> collect:
        try:
            self._collector.__enter__()
        except ModuleNotFoundError as error:
            if error.name != "torch":
                raise
            raise MissingExtra("collecting", "torch") from None
        return self

    def step(self) -> None:
        """One step is over."""
        self._collector.step()

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        mine, everyone = rank(), world_size()
        self._collector.finish()
        if kind is None and mine == 0:
            _wait_for(raw_folder(self.directory), everyone, self.wait_s)
            self.report = link_collected(self.directory)


def _wait_for(raw: Path, ranks: int, seconds: float) -> None:
    """Until every rank's card is there: it is the last file a rank writes."""
    until = time.monotonic() + seconds
    while missing := [r for r in range(ranks) if not (raw / f"card_{r}.json").exists()]:
        if time.monotonic() > until:
            raise ConfigError(
                f"{raw}: ranks {missing} wrote nothing within {seconds:g} s; "
                "link what is there with `chakra link`"
            )
        time.sleep(0.05)


def link_collected(directory: Path, undilate: bool = False) -> LinkReport:
    """Link what was recorded for `directory` into it."""
    raw = raw_folder(directory)
    names = ("et", "kineto", "capture")
    pairs = sorted(p for name in names for p in raw.glob(f"{name}_*.json.gz"))
    if not pairs:
        raise ConfigError(
            f"{raw} holds no recording: the program ended before the first of the steps asked for, "
            "or took no optimizer step"
        )
    times = tuple(sorted(raw.glob("times_*.json.gz"), key=_rank_of))
    run, report = link(pairs, LinkOptions(times=times, undilate=undilate))
    write(run, directory)
    return report


def _rank_of(path: Path) -> int:
    return int(path.name.split("_")[1].split(".")[0])


def collect_command(
    command: Sequence[str],
    directory: Path,
    steps: str,
    *,
    two_pass: bool | None = None,
    stacks: bool = False,
) -> LinkReport:
    """Run a program unchanged, recording the steps asked for, and link what comes out."""
    try:
        window = parse_steps(steps)
    except ValueError as error:
        raise ConfigError(str(error)) from None
    raw = raw_folder(directory.absolute())
    raw.mkdir(parents=True, exist_ok=True)
    settings: dict[str, Any] = {
        "directory": str(raw),
        "steps": window,
        "two_pass": two_pass,
        "stacks": stacks,
    }
    with scratch("chakra-collect") as site:
        text = _SITE.format(path=str(FOLDER.absolute()))
        (site / "sitecustomize.py").write_text(text)
        path = os.pathsep.join(p for p in (str(site), os.environ.get("PYTHONPATH", "")) if p)
        env = {**os.environ, ENVIRONMENT: json.dumps(settings), "PYTHONPATH": path}
        code = _run(command, env)
    # A program may fail after its window is over; what is whole is linked all the same.
    if code and not _complete(raw):
        raise ChakraError(
            f"{command[0]} ended with exit code {code} before all ranks had written; see its output. "
            "PyTorch's observer is not safe beside gloo's threads: after a crash, try again"
        )
    report = link_collected(directory)
    if code:
        report.ranks[0].warnings.append(f"the program ended with exit code {code} after recording")
    return report


class _RankCard(msgspec.Struct):
    world_size: int


def _complete(raw: Path) -> bool:
    """Whether every rank that the cards speak of has written its own."""
    cards = [read_json(p, _RankCard, "a rank's card") for p in raw.glob("card_*.json")]
    return bool(cards) and len(cards) == max(c.world_size for c in cards)


def _run(command: Sequence[str], env: dict[str, str]) -> int:
    try:
        with subprocess.Popen(
            list(command),
            env=env,
            stdout=sys.stderr,
            preexec_fn=partial(end_with_parent, signal.SIGTERM),
        ) as process:
            return _waited(process)
    except OSError as error:
        raise ConfigError(f"cannot run {command[0]}: {error.strerror}") from None


_PATIENCE_S = 10.0


def _waited(process: subprocess.Popen[bytes]) -> int:
    """The exit code. A launcher that is told to end ends its ranks; one that does not is killed."""
    try:
        return process.wait()
    except BaseException:
        process.terminate()
        try:
            process.wait(_PATIENCE_S)
        except subprocess.TimeoutExpired:
            process.kill()
        raise
