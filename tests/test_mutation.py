"""The tool that changes the sources: what it changes, what it leaves alone, and whose tests it asks."""

from __future__ import annotations

from pathlib import Path

import pytest

import mutation
from mutation import Copy, Mutant, Trial, Verdict, lines_around, mutants_of, sample, stages_of


def changes(folder: Path, text: str) -> list[str]:
    """Every line as a change leaves it."""
    file = folder / "x.py"
    file.write_text(text)
    return [mutant.lines[1] for mutant in mutants_of(file)]


@pytest.mark.parametrize(
    ("line", "changed"),
    [
        ("x = a < b <= c", ["x = a <= b <= c", "x = a < b < c"]),
        ("x = a is not None", ["x = a is None"]),
        ("x = a not in b", ["x = a in b"]),
        ("x = (a) + (b)", ["x = (a) - (b)"]),
        ("x += a", ["x -= a"]),
        ("x = a & ~b", ["x = a | ~b", "x = a & b"]),
        ("x = a and b or c", ["x = a and b and c", "x = a or b or c"]),
        ("x = not a", ["x = a"]),
        ("x = min(a, b)", ["x = max(a, b)"]),
        ("x = np.maximum(a, b)", ["x = np.minimum(a, b)"]),
        ("x = 'ü' + y", ["x = 'ü' - y"]),
        ("def f(): return a", ["def f(): return None"]),
    ],
)
def test_each_place_is_changed_by_itself(line: str, changed: list[str], tmp_path: Path) -> None:
    assert changes(tmp_path, f"{line}\n") == changed


@pytest.mark.parametrize(
    ("number", "changed"), [("4", {"3", "5"}), ("0.5", {"-0.5", "1.5"}), ("1e9", {"2000000000.0"})]
)
def test_numbers_go_one_up_or_down_and_large_rates_double(
    number: str, changed: set[str], tmp_path: Path
) -> None:
    made = {*changes(tmp_path, f"x = {number}\n"), *changes(tmp_path, f"xy = {number}\n")}
    assert {text.split("(")[1].rstrip(")") for text in made} == changed


def test_what_no_test_should_notice_is_left_alone(tmp_path: Path) -> None:
    text = """
    from typing import TYPE_CHECKING
    if TYPE_CHECKING or 1 == 2:
        import x
    Number = int | None
    @cache(maxsize=3)
    def f(a: int | None, *, b: "1 + 1") -> 3 | 4:
        raise ValueError(f"{a + 1} and {a}", 1 + 2)
    class A:
        count: list[3]
        def __repr__(self):
            return str(1 + 1)
    y = f"{1 + 1}"
    z = FormatError("no", line=3)
    """
    assert changes(tmp_path, "\n".join(line[4:] for line in text.splitlines())) == []


def test_a_sample_is_the_same_for_the_same_seed_and_is_python(tmp_path: Path) -> None:
    file = tmp_path / "x.py"
    file.write_text("x = 1 + 2 + 3 + 4\n")
    every = [*mutants_of(file), Mutant(file, 0, 1, "(")]
    assert len(sample(every, 100, seed=1)) == len(every) - 1
    assert sample(every, 3, seed=1) == sample(every, 3, seed=1) != sample(every, 3, seed=2)


QUICK_PROFILE = "from hypothesis import settings\nsettings.register_profile('quick')\n"


