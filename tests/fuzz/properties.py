"""What holds for every input, however it was changed: two readers give one answer.

    accepted    what validates is taken by every command that takes its kind
    written     what a command writes can be read, and validates if what it was made from did
    kept        a trace that is converted and converted back has every column it had
    linked      what `link` writes validates
    as_recorded measured times simulated without a machine give the recording's own times, or it is said why

Each is made for one command line, and is a step that raises `Broken` where it does not hold. An error on
purpose that comes before the claim begins (a file that is refused) is no break of it.
"""

from __future__ import annotations

import contextlib
import io
import json
import shlex
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import click

import chakrakit as ck
from chakrakit.commands import main
from chakrakit.errors import ChakraError
from fuzz.fuzz_format import Step
from support.oracle import bodies_of, canonical


class Broken(AssertionError):  # noqa: N818 - reads as what it is
    """A property that does not hold."""


class Refused(ChakraError):  # noqa: N818 - reads as what it is
    """A command that ended with an error on purpose."""


def typed(line: str, folder: Path) -> str:
    """What a command line prints, with `{in}` and `{out}` in their places; `Refused` if it fails."""
    placed = line.replace("{in}", str(folder)).replace("{out}", str(folder.parent / "out"))
    out, errors = (io.TextIOWrapper(io.BytesIO(), "utf-8", "replace") for _ in range(2))
    code: object = 0
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(errors):
        try:
            code = main(shlex.split(placed), standalone_mode=False)
        except SystemExit as end:
            code = end.code
        except (ChakraError, OSError, click.ClickException, click.exceptions.Exit) as error:
            raise Refused(str(error)) from error
    if code:
        raise Refused(_text(errors) or _text(out))
    return _text(out)


def _text(stream: io.TextIOWrapper) -> str:
    stream.flush()
    return stream.buffer.getvalue().decode(errors="replace")  # type: ignore[attr-defined,no-any-return]


@contextlib.contextmanager
def _must(claim: str) -> Iterator[None]:
    """An error on purpose inside is a broken claim, unless what is asked for is not installed here."""
    try:
        yield
    except ChakraError as error:
        if "needs an optional package" in str(error):
            raise
        raise Broken(f"{claim}: {error}") from error


def validates(path: Path) -> bool:
    """Whether `validate` finds no error in what is there."""
    try:
        return ck.validate(path).ok
    except ChakraError:
        return False


def only(folder: Path, beginning: str = "run") -> Path:
    """The one trace, run or bundle of a folder."""
    [path] = [p for p in folder.iterdir() if p.name.startswith(beginning)]
    return path


_OF_RUNS = ("analyze", "compare", "report")
_NOT_TO_RUN = {"missing-comm-type", "missing-comm-size", "missing-group", "missing-peer"}
"""Warnings of calls that leave out what a simulator needs of them."""


def accepted(line: str) -> Step:
    """What validates is taken by this command, if it says what the command is about."""

    def hold(folder: Path) -> None:
        path = only(folder)
        if validates(path) and _says_enough(path, line):
            with _must(f"validates, and is refused by {line}"):
                typed(line, folder)

    return hold


def _says_enough(path: Path, line: str) -> bool:
    if line.startswith(_OF_RUNS):
        return _is_timed(path)
    return not line.startswith("simulate") or _NOT_TO_RUN.isdisjoint(
        finding.code for finding in ck.validate(path).findings
    )


def _is_timed(path: Path) -> bool:
    traces = ck.read(path)
    return isinstance(traces, ck.Run) or traces.body(traces.ranks[0]).is_timed


def written(line: str, out: str) -> Step:
    """What this command writes can be read, and validates if what it was made from did."""

    def hold(folder: Path) -> None:
        valid = validates(only(folder))
        typed(line, folder)
        path = Path(out.replace("{out}", str(folder.parent / "out")))
        _check_written(line, path, valid)

    return hold


