"""Capture: the user's own program at any number of ranks, in a context or around a command."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Mapping, Sequence
from importlib import import_module
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from chakrakit.errors import ConfigError, MissingExtra
from chakrakit.machines import load_machine, overview
from chakrakit.sources.capture.folding import CaptureReport, Search, fold, report_of
from chakrakit.sources.capture.recording import CapturedRank
from chakrakit.trace.sets import Card, TraceSet
from chakrakit.trace.storage import write

if TYPE_CHECKING:
    from chakrakit.sources.capture.process import CaptureRequest
    from chakrakit.sources.capture.session import CaptureOptions, Session


class capture:  # noqa: N801 - reads as a verb where it is used
    """The surrounding program as one of `ranks` ranks; `chakrakit.capture` says how to use it.

    The block runs here as rank 0 and ends after the last step asked for. Forked processes then run it again
    as other ranks, as many as are needed to find all kinds of ranks.
    """

    traces: TraceSet
    report: CaptureReport

    def __init__(
        self,
        ranks: int,
        *,
        device: str = "",
        steps: tuple[int, int] | str | None = None,
        step_ends: str = "",
        values: Mapping[str, float] | None = None,
        output: str | os.PathLike[str] | None = None,
    ) -> None:
        _require_torch()
        self._options = options_of(ranks, device, steps, values or {}, step_ends=step_ends)
        self._output = output
        self._session: Session | None = None
        self._pipe: tuple[int, int] | None = None
        self._request: CaptureRequest | None = None

    def __enter__(self) -> capture:
        from chakrakit.sources.capture.session import Session

        self._fork_server()
        rank, mail = (0, {}) if self._request is None else (self._request.rank, self._request.mail)
        options = self._options if self._request is None else self._request.options
        self._session = Session(options, rank, mail)
        self._session.__enter__()
        return self

    def __exit__(self, kind: Any, error: BaseException | None, trace: Any) -> bool:
        from chakrakit.sources.capture.process import Ranks, failure_of, finish, recorded

        assert self._session is not None
        ended = self._session.__exit__(kind, error, trace)
        failure = "" if ended or error is None else failure_of(error, self._options.device)
        if self._request is not None:
            finish(self._session, failure, self._request.out)
        if failure:
            self._let_go()
            return False
        ranks = Ranks(self._options, self._ask, show=False)
        first = recorded(self._session, "")
        try:
            ranks.keep(first)
            self.traces, self.report = _all_ranks(
                _First(first, ranks),
                self._options,
                Card(
                    name="capture", tool="chakra capture", settings={"ranks": self._options.ranks}
                ),
            )
        finally:
            self._let_go()
        if self._output is not None:
            write(self.traces, self._output)
        return True

    # --- the same block as other ranks ----------------------------------------------------------

    def _fork_server(self) -> None:
        """Fork a process that waits for requests; each makes it fork a child that runs as that rank."""
        ask, answer = os.pipe(), os.pipe()
        sys.stdout.flush()
        sys.stderr.flush()
        if os.fork():
            os.close(ask[0])
            os.close(answer[1])
            self._pipe = (answer[0], ask[1])
            return
        os.close(ask[1])
        os.close(answer[0])
        self._wait_for_requests(ask[0], answer[1])

    def _wait_for_requests(self, source: int, target: int) -> None:
        from chakrakit.sources.capture.process import CaptureRequest, silence

        with os.fdopen(source, "rb") as requests:
            while size := requests.read(8):
                body = requests.read(int.from_bytes(size, "little"))
                request = msgspec.msgpack.decode(body, type=CaptureRequest)
                pid = os.fork()
                if pid == 0:
                    silence(request.quiet)
                    self._request = request
                    return
                _, status = os.waitpid(pid, 0)
                code = os.waitstatus_to_exitcode(status)
                os.write(target, code.to_bytes(8, "little", signed=True))
        os._exit(0)

    def _ask(self, request: CaptureRequest) -> int:
        assert self._pipe is not None
        body = msgspec.msgpack.encode(request)
        with os.fdopen(os.dup(self._pipe[1]), "wb") as pipe:
            pipe.write(len(body).to_bytes(8, "little") + body)
        return int.from_bytes(os.read(self._pipe[0], 8), "little", signed=True)

    def _let_go(self) -> None:
        if self._pipe is not None:
            for end in self._pipe:
                os.close(end)
            self._pipe = None
            os.wait()


class _First:
    """Captures ranks, except rank 0, whose recording exists already."""

    def __init__(self, first: CapturedRank, capture_rank: Any) -> None:
        self._first, self._capture_rank = first, capture_rank

    def __call__(self, rank: int, full: bool) -> CapturedRank:
        if rank == 0 and full:
            return self._first
        recording: CapturedRank = self._capture_rank(rank, full)
        return recording


def capture_command(
    command: Sequence[str],
    output: str | os.PathLike[str] | None,
    *,
    ranks: int,
    device: str = "",
    steps: tuple[int, int] | str | None = None,
    step_ends: str = "",
    values: Mapping[str, float] | None = None,
) -> CaptureReport:
    """Capture a program unchanged, as `chakra capture` does, and write its traces to `output`."""
    traces, report = capture_traces(
        command, ranks=ranks, device=device, steps=steps, step_ends=step_ends, values=values
    )
    if output is not None:
        write(traces, output)
    return report


def capture_traces(
    command: Sequence[str],
    *,
    ranks: int,
    device: str = "",
    steps: tuple[int, int] | str | None = None,
    step_ends: str = "",
    values: Mapping[str, float] | None = None,
) -> tuple[TraceSet, CaptureReport]:
    """Capture a program unchanged and return its traces; see `capture_command`."""
    _require_torch()
    from chakrakit.sources.capture.process import Ranks, forked
    from chakrakit.sources.capture.script import script_of

    script = script_of(command)
    script.check()
    options = options_of(ranks, device, steps, values or {}, script.local_size, step_ends)
    card = Card(
        name=Path(script.target).stem if script.kind == "script" else "capture",
        tool="chakra capture",
        source=[" ".join(command)],
        settings={"ranks": ranks, "device": device, "steps": str(steps or "")},
    )
    return _all_ranks(Ranks(options, forked(script.run)), options, card)


def _all_ranks(
    capture_rank: Any, options: CaptureOptions, card: Card
) -> tuple[TraceSet, CaptureReport]:
    search = Search(capture_rank, options.ranks)
    kinds = search.kinds()
    warnings = [*_untested(version("torch")), *search.warnings]
    report = report_of(kinds, search.families, warnings, search.ran)
    return fold(kinds, search.families, card), report


def options_of(
    ranks: int,
    device: str,
    steps: tuple[int, int] | str | None,
    values: Mapping[str, float],
    local_size: int = 0,
    step_ends: str = "",
) -> CaptureOptions:
    """The options as a CaptureOptions; a ConfigError names the one that is wrong."""
    from chakrakit.sources.capture.session import CaptureOptions

    if ranks < 1:
        raise ConfigError(f"{ranks} ranks; give 1 or more")
    name, memory = _device(device)
    return CaptureOptions(
        ranks=ranks,
        steps=_window(steps),
        device=name,
        memory=memory,
        local_size=local_size or 8,
        step_ends=step_ends,
        values=dict(values),
    )


def _device(prefix: str) -> tuple[str, int]:
    """Name and memory in bytes of the device whose name begins like this, or of a machine's device."""
    if prefix.lower() in ("", "cpu"):
        return "", 0
    device_of = {p.name: load_machine(p.name).devices[0] for p in overview()}
    for machine, device in device_of.items():
        if device.name.startswith(prefix.lower()) or machine == prefix.lower():
            return device.name, int(device.memory)
    names = ", ".join(sorted({d.name for d in device_of.values()}))
    raise ConfigError(f"no device {prefix!r}; there are {names}")