@pytest.fixture
def house(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A package of two rooms, with tests in some of the places where they may be."""
    files = {
        "pyproject.toml": "[tool.pytest.ini_options]\nmarkers = ['slow']\n",
        "tests/conftest.py": QUICK_PROFILE,
        "src/chakrakit/__init__.py": "",
        "src/chakrakit/room/inner/part.py": "x = 1\n",
        "src/chakrakit/alone.py": "y = 1\n",
        "tests/room/inner/test_part.py": "",
        "tests/room/inner/test_other.py": "",
        "tests/room/test_far.py": "",
        "tests/room/test_user.py": "from chakrakit.room.inner.part import x\n",
        "tests/room/test_visitor.py": "from chakrakit.room import x\n",
        "tests/room/capture/test_torch.py": "",
        "tests/other/test_alone.py": "from chakrakit import alone\n",
    }
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    monkeypatch.setattr(mutation, "ROOT", tmp_path)
    monkeypatch.setattr(mutation, "TESTS", tmp_path / "tests")
    monkeypatch.setattr(mutation, "PACKAGE", tmp_path / "src" / "chakrakit")
    return tmp_path


def test_the_nearest_tests_come_first_and_none_twice(house: Path) -> None:
    stages = stages_of(house / "src/chakrakit/room/inner/part.py")
    assert [[file.name for file in stage] for stage in stages] == [
        ["test_part.py", "test_user.py", "test_visitor.py"],
        [],
        ["test_other.py", "test_far.py"],
    ]


def test_a_module_outside_rooms_has_the_tests_that_import_it(house: Path) -> None:
    stages = stages_of(house / "src/chakrakit/alone.py")
    assert [[file.name for file in stage] for stage in stages] == [["test_alone.py"], [], []]


def test_a_copy_is_changed_and_the_sources_are_not(house: Path) -> None:
    source = house / "src/chakrakit/alone.py"
    copy = Copy(house / "copy", 1 << 30)
    (mutant,) = mutants_of(source)
    with copy.changed(mutant):
        assert (house / "copy/chakrakit/alone.py").read_bytes() == mutant.source != b"y = 1\n"
    assert (house / "copy/chakrakit/alone.py").read_text() == source.read_text() == "y = 1\n"


def trial_of(house: Path, test: str) -> tuple[Trial, Mutant]:
    """A file of tests, run without a change, and the one change of `y = 1`."""
    (house / "tests/other/test_alone.py").write_text(f"from chakrakit import alone\n{test}")
    (mutant,) = mutants_of(house / "src/chakrakit/alone.py")
    trial = Trial(house / "copies", 1)
    trial.learn([mutant])
    return trial, mutant


SEES = "def test_sees():\n    from chakrakit.alone import y\n    assert y == 1\n"
BROKEN = "def test_broken():\n    assert False\n"


@pytest.mark.slow
def test_a_change_is_killed_by_a_test_that_passes_without_it_alone(house: Path) -> None:
    trial, mutant = trial_of(house, BROKEN + SEES)
    assert trial(mutant).killer == "tests/other/test_alone.py::test_sees"


@pytest.mark.slow
def test_a_file_that_cannot_be_imported_kills_nothing(house: Path) -> None:
    trial, mutant = trial_of(house, "import not_installed_here\n")
    assert trial(mutant) == Verdict(mutant, "")


@pytest.mark.slow
def test_a_folder_whose_fixtures_cannot_be_imported_kills_nothing(house: Path) -> None:
    (house / "tests/other/conftest.py").write_text("import not_installed_here\n")
    trial, mutant = trial_of(house, SEES)
    assert trial(mutant) == Verdict(mutant, "")


def test_nothing_is_decided_once_the_time_is_up(house: Path) -> None:
    trial, mutant = trial_of(house, SEES)
    trial.end = 0.0
    assert trial(mutant) == Verdict(mutant, "", decided=False)


CALLS = """
import pytest
from chakrakit.alone import f, g
@pytest.fixture(scope="module")
def ready():
    return f()
def test_one(ready):
    pass
def test_two(ready):
    g()
def test_three():
    g()
"""


@pytest.mark.slow
def test_a_test_enters_what_its_fixtures_enter_whichever_test_they_were_set_up_for(
    house: Path,
) -> None:
    source = house / "src/chakrakit/alone.py"
    source.write_text("def f():\n    return 1\ndef g():\n    return f\n")
    (house / "tests/other/test_alone.py").write_text(CALLS)
    trial = Trial(house / "copies", 1)
    mutants = mutants_of(source)
    trial.learn(mutants)
    entering = [
        [
            t.name.split("_")[-1]
            for tests in trial.tests.values()
            for t in tests
            if t.enters(m, lines_around(m))
        ]
        for m in (mutants[0], mutants[-1])
    ]
    assert entering == [["one", "two"], ["two", "three"]]


@pytest.mark.parametrize(("line", "lines"), [(1, range(0)), (4, range(2, 5)), (7, range(6, 8))])
def test_the_function_around_a_change_has_its_decorators(
    line: int, lines: range, tmp_path: Path
) -> None:
    file = tmp_path / "x.py"
    file.write_text(
        "x = 1\n@cache\ndef f():\n    return 1\nclass A:\n    def g(self):\n        return 2\n"
    )
    (mutant,) = [m for m in mutants_of(file) if m.line == line and m.text.startswith("(")]
    assert lines_around(mutant) == lines


def test_files_that_are_handed_pytorch_are_left_out() -> None:
    folder = mutation.PACKAGE / "workloads" / "models" / "hugging_face"
    names = {file.name for file in mutation.sources([folder])}
    assert "text.py" in names
    assert "captured_layers.py" not in names
