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
from plugins.random_runs import ON_CPU

from jtrans.analysis.report.content import gather
from jtrans.analysis.report.report import page
from jtrans.analysis.study.load import load_study
from jtrans.analysis.study.load_files import load_file_study
from jtrans.analysis.study.members import TextFiles
from jtrans.analysis.study.study import Study
from jtrans.files import write_text
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
  seen.bold = Array.from(part("readout").children, (line) => line.querySelectorAll("b").length);
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
  const box = part("grid").parentElement;
  box.style.width = "150px";
  for (let n = 0; n < 9; n++) part("grid").dispatchEvent(
    new KeyboardEvent("keydown", { key: "ArrowRight", bubbles: true }));
  const end = part("grid").querySelector(".cell.chosen").getBoundingClientRect().right;
  seen.beyond = end - box.getBoundingClientRect().right;
  box.style.width = "";
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
  parent.document.body.dataset["at" + innerWidth] = JSON.stringify(seen);
})();
</script>
"""


def _browse(
    text: str, widths: tuple[int, ...], folder: Path, *options: str
) -> tuple[dict[int, dict[str, Any]], str]:
    """Return what a page's script saw in windows of these widths, and what the browser logged."""
    frames = (
        f'<iframe style="width: {width}px; height: 900px; border: 0" '
        f'srcdoc="{html.escape(text)}"></iframe>'
        for width in widths
    )
    path = folder / "frames.html"
    path.write_text("".join(frames), encoding="utf-8")
    options = (*OPTIONS, *options, "--window-size=1300,1000")
    done = subprocess.run(
        [str(CHROMIUM), *options, f"--user-data-dir={folder}/profile", "--dump-dom", str(path)],
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    written = re.findall(r'data-at(\d+)="([^"]*)"', done.stdout)
    seen = {int(width): json.loads(html.unescape(content)) for width, content in written}
    assert seen.keys() == set(widths), done.stderr
    return seen, done.stderr


@pytest.mark.thorough
def test_the_explorer_answers_to_a_hover_without_errors_however_wide_the_window(
    study: Study, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # random weights write long translations
    monkeypatch.setattr("jtrans.analysis.report.explorer.MOST_PIECES", 200)
    text = page(gather(study, Silent())).replace("</body>", READER + "</body>")
    both, log = _browse(text, (500, 1100), tmp_path)
    assert "CONSOLE" not in log
    narrow, seen = both[500], both[1100]
    assert seen["chosen"]
    assert "after reading <s>" in seen["corner"]
    assert seen["bold"][:2] == [3, 4]  # tokens are bold, their weights are not
    assert seen["inside"] != seen["corner"]
    assert seen["left"] == seen["start"]
    assert seen["keys"] == seen["corner"]
    assert seen["beyond"] <= 0  # the grid scrolls along with the chosen cell
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
    assert (narrow["wide"], narrow["narrow"]) == ("none", "block")
    assert narrow["overflow"] <= 0  # it does not scroll sideways


# Runs in a window as wide as a phone, a tablet or a desktop: what is too wide, touches, or is pale.
MEASURE = """
<script>
addEventListener("load", () => {
  const seen = {}, root = document.documentElement;
  document.querySelectorAll("details").forEach((item) => { item.open = true; });
  seen.width = innerWidth;
  seen.overflow = root.scrollWidth - root.clientWidth;
  seen.cut = Array.from(document.querySelectorAll("#summary .scroll, #compare .scroll"))
    .filter((box) => box.scrollWidth > box.clientWidth + 1).map((box) => box.textContent);
  seen.touching = [];
  seen.outside = [];
  for (const chart of document.querySelectorAll("svg.chart")) {
    const edge = chart.getBoundingClientRect();
    if (!edge.width) continue;
    const texts = Array.from(chart.querySelectorAll("text"), (text) =>
      [text.textContent, text.getBoundingClientRect()]);
    for (const [text, box] of texts) {
      if (box.left < edge.left - 1 || box.right > edge.right + 1 || box.bottom > edge.bottom + 1)
        seen.outside.push(text);
    }
    texts.forEach(([text, a], n) => {
      for (const [other, b] of texts.slice(n + 1)) {
        const wide = Math.min(a.right, b.right) - Math.max(a.left, b.left);
        const high = Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top);
        if (wide > 0.5 && high > 3) seen.touching.push(text + " / " + other);
      }
    });
  }
  const context = document.createElement("canvas").getContext("2d", { willReadFrequently: true });
  const rgba = (colour) => {
    context.clearRect(0, 0, 1, 1);
    context.fillStyle = colour;
    context.fillRect(0, 0, 1, 1);
    return context.getImageData(0, 0, 1, 1).data;
  };
  const light = (colour) => [0.2126, 0.7152, 0.0722].reduce((sum, share, n) => {
    const part = colour[n] / 255;
    return sum + share * (part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4);
  }, 0);
  const paper = (node) => {
    const layers = [];
    for (; node; node = node.parentElement) {
      layers.unshift(rgba(getComputedStyle(node).backgroundColor));
      if (layers[0][3] === 255) break;
    }
    return layers.reduce((below, own) =>
      below.map((part, n) => part + (own[n] - part) * own[3] / 255), [255, 255, 255]);
  };
  const pale = new Set(), walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  seen.texts = 0;
  while (walker.nextNode()) {
    const node = walker.currentNode.parentElement;
    if (!walker.currentNode.textContent.trim() || !node.getClientRects().length) continue;
    const style = getComputedStyle(node);
    const shades = [rgba(node.closest("svg") ? style.fill : style.color), paper(node)].map(light);
    const contrast = (Math.max(...shades) + 0.05) / (Math.min(...shades) + 0.05);
    seen.texts += 1;
    if (contrast < 4.5) pale.add(node.tagName + "." + node.getAttribute("class") + contrast);
  }
  seen.pale = Array.from(pale);
  parent.document.body.dataset["at" + innerWidth] = JSON.stringify(seen);
});
</script>
"""
LONG = "Donaudampfschiff" * 625
NAMES = [
    "W" * 120 + ".en",
    "نظام عربي (3) 🎉.en",
    "系统名称" * 10 + ".en",
    "experiment-2026-11-large-vocabulary-and-much-more.en",
    "experiment-2026-11-small-vocabulary-and-much-more.en",
]


@pytest.fixture
def hostile(study: Study, tmp_path: Path) -> Study:
    """Seven systems with long names in many scripts, endless words and looping translations."""
    for number, name in enumerate(NAMES):
        lines = [f"{line} قال {LONG} (3) 我喜欢 🎉" for line in study.reference_lines]
        lines[number] = "the cat " * 2000
        (tmp_path / name).write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    for update in range(0, 1_000_000, 50_000):
        study.runs[0].log({"event": "validation", "update": update, "valid_loss": 2.0, "bleu": 1.5})
    hypotheses = [tmp_path / name for name in NAMES]
    return load_study(study.runs, "test", ON_CPU, hypotheses=hypotheses)


@pytest.mark.thorough
def test_no_word_script_or_name_widens_the_page_or_hides_a_number(
    hostile: Study, tmp_path: Path
) -> None:
    text = page(gather(hostile, Silent())).replace("</body>", MEASURE + "</body>")
    assert len(text.encode()) < 600_000
    for number, scheme in enumerate([(), ("--force-dark-mode",)]):
        folder = tmp_path / str(number)
        folder.mkdir()
        both, log = _browse(text, (390, 730, 1200), folder, *scheme)
        assert "CONSOLE" not in log
        for width, seen in both.items():
            assert seen["width"] == width
            assert seen["overflow"] <= 0
            assert seen["cut"] == []
            assert seen["touching"] == []
            assert seen["outside"] == []
            assert seen["texts"] > 300
            assert seen["pale"] == []


# Runs on paper: what is shown of folded texts, and on how many lines.
PAPER = """
<script>
addEventListener("load", () => {
  const seen = { shown: [], boxes: [] };
  document.querySelectorAll(".rest").forEach((fold) => {
    fold.open = true;
    seen.shown.push(getComputedStyle(fold.querySelector("summary")).display);
    seen.boxes.push(getComputedStyle(fold, "::details-content").display);
  });
  parent.document.body.dataset["at" + innerWidth] = JSON.stringify(seen);
});
</script>
"""

# Runs on a phone: the words of tables that are on several lines, and where headings begin.
TABLES = """
<script>
addEventListener("load", () => {
  const seen = { words: 0, broken: [] };
  for (const cell of document.querySelectorAll("#compare tbody bdi")) {
    const walker = document.createTreeWalker(cell, NodeFilter.SHOW_TEXT);
    while (walker.nextNode()) {
      for (const word of walker.currentNode.data.matchAll(/[^\\s/-]+/g)) {
        const range = document.createRange();
        range.setStart(walker.currentNode, word.index);
        range.setEnd(walker.currentNode, word.index + word[0].length);
        const tops = Array.from(range.getClientRects(), (box) => Math.round(box.top));
        if (new Set(tops).size > 1) seen.broken.push(word[0]);
        seen.words += 1;
      }
    }
  }
  seen.indents = Array.from(document.querySelectorAll("#compare .group"), (heading) =>
    getComputedStyle(heading).paddingLeft);
  parent.document.body.dataset["at" + innerWidth] = JSON.stringify(seen);
});
</script>
"""


@pytest.mark.thorough
def test_a_long_text_is_printed_in_one_piece(tmp_path: Path) -> None:
    texts = {name: [f"{'the cat ' * 100}{name}"] for name in ("reference", "system")}
    text = _page_of_files(texts, tmp_path).replace("@media print", "@media all")
    seen = _browse(text.replace("</body>", PAPER + "</body>"), (1100,), tmp_path)[0][1100]
    assert len(seen["shown"]) > 0
    assert set(seen["shown"]) == {"none"}
    assert set(seen["boxes"]) == {"inline"}


@pytest.mark.thorough
def test_words_in_tables_break_only_at_separators(tmp_path: Path) -> None:
    words = "is attempting/reconsidering to reconfigure allocators"
    texts = {"reference": [f"{words} today"], "a-small-file": ["today"], "a-large-file": [words]}
    text = _page_of_files(texts, tmp_path).replace("</body>", TABLES + "</body>")
    seen = _browse(text, (390,), tmp_path)[0][390]
    assert seen["words"] > 10
    assert seen["broken"] == []
    assert set(seen["indents"]) == {"0px"}


def _page_of_files(texts: dict[str, list[str]], folder: Path) -> str:
    """Return the report of files of translations; the first text is their reference."""
    for name, lines in texts.items():
        write_text(folder / f"{name}.en", "".join(f"{line}\n" for line in lines))
    reference, *hypotheses = [folder / f"{name}.en" for name in texts]
    return page(gather(load_file_study(TextFiles(None, [reference], hypotheses)), Silent()))
