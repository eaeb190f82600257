"""Changes the sources in one place at a time, and says which changes no test notices.

    python tests/mutation.py --count 200 --seed 1 --jobs 2 --seconds 600 [FILE or FOLDER of src …]

A change that makes a test fail is *killed*; one that *survives* is in a line whose tests do not care what it
does. Each is tried on a copy of the sources, which comes first on Python's path, so nothing is changed in
place and several are tried side by side. First the quick tests of the rooms in question run without any
change: one that fails says nothing and is left out, and each notes the functions that it enters. A change
then meets the tests of its room that enter its function, until one fails: the nearest first, then the kept
results, which notice most of the rest; a change outside of functions meets all of them. Changes that survive
meet the slow tests in the same way.
"""

from __future__ import annotations

import argparse
import ast
import json
import math
import os
import queue
import random
import re
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cache
from importlib.util import cache_from_source, find_spec
from itertools import chain, islice
from pathlib import Path
from site import getsitepackages
from typing import TypeVar

Item = TypeVar("Item")

ROOT = Path(__file__).parents[1]
TESTS = ROOT / "tests"
PACKAGE = ROOT / "src" / "chakrakit"

WITH_OTHER_FRAMEWORKS = {"capture", "collect", "recorder", "replayer", "jax"}
"""Folders and modules that are tested with PyTorch or JAX, which a machine for this need not have."""

COMPARISONS: dict[type[ast.AST], tuple[str, str]] = {
    ast.Eq: ("==", "!="),
    ast.NotEq: ("!=", "=="),
    ast.Lt: ("<", "<="),
    ast.LtE: ("<=", "<"),
    ast.Gt: (">", ">="),
    ast.GtE: (">=", ">"),
    ast.Is: ("is", "is not"),
    ast.IsNot: (r"is\s+not", "is"),
    ast.In: ("in", "not in"),
    ast.NotIn: (r"not\s+in", "in"),
}
ARITHMETIC: dict[type[ast.AST], tuple[str, str]] = {
    ast.Add: (r"\+", "-"),
    ast.Sub: ("-", "+"),
    ast.Mult: (r"\*", "/"),
    ast.Div: ("/", "*"),
    ast.FloorDiv: ("//", "*"),
    ast.Mod: ("%", "*"),
    ast.Pow: (r"\*\*", "*"),
    ast.BitAnd: ("&", "|"),
    ast.BitOr: (r"\|", "&"),
    ast.BitXor: (r"\^", "&"),
    ast.LShift: ("<<", ">>"),
    ast.RShift: (">>", "<<"),
}
EXTREMES = {"min": "max", "max": "min", "minimum": "maximum", "maximum": "minimum"}


@dataclass(frozen=True)
class Mutant:
    """One change of one file: these bytes become that text."""

    file: Path
    start: int
    end: int
    text: str

    @property
    def source(self) -> bytes:
        """The file as it is changed."""
        before = self.file.read_bytes()
        return before[: self.start] + self.text.encode() + before[self.end :]

    @property
    def line(self) -> int:
        """The number of its first line."""
        return self.file.read_bytes().count(b"\n", 0, self.start) + 1

    @property
    def place(self) -> str:
        """The file and the line."""
        return f"{self.file.relative_to(ROOT)}:{self.line}"

    @property
    def lines(self) -> tuple[str, str]:
        """The whole lines that it changes, before and after."""
        source = self.file.read_bytes()
        first, last = source.rfind(b"\n", 0, self.start) + 1, source.index(b"\n", self.end)
        changed = source[first : self.start] + self.text.encode() + source[self.end : last]
        return source[first:last].decode(), changed.decode()

    @property
    def difference(self) -> str:
        """The place, and the lines before and after."""
        before, after = self.lines
        signed = [*(f"-{x}" for x in before.splitlines()), *(f"+{x}" for x in after.splitlines())]
        return "\n".join([self.place, *signed])


