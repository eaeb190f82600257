"""Findings: all counted, the first of each kind kept, safe to print."""

from chakrakit import TraceBuilder
from chakrakit.trace.validation.findings import Findings, printable


def test_text_is_safe_to_print_and_not_too_long():
    assert printable("a\x1b[31m\n") == "a\\x1b[31m\\n"
    long = printable("a" * 100 + "z" * 100)
    assert (len(long), long[0], long[-1]) == (80, "a", "z")


def test_of_one_kind_and_rank_the_first_few_are_kept_and_all_counted():
    findings = Findings(keep=2)
    for i in range(5):
        findings.add("empty-name", 0, f"{i}", node=i)
    findings.add("empty-name", 1, "other rank")
    report = findings.report(2)
    assert [(f.rank, f.message) for f in report.findings if f.rank == 0] == [
        (0, "0"),
        (0, "1"),
        (0, "3 more like these, 5 in all"),
    ]
    assert report.counts["empty-name"] == 6


def test_messages_are_made_only_for_what_is_kept():
    t = TraceBuilder()
    for i in range(4):
        t.comp(f"n{i}")
    made = []
    findings = Findings(keep=1)
    findings.add_rows("empty-name", 0, t.build(), range(4), lambda row: made.append(row) or "x")
    assert made == [0]
    assert findings.report(1).counts["empty-name"] == 4


def test_what_was_found_elsewhere_is_added():
    here, there = Findings(keep=1), Findings(keep=1)
    here.add("empty-name", 0, "here")
    there.add("empty-name", 0, "there")
    there.nodes = 7
    here.merge(there)
    report = here.report(1)
    assert (report.counts["empty-name"], report.nodes) == (2, 7)
    assert [f.message for f in report.findings] == ["here", "1 more like these, 2 in all"]


def test_of_plain_readings_the_farthest_off_is_told():
    findings = Findings()
    for spans in ((100, 110), None, (100, 300), (100, 90)):
        findings.plain(spans)
    report = findings.report(1)
    assert (report.span_ns, report.plain_span_ns) == (100, 300)
