"""`chakra view` as a user has it: the command, Debian's chromium, runs on disk."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import chakrakit as ck
from support import paths

DATA = paths.DATA / "pytorch"
SHOTS = os.environ.get("CHAKRA_SCREENSHOTS")
"""A folder for pictures of the page, to be looked at."""


_SLICES = """[...chakra.timeline.data.windows.values()].flatMap((w) => w.lines.flatMap((l) =>
  l.start.filter((s, i) => w.begin + s < chakra.state.to && w.begin + s + l.length[i] > chakra.state.from)
)).length"""
_PLACE_OF = """(side, rank, row) => {
  const { timeline: t, state: s } = chakra, key = `${side}.${rank}`, sent = t.data.windows.get(key);
  const line = sent.lines.find((l) => l.row.includes(row)), i = line.row.indexOf(row);
  const at = [...t.pinned, ...t.rows].find((r) => r.key === key && r.track === line.track);
  const box = t.scroller.getBoundingClientRect(), time = sent.begin + line.start[i] + line.length[i] / 2;
  return [box.left + 210 + ((time - s.from) / (s.to - s.from)) * t.plot,
    box.top + (at.fixed ? 48 : t.head - t.scroller.scrollTop) + at.y + 3 + line.depth * 17 + 8];
}"""
_FIND = """(selector, text) => [...document.querySelectorAll(selector)].find(
  (e) => e.getClientRects().length && e.textContent.includes(text)) ?? null"""
_COLORS = """(() => {
  const canvas = document.getElementById("canvas"), seen = new Set();
  const { data } = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height);
  for (let i = 0; i < data.length; i += 4) seen.add(data[i] << 16 | data[i + 1] << 8 | data[i + 2]);
  return seen.size;
})()"""


class Page:
    """A browser on the app; what a user sees and does."""

    def __init__(self, driver: Any, address: str) -> None:
        self.driver, self.address = driver, address

    def open(self, address: str = "") -> Page:
        self.driver.get("about:blank")
        self.driver.get(address or self.address)
        self.until("window.chakra && chakra.timeline.data.windows.size > 0")
        self.settle()
        return self

    def js(self, expression: str, *given: Any) -> Any:
        return self.driver.execute_script(f"return {expression}", *given)

    def until(self, expression: str, seconds: float = 60) -> Any:
        """Waits until an expression is true and gives its value."""
        began = time.monotonic()
        while not (value := self.js(expression)):
            assert time.monotonic() - began < seconds, (
                f"still not so: {expression}\n{self.errors()}"
            )
            time.sleep(0.05)
        return value

    def settle(self) -> None:
        """Until everything that is visible has been sent and drawn."""
        self.until("!chakra.timeline.asked && !chakra.timeline.data.busy.size")
        self.js("new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")
        self.until("!chakra.timeline.asked && !chakra.timeline.data.busy.size")

    def find(self, selector: str, text: str = "") -> Any:
        """The first shown element with a text in it."""
        return self.js(f"({_FIND})(...arguments)", selector, text)

    def wait_for(self, selector: str, text: str = "") -> Any:
        self.until(f"({_FIND})({json.dumps(selector)}, {json.dumps(text)}) !== null")
        return self.find(selector, text)

    def click(self, selector: str, text: str = "") -> None:
        """A real click; the page may be putting a new element in the old one's place just then."""
        from selenium.common.exceptions import WebDriverException

        for left in reversed(range(5)):
            element = self.wait_for(selector, text)
            try:
                self.js("arguments[0].scrollIntoView({ block: 'center' })", element)
                return element.click()
            except WebDriverException:
                if not left:
                    raise
                time.sleep(0.2)
        return None

    def tabs(self) -> list[str]:
        """The names of all tabs but the timeline."""
        return self.js("[...document.querySelectorAll('#tabs button')].map((b) => b.textContent)")[
            1:
        ]

    def tab(self, name: str) -> None:
        """Opens a tab and waits until it is filled."""
        number = self.tabs().index(name) + 2
        self.click(f"#tabs button:nth-child({number})")
        self.until(
            "document.querySelector('#page > *') && !document.querySelector('#page > .wait')"
        )

    def keys(self, keys: str) -> None:
        for key in keys:
            self.driver.switch_to.active_element.send_keys(key)
        self.settle()

    def search(self, text: str) -> None:
        box = self.find("#query")
        box.clear()
        box.send_keys(text + "\n")
        self.wait_for("#list .head", "hit")
        self.until("!document.querySelector('#list .head').textContent.includes('…')")

    def text(self, selector: str) -> str:
        element = self.find(selector)
        return element.text if element else ""

    @property
    def window(self) -> tuple[float, float]:
        return tuple(self.js("[chakra.state.from, chakra.state.to]"))

    def slices(self) -> int:
        """How many are drawn one by one in the window."""
        return self.js(_SLICES)

    def place_of(self, side: int, rank: int, row: int) -> tuple[float, float]:
        """Where on the screen a slice is drawn."""
        return tuple(self.js(f"({_PLACE_OF})(...arguments)", side, rank, row))

    def mouse(self, x: float, y: float) -> Any:
        from selenium.webdriver.common.action_chains import ActionChains

        chain = ActionChains(self.driver)
        chain.w3c_actions.pointer_action.move_to_location(round(x), round(y))
        return chain

    def colors(self) -> int:
        """How many different colors the timeline shows."""
        return self.js(_COLORS)

    def errors(self) -> list[str]:
        """What the browser complained about."""
        return [e["message"] for e in self.driver.get_log("browser") if e["level"] == "SEVERE"]

    def shot(self, name: str) -> None:
        if SHOTS:
            Path(SHOTS).mkdir(parents=True, exist_ok=True)
            self.driver.save_screenshot(str(Path(SHOTS) / f"{name}.png"))


