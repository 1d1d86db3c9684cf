"""The page in a real browser, without a window: no error in its console, nothing beside the screen, everything by keyboard."""

from __future__ import annotations

import html
import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from launcher.history.runs import run_in
from launcher.page import page
from tests.helpers.reported import reported

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
pytestmark = pytest.mark.skipif(
    CHROMIUM is None, reason="no Chromium here (apt-get install chromium): the page is not looked at in a browser"
)

WATCH = "<script>window.wrong = []; addEventListener('error', event => wrong.push(event.message));</script>"
PROBE = """<script>
const press = (target, key) => target.dispatchEvent(new KeyboardEvent("keydown", { key, bubbles: true, cancelable: true }));
const seen = { wrong, inner: innerWidth, scroll: document.documentElement.scrollWidth };
const step = document.querySelector(".step.failed summary");
step.focus();
seen.focused = document.activeElement === step;
step.click();
seen.evidence = step.parentNode.innerText;
const plot = document.querySelector(".plot");
plot.focus();
press(plot, "Home"); press(plot, "ArrowRight");
seen.readout = plot.parentNode.querySelector(".readout").textContent;
const parts = [...document.querySelectorAll(".plot, section, article")];
seen.named = parts.every(one => one.getAttribute("aria-labelledby") || one.getAttribute("aria-label"));
document.querySelector(".copy").focus();
seen.copy = document.activeElement.textContent;
const words = [...document.querySelectorAll("p, li, td, span.y, span.x, pre")];
seen.small = words.filter(one => parseFloat(getComputedStyle(one).fontSize) < 11).length;
seen.background = getComputedStyle(document.body).backgroundColor;
parent.document.body.dataset.seen = JSON.stringify(seen);
</script>"""


def looked_at(path: Path, width: int, *, dark: bool = False) -> tuple[dict[str, Any], str]:
    """(what the probe saw, what the console said)."""
    told = path.read_text(encoding="utf-8").replace("<style>", f"{WATCH}<style>", 1).replace("</body>", f"{PROBE}</body>")
    probed = path.with_name("probed.html")
    # in a frame, since a window without a screen is 500 wide or more
    frame = f'<body><iframe style="border:0" width="{width}" height="1200" srcdoc="{html.escape(told)}"></iframe>'
    probed.write_text(frame, encoding="utf-8")
    argv = [
        str(CHROMIUM), "--headless=new", "--no-sandbox", "--disable-gpu", "--enable-logging=stderr",
        "--window-size=1700,1300",
        f"--user-data-dir={path.parent / 'profile'}", f"--blink-settings=preferredColorScheme={0 if dark else 1}",
        "--dump-dom", probed.as_uri(),
    ]  # fmt: skip
    ended = subprocess.run(argv, capture_output=True, text=True, timeout=120, check=True)
    found = re.search(r'data-seen="([^"]*)"', ended.stdout)
    assert found is not None, ended.stderr[-2000:]
    return json.loads(html.unescape(found[1])), "\n".join(line for line in ended.stderr.splitlines() if "CONSOLE" in line)


@pytest.mark.parametrize("width", [360, 1600])
@pytest.mark.parametrize("runs", [1, 2])
def test_it_fits_the_screen_says_nothing_in_its_console_and_is_used_by_keyboard(width: int, runs: int, tmp_path: Path) -> None:
    folders = [reported(tmp_path / "runs", f"run{number}") for number in range(runs)]
    path = page.write(folders, tmp_path / "report.html")
    seen, console = looked_at(path, width)
    assert console == "" and seen["wrong"] == []
    assert seen["inner"] == width and seen["scroll"] <= width
    assert seen["focused"] and "out of memory in training" in seen["evidence"] and "Its trial took" in seen["evidence"]
    assert seen["readout"].startswith("1 s: used ") and seen["named"] and seen["copy"] == "Copy" and seen["small"] == 0


def test_it_follows_the_screen_s_light_and_dark(tmp_path: Path) -> None:
    path = page.write([reported(tmp_path / "runs")], tmp_path / "report.html")
    light, dark = (looked_at(path, 1600, dark=dark)[0]["background"] for dark in (False, True))
    assert light == "rgb(255, 255, 255)" and dark == "rgb(13, 17, 23)"


def test_a_probe_sees_an_error(tmp_path: Path) -> None:
    path = tmp_path / "report.html"
    path.write_text(page.render([run_in(reported(tmp_path / "runs"))]).replace('"use strict";', '"use strict"; gone();'), encoding="utf-8")
    with pytest.raises((AssertionError, subprocess.CalledProcessError)):
        seen, console = looked_at(path, 1600)
        assert seen["wrong"] == [] and console == ""
