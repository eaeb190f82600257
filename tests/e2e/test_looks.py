"""The web app beside slices: figures, pins, the whole run, calls, links, requests, and the way back."""

from __future__ import annotations

import pytest

import chakrakit as ck

pytestmark = pytest.mark.slow

_ROW = "[...chakra.timeline.pinned, ...chakra.timeline.rows].find((r) => r.label.includes('{}'))"
_LABELS = "[...chakra.timeline.pinned, ...chakra.timeline.rows].map((r) => r.label)"
_CLICK = "document.querySelector('#page {}').dispatchEvent(new MouseEvent('click'))"


@pytest.fixture(scope="session")
def requests(tmp_path_factory):
    """An engine that served 40 requests."""
    path = tmp_path_factory.mktemp("served") / "served"
    stream = "poisson:rate=20,prompt=256,output=32,n=40"
    ck.serve(model="llama-3.1-8b", machine="dgx-h100", requests=stream, output=path)
    return path


def test_figures_are_drawn_pinned_and_restored_by_a_link(view, simulated):
    page = view(simulated[0])
    labels = page.js(_LABELS)
    assert {"memory", "power"} <= set(labels)
    assert any("device 0 →" in label for label in labels)
    row = page.js(_ROW.format("power"))
    box = page.js("chakra.timeline.scroller.getBoundingClientRect().toJSON()")
    page.mouse(
        box["left"] + 16, box["top"] + page.js("chakra.timeline.head") + row["y"] + 12
    ).click().perform()
    page.until("chakra.timeline.pinned.length === 1")
    assert page.js("chakra.timeline.pinned[0].label") == "0: power"
    page.js("chakra.timeline.toggle('open', '0.0')")  # a pinned track stays when its rank is closed
    page.settle()
    assert page.js(_LABELS)[0] == "0: power"
    page.shot("pinned")
    page.until("location.hash.includes('pin=')")
    again = page.open(page.js("location.href"))
    again.until(
        "chakra.timeline.pinned.length === 1 && chakra.timeline.pinned[0].type === 'figure'"
    )
    assert again.errors() == []


def test_the_track_of_a_node_is_pinned_with_a_key(view, simulated):
    page = view(simulated[0])
    page.search("layers.0.")
    page.click("#list .hit")
    page.wait_for("#node .head")
    page.js("document.activeElement.blur()")
    page.keys("i")
    page.until("chakra.timeline.pinned.length === 1 && chakra.timeline.pinned[0].type === 'track'")
    _, y = page.place_of(0, *page.js("[chakra.state.selected.rank, chakra.state.selected.row]"))
    assert y < page.js(
        "chakra.timeline.scroller.getBoundingClientRect().top + chakra.timeline.head"
    )
    page.keys("i")
    page.until("chakra.timeline.pinned.length === 0")


def test_the_whole_run_stays_in_sight_and_moves_the_window(view, simulated):
    page = view(simulated[0])
    page.until("chakra.timeline.data.overview")
    whole = page.window
    page.keys("wwwwww")
    span = page.window[1] - page.window[0]
    box = page.js("chakra.timeline.scroller.getBoundingClientRect().toJSON()")
    page.mouse(box["right"] - 60, box["top"] + 10).click().perform()
    page.settle()
    begin, end = page.window
    assert end - begin == pytest.approx(span)
    assert begin > (whole[0] + whole[1]) / 2
    assert page.errors() == []


def test_calls_are_widened_with_the_keyboard_and_lead_to_the_timeline(view, simulated):
    from selenium.webdriver.common.keys import Keys

    page = view(simulated[0])
    page.tab("Flame graph")
    page.wait_for("#flame text", "layers")
    wide = page.js("document.querySelector('#flame [data-tip^=layers] rect').width.baseVal.value")
    page.js("document.querySelector('#flame [data-tip^=layers]').focus()")
    page.driver.switch_to.active_element.send_keys(Keys.ENTER)
    page.until(
        f"document.querySelector('#flame [data-tip^=layers] rect').width.baseVal.value > {wide}"
    )
    page.shot("flame")
    page.js(
        "document.querySelector('#flame [data-tip^=mlp]').dispatchEvent("
        "new MouseEvent('click', { shiftKey: true }))"
    )
    page.until("chakra.state.tab === 'Timeline' && chakra.state.query === 'mlp'")
    assert page.errors() == []


def test_busy_links_are_a_map_that_leads_to_the_rank(view, simulated):
    page = view(simulated[1])
    page.tab("Network")
    page.wait_for("#page figcaption", "How busy the links were")
    assert page.js("document.querySelectorAll('#page path.link').length") >= 8
    page.shot("network")
    page.js(
        "document.querySelector('#page path[data-goto=\"rank=3\"]').dispatchEvent(new MouseEvent('click'))"
    )
    page.until("chakra.state.tab === 'Timeline' && chakra.state.open.has('0.3')")
    assert page.errors() == []


