"""From what a command line says to runs and options."""

import pytest

import chakrakit as ck
from chakrakit.errors import ConfigError, TraceError
from chakrakit.insight.rank import as_run, facts_of, name_of, pairs, parse_ranks


def traces(**fields):
    t = ck.TraceBuilder()
    t.comp("mm", **fields)
    return ck.TraceSet([t.build()], {0: ck.Binding(0)})


def test_nodes_with_times_are_a_run():
    run = as_run(traces(start_time_ns=5, duration_ns=10))
    assert run.makespan_ns == 10


def test_nodes_without_are_refused_with_the_cure():
    with pytest.raises(TraceError, match=r"'w' has no times: link a recording \(chakra link\)"):
        as_run(traces(), "w")


def test_changed_traces_have_to_be_simulated_first():
    changed = traces(start_time_ns=5, duration_ns=10) | ck.Edit(scale=2)
    with pytest.raises(TraceError, match="simulate it first"):
        as_run(changed, "w")


@pytest.mark.parametrize(("text", "ranks"), [("", []), ("3", [3]), ("0,1,5", [0, 1, 5])])
def test_ranks(text, ranks):
    assert parse_ranks(text) == ranks


def test_ranks_that_are_no_numbers_are_refused():
    with pytest.raises(ConfigError, match="give numbers, as in 0,1,5"):
        parse_ranks("0-5")


def test_what_is_to_be_faster():
    assert pairs(["compute=2", "name=a=b=3"]) == (("compute", 2.0), ("name=a=b", 3.0))
    for text in ("compute", "=2", "compute=fast"):
        with pytest.raises(ConfigError, match="give WHAT=K"):
            pairs([text])


def test_a_run_is_called_by_its_card_or_its_path():
    run = as_run(traces(start_time_ns=5, duration_ns=10))
    assert name_of(run, "here/w") == "w"
    named_run = run.with_card(run.card.replace(name="mine", tool="me"))
    assert name_of(named_run, "here/w") == "mine"
    assert facts_of(named_run, "here/w") == {"": "here/w", "ranks:": "1", "made by": "me"}


def test_a_simulated_run_says_whether_it_fits():
    """125,226,240 parameters at 18 bytes are 2.1 GiB; activations come on top."""
    run = ck.simulate(
        ck.generate(model="gpt3-125m", seq=128, global_batch=1).traces, "dgx-h100"
    ).run()
    assert facts_of(run)["memory:"] == "fits, 2.2 of 79.2 GiB"
    small = run.with_card(
        run.card.replace(settings=run.card.settings | {"device_memory_bytes": 2**30})
    )
    assert facts_of(small)["memory:"] == "DOES NOT FIT, 2.2 of 1.0 GiB"
