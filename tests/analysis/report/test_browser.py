"""The page in a real browser, headless: no errors, and the explorer answers."""

from __future__ import annotations

import html
import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from jtrans.analysis.report.content import gather
from jtrans.analysis.report.report import page
from jtrans.analysis.study.study import Study
from jtrans.progress import Silent

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "chrome"))), None)
pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="no Chromium (Debian package chromium)")

OPTIONS = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--enable-logging=stderr",
    "--virtual-time-budget=2000",
]
# Runs in the page after its own script: does what a reader does, and writes down what is seen.
READER = """
<script>
(function () {
  const seen = {};
  const part = (name) => document.querySelector("#explorer [data-part=" + name + "]");
  const cell = (r, c) => part("grid").querySelector(`.cell[data-r="${r}"][data-c="${c}"]`);
  const readout = () => part("readout").textContent;
  const hover = (r, c) => cell(r, c).dispatchEvent(
    new PointerEvent("pointerover", { bubbles: true, pointerType: "mouse" }));
  const select = (name, value) => {
    part(name).value = value;
    part(name).dispatchEvent(new Event("change"));
  };
  document.querySelectorAll("[data-system]")[1].click();
  seen.start = readout();
  hover(0, 0);
  seen.corner = readout();
  seen.chosen = cell(0, 0).classList.contains("chosen");
  hover(1, 1);
  seen.inside = readout();
  seen.row = Array.from(part("grid").tBodies[0].rows[1].querySelectorAll(".cell"), (own) =>
    [own.dataset.kind, Number(own.style.getPropertyValue("--v"))]);
  seen.column = Array.from(part("grid").tBodies[0].rows, (line) =>
    [line.querySelector('[data-c="1"]').dataset.kind,
     Number(line.querySelector('[data-c="1"]').style.getPropertyValue("--v"))]);
  part("grid").dispatchEvent(new PointerEvent("pointerleave"));
  seen.left = readout();
  cell(1, 1).click();
  part("grid").dispatchEvent(new KeyboardEvent("keydown", { key: "ArrowUp", bubbles: true }));
  part("grid").dispatchEvent(new KeyboardEvent("keydown", { key: "ArrowLeft", bubbles: true }));
  seen.keys = readout();
  seen.views = Array.from(part("view").options, (option) => option.value);
  seen.each = {};
  document.querySelectorAll("[data-system]").forEach((button) => {
    button.click();
    Array.from(part("view").options, (option) => option.value).forEach((view) => {
      select("view", view);
      hover(0, 0);
      seen.each[view] = readout();
    });
  });
  Array.from(part("sentence").options).forEach((option) => {
    select("sentence", option.value);
    hover(0, 0);
  });
  seen.overflow = document.documentElement.scrollWidth - document.documentElement.clientWidth;
  seen.wide = getComputedStyle(document.querySelector("svg.wide")).display;
  seen.narrow = getComputedStyle(document.querySelector("#length svg.narrow")).display;
  document.body.dataset.seen = JSON.stringify(seen);
})();
</script>
"""


@pytest.fixture
def report(study: Study, tmp_path: Path) -> Path:
    """The page with a reader in it."""
    path = tmp_path / "read.html"
    path.write_text(page(gather(study, Silent())).replace("</body>", READER + "</body>"), "utf-8")
    return path


def _browse(path: Path, profile: Path, *options: str) -> tuple[dict[str, Any], str]:
    """Return what the reader saw, and what the browser logged."""
    done = subprocess.run(
        [str(CHROMIUM), *OPTIONS, *options, f"--user-data-dir={profile}", "--dump-dom", str(path)],
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    found = re.search(r'data-seen="([^"]*)"', done.stdout)
    assert found is not None, done.stderr
    return json.loads(html.unescape(found[1])), done.stderr


def test_the_explorer_answers_to_a_hover_without_errors(report: Path, tmp_path: Path) -> None:
    seen, log = _browse(report, tmp_path / "profile", "--window-size=1100,900")
    assert "CONSOLE" not in log
    assert seen["chosen"]
    assert "after reading <s>" in seen["corner"]
    assert seen["inside"] != seen["corner"]
    assert seen["left"] == seen["start"]
    assert seen["keys"] == seen["corner"]
    assert {kind for kind, _ in seen["row"]} == {"source"}
    assert sum(weight**2 for _, weight in seen["row"]) == pytest.approx(1.0, abs=0.05)
    assert [kind for kind, _ in seen["column"]] == [
        "source" if row == 1 else "target" for row in range(len(seen["column"]))
    ]
    assert all(weight == 0 for _, weight in seen["column"][2:])  # what was not read yet
    assert seen["views"] == ["cell", "reduction", "joint.source", "joint.target"]
    assert set(seen["each"]) == {*seen["views"], "decoder.cross", "decoder.self", "encoder.self"}
    assert all("%" in text for text in seen["each"].values())
    assert (seen["wide"], seen["narrow"]) == ("block", "none")


def test_a_narrow_window_shows_narrow_charts_and_does_not_scroll_sideways(
    report: Path, tmp_path: Path
) -> None:
    seen, log = _browse(report, tmp_path / "profile", "--window-size=500,900")
    assert "CONSOLE" not in log
    assert (seen["wide"], seen["narrow"]) == ("none", "block")
    assert seen["overflow"] <= 0