def test_marks_of_charts_lead_back_to_the_timeline(view, simulated):
    page = view(simulated[0])
    page.tab("Critical path")
    whole = page.js("document.querySelectorAll('#page [data-goto*=\"at=\"]').length")
    assert whole > 5
    page.js("document.querySelector('#page [data-goto*=\"at=\"]').focus()")
    page.driver.switch_to.active_element.send_keys("\n")
    page.until("chakra.state.tab === 'Timeline'")
    page.settle()
    extent = page.js("chakra.timeline.extent")
    assert page.window[1] - page.window[0] < (extent[1] - extent[0]) / 2
    page.tab("Operators")
    page.js(_CLICK.format("[data-goto^=q]"))
    page.until("chakra.state.query.startsWith('name~')")
    page.wait_for("#list .head", "hit")
    assert page.errors() == []


def test_requests_have_parts_in_their_own_colors_and_figures_of_the_engine(view, requests):
    page = view(requests)
    assert {"batch", "cache"} <= set(page.js(_LABELS))
    assert "requests 1" in page.js(_LABELS)
    for part in ("queued", "prompt", "output"):
        assert part in page.text("#legend")
    names = page.js("[...chakra.timeline.data.windows.values()].flatMap((w) => w.names)")
    assert any(name.startswith("request 0: ") for name in names)
    assert "{" not in page.text("#facts")
    page.shot("requests")
    assert page.errors() == []


def test_a_workflow_of_the_documentation_is_shown_with_its_actors(view, tmp_path):
    from support.commands import succeeded
    from support.paths import DOCS

    block = (DOCS / "programs.md").read_text().split("```python\n")[1].split("```")[0]
    (tmp_path / "program.py").write_text(block)
    (tmp_path / "site.yaml").write_text(
        "network: [{topology: switch, size: 5, bandwidth: 10 Gb/s, latency: 50 us}]\n"
    )
    program, site, run = (tmp_path / name for name in ("program.py", "site.yaml", "run"))
    succeeded("live", program, "--machine", site, "--set", "tasks=8", "-o", run)
    page = view(run)
    labels = page.js(_LABELS)
    for actor in ("leader", *(f"worker {n}" for n in range(1, 5))):
        assert any(label.endswith(f"· {actor}") for label in labels), labels
    assert "gpus" in " ".join(labels)  # the line in front of the pool
    page.search("gpus")
    page.click("#list .hit")
    page.wait_for("#node .head", "gpus")
    page.search("message")  # it leads from the leader to a worker
    page.click("#list .hit", "leader")
    page.wait_for("#node h4", "Message")
    page.shot("actors")
    page.tab("Summary")
    page.wait_for("#page .answers")
    assert page.errors() == []


def test_jobs_that_ran_together_are_shown_on_one_clock(view, simulated, tmp_path):
    from support.commands import succeeded

    work = simulated[0].parent / "w"
    succeeded("simulate", work, work, "--machine", "dgx-h100:1", "-o", tmp_path / "jobs")
    page = view(tmp_path / "jobs")
    assert page.js("chakra.session.sides.map((s) => s.name)") == ["w", "w 2"]
    assert page.find("#diff") is None
    page.shot("jobs")
    page.tab("Summary")
    page.click("#page .side button", "w 2")
    page.wait_for("#page .answers")
    assert page.errors() == []


def test_a_campaign_and_a_study_have_pages_of_their_own(driver, tmp_path):
    import subprocess
    import sys

    (tmp_path / "job.yaml").write_text(
        "step_seconds: 10\nsteps: 8640\ncluster: {nodes: 16}\nfailures: {node_mtbf_hours: 5000}\n"
    )
    for path, shown in (
        ("job.yaml", "How long does it take?"),
        ("B02", "What became of the claim?"),
    ):
        command = [
            sys.executable,
            "-c",
            "from chakrakit.commands import main; main()",
            "view",
            path,
        ]
        server = subprocess.Popen(
            [*command, "--no-browser", "--port", "0"],
            stdout=subprocess.PIPE,
            text=True,
            cwd=tmp_path,
        )
        try:
            driver.get(server.stdout.readline().split()[0])
            assert shown in driver.find_element("css selector", ".answers").text
            # The page's own script runs: it gives tables that can be sorted, and tips.
            assert driver.execute_script("return typeof enliven") == "function"
            assert [e for e in driver.get_log("browser") if e["level"] == "SEVERE"] == []
        finally:
            driver.get("about:blank")
            server.terminate()
            server.wait()
