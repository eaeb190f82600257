"""Traffic by class, costs at ports and groups set up, from the simulation to analysis, page and view."""

import json

import pytest

import chakrakit as ck
from chakrakit.commands import main
from chakrakit.trace.model import CollectiveType, TraceBuilder
from chakrakit.trace.sets import RunFacts, TraceSet
from chakrakit.views.report import SECTIONS

MACHINE = """\
name: small
device: {peak: {bf16: 1 TFLOP/s}, memory_bandwidth: 1 TB/s}
network:
  - {topology: switch, size: 4, bandwidth: 10 GB/s, messages: {overhead: 2 us, gap: 1 us}}
software: {groups: {create: 1 ms}}
"""


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    folder = tmp_path_factory.mktemp("facts")
    (folder / "machine.yaml").write_text(MACHINE)
    t = TraceBuilder()
    urgent = t.collective("urgent", CollectiveType.ALL_TO_ALL, 1 << 20, link_priority=1)
    t.collective("other", CollectiveType.ALL_REDUCE, 1 << 20, deps=[urgent])
    done = ck.simulate(TraceSet.of(t, ranks=4), str(folder / "machine.yaml"))
    ck.write(done.run(), folder / "run")
    return done.summary, folder / "run"


def test_a_run_on_disk_says_what_its_simulation_said(saved):
    summary, path = saved
    facts = RunFacts.of(ck.read(path).counters)
    assert facts == summary.run_facts
    assert [c.priority for c in facts.link_classes] == [1, 0]
    assert facts.ports.messages > 0
    assert facts.group_setup_ns > 0


def test_analysis_page_and_view_show_it(saved, capsys, tmp_path):
    summary, path = saved
    analysis = ck.analyze(str(path))
    assert analysis.ports.port_ns == summary.ports.port_ns
    titles = {t.title for t in analysis.tables() if t.rows}
    assert {"traffic by class", "messages at ports", "setting up groups"} <= titles
    shown = "".join(str(part) for part in SECTIONS["Communication"][1](analysis))
    assert "held ports" in shown
    main(["analyze", str(path), "--json"], standalone_mode=False)
    printed = json.loads(capsys.readouterr().out)
    assert printed["link_classes"][0]["priority"] == 1
    page = tmp_path / "page.html"
    ck.report(str(path), output=page)
    assert "held ports" in page.read_text()