def _window(steps: tuple[int, int] | str | None) -> tuple[int, int] | None:
    if steps is None:
        return None
    try:
        first, last = (int(s) for s in steps.split(":")) if isinstance(steps, str) else steps
    except ValueError:
        raise ConfigError(
            f"steps {steps!r}; give FIRST:END, such as 2:3 for the third step"
        ) from None
    if not 0 <= first < last:
        raise ConfigError(
            f"steps {first}:{last}; the second number must be larger, and neither negative"
        )
    return first, last


OLDEST, NEWEST = (2, 9), (2, 15)
"""PyTorch releases between which every one that was tried passes the tests (`make torch-versions`)."""


def _untested(release: str) -> list[str]:
    """A warning where capture was not tried with a release of PyTorch."""
    if OLDEST <= _numbers(release) <= NEWEST:
        return []
    return [
        f"PyTorch {release} was not tried: capture is tested with 2.{OLDEST[1]} to 2.{NEWEST[1]}; compare "
        "a program with one of these before you rely on its operators and memory"
    ]


def _numbers(release: str) -> tuple[int, ...]:
    """`2.13.0+cpu` as (2, 13)."""
    return tuple(int(n) for n in re.findall(r"\d+", release)[:2])


def _require_torch() -> None:
    from importlib.util import find_spec

    if find_spec("torch") is None:
        raise MissingExtra("capturing PyTorch programs", "torch")
    try:
        import_module("chakrakit.sources.capture")
    except ImportError as error:
        raise ConfigError(
            f"capture is tested with PyTorch 2.{OLDEST[1]} to 2.{NEWEST[1]}, and this is {version('torch')}, "
            f"which differs: {error}; install torch==2.13.0"
        ) from None
