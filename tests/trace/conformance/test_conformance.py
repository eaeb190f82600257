"""The conformance set: its answers hold for the reference's schema and for us, and wrong readers fail."""

from __future__ import annotations

import json
import sys

import msgspec
import pytest

from chakrakit.trace.conformance import CASES, facts_of, write_cases
from support import oracle
from support.commands import chakra, data


def test_this_package_passes_and_answers_are_written_by_hand(tmp_path):
    paths = write_cases(tmp_path)
    assert {c.name: facts_of(paths[c.name]) for c in CASES} == {c.name: c.expected for c in CASES}
    result = data("conformance")
    assert result["passed"] == len(CASES)


def test_protobuf_s_own_runtime_reads_the_same_nodes_edges_and_types(tmp_path):
    paths = write_cases(tmp_path)
    for case in CASES:
        _, *bodies = oracle.bodies_of(paths[case.name].read_bytes())
        nodes = [oracle.message("Node").FromString(bytes(body)) for body in bodies]
        pairs = {(p, n.id) for n in nodes for p in (*n.data_deps, *n.ctrl_deps)}
        assert (len(nodes), len(pairs)) == (case.expected.nodes, case.expected.edges)


def test_any_command_is_judged_by_what_it_prints(tmp_path):
    """Here a reader that knows every answer by the name of the file, and never sees a fourth edge."""
    answers = {
        path.name: msgspec.to_builtins(facts_of(path)) for path in write_cases(tmp_path).values()
    }
    (tmp_path / "answers.json").write_text(json.dumps(answers))
    script = tmp_path / "reader.py"
    script.write_text(
        "import json, sys\nfrom pathlib import Path\n"
        "answers = json.loads(Path(__file__).with_name('answers.json').read_text())\n"
        "facts = answers[Path(sys.argv[1]).name]\n"
        "facts['edges'] = min(facts['edges'], 3)\nprint(json.dumps(facts))\n"
    )
    done = chakra("conformance", "--", sys.executable, script, "{}")
    assert done.exit_code == 1
    assert "diamond: edges is 4, read as 3" in done.stdout
    assert f"{len(CASES) - 2} of {len(CASES)} cases passed" in done.stdout


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (["no-such-program"], "No such file"),
        ([sys.executable, "-c", "raise SystemExit(3)"], "ended with 3"),
        ([sys.executable, "-c", "print('[]')"], "JSON object"),
        ([sys.executable, "-c", "print(dict())"], "printed none of"),
    ],
)
def test_a_command_that_does_not_answer_fails_with_the_reason(words, problem):
    done = chakra("conformance", "--", *words)
    assert done.exit_code == 1
    assert problem in done.stdout