class Places(ast.NodeVisitor):
    """Collects the changes of one file that a test ought to notice.

    Left alone: annotations and decorators, what is said in errors, f-strings (their positions are not told
    before Python 3.12), `__repr__`, and what only type checkers or `python -m` read.
    """

    def __init__(self, file: Path) -> None:
        self.file = file
        self.source = file.read_bytes()
        lines = self.source.splitlines(keepends=True)
        self.line_starts = [0]
        for line in lines:
            self.line_starts.append(self.line_starts[-1] + len(line))
        self.mutants: list[Mutant] = []

    def _start(self, node: ast.expr | ast.stmt) -> int:
        return self.line_starts[node.lineno - 1] + node.col_offset

    def _end(self, node: ast.expr | ast.stmt) -> int:
        return self.line_starts[(node.end_lineno or node.lineno) - 1] + (node.end_col_offset or 0)

    def _add(self, start: int, end: int, text: str) -> None:
        self.mutants.append(Mutant(self.file, start, end, text))

    def _swap(self, left: ast.expr, right: ast.expr, swap: tuple[str, str], tail: str = "") -> None:
        """Another operator between two operands."""
        start, end = self._end(left), self._start(right)
        between = self.source[start:end].decode()
        pattern = rf"\b{swap[0]}\b" if swap[0][0].isalpha() else swap[0]
        place = re.search(pattern + re.escape(tail), between)
        if place and "#" not in between:
            self._add(start + place.start(), start + place.end(), swap[1] + tail)

    def visit_FunctionDef(self, node: ast.FunctionDef) -> None:
        if node.name != "__repr__":
            defaults = [d for d in (*node.args.defaults, *node.args.kw_defaults) if d is not None]
            for part in (*defaults, *node.body):
                self.visit(part)

    def visit_ClassDef(self, node: ast.ClassDef) -> None:
        for part in node.body:
            self.visit(part)

    def visit_AnnAssign(self, node: ast.AnnAssign) -> None:
        if node.value is not None:
            self.visit(node.value)

    def visit_Raise(self, node: ast.Raise) -> None:
        pass

    def visit_JoinedStr(self, node: ast.JoinedStr) -> None:
        pass

    def visit_If(self, node: ast.If) -> None:
        names = {n.id for n in ast.walk(node.test) if isinstance(n, ast.Name)}
        if names.isdisjoint({"TYPE_CHECKING", "__name__"}):
            self.generic_visit(node)

    def visit_Call(self, node: ast.Call) -> None:
        name = _last_name(node.func)
        if name.endswith("Error"):
            return
        if name in EXTREMES:
            end = self._end(node.func)
            self._add(end - len(name), end, EXTREMES[name])
        self.generic_visit(node)

    def visit_Compare(self, node: ast.Compare) -> None:
        operands = [node.left, *node.comparators]
        for left, operator, right in zip(operands, node.ops, operands[1:], strict=False):
            self._swap(left, right, COMPARISONS[type(operator)])
        self.generic_visit(node)

    def visit_BinOp(self, node: ast.BinOp) -> None:
        types = isinstance(node.op, ast.BitOr) and (_is_type(node.left) or _is_type(node.right))
        if type(node.op) in ARITHMETIC and not types:
            self._swap(node.left, node.right, ARITHMETIC[type(node.op)])
        self.generic_visit(node)

    def visit_AugAssign(self, node: ast.AugAssign) -> None:
        if type(node.op) in ARITHMETIC:
            self._swap(node.target, node.value, ARITHMETIC[type(node.op)], "=")
        self.generic_visit(node)

    def visit_BoolOp(self, node: ast.BoolOp) -> None:
        swap = ("and", "or") if isinstance(node.op, ast.And) else ("or", "and")
        for left, right in zip(node.values, node.values[1:], strict=False):
            self._swap(left, right, swap)
        self.generic_visit(node)

    def visit_UnaryOp(self, node: ast.UnaryOp) -> None:
        start = self._start(node)
        if isinstance(node.op, ast.Not):
            self._add(start, start + len("not "), "")
        elif isinstance(node.op, ast.Invert):
            self._add(start, start + len("~"), "")
        self.generic_visit(node)

    def visit_Return(self, node: ast.Return) -> None:
        if node.value is not None and not _is_none(node.value):
            self._add(self._start(node), self._end(node), "return None")
        self.generic_visit(node)

    def visit_Constant(self, node: ast.Constant) -> None:
        value, start = node.value, self._start(node)
        if isinstance(value, (int, float)) and not isinstance(value, bool):
            # One of the two for each place, so that numbers do not crowd out the other changes.
            near = value + (1 if start % 2 else -1)
            # One more is nothing to a rate or a unit such as 1e9, so these are doubled.
            far = isinstance(value, float) and abs(value) > 100
            self._add(start, self._end(node), f"({2 * value if far else near!r})")


