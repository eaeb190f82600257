"""What holds for every input, however it was changed: two readers give one answer.

    accepted    what validates is taken by every command that takes its kind
    written     what a command writes can be read, and validates if what it was made from did
    kept        a trace that is converted and converted back has every column it had
    linked      what `link` writes validates
    as_recorded measured times simulated without a machine give the recording's own times, or it is said why

Each is made for one command line, and is a step that raises `Broken` where it does not hold. An error on purpose
that comes before the claim begins (a file that is refused) is no break of it.
"""

from __future__ import annotations

import contextlib
import io
import json
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click

import chakrakit as ck
from chakrakit.commands import main
from chakrakit.errors import ChakraError
from fuzz.fuzz_format import Step


class Broken(AssertionError):
    """A property that does not hold."""


def typed(line: str, folder: Path) -> str:
    """What a command line prints, with `{in}` and `{out}` in their places; its errors are raised."""
    placed = line.replace("{in}", str(folder)).replace("{out}", str(folder.parent / "out"))
    said = io.TextIOWrapper(io.BytesIO(), "utf-8")
    with contextlib.redirect_stdout(said):
        main(shlex.split(placed), standalone_mode=False)
    said.flush()
    return said.buffer.getvalue().decode()  # type: ignore[attr-defined]


@contextlib.contextmanager
def _must(claim: str) -> Iterator[None]:
    """An error on purpose inside is a broken claim."""
    try:
        yield
    except (ChakraError, OSError, click.ClickException) as error:
        raise Broken(f"{claim}: {type(error).__name__}: {error}") from error
    except click.exceptions.Exit as end:
        if end.exit_code:
            raise Broken(f"{claim}: exit {end.exit_code}") from end


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


def accepted(line: str) -> Step:
    """What validates is taken by this command."""

    def hold(folder: Path) -> None:
        if validates(only(folder)):
            with _must(f"validates, and is refused by {line}"):
                typed(line, folder)

    return hold


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
        main(["info", str(path)], standalone_mode=False)
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
    """Every column as text, so that NaN equals itself; columns that say nothing are as if they were not there."""
    found = {name: trace.table.column(name) for name in trace.table.column_names}
    return {n: repr(c.to_pylist()) for n, c in found.items() if c.null_count < len(c)}


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