def _check_written(line: str, path: Path, valid: bool) -> None:
    with _must(f"{line} writes what cannot be read"):
        typed(f"info {path}", path)
    if valid:
        _check_valid(f"{line} writes what does not validate", path)


def _check_valid(claim: str, path: Path) -> None:
    report = ck.validate(path)
    if not report.ok:
        wrong = next(f for f in report.findings if f.severity == "error")
        raise Broken(f"{claim}: {wrong.code}: {wrong.message}")


def kept(suffix: str, between: str) -> Step:
    """A trace that becomes another format and this one again has every column that it had."""

    def hold(folder: Path) -> None:
        first = folder / f"run{suffix}"
        out = folder.parent / "out"
        typed(f"convert {first} {out}{between}", folder)
        with _must(f"{suffix} → {between} cannot be converted back"):
            typed(f"convert {out}{between} {out}.back{suffix}", folder)
        _compare(ck.read(first).trace(0), ck.read(f"{out}.back{suffix}").trace(0))

    return hold


def _compare(before: ck.Trace, after: ck.Trace) -> None:
    one, other = _columns(before), _columns(after)
    for name in {*one, *other}:
        if one.get(name) != other.get(name):
            raise Broken(f"column {name!r} differs after conversion")


def _columns(trace: ck.Trace) -> dict[str, str]:
    """Every column that says anything, as text, so that NaN equals itself."""
    judged = find_spec("grpc_tools") is not None
    left_out = ("_layout",) if judged else ("_layout", "_raw")
    found = {n: trace.table.column(n) for n in trace.table.column_names if n not in left_out}
    lists = {n: c.to_pylist() for n, c in found.items() if c.null_count < len(c)}
    return {n: repr(list(map(_plain, v)) if n == "_raw" else v) for n, v in lists.items()}


def _plain(raw: bytes | None) -> object:
    """Attributes that fit no column, as the protobuf runtime writes them: lists have two ways."""
    if raw is None:
        return None
    try:
        return [canonical("AttributeProto", body) for body in bodies_of(raw)]
    except Exception:
        return raw


def linked(line: str = "link {in} -o {out} --jobs 1") -> Step:
    """What `link` writes validates."""

    def hold(folder: Path) -> None:
        typed(line, folder)
        out = folder.parent / "out"
        _check_written("link", out, valid=True)

    return hold


def then_accepted(first: str, line: str) -> Step:
    """What the first command takes or writes, the second takes."""

    def hold(folder: Path) -> None:
        typed(first, folder)
        with _must(f"passes {first.split()[0]}, and is refused by {line}"):
            typed(line, folder)

    return hold


def periods(first: str, line: str) -> Step:
    """No step that is told with `--json` takes less than no time."""

    def hold(folder: Path) -> None:
        typed(first, folder)
        said = json.loads(typed(f"{line} --json", folder))
        for path, value in _numbers(said):
            if path.endswith("period_ns") and value < 0:
                raise Broken(f"{path} is {value}")

    return hold


def _numbers(tree: Any, path: str = "") -> Iterator[tuple[str, float]]:
    if isinstance(tree, dict):
        for key, value in tree.items():
            yield from _numbers(value, f"{path}.{key}")
    elif isinstance(tree, list):
        for value in tree:
            yield from _numbers(value, path)
    elif isinstance(tree, int | float) and not isinstance(tree, bool):
        yield path, tree


def as_recorded(first: str) -> Step:
    """A run whose measured times are simulated takes as long as it took, or it is said why not."""

    def hold(folder: Path) -> None:
        typed(first, folder)
        run = ck.read(folder.parent / "out")
        assert isinstance(run, ck.Run)
        result = ck.simulate(run, compute="measured", communication="measured")
        again, before = result.run().makespan_ns, run.makespan_ns
        if abs(again - before) > max(1.0, 1e-3 * before) and not result.summary.notes:
            raise Broken(
                f"{before:,.0f} ns as recorded, {again:,.0f} ns simulated, and no word of it"
            )

    return hold
