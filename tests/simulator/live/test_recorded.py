"""What programs did, from the command that runs them to the tools that look at runs."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np

import chakrakit as ck
from chakrakit.simulator import live
from chakrakit.views.app.session import AppSession
from chakrakit.views.app.shown_run import ShownRun
from support.commands import data, succeeded

PROGRAM = """
from chakrakit.simulator import live

def asks(me, pool, n):
    for _ in range(n):
        yield live.compute(1000, name="think")
        yield live.send("answers", 4000, "question")
        yield live.receive()
        yield live.use(pool, 500)

def answers(me, n):
    for _ in range(n):
        (m,) = yield live.receive()
        yield live.send(m.sender, 100, "answer")

def program(world, n: int = 3):
    pool = world.pool("desk", 1)
    world.actor(asks, pool, n, rank=0, name="asks")
    world.actor(answers, n, rank=1, name="answers")
"""
SITE = "network:\n  - {topology: switch, size: 2, bandwidth: 1 GB/s, latency: 500 ns}\n"


def written(folder: Path) -> tuple[str, ...]:
    (folder / "p.py").write_text(PROGRAM)
    (folder / "site.yaml").write_text(SITE)
    return ("live", str(folder / "p.py"), "--machine", str(folder / "site.yaml"))


def test_a_program_of_a_file_becomes_a_run_that_every_tool_opens(tmp_path: Path) -> None:
    run = tmp_path / "run"
    told = json.loads(succeeded(*written(tmp_path), "--set", "n=2", "-o", str(run), "--json"))
    each = 1000 + (1000 + 4000) + (1000 + 100) + 500
    assert told["end_ns"] == 2 * each
    assert told["messages"] == 4
    assert told["pools"][0]["uses"] == 2
    assert told["pools"][0]["busy_share"] == 500 / each
    read = ck.read(run)
    assert isinstance(read, ck.Run)
    assert read.makespan_ns == 2 * each
    assert read.collectives.messages.num_rows == 8
    assert [read.rank_name(r) for r in read.ranks] == ["rank 0 · asks", "rank 1 · answers"]
    analysis = ck.analyze(run)
    assert [r.rank for r in analysis.ranks] == [0, 1]
    assert analysis.actors == ["asks", "answers"]
    assert "1 · answers" in succeeded("analyze", str(run), "--section", "time")
    answers = " ".join(succeeded("analyze", str(run), "--full").split())
    assert "in all on 2 actors." in answers
    assert "an actor a step on average" in answers
    page = Path(str(tmp_path / "page.html"))
    ck.report(run, output=page)
    assert page.stat().st_size > 10_000
    assert ck.validate(run).ok


def test_the_web_app_names_the_actors() -> None:
    names: dict[str, object] = {}
    exec(compile(PROGRAM, "p.py", "exec"), names)
    world = live.World({"network": [{"topology": "switch", "size": 2, "bandwidth": 1e9}]})
    names["program"](world)  # type: ignore[operator]
    session = AppSession([ShownRun(world.run().run(), "run", [])])
    assert [text for _, _, text in session.summary()["sides"][0]["folds"]] == [
        "rank 0 · asks",
        "rank 1 · answers",
    ]


def test_a_node_follows_what_its_program_did_before() -> None:
    def works(me):
        yield live.compute(10, name="a")
        yield live.all_of(live.compute(20, name="b"), live.compute(30, name="c", host=True))
        yield live.compute(5, name="d")

    world = live.World()
    world.actor(works)
    run = world.run().run()
    trace = run.trace(0)
    edges = {
        (trace[a].name, trace[b].name)
        for a, b in zip(trace.edges.src, trace.edges.dst, strict=True)
    }
    assert edges == {("a", "b"), ("a", "c"), ("b", "d"), ("c", "d")}
    assert run.end(0).tolist() == [10_000, 30_000, 40_000, 45_000]
    assert np.array_equal(run.start(0), [0, 10_000, 10_000, 40_000])


def test_what_programs_return_is_in_the_data_and_cut_on_the_screen(tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text(
        "def program(world):\n"
        "    def one(me, value):\n        return value\n        yield\n"
        "    for i in range(25):\n        world.actor(one, {'number': i}, name=f'a{i}')\n"
        "    world.actor(one, object, name='odd')\n"
    )
    summary = data("live", tmp_path / "program.py")
    assert summary["returned"]["a7"] == {"number": 7}
    assert summary["returned"]["odd"] == "<class 'object'>"
    told = succeeded("live", tmp_path / "program.py")
    assert "a19: " in told
    assert "a20: " not in told
    assert "… and what 6 more actors returned; --json has all" in told
