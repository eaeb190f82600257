"""Inputs and faults that once broke something: each is refused, or comes out right."""

import msgspec
import numpy as np
import pytest
from click.testing import CliRunner

from chakrakit import TraceBuilder, TraceSet, read, write
from chakrakit.commands import group, main
from chakrakit.errors import ChakraError, ConfigError
from chakrakit.machines import load_machine
from chakrakit.machines.device import Roofline
from chakrakit.simulator.engine import Disturbance
from chakrakit.simulator.results import simulate, split_fault


def ranks_of(count):
    bodies = []
    for _ in range(count):
        t = TraceBuilder()
        t.comp("a", duration_ns=10)
        bodies.append(t.build())
    return TraceSet(bodies)


def test_a_smaller_set_does_not_mix_with_a_larger_one(tmp_path):
    write(ranks_of(4), tmp_path / "x.N.et")
    with pytest.raises(ChakraError, match=r"ranks 2, 3 of another set are there \(x\.2\.et\)"):
        write(ranks_of(2), tmp_path / "x.N.et")
    assert len(read(tmp_path / "x")) == 4
    assert sorted(f.name for f in tmp_path.iterdir()) == [f"x.{i}.et" for i in range(4)]


def test_a_set_is_replaced_whole_or_not_at_all(tmp_path):
    """The second rank cannot be encoded: the first one's file stays as it was."""
    write(ranks_of(2), tmp_path / "x.N.et")
    before = {f.name: f.read_bytes() for f in tmp_path.iterdir()}

    def broken():
        raise ChakraError("the disk is full")

    with pytest.raises(ChakraError, match="full"):
        write(TraceSet([ranks_of(1).body_at(0), broken]), tmp_path / "x.N.et")
    assert {f.name: f.read_bytes() for f in tmp_path.iterdir()} == before


@pytest.mark.parametrize("added", ["counters/mine.csv", "times/notes.txt", "other.7.et", "readme"])
def test_what_a_user_added_to_a_run_is_not_deleted(added, tmp_path):
    run = simulate(ranks_of(2), "dgx-h100").run()
    write(run, tmp_path / "run")
    write(run, tmp_path / "run")  # what is all ours is replaced
    (tmp_path / "run" / added).write_text("dear diary")
    with pytest.raises(ChakraError, match="other things in it"):
        write(run, tmp_path / "run")
    assert (tmp_path / "run" / added).read_text() == "dear diary"


def test_a_directory_with_a_foreign_card_is_not_replaced(tmp_path):
    (tmp_path / "d").mkdir()
    (tmp_path / "d" / "card.json").write_text('{"name": "business"}')
    with pytest.raises(ChakraError, match="other things in it"):
        write(ranks_of(1), tmp_path / "d")


@pytest.mark.parametrize("content", [b"\xff\xfe{", b'{"extra":' + b"[" * 100_000])
def test_a_card_that_is_no_text_or_too_deep(content, tmp_path):
    write(ranks_of(1), tmp_path / "d")
    (tmp_path / "d" / "card.json").write_bytes(content)
    with pytest.raises(ChakraError, match="not a card"):
        read(tmp_path / "d")


@pytest.mark.parametrize("text", ["device:0@1.2.3=1", "device:0@1=1.2.3"])
def test_a_fault_whose_numbers_are_none(text):
    with pytest.raises(ConfigError, match="should be numbers"):
        split_fault(text)


def test_a_seed_below_zero():
    with pytest.raises(ConfigError, match="seed -1"):
        Disturbance(0.1, -1)


@pytest.mark.parametrize("settings", [{"num_ops": 2**62}, {"tensor_size": 2**62}])
def test_work_that_would_take_longer_than_the_clock_lasts(settings):
    t = TraceBuilder()
    t.comp("endless", **settings)
    slow = load_machine("dgx-h100").devices[0]
    slow = msgspec.structs.replace(slow, peak={"bf16": 1.0}, memory_bandwidth=1.0)
    with pytest.raises(ConfigError, match="days; check num_ops"):
        Roofline().costs(t.build(), slow)


def test_a_duration_that_cannot_be_is_refused_by_the_roofline_too():
    t = TraceBuilder()
    t.comp("long", duration_ns=2**62)
    with pytest.raises(ConfigError, match="has a duration of"):
        Roofline().costs(t.build(), load_machine("dgx-h100").devices[0])


def test_streams_minus_one_and_one_are_two():
    t = TraceBuilder()
    t.comp("a", duration_ns=1000, stream=-1)
    t.comp("b", duration_ns=1000, stream=1)
    done = simulate(TraceSet([t.build()]), "dgx-h100")
    assert np.array_equal(done.run().start(0), [0, 0])


def test_calibrate_leaves_the_old_profile_when_it_fails(tmp_path):
    profile = tmp_path / "p.json"
    profile.write_text("precious")
    write(ranks_of(1), tmp_path / "w")
    with pytest.raises(SystemExit):
        main(["calibrate", str(tmp_path / "w"), "-o", str(profile)])
    assert profile.read_text() == "precious"


def test_the_escape_sequences_of_a_name_do_not_reach_the_terminal(tmp_path):
    t = TraceBuilder()
    t.comp("\x1b[31mred", duration_ns=1)
    write(TraceSet([t.build()]), tmp_path / "w")
    said = (
        CliRunner().invoke(group, ["query", str(tmp_path / "w"), "SELECT name FROM nodes"]).stdout
    )
    assert "\x1b" not in said
    assert "red" in said


def test_the_escape_sequences_of_a_name_do_not_reach_the_terminal_in_an_error(tmp_path, capsys):
    with pytest.raises(SystemExit):
        main(["info", str(tmp_path / "\x1b]0;mine\x07\u202e")])
    said = capsys.readouterr().err
    assert not {"\x1b", "\x07", "\u202e"} & set(said)
    assert r"\x1b]0;mine\x07\u202e: no such file" in said


def test_a_search_of_the_web_app_takes_time_in_proportion():
    """An expression on which backtracking never ends, over a name of a hundred letters."""
    from chakrakit.insight.rank import rank_view
    from chakrakit.views.app.search import _by_text

    t = TraceBuilder()
    t.comp("a" * 100, duration_ns=1)
    run = simulate(TraceSet([t.build()]), "dgx-h100").run()
    assert _by_text("name", "~", "(a+)+$x")(rank_view(run, 0)).tolist() == [False]
    assert _by_text("name", "~", "^a+$")(rank_view(run, 0)).tolist() == [True]
    with pytest.raises(ConfigError, match="not a regular expression"):
        _by_text("name", "~", "(")


@pytest.mark.slow
def test_a_long_log_of_measurements_is_fitted_like_a_short_one():
    """1,200 sizes on two straight lines: the cut is found, and not every way to cut is tried."""
    from chakrakit.machines.calibrate import fit_ranges

    sizes = np.geomspace(8, 2**30, 1200)
    points = [(s, max(20 + s / 1e3, s / 2e3 + 500)) for s in sizes.tolist()]
    found = fit_ranges(points)
    assert 2 <= len(found) <= 3
    assert max(r.error for r in found) < 0.05
