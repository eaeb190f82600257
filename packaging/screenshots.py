"""Pictures of the web app's main views, light and dark: `python packaging/screenshots.py`.

Needs Debian's chromium (`make browser`) and selenium. Writes docs/pictures/VIEW-light.png and -dark.png.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import chakrakit as ck

PICTURES = Path(__file__).parents[1] / "docs" / "pictures"
SIZE = (1100, 620)
"""Pixels: as wide as a page of the site, and small enough that all pictures take some 1.5 MB."""
GEMM = "edit{scale=0.4, classes=[gemm]}"
VIEWS = {
    "timeline": "paint=class&open=0.0&t=0,150000000&pin=0.0.f1",
    "critical-path": "path=1&open=0.0",
    "edit": f"editing=1&open=0.0,1.0&edit={GEMM}",
    "search": "q=attention&open=0.0&t=0,60000000",
    "summary": "tab=Summary",
    "flame": "tab=Flame graph",
    "network": "tab=Network&t=380000000,470000000",
    "sql": "tab=SQL",
}
"""Name → what the address says after the #."""


def main() -> None:
    """Makes all pictures."""
    PICTURES.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        run = Path(folder) / "llama-8b-on-16"
        plan = {"dp": 2, "tp": 4, "pp": 2, "seq": 4096, "global_batch": 16, "micro_batch": 1}
        traces = ck.generate(model="llama3.1-8b", **plan).traces
        ck.simulate(traces, "dgx-h100:2", output=run)
        command = [sys.executable, "-c", "from chakrakit.commands import main; main()", "view"]
        server = subprocess.Popen(
            [*command, run.name, "--no-browser", "--port", "0"],
            stdout=subprocess.PIPE,
            text=True,
            cwd=folder,
        )
        try:
            assert server.stdout is not None
            address = server.stdout.readline().split()[0]
            for theme in ("light", "dark"):
                _pictures(address, theme)
        finally:
            server.terminate()
            server.wait()


def _pictures(address: str, theme: str) -> None:
    driver = _browser()
    driver.execute_cdp_cmd(
        "Emulation.setEmulatedMedia",
        {"features": [{"name": "prefers-color-scheme", "value": theme}]},
    )
    for name, state in VIEWS.items():
        driver.get("about:blank")
        driver.get(f"{address}#{state}")
        _settle(driver)
        if name == "sql":
            driver.execute_script("document.getElementById('ask').click()")
            time.sleep(3)
        driver.save_screenshot(str(PICTURES / f"{name}-{theme}.png"))
    driver.quit()


def _settle(driver: Any) -> None:
    """Waits until the analysis is done and everything visible is drawn."""
    ready = (
        "return window.chakra && chakra.analyzed && !chakra.timeline.asked && "
        "!chakra.timeline.data.busy.size && !document.querySelector('#page > .wait')"
    )
    for _ in range(600):
        if driver.execute_script(ready):
            break
        time.sleep(0.2)
    time.sleep(1)


def _browser() -> Any:
    from selenium import webdriver
    from selenium.webdriver.chrome.service import Service

    options = webdriver.ChromeOptions()
    options.binary_location = shutil.which("chromium") or ""
    for word in ("headless=new", "no-sandbox", "disable-gpu", "hide-scrollbars"):
        options.add_argument(f"--{word}")
    options.add_argument(f"--window-size={SIZE[0]},{SIZE[1]}")
    return webdriver.Chrome(options=options, service=Service(shutil.which("chromedriver")))


if __name__ == "__main__":
    main()