def _last_name(function: ast.expr) -> str:
    if isinstance(function, ast.Attribute):
        return function.attr
    return function.id if isinstance(function, ast.Name) else ""


def _is_none(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and node.value is None


def _is_type(node: ast.expr) -> bool:
    """Whether an operand of `|` is a type: then it stands in the name of one."""
    builtin = {"int", "float", "str", "bytes", "bool", "list", "dict", "set", "tuple"}
    name = node.id if isinstance(node, ast.Name) else ""
    return _is_none(node) or name in builtin or (name[:1].isupper() and not name.isupper())


def mutants_of(file: Path) -> list[Mutant]:
    """Every change of a file."""
    places = Places(file)
    places.visit(ast.parse(places.source))
    return places.mutants


def sample(mutants: Sequence[Mutant], count: int, seed: int) -> list[Mutant]:
    """So many of them at random, without those that are no longer Python."""
    shuffled = random.Random(seed).sample(mutants, len(mutants))
    return list(islice(filter(_is_python, shuffled), count))


def _is_python(mutant: Mutant) -> bool:
    try:
        ast.parse(mutant.source)
    except SyntaxError:
        return False
    return True


@cache
def imported_names(file: Path) -> frozenset[tuple[str, str]]:
    """What a file imports by name, anywhere in it: modules, and of each the name that is taken from it."""
    names: set[tuple[str, str]] = set()
    for node in ast.walk(ast.parse(file.read_bytes())):
        if isinstance(node, ast.Import):
            names |= {(alias.name, "") for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            names |= {(node.module, alias.name) for alias in node.names}
    return frozenset(names)


@cache
def defined_names(file: Path) -> frozenset[str]:
    """The functions, classes and constants of a module."""
    names: set[str] = set()
    for node in ast.parse(file.read_bytes()).body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            names.add(node.name)
        targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
        names |= {target.id for target in targets if isinstance(target, ast.Name)}
    return frozenset(names)


def _imports(test: Path, module: str, source: Path) -> bool:
    """Whether a test imports a module, or something of it through a face of the folders around it."""
    return any(
        module in (home, f"{home}.{name}")
        or (module.startswith(f"{home}.") and name in defined_names(source))
        for home, name in imported_names(test)
    )


def sources(chosen: Sequence[Path]) -> list[Path]:
    """The files to change: those chosen, without what needs other frameworks."""
    files = sorted(
        {f for path in chosen for f in (path.rglob("*.py") if path.is_dir() else [path])}
    )
    return [file for file in files if not _needs_other_framework(file)]


def _needs_other_framework(file: Path) -> bool:
    """Whether its tests need PyTorch or JAX: it is in their folders, imports one, or is handed one."""
    parts = file.relative_to(PACKAGE).with_suffix("").parts
    own = {module.split(".")[0] for module, _ in imported_names(file)}
    own |= {
        node.arg for node in ast.walk(ast.parse(file.read_bytes())) if isinstance(node, ast.arg)
    }
    return _is_among_other_frameworks(parts) or not own.isdisjoint({"torch", "jax"})


def _is_among_other_frameworks(parts: Sequence[str]) -> bool:
    return not WITH_OTHER_FRAMEWORKS.isdisjoint(parts)


def stages_of(source: Path) -> list[tuple[Path, ...]]:
    """The test files of a source file, none of them twice: the nearest, the kept results, those of the room.

    The nearest are its own and those that import it.
    """
    own = source.relative_to(PACKAGE)
    module = ".".join(("chakrakit", *own.with_suffix("").parts)).removesuffix(".__init__")
    room = TESTS / own.parts[0]
    within = _test_files(room if room.is_dir() else TESTS)
    importing = [file for file in within if _imports(file, module, source)]
    folders = [TESTS / parent for parent in own.parents if (TESTS / parent).is_dir()]
    stages = [
        [TESTS / own.parent / f"test_{own.name}", *importing],
        [room / KEPT],
        [*(_test_files(folders[0]) if folders[0] != TESTS else []), *_test_files(room)],
    ]
    return list(_without_repeats(stages))


def _test_files(folder: Path) -> list[Path]:
    files = sorted(folder.rglob("test_*.py"))
    return [f for f in files if not _is_among_other_frameworks(f.relative_to(TESTS).parts)]


def _without_repeats(stages: list[list[Path]]) -> Iterator[tuple[Path, ...]]:
    earlier: set[Path] = set()
    for stage in stages:
        yield tuple(file for file in dict.fromkeys(stage) if file not in earlier and file.exists())
        earlier.update(stage)


def lines_around(mutant: Mutant) -> range:
    """The lines of the outermost function around a change, with its decorators; none outside of functions."""
    functions = _outer_functions(ast.parse(mutant.file.read_bytes()))
    return next((lines for lines in functions if mutant.line in lines), range(0))


def _outer_functions(node: ast.Module | ast.ClassDef) -> Iterator[range]:
    for part in node.body:
        if isinstance(part, ast.FunctionDef):
            first = min([part.lineno, *(d.lineno for d in part.decorator_list)])
            yield range(first, (part.end_lineno or part.lineno) + 1)
        elif isinstance(part, ast.ClassDef):
            yield from _outer_functions(part)


def _compiled_core() -> list[Path]:
    """The extension module, wherever the package that is installed has it."""
    core = find_spec("chakrakit.core")
    return [Path(core.origin)] if core and core.origin and core.origin.endswith(".so") else []


def _editable_finders() -> set[str]:
    """Modules by which an editable installation finds the sources before Python's path is asked.

    An empty one of the same name that comes first on the path takes the place of each.
    """
    lines = {
        line
        for folder in getsitepackages()
        for file in Path(folder).glob("*chakrakit*.pth")
        for line in file.read_text().splitlines()
    }
    return {line.removeprefix("import ") for line in lines if line.startswith("import ")}


class Copy:
    """The sources in a folder of their own, in which one file at a time is changed."""

    def __init__(self, folder: Path, memory: int) -> None:
        self.folder = folder
        self.memory = memory
        ignored = shutil.ignore_patterns("__pycache__")
        shutil.copytree(PACKAGE, folder / "chakrakit", ignore=ignored)
        for core in _compiled_core():
            shutil.copy(core, folder / "chakrakit")
        for name in _editable_finders():
            (folder / f"{name}.py").write_text("")

    def check(self) -> None:
        """Fails unless tests would import this copy."""
        command = [sys.executable, "-c", "import chakrakit.core; print(chakrakit.core.__file__)"]
        done = subprocess.run(
            command, env=self._environment(), cwd=ROOT, capture_output=True, text=True
        )
        where = Path(done.stdout.strip())
        if done.returncode or self.folder not in where.parents:
            problem = done.stderr or f"it imports {where}"
            raise SystemExit(f"{sys.executable} does not import the changed copy: {problem}")

    @contextmanager
    def changed(self, mutant: Mutant) -> Iterator[None]:
        """The copy with this change, while it lasts."""
        file = self.folder / "chakrakit" / mutant.file.relative_to(PACKAGE)
        self._write(file, mutant.source)
        try:
            yield
        finally:
            self._write(file, mutant.file.read_bytes())

    def _write(self, file: Path, text: bytes) -> None:
        """Compiled code goes by size and second, in which a change may not show."""
        file.write_bytes(text)
        Path(cache_from_source(str(file))).unlink(missing_ok=True)

    def run(
        self, files: Sequence[Path], limit: float | None, options: Sequence[str] = ()
    ) -> tuple[int | None, str]:
        """Pytest's exit status, or None if it ran longer than so many seconds; and what it printed."""
        process = subprocess.Popen(
            [*self._command(files), *options],
            env=self._environment(),
            cwd=ROOT,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
            preexec_fn=self._limit_memory,
        )
        try:
            output, _ = process.communicate(timeout=limit)
            return process.returncode, output
        except subprocess.TimeoutExpired:
            return None, ""
        finally:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()

    def chosen(self, names: Sequence[str]) -> list[str]:
        """Pytest's options that run these tests alone of their files."""
        file = self.folder / "chosen"
        file.write_text("\n".join(names))
        return ["--chosen", str(file)]

    def _command(self, files: Sequence[Path]) -> list[str]:
        options = ["-q", "--hypothesis-profile", "quick", "-p", "support.entered"]
        options += ["-p", "no:cacheprovider", f"--basetemp={self.folder / 'temporary'}"]
        names = [str(file.relative_to(ROOT)) for file in files]
        return [sys.executable, "-m", "pytest", *options, *names]

    def _environment(self) -> dict[str, str]:
        own = [str(self.folder), str(Path(__file__).parent)]
        path = os.pathsep.join(filter(None, [*own, os.environ.get("PYTHONPATH")]))
        return {**os.environ, "PYTHONPATH": path, "OMP_NUM_THREADS": "1"}

    def _limit_memory(self) -> None:
        resource.setrlimit(resource.RLIMIT_AS, (self.memory, self.memory))


SLOWER = 10
"""A change whose tests run so many times as long as without it is noticed: it does not end, or nearly so."""
START = 30.0
"""Seconds for pytest to start and collect, on a machine with other work."""
LEAST_MEMORY = 8 << 30
"""Addresses, of which Arrow and PyTorch reserve a few GiB; a change that wants far more fails by itself."""
FILES = 40
"""Test files that one process collects."""
AT_ONCE = {"not slow": 100, "slow": 8}
"""Tests that one process runs without a change: enough that testing takes longer than starting, and few
enough that all processes end at about the same time."""
KEPT = "test_kept_results.py"
PASSED = {0, 5}
"""Pytest's status where all tests passed, and where there were none."""


@dataclass(frozen=True)
class Test:
    """What a test is without any change."""

    name: str
    passed: bool
    seconds: float
    functions: frozenset[str]
    """Those of the package that it enters, as `file:line`, of the files that are changed."""

    @property
    def file(self) -> Path:
        """Where it is."""
        return _files([self.name])[0]

    def enters(self, mutant: Mutant, lines: range) -> bool:
        """Whether it runs one of the functions in these lines of the changed file."""
        file = mutant.file.relative_to(PACKAGE)
        return any(f"{file}:{line}" in self.functions for line in lines)


@dataclass(frozen=True)
class Verdict:
    """What the tests said to a change: the test that noticed it, "" where none did."""

    mutant: Mutant
    killer: str
    decided: bool = True
    """False where the time was up before."""


class OutOfTimeError(Exception):
    """The time that was given is up."""


class Trial:
    """Tries changes on copies, with the tests that pass without one."""

    def __init__(self, folder: Path, jobs: int, seconds: float = math.inf) -> None:
        share = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // jobs
        self.jobs = jobs
        self.folder = folder
        self.copies: queue.Queue[Copy] = queue.Queue()
        for number in range(jobs):
            self.copies.put(Copy(folder / str(number), max(LEAST_MEMORY, share)))
        self.end = time.monotonic() + seconds
        self.tests: dict[Path, list[Test]] = {}
        """Those that were learnt last, by file."""

    @contextmanager
    def _copy(self) -> Iterator[Copy]:
        copy = self.copies.get()
        try:
            yield copy
        finally:
            self.copies.put(copy)

    def learn(self, mutants: Sequence[Mutant], marked: str = "not slow") -> None:
        """Runs tests of the rooms of these changes, without any, and keeps what each enters.

        Where the time is short, half of what is left is for this, and the tests that most changes ask come
        first.
        """
        now = time.monotonic()
        until = now + (self.end - now) / 2
        asked = Counter(
            file for mutant in mutants for stage in stages_of(mutant.file) for file in stage
        )
        changed = frozenset(str(mutant.file.relative_to(PACKAGE)) for mutant in mutants)
        with ThreadPoolExecutor(self.jobs) as pool:
            groups = _parts(sorted(asked), FILES)
            collected = pool.map(lambda group: self._collected(group, marked), groups)
            parts = list(_parts(chain.from_iterable(collected), AT_ONCE[marked]))
            # Kept results take long: they begin early, so that nothing is waited for at the end.
            parts.sort(key=lambda part: (KEPT not in part[0], -asked[_files(part)[0]]))
            learnt = pool.map(lambda part: self._unchanged(part, changed, until), parts)
            every = list(chain.from_iterable(learnt))
        self.tests = {}
        for test in every:
            self.tests.setdefault(test.file, []).append(test)
        count, seconds = sum(map(len, parts)), sum(test.seconds for test in every)
        print(f"{len(every):,} of {count:,} tests that are {marked}, {seconds:.0f} s", flush=True)
        for test in every:
            if not test.passed:
                print(f"left out, since it fails without any change: {test.name}", flush=True)

    def _collected(self, files: Sequence[Path], marked: str) -> list[str]:
        """The names of tests; those of a file that cannot be imported are none."""
        if not files:
            return []
        options = ["-m", marked, "--collect-only", "--continue-on-collection-errors"]
        with self._copy() as copy:
            try:
                status, output = self._run(copy, files, math.inf, options)
            except OutOfTimeError:
                return []
        broken = re.findall(r"^ERROR (\S+\.py)(?: - .*)?$", output, re.MULTILINE)
        unloaded = re.search(r"while loading conftest '(\S+)'", output)
        if unloaded:
            print(f"left out with all beside it, since it fails: {unloaded[1]}", flush=True)
            folder = Path(unloaded[1]).parent
            return self._collected([f for f in files if folder not in f.parents], marked)
        if status not in PASSED and not broken:
            raise SystemExit(f"without any change, these tests do not run:\n{output[-4000:]}")
        for file in broken:
            print(f"left out, since it cannot be run without any change: {file}", flush=True)
        return re.findall(r"^(\S+?\.py::.*)$", output, re.MULTILINE)

    def _unchanged(self, names: Sequence[str], changed: frozenset[str], until: float) -> list[Test]:
        """These tests, or those that had ended by then."""
        with self._copy() as copy:
            if time.monotonic() >= until:
                return []
            log = copy.folder / "entered"
            log.write_text("")
            limit = until - time.monotonic() if until < math.inf else None
            copy.run(_files(names), limit, [*copy.chosen(names), "--entered", str(log)])
            lines = [line for line in log.read_text().splitlines(keepends=True) if "\n" in line]
            return [
                Test(name, passed, seconds, _of_files(functions, changed))
                for name, passed, seconds, functions in map(json.loads, lines)
            ]

    def __call__(self, mutant: Mutant) -> Verdict:
        """What the tests that were learnt last say, the nearest first, until one fails."""
        try:
            with self._copy() as copy:
                return Verdict(mutant, self._killer(mutant, copy))
        except OutOfTimeError:
            return Verdict(mutant, "", decided=False)

    def _killer(self, mutant: Mutant, copy: Copy) -> str:
        lines = lines_around(mutant)
        stages = [
            [t for file in stage for t in self.tests.get(file, ()) if t.passed]
            for stage in stages_of(mutant.file)
        ]
        entering = [[t for t in stage if t.enters(mutant, lines)] for stage in stages]
        # What runs on import, or in a process of its own, no test is seen to enter: then all are asked.
        # What is computed once for many tests only the first enters: then the nearest are asked as well.
        rest = [t for t in stages[0] if t not in entering[0]]
        for tests in filter(None, [*entering, rest] if any(entering) else stages):
            limit = START + SLOWER * sum(test.seconds for test in tests)
            names = [test.name for test in tests]
            with copy.changed(mutant):
                status, output = self._run(copy, _files(names), limit, ["-x", *copy.chosen(names)])
            if status not in PASSED:
                failed = _failed_tests(output)
                return "time" if status is None else failed[0] if failed else "an import"
        return ""

    def _run(
        self, copy: Copy, files: Sequence[Path], limit: float, options: Sequence[str]
    ) -> tuple[int | None, str]:
        left = self.end - time.monotonic()
        limit = min(limit, max(left, 0.0))
        status, output = copy.run(files, limit if limit < math.inf else None, options)
        if status is None and left <= limit:
            raise OutOfTimeError
        return status, output


def _parts(items: Iterable[Item], size: int) -> Iterator[list[Item]]:
    """The items in lists of so many."""
    rest = iter(items)
    while part := list(islice(rest, size)):
        yield part


def _files(names: Iterable[str]) -> list[Path]:
    """The files of tests, each once."""
    return [ROOT / file for file in dict.fromkeys(name.partition("::")[0] for name in names)]


def _of_files(functions: Sequence[str], files: frozenset[str]) -> frozenset[str]:
    return frozenset(name for name in functions if name.rpartition(":")[0] in files)


def _failed_tests(output: str) -> list[str]:
    """The tests that failed, as pytest names them."""
    return re.findall(r"^(?:FAILED|ERROR) (.+?)(?: - .*)?$", output, re.MULTILINE)


def _print_verdicts(verdicts: Iterator[Verdict], count: int) -> None:
    """Each as it comes, then the survivors with their lines before and after."""
    survivors, undecided = [], 0
    for number, verdict in enumerate(verdicts, 1):
        outcome = f"killed by {verdict.killer}" if verdict.killer else "SURVIVED"
        print(
            f"{number}/{count}  {verdict.mutant.place}  {outcome if verdict.decided else 'undecided'}",
            flush=True,
        )
        undecided += not verdict.decided
        if not verdict.killer:
            survivors.append(verdict)
    tried = count - undecided
    survived = len(survivors) - undecided
    share = f" ({1 - survived / tried:.0%} killed)" if tried else ""
    print(f"\nkilled {tried - survived}, survived {survived} of {tried}{share}")
    if undecided:
        print(f"undecided when the time was up: {undecided}")
    for verdict in sorted(survivors, key=lambda v: (v.mutant.file, v.mutant.start)):
        print("" if verdict.decided else "undecided: ", verdict.mutant.difference, sep="")


def verdicts_on(mutants: Sequence[Mutant], trial: Trial) -> Iterator[Verdict]:
    """By the quick tests of all of them, then by the slow tests of those that survive these."""
    with ThreadPoolExecutor(trial.jobs) as pool:
        try:
            trial.learn(mutants)
            survivors = []
            for done in as_completed([pool.submit(trial, mutant) for mutant in mutants]):
                verdict = done.result()
                if verdict.killer or not verdict.decided:
                    yield verdict
                else:
                    print(f"the quick tests do not notice {verdict.mutant.difference}", flush=True)
                    survivors.append(verdict.mutant)
            trial.learn(survivors, "slow")
            for done in as_completed([pool.submit(trial, mutant) for mutant in survivors]):
                yield done.result()
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise


def main() -> None:
    """The command line."""
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    arguments.add_argument("paths", nargs="*", type=Path, help="files or folders (all of src)")
    arguments.add_argument("--count", type=int, default=200, help="how many changes to try")
    arguments.add_argument("--seed", type=int, default=1, help="which ones")
    arguments.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="side by side")
    arguments.add_argument("--seconds", type=float, default=math.inf, help="how long at most")
    options = arguments.parse_args()
    files = sources([path.resolve() for path in options.paths] or [PACKAGE])
    every = [mutant for file in files for mutant in mutants_of(file)]
    chosen = sample(every, options.count, options.seed)
    print(f"{len(chosen)} of {len(every):,} changes in {len(files)} files", flush=True)
    with tempfile.TemporaryDirectory(prefix="mutants-") as folder:
        trial = Trial(Path(folder), options.jobs, options.seconds)
        trial.copies.queue[0].check()
        _print_verdicts(verdicts_on(chosen, trial), len(chosen))


if __name__ == "__main__":
    main()
