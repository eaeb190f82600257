"""Editing a run in a real browser: drawn below the original, undone, and written as commands."""

from __future__ import annotations

import shlex

import pytest

from support.commands import data, succeeded

pytestmark = pytest.mark.slow

_SLIDE = """(() => {
  const slider = document.querySelector("#edits input[type=range]");
  for (const times of [1.2, 1.6, 2.2, 4]) {
    slider.value = Math.log(times);
    slider.dispatchEvent(new Event("input"));
  }
  slider.dispatchEvent(new Event("change"));
})()"""

_MARK = """(() => {
  const area = chakra.timeline.scroller, { left, top } = area.getBoundingClientRect();
  const send = (type, x, y, buttons) => area.dispatchEvent(new PointerEvent(type,
    { clientX: left + x, clientY: top + y, shiftKey: true, buttons, pointerId: 1, bubbles: true }));
  area.setPointerCapture = () => {};
  send("pointerdown", 300, 40, 1);
  send("pointermove", 700, 260, 1);
  send("pointerup", 700, 260, 0);
})()"""


def settled(page) -> dict:
    """What the edits come to, once the last ones were scheduled and drawn."""
    page.until("chakra.editor.last === chakra.state.edits && !chakra.editor.busy")
    page.settle()
    return page.js("chakra.editor.outcome")


def test_a_class_is_made_faster_seen_below_undone_and_written(view, simulated):
    page = view(simulated[0])
    page.keys("e")
    page.until("document.querySelector('#choice option[value*=gemm]')")
    page.js(
        "(() => { const c = document.getElementById('choice');"
        " c.value = 'edit{scale=0.5, classes=[gemm]}'; c.dispatchEvent(new Event('change')); })()"
    )
    twice = settled(page)
    assert twice["edited"] < twice["original"]
    page.js(_SLIDE)
    more = settled(page)
    assert page.js("chakra.state.edits") == ["edit{scale=0.25, classes=[gemm]}"]
    assert more["edited"] < twice["edited"]
    assert "→" in page.text("#outcome")
    ends = page.js("[0, 1].map((s) => chakra.timeline.data.windows.get(`${s}.0`).span[1])")
    assert ends == pytest.approx([more["original"], more["edited"]], rel=1e-4)
    transform, simulate, _ = page.text("#commands pre").splitlines()
    succeeded(*shlex.split(transform)[1:])
    again = data(*shlex.split(simulate)[1:])["makespan_ns"]
    assert again == pytest.approx(more["edited"], rel=1e-9)
    page.shot("edited")
    page.find("#scroll").click()
    page.keys("u")
    assert settled(page)["edited"] == pytest.approx(twice["edited"])
    page.keys("u")
    page.until("chakra.session.sides.length === 1")
    assert page.errors() == []


def test_an_edit_is_offered_where_a_node_is_and_restored_by_a_link(view, simulated):
    page = view(simulated[0])
    page.search("attention")
    page.click("#list .hit", "attention")
    page.click("#node .offers button", "Make it faster")
    settled(page)
    address = page.js(
        "location.origin + '/#' + new URLSearchParams([['edit', chakra.state.edits[0]]])"
    )
    page.open(address)
    assert page.js("chakra.state.edits[0]").startswith("edit{scale=0.5, names=")
    assert settled(page)["edited"] < settled(page)["original"]
    page.js("chakra.editor.add('unsync')")
    page.wait_for("#outcome .warning", "waits for the device")
    page.js("chakra.editor.undo()")
    settled(page)
    assert page.js("chakra.timeline.data.failed.size") == 0


def test_colors_say_the_class_and_an_area_its_totals(view, simulated):
    page = view(simulated[0])
    page.keys("k")
    assert page.js("chakra.state.paint") == "class"
    assert "gemm" in page.text("#legend")
    assert "late ranks" in page.text("#legend")
    page.shot("classes")
    page.js(_MARK)
    page.wait_for("#area h4", "slices")
    assert "%" in page.text("#area")
    page.shot("area")
    assert page.errors() == []


def test_sql_is_asked_in_the_app_and_no_tab_is_empty(view, simulated):
    pytest.importorskip("duckdb")
    page = view(simulated[0])
    page.click("#tabs button", "SQL")
    page.click("#ask")
    page.wait_for("#rows td")
    assert "ms" in page.text("#rows thead")
    page.click("#tabs button", "Summary")
    page.wait_for("#page .answers")
    page.until("chakra.timeline && !document.querySelector('#page > .wait')")
    page.until("chakra.tabs.pruned")
    for name in page.tabs()[:-1]:
        page.tab(name)
        assert "nothing to show here" not in page.text("#page")


def test_the_page_works_at_800_pixels_and_says_what_runs_where(view, simulated):
    page = view(simulated[0])
    page.driver.set_window_size(800, 700)
    try:
        page.settle()
        assert page.js("document.documentElement.scrollWidth <= 800")
        tabs = page.js(
            "[...document.querySelectorAll('#tabs button')].map((b) => b.getBoundingClientRect().right)"
        )
        assert max(tabs) <= 800
        for fact in ("llama3.2-1b", "dp 2, pp 2", "dgx-h100", "tokens per second"):
            assert fact in page.text("#facts")
        page.shot("narrow")
    finally:
        page.driver.set_window_size(1500, 900)


def test_a_node_of_a_cpu_is_made_faster_on_the_host(view, measured):
    page = view(measured)
    page.search("addmm")
    page.click("#list .hit", "addmm")
    page.click("#node .offers button", "Make it faster")
    assert settled(page)["edited"] < settled(page)["original"]
    assert page.js("chakra.state.edits[0]").startswith("edit{scale=0.5, on=host, names=")
    assert page.errors() == []
