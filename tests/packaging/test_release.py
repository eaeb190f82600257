"""What a release is made from: one version, notes of the changelog, workflows that GitHub understands."""

from __future__ import annotations

import re
import subprocess
import tomllib

import pytest
import yaml

import chakrakit as ck
from support.paths import ROOT
from support.scripts import script

WORKFLOWS = sorted((ROOT / ".github/workflows").glob("*.yml"))


def test_the_version_stands_in_the_package_alone() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert "version" in project["dynamic"]
    package = (ROOT / "src/chakrakit/__init__.py").read_text()
    assert script("release_notes").version_of(package) == ck.__version__
    assert yaml.safe_load((ROOT / "CITATION.cff").read_text())["version"] == ck.__version__


def test_the_notes_of_a_release_are_its_section_of_the_changelog() -> None:
    changelog = (
        "## Unreleased\n\n- soon\n\n## [1.2.0] - 2030-01-01\n\n- this\n\n## 1.1.0\n\n- old\n"
    )
    assert script("release_notes").notes_of("v1.2.0", changelog, "1.2.0") == "- this"


@pytest.mark.parametrize(
    ("tag", "version", "why"),
    [("v1.3.0", "1.2.0", "the package is 1.2.0"), ("v1.3.0", "1.3.0", "no section 1.3.0")],
)
def test_a_tag_that_the_package_or_the_changelog_does_not_know_is_refused(
    tag: str, version: str, why: str
) -> None:
    with pytest.raises(SystemExit, match=why):
        script("release_notes").notes_of(tag, "## 1.2.0\n\n- this\n", version)


@pytest.mark.parametrize("workflow", WORKFLOWS, ids=lambda path: path.stem)
def test_actions_of_others_are_pinned_to_a_commit(workflow: object) -> None:
    uses = re.findall(r"uses: (\S+)", (ROOT / str(workflow)).read_text())
    assert uses
    assert all(re.search(r"@[0-9a-f]{40}$", name) or name.startswith("./") for name in uses)


@pytest.mark.parametrize("workflow", WORKFLOWS, ids=lambda path: path.stem)
def test_make_targets_that_workflows_call_exist(workflow: object) -> None:
    targets = re.findall(r"run: make (\w+)", (ROOT / str(workflow)).read_text())
    makefile = (ROOT / "Makefile").read_text()
    assert all(re.search(rf"^{target}:", makefile, re.MULTILINE) for target in targets)


def test_what_make_starts_keeps_the_compiled_code(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONDONTWRITEBYTECODE", "1")
    for name in ("MAKEFLAGS", "MFLAGS", "MAKELEVEL"):  # of the make that started the tests
        monkeypatch.delenv(name, raising=False)
    show = 'show: ; @echo "<$$PYTHONDONTWRITEBYTECODE>"'
    done = subprocess.run(
        ["make", "-s", "--no-print-directory", "--eval", show, "show"],
        cwd=ROOT,
        capture_output=True,
        text=True,
    )
    assert done.stdout == "<>\n"
