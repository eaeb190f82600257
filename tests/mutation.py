"""Changes the sources in one place at a time, and says which changes no test notices.

    python tests/mutation.py --count 200 --seed 1 --jobs 2 --seconds 600 [FILE or FOLDER of src …]

A change that makes a test fail is *killed*; one that *survives* is in a line whose tests do not care what it
does. Each is tried on a copy of the sources, which comes first on Python's path, so nothing is changed in
place and several are tried side by side. The tests of a changed file are its nearest ones, then the kept
results of its room, which notice most of the rest, then those of its folder and of its room: found from paths
and imports when this runs, and run in that order until one fails; last come the slow ones among the nearest.
A test that fails without any change as well says nothing and is left out.
"""

from __future__ import annotations

import argparse
import ast
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
import threading
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, as_completed
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cache
from importlib.util import cache_from_source, find_spec
from itertools import islice
from pathlib import Path
from site import getsitepackages

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
    def place(self) -> str:
        """The file and the line."""
        line = self.file.read_bytes().count(b"\n", 0, self.start) + 1
        return f"{self.file.relative_to(ROOT)}:{line}"

    @property
    def lines(self) -> tuple[str, str]:
        """The whole lines that it changes, before and after."""
        source = self.file.read_bytes()
        first, last = source.rfind(b"\n", 0, self.start) + 1, source.index(b"\n", self.end)
        changed = source[first : self.start] + self.text.encode() + source[self.end : last]
        return source[first:last].decode(), changed.decode()


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
    parts = file.relative_to(PACKAGE).with_suffix("").parts
    own = {module.split(".")[0] for module, _ in imported_names(file)}
    return _is_among_other_frameworks(parts) or not own.isdisjoint({"torch", "jax"})


def _is_among_other_frameworks(parts: Sequence[str]) -> bool:
    return not WITH_OTHER_FRAMEWORKS.isdisjoint(parts)


def stages_of(source: Path) -> list[tuple[Path, ...]]:
    """The test files of a source file in the order they are tried, none of them twice."""
    own = source.relative_to(PACKAGE)
    module = ".".join(("chakrakit", *own.with_suffix("").parts)).removesuffix(".__init__")
    room = TESTS / own.parts[0]
    within = _test_files(room if room.is_dir() else TESTS)
    importing = [file for file in within if _imports(file, module, source)]
    folders = [TESTS / parent for parent in own.parents if (TESTS / parent).is_dir()]
    stages = [
        [TESTS / own.parent / f"test_{own.name}"],
        importing,
        [room / "test_kept_results.py"],
        _test_files(folders[0]) if folders[0] != TESTS else [],
        _test_files(room),
    ]
    return [stage for stage in _without_repeats(stages) if stage]


def _test_files(folder: Path) -> list[Path]:
    files = sorted(folder.rglob("test_*.py"))
    return [f for f in files if not _is_among_other_frameworks(f.relative_to(TESTS).parts)]


def _without_repeats(stages: list[list[Path]]) -> Iterator[tuple[Path, ...]]:
    earlier: set[Path] = set()
    for stage in stages:
        yield tuple(file for file in stage if file not in earlier and file.exists())
        earlier.update(stage)


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
        self, files: Sequence[Path], limit: float | None = None, options: Sequence[str] = ()
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

    def _command(self, files: Sequence[Path]) -> list[str]:
        options = ["-q", "--hypothesis-profile", "quick"]
        options += ["-p", "no:cacheprovider", f"--basetemp={self.folder / 'temporary'}"]
        names = [str(file.relative_to(ROOT)) for file in files]
        return [sys.executable, "-m", "pytest", *options, *names]

    def _environment(self) -> dict[str, str]:
        path = os.pathsep.join(filter(None, [str(self.folder), os.environ.get("PYTHONPATH")]))
        return {**os.environ, "PYTHONPATH": path, "OMP_NUM_THREADS": "1"}

    def _limit_memory(self) -> None:
        resource.setrlimit(resource.RLIMIT_AS, (self.memory, self.memory))