@pytest.fixture(scope="session")
def driver(tmp_path_factory) -> Iterator[Any]:
    """Chromium without a screen; skipped, with what to do, where it is not installed."""
    if not shutil.which("chromium") or not shutil.which("chromedriver"):
        pytest.skip("chromium is not installed: make browser")
    pytest.importorskip("starlette", reason="pip install 'chakrakit[view]'")
    webdriver = pytest.importorskip("selenium.webdriver", reason="pip install selenium")
    from selenium.webdriver.chrome.service import Service

    options = webdriver.ChromeOptions()
    options.binary_location = shutil.which("chromium")
    for word in (
        "headless=new",
        "no-sandbox",
        "disable-gpu",
        "disable-dev-shm-usage",
        "hide-scrollbars",
        "window-size=1500,900",
        "disable-background-networking",
    ):
        options.add_argument(f"--{word}")
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    made = webdriver.Chrome(options=options, service=Service(shutil.which("chromedriver")))
    made.downloads = tmp_path_factory.mktemp("downloads")
    made.execute_cdp_cmd(
        "Browser.setDownloadBehavior", {"behavior": "allow", "downloadPath": str(made.downloads)}
    )
    yield made
    made.quit()


@pytest.fixture
def view(driver) -> Iterator[Callable[..., Page]]:
    """Starts `chakra view` on paths and opens the page."""
    servers = []

    def start(*paths: object) -> Page:
        command = [sys.executable, "-c", "from chakrakit.commands import main; main()", "view"]
        server = subprocess.Popen(
            [*command, *map(str, paths), "--no-browser", "--port", "0"],
            stdout=subprocess.PIPE,
            text=True,
        )
        servers.append(server)
        address = server.stdout.readline().split()[0]
        return Page(driver, address).open()

    yield start
    driver.get("about:blank")  # or it would ask servers that are gone
    driver.get_log("browser")
    for server in servers:
        server.terminate()
        server.wait()


@pytest.fixture(scope="session")
def measured(tmp_path_factory) -> Path:
    """Two ranks of a pipeline, recorded with PyTorch."""
    path = tmp_path_factory.mktemp("runs") / "pipeline"
    ck.write(ck.link(DATA / "gpt_pp_2").run, path)
    return path


@pytest.fixture(scope="session")
def simulated(tmp_path_factory) -> tuple[Path, Path]:
    """A small model on four GPUs, simulated on a fast and on a slow network."""
    from chakrakit.commands import main

    folder = tmp_path_factory.mktemp("simulated")
    (folder / "slow.yaml").write_text(
        "name: slow\ndevice: h100-sxm\nnetwork:\n"
        "  - {topology: switch, size: 4, bandwidth: 20 GB/s, latency: 5 us}\n"
    )
    plan = "--dp 2 --pp 2 --seq 512 --global-batch 8 --micro-batch 1"
    lines = [
        f"generate --model llama-3.2-1b {plan} -o {folder / 'w'}",
        f"simulate {folder / 'w'} --machine dgx-h100:1 --compute roofline -o {folder / 'fast'}",
        f"simulate {folder / 'w'} --machine {folder / 'slow.yaml'} --compute roofline -o {folder / 'slow'}",
    ]
    for line in lines:
        main(line.split(), standalone_mode=False)
    return folder / "fast", folder / "slow"