SLOWER = 10
"""A change whose tests run so many times as long as without it is noticed: it does not end, or nearly so."""
PATIENCE = 100.0
"""Seconds after which it is asked how long the tests take without the change: longer than most rooms need."""
LEAST_MEMORY = 8 << 30
"""Addresses, of which Arrow and PyTorch reserve a few GiB; a change that wants far more fails by itself."""
QUICK, SLOW = ("-m", "not slow"), ("-m", "slow")
NEAREST = 2
"""Stages whose slow tests are asked as well: a file's own tests, and those that import it."""
PASSED = {0, 5}
"""Pytest's status where all tests passed, and where there were none."""


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
    """Tries changes on copies, and remembers which tests fail without one."""

    def __init__(self, folder: Path, jobs: int, seconds: float = math.inf) -> None:
        share = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // jobs
        self.copies: queue.Queue[Copy] = queue.Queue()
        for number in range(jobs):
            self.copies.put(Copy(folder / str(number), max(LEAST_MEMORY, share)))
        self.end = time.monotonic() + seconds
        self.unchanged: dict[str, Future[frozenset[str]]] = {}
        self.lock = threading.Lock()

    def __call__(self, mutant: Mutant) -> Verdict:
        """Tests of a change, the nearest first, until one fails."""
        copy = self.copies.get()
        try:
            stages = [(files, QUICK) for files in stages_of(mutant.file)]
            stages += [(files, SLOW) for files, _ in stages[:NEAREST]]
            killers = (self._killer(mutant, files, marked, copy) for files, marked in stages)
            return Verdict(mutant, next(filter(None, killers), ""))
        except OutOfTimeError:
            return Verdict(mutant, "", decided=False)
        finally:
            self.copies.put(copy)

    def _killer(
        self, mutant: Mutant, files: Sequence[Path], marked: Sequence[str], copy: Copy
    ) -> str:
        """The test among these that notices a change, "" if none does."""
        patience = PATIENCE
        while True:
            left_out = self._left_out(files)
            # Pytest heeds no --ignore for a file that it was given by name.
            files = [file for file in files if str(file.relative_to(ROOT)) not in left_out]
            if not files:
                return ""
            options = [*marked, *_options(left_out)]
            with copy.changed(mutant):
                status, output = self._run(copy, files, patience, ["-x", *options])
            if status in PASSED:
                return ""
            if status is None:
                least = SLOWER * self._seconds(copy, files, options)
                if least <= patience:
                    return "time"
                patience = least
            elif not (failed := _failed_tests(output)):
                self._check_start(copy, files)
                return "an import"
            elif failed[0] not in self._failing(failed[0].partition("::")[0], copy):
                return failed[0]
            elif failed[0] in left_out:
                raise SystemExit(f"{failed[0]} fails without any change, and cannot be left out")

    def _run(
        self, copy: Copy, files: Sequence[Path], limit: float, options: Sequence[str] = ()
    ) -> tuple[int | None, str]:
        left = self.end - time.monotonic()
        status, output = copy.run(files, min(limit, max(left, 0.0)), options)
        if status is None and left < limit:
            raise OutOfTimeError
        return status, output

    def _seconds(self, copy: Copy, files: Sequence[Path], options: Sequence[str]) -> float:
        """How long tests take without a change."""
        start = time.monotonic()
        self._run(copy, files, LONGEST, options)
        return time.monotonic() - start

    def _check_start(self, copy: Copy, files: Sequence[Path]) -> None:
        """Fails where pytest cannot even collect these tests without a change."""
        options = ["--collect-only", *_options(self._left_out(files))]
        status, output = self._run(copy, files, LONGEST, options)
        if status not in PASSED:
            raise SystemExit(f"without any change, these tests do not run:\n{output[-4000:]}")

    def _left_out(self, files: Sequence[Path]) -> list[str]:
        """What is known to fail without a change."""
        known = [self.unchanged.get(str(file.relative_to(ROOT))) for file in files]
        return [name for f in known if f is not None and f.done() for name in f.result()]

    def _failing(self, file: str, copy: Copy) -> frozenset[str]:
        """The tests of a file that fail without a change, or the file where it cannot be imported."""
        with self.lock:
            first = file not in self.unchanged
            future = self.unchanged.setdefault(file, Future())
        if first:
            try:
                _, output = self._run(copy, [ROOT / file], LONGEST)
                future.set_result(frozenset(_failed_tests(output)))
            except BaseException as problem:
                future.set_exception(problem)
        for name in future.result() if first else ():
            print(f"left out, since it fails without any change: {name}", flush=True)
        return future.result()


LONGEST = 3600.0
"""Seconds for tests without a change, which end."""


def _options(left_out: Sequence[str]) -> list[str]:
    """Pytest's options that leave out tests, or files that cannot be imported."""
    return [f"--{'deselect' if '::' in name else 'ignore'}={name}" for name in left_out]


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
        if verdict.decided and not verdict.killer:
            survivors.append(verdict.mutant)
    tried = count - undecided
    share = f" ({1 - len(survivors) / tried:.0%} killed)" if tried else ""
    print(f"\nkilled {tried - len(survivors)}, survived {len(survivors)} of {tried}{share}")
    if undecided:
        print(f"undecided when the time was up: {undecided}")
    for mutant in sorted(survivors, key=lambda m: (m.file, m.start)):
        before, after = mutant.lines
        print(mutant.place, *(f"-{line}" for line in before.splitlines()), sep="\n")
        print(*(f"+{line}" for line in after.splitlines()), sep="\n", flush=True)


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
        with ThreadPoolExecutor(options.jobs) as pool:
            waiting = [pool.submit(trial, mutant) for mutant in chosen]
            try:
                _print_verdicts((done.result() for done in as_completed(waiting)), len(chosen))
            except BaseException:
                pool.shutdown(wait=False, cancel_futures=True)
                raise


if __name__ == "__main__":
    main()
