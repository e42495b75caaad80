"""The report: complete, self-contained, and nothing computed twice."""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import NoReturn, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st
from markupsafe import Markup
from plugins.random_runs import ON_CPU
from plugins.small_corpus import make_nouns
from sacrebleu.metrics.bleu import BLEU
from sacrebleu.metrics.chrf import CHRF

from jtrans.analysis.figures.results import Figure, Table
from jtrans.analysis.report.content import ReportData, gather
from jtrans.analysis.report.examples import between, choose_examples, compare_texts
from jtrans.analysis.report.pages import breakable, json_for_page
from jtrans.analysis.report.report import PAGE, page, verdicts, write_report
from jtrans.analysis.report.scores import report_scores
from jtrans.analysis.study.load import load_study
from jtrans.analysis.study.load_files import load_file_study
from jtrans.analysis.study.members import Member, TextFiles
from jtrans.analysis.study.study import Study
from jtrans.data.prepared import PreparedCorpus
from jtrans.errors import JtransError
from jtrans.evaluation.systems import TITLES
from jtrans.files import write_text
from jtrans.progress import Silent
from jtrans.runs import Run
from jtrans.text.pipeline import TextPipeline

RunOn = Callable[..., Run]


@pytest.fixture(autouse=True)
def _long_grids(monkeypatch: pytest.MonkeyPatch) -> None:
    """Random weights write long translations."""
    monkeypatch.setattr("jtrans.analysis.report.explorer.MOST_PIECES", 200)


def _again(study: Study) -> Study:
    return load_study(study.runs, "test", ON_CPU)


def _csv(path: Path) -> list[dict[str, str]]:
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def _explorer_data(html: str) -> dict[str, list[dict[str, list[dict[str, object]]]]]:
    match = re.search(r'id="attention-data">(.*?)</script>', html, re.DOTALL)
    assert match is not None
    data: dict[str, list[dict[str, list[dict[str, object]]]]] = json.loads(match[1])
    return data


@pytest.mark.usefixtures("placeholder_pictures")
def test_one_page_holds_everything(study: Study, tmp_path: Path) -> None:
    study.runs[0].log({"event": "validation", "update": 5, "valid_loss": 2.0, "bleu": 1.5})
    path, data = write_report(study, tmp_path / "out", Silent())
    html = path.read_text(encoding="utf-8")
    assert path == tmp_path / "out" / PAGE
    for name in ("summary", "training", "length", "position", "frequency", "sentences", "compare"):
        assert f'<section id="{name}">' in html
    for name in ("examples", "attention", "method"):
        assert f'<section id="{name}">' in html
    figures = [i for s in data.sections for i in s.items if isinstance(i, Figure)]
    assert html.count('class="chart wide"') == len(figures) + 2  # loss and BLEU
    assert not re.search(r"\bnan\b", html, re.IGNORECASE)
    legend = html.partition('<section id="training">')[2].partition("</section>")[0]
    assert re.findall("<bdi>(.*?)</bdi></span>", legend) == ["one"]  # the other has no curve
    assert "1,234" in html  # parameters
    assert "nrefs:1" in html  # signature
    assert "; beam 5, length penalty 1.0, max length S+3, precision fp32</li>" in html
    assert "split by whitespace (de) and whitespace (en)" in html


@pytest.mark.usefixtures("placeholder_pictures")
def test_every_chart_of_the_page_is_a_file_too(study: Study, tmp_path: Path) -> None:
    for update, bleu in ((5, 1.5), (10, 2.5)):
        event = {"event": "validation", "update": update, "valid_loss": 2.0, "bleu": bleu}
        study.runs[0].log(event)
    path, _ = write_report(study, tmp_path, Silent())
    charts = path.read_text(encoding="utf-8").count('class="chart wide"')
    for ending in ("svg", "pdf", "png"):
        assert len(list(tmp_path.glob(f"*.{ending}"))) == charts
    for ending in ("csv", "tex", "json"):
        assert (tmp_path / f"test.training-loss.{ending}").stat().st_size > 0
    assert _csv(tmp_path / "test.training-bleu.csv") == [
        {"system": "one", "run": "one", "updates": "5", "validation BLEU": "1.5"},
        {"system": "one", "run": "one", "updates": "10", "validation BLEU": "2.5"},
    ]


@pytest.mark.usefixtures("placeholder_pictures")
@pytest.mark.parametrize(
    ("lowercase", "references", "said"), [(True, 1, "|case:lc|"), (False, 2, "|nrefs:2|")]
)
def test_scores_are_kept_for_one_case_and_its_references(
    corpus: PreparedCorpus, run_on: RunOn, lowercase: bool, references: int, said: str
) -> None:
    run = run_on(corpus)
    [usual, *_] = report_scores(load_study([run], "test", ON_CPU), Silent()).signatures
    study = load_study([run], "test", ON_CPU, lowercase=lowercase)
    text = replace(study.text, references=study.text.references * references)
    study.text = study.subjects[0].run_members[0].text = text
    [other, *_] = report_scores(study, Silent()).signatures
    assert said in other and said not in usual


def test_the_scores_of_the_page_and_the_tests_behind_their_marks_are_in_files(
    corpus: PreparedCorpus, run_on: RunOn, tmp_path: Path
) -> None:
    runs = [
        run_on(corpus, f"{name}-{seed}", weights_seed=start + seed, config={"training": training})
        for name, start, rate in (("base", 0, 0.1), ("fast", 10, 0.2))
        for seed in (1, 2)
        for training in [{"seed": seed, "learning_rate": rate}]
    ]
    for run, seconds in zip(runs, (60.0, 120.0) * 2, strict=True):
        run.log({"event": "end", "seconds": seconds})
    path, data = write_report(load_study(runs, "test", ON_CPU), tmp_path, Silent())
    spreads = re.findall(r"seeds ±&nbsp;([\d.]+)", path.read_text(encoding="utf-8"))
    rows = _csv(tmp_path / "test.scores.csv")
    written = [row[f"{TITLES[metric]} seeds ±"] for row in rows for metric in data.scores.metrics]
    assert len(spreads) == 8 and spreads == [f"{float(cell):.1f}" for cell in written]
    assert "multi-bleu ±" not in rows[0]  # it has no interval
    speeds = [float(row["tokens/s"]) for row in rows]
    assert speeds == pytest.approx([system.tokens_per_second for system in data.systems])
    assert {row["training minutes"] for row in rows} == {"1.5"}
    assert {row["updates"] for row in rows} == {f"{data.systems[0].updates:.0f}"}
    tests = _csv(tmp_path / "test.scores-significance.csv")
    assert [row["metric"] for row in tests] == ["BLEU", "chrF2", "TER"]
    for row, item in zip(tests, data.scores.comparisons, strict=True):
        assert float(row["p"]) == pytest.approx(item.p_value)
        assert (row["runs baseline"], row["runs system"]) == ("2", "2")


@pytest.mark.usefixtures("placeholder_pictures")
def test_the_scores_of_one_file_have_no_empty_columns(
    corpus: PreparedCorpus, tmp_path: Path
) -> None:
    files = {name: tmp_path / f"{name}.en" for name in ("reference", "system")}
    for file in files.values():
        write_text(file, "".join(f"{line}\n" for line in corpus.raw_lines("test", "target")))
    study = load_file_study(TextFiles(None, [files["reference"]], [files["system"]]))
    write_report(study, tmp_path / "out", Silent())
    [table] = (tmp_path / "out").glob("*.scores.csv")
    assert "" not in [cell for row in _csv(table) for cell in row.values()]
    assert not list((tmp_path / "out").glob("*scores-significance*"))


@pytest.mark.usefixtures("placeholder_pictures")
def test_the_summary_has_the_ends_of_the_interval_of_the_same_sentences_in_a_figure(
    tmp_path: Path,
) -> None:
    references = ["a man in an orange hat", "a dog runs over the grass", "two girls break a stick"]
    translations = [*references[:2], "two girls are in front of a stick"]
    files = {"reference": references, "system": translations}
    for name, lines in files.items():
        write_text(tmp_path / f"{name}.en", "".join(f"{line}\n" for line in lines))
    text = TextFiles(None, [tmp_path / "reference.en"], [tmp_path / "system.en"])
    path, data = write_report(load_file_study(text), tmp_path / "out", Silent())
    [figure] = [i for s in data.sections for i in s.items if i.name == "length-bleu"]
    assert isinstance(figure, Figure) and figure.counts[0] == 3
    [series], score = figure.series, data.scores.systems[0]["bleu"]
    assert (score.low, score.high) == pytest.approx((series.low[0], series.high[0]))
    assert score.interval and score.low and score.low < score.value - score.interval - 5
    html = path.read_text(encoding="utf-8")
    assert html.count(f"<small>[{score.low:.1f}, 100.0]</small>") == 2
    assert "seeds ±" not in html
    [row] = _csv(next((tmp_path / "out").glob("*.scores.csv")))
    assert (float(row["BLEU low"]), float(row["BLEU high"])) == (score.low, score.high)


def test_the_kind_of_a_system_is_not_said_twice(corpus: PreparedCorpus, run_on: RunOn) -> None:
    other = run_on(corpus, "other", config={"training": {"learning_rate": 0.5}})
    runs = [run_on(corpus, "transformer"), other]
    html = page(gather(load_study(runs, "test", ON_CPU), Silent()))
    assert html.count("<small>transformer</small>") == 1  # beside "other"


def test_nothing_is_fetched_from_anywhere(study: Study) -> None:
    html = page(gather(study, Silent()))
    assert all(target.startswith("#") for target in re.findall(r'href="([^"]*)"', html))
    assert "src=" not in html
    assert "url(" not in html
    assert "http" not in html
    assert "@import" not in html


@pytest.mark.thorough
def test_every_item_is_a_file_too(study: Study, tmp_path: Path) -> None:
    _, data = write_report(study, tmp_path, Silent())
    for section in data.sections:
        for item in section.items:
            for ending in (
                "csv",
                "json",
                "tex",
                *(["svg", "pdf", "png"] if isinstance(item, Figure) else []),
            ):
                assert (tmp_path / f"test.{item.name}.{ending}").stat().st_size > 0
    assert "one" in (tmp_path / "test.scores.csv").read_text(encoding="utf-8")


@pytest.mark.usefixtures("placeholder_pictures")
def test_a_second_report_loads_no_model_and_draws_nothing(
    fresh_study: Study, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, _ = write_report(fresh_study, tmp_path, Silent())
    first = path.read_bytes()

    def refuse(*_: object) -> NoReturn:
        raise AssertionError("work was done again")

    monkeypatch.setattr(Member, "translator", property(refuse))
    monkeypatch.setattr("jtrans.analysis.output.files.draw", refuse)
    monkeypatch.setattr("jtrans.analysis.report.scores.score_subjects", refuse)
    path, _ = write_report(_again(fresh_study), tmp_path, Silent())
    assert path.read_bytes() == first


@pytest.mark.usefixtures("placeholder_pictures")
def test_a_missing_picture_is_drawn_again(study: Study, tmp_path: Path) -> None:
    write_report(study, tmp_path, Silent())
    (tmp_path / "test.position.png").unlink()
    (tmp_path / "test.length-bleu.json").write_text("{", encoding="utf-8")
    write_report(study, tmp_path, Silent())
    assert (tmp_path / "test.position.png").is_file()
    assert json.loads((tmp_path / "test.length-bleu.json").read_text(encoding="utf-8"))


def test_scores_are_those_of_sacrebleu(study: Study) -> None:
    data = gather(study, Silent())
    for subject in study.subjects:
        expected = BLEU().corpus_score(subject.hypotheses, [study.reference_lines]).score
        assert data.scores.systems[subject.index]["bleu"].value == pytest.approx(expected)
    assert {item.metric for item in data.scores.comparisons} == {"BLEU", "chrF2", "TER"}


def test_the_explorer_has_every_system_for_every_sentence(study: Study) -> None:
    data = _explorer_data(page(gather(study, Silent())))
    assert data["sentences"]
    for sentence in data["sentences"]:
        maps = [cast("list[dict[str, object]]", pair["maps"]) for pair in sentence["pairs"]]
        is_joint = [
            any(len(cast("list[str]", m["axes"])) == 3 for m in of_sentence) for of_sentence in maps
        ]
        assert is_joint == [False, True]


def test_one_system_has_no_comparison(corpus: PreparedCorpus, run_on: RunOn) -> None:
    study = load_study([run_on(corpus)], "test", ON_CPU)
    data = gather(study, Silent())
    html = page(data)
    assert data.different == []
    assert 'id="compare"' not in html
    assert "Drawn at random" in html


def test_runs_with_other_tokens_lose_only_what_cannot_be_compared(
    corpus: PreparedCorpus, run_on: RunOn, tmp_path: Path
) -> None:
    other = make_nouns(tmp_path / "other", bpe="none")
    study = load_study([run_on(corpus, "pieces"), run_on(other, "words")], "test", ON_CPU)
    data = gather(study, Silent())
    assert [section.name for section in data.sections] == [
        "length",
        "frequency",
        "sentences",
        "compare",
    ]
    assert any("different target tokens" in warning for warning in data.warnings)
    assert "different target tokens" in page(data)


def test_seeds_are_one_system_with_their_spread(corpus: PreparedCorpus, run_on: RunOn) -> None:
    runs = [
        run_on(corpus, f"s{n}", weights_seed=n, config={"training": {"seed": n}}) for n in (1, 2)
    ]
    data = gather(load_study(runs, "test", ON_CPU), Silent())
    [system] = data.systems
    assert [folder for _, folder in system.checkpoints] == [str(run.folder) for run in runs]
    assert data.scores.systems[0]["bleu"].spread is not None
    html = page(data)
    assert "seeds ±" in html
    assert html.count("checkpoint step-") == sum(len(each.checkpoints) for each in data.systems)
    assert "of several runs are means" in html
    numbers = r"<small>\[[\d.]+, [\d.]+\]</small> <small>seeds ±[\d.]+</small>"  # of a figure
    assert re.search(numbers, html) and "seeds ±: standard deviation between seeds." in html


def test_systems_are_compared_by_their_means_over_all_seeds(
    corpus: PreparedCorpus, run_on: RunOn
) -> None:
    runs = [
        run_on(corpus, f"{name}-{seed}", weights_seed=start + seed, config={"training": training})
        for name, start, rate, seeds in (("base", 0, 0.1, (1, 2, 3)), ("fast", 10, 0.2, (1, 2)))
        for seed in seeds
        for training in [{"seed": seed, "learning_rate": rate}]
    ]
    data = gather(load_study(runs, "test", ON_CPU), Silent())
    baseline, system = data.scores.systems
    for item in data.scores.comparisons:
        metric = {"BLEU": "bleu", "chrF2": "chrf", "TER": "ter"}[item.metric]
        expected = system[metric].value - baseline[metric].value
        assert item.difference == pytest.approx(expected)
        assert (item.baseline_runs, item.system_runs, item.resampled) == (
            3,
            2,
            "sentences and seeds",
        )
    html = page(data)
    assert "paired bootstrap over sentences and 2 + 3 seeds" in html
    [table] = [i for s in data.sections for i in s.items if i.name == "compare-significance"]
    assert isinstance(table, Table)
    verdict = next(item for item in data.scores.comparisons if item.metric == "BLEU")
    assert table.rows[0][-2:] == pytest.approx([verdict.difference, verdict.p_value], abs=2e-3)


def test_a_significant_difference_is_marked_in_the_table(
    corpus: PreparedCorpus, run_on: RunOn, tmp_path: Path
) -> None:
    perfect = tmp_path / "perfect.en"
    lines = corpus.raw_lines("test", "target")
    perfect.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    data = gather(load_study([run_on(corpus)], "test", ON_CPU, hypotheses=[perfect]), Silent())
    assert data.scores.systems[1]["bleu"].mark == "*"
    html = page(data)
    assert '</b><span class="sign">*</span>' in html
    assert "p ≤ 0.001" in html and "&lt;= 0" not in html
    assert verdicts(data)[0].endswith("p <= 0.001).")  # as on the terminal


def test_the_numbers_of_the_page_have_signs_of_maths(tmp_path: Path) -> None:
    good = [f"the {n} dogs chase the cat" for n in range(30)]
    texts = {"reference": good, "good": good, "bad": [line[:-7] for line in good]}
    for name, lines in texts.items():
        write_text(tmp_path / f"{name}.en", "".join(f"{line}\n" for line in lines))
    files = [tmp_path / f"{name}.en" for name in texts]
    html = page(gather(load_file_study(TextFiles(None, files[:1], files[1:])), Silent()))
    assert re.search(r'<td class="n">−\d', html) and not re.search(r'<td class="n">-', html)
    assert '<td class="n">≤ 0.001' in html and "&lt;= 0" not in html


def test_a_file_of_translations_is_a_system_without_a_model(
    corpus: PreparedCorpus, run_on: RunOn, tmp_path: Path
) -> None:
    path = tmp_path / "other.en"
    path.write_text("Dog <b>&amp;</b>\n" * 12, encoding="utf-8")
    study = load_study([run_on(corpus)], "test", ON_CPU, hypotheses=[path], as_is=True)
    data = gather(study, Silent())
    html = page(data)
    assert data.systems[1].parameters is None
    assert "multi-bleu</th>" in html and '<td class="n">–</td>' in html
    assert "<b>&amp;</b>" not in html
    assert all(len(s["pairs"]) == 1 for s in _explorer_data(html)["sentences"])


def test_a_run_without_a_checkpoint_is_refused(corpus: PreparedCorpus, run_on: RunOn) -> None:
    run = run_on(corpus)
    run.remove_checkpoint(run.checkpoint())
    with pytest.raises(JtransError, match="the checkpoint is damaged: the file is missing"):
        load_study([run], "test", ON_CPU)


def test_the_report_is_small(study: Study) -> None:
    assert len(page(gather(study, Silent())).encode()) < 300_000


@pytest.mark.parametrize("text", ["</script><b>", "<!--<script>", "\u2028"])
def test_no_text_ends_the_data_element(text: str) -> None:
    written = json_for_page({"text": text})
    assert "<" not in written
    assert json.loads(written) == {"text": text}


def test_names_may_break_after_their_parts_but_numbers_and_abbreviations_not() -> None:
    assert breakable("quick/small <a_b>") == Markup("quick/<wbr>small &lt;a_<wbr>b&gt;")
    assert breakable("decoder.2.cross 3.14 e.g. 1/2") == Markup(
        "decoder.2.<wbr>cross 3.14 e.g. 1/2"
    )


def test_examples_are_distinct_and_the_same_every_time(study: Study) -> None:
    different, drawn = choose_examples(study)
    sources = [example.source for example in (*different, *drawn)]
    assert len(set(sources)) == len(sources)
    assert choose_examples(_again(study)) == (different, drawn)


def test_the_largest_gains_and_then_the_largest_losses_are_examples(tmp_path: Path) -> None:
    words = [f"the dog {number} sees a cat".split() for number in range(8)]
    lengths = {
        "reference": [6] * 8,
        "first": [1, 2, 3, 4] + [6] * 4,
        "other": [6] * 4 + [1, 2, 3, 4],
    }
    for name, most in lengths.items():
        lines = [" ".join(line[:length]) for line, length in zip(words, most, strict=True)]
        write_text(tmp_path / f"{name}.en", "\n".join(lines) + "\n")
    reference, *systems = (tmp_path / f"{name}.en" for name in lengths)
    different, _ = choose_examples(load_file_study(TextFiles(None, [reference], systems)))
    assert [example.line for example in different] == [0, 1, 2, 4, 5, 6]


def test_the_shortest_of_long_sentences_are_examples(
    study: Study, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("jtrans.analysis.report.examples.MOST_WORDS", 0)
    monkeypatch.setattr("jtrans.analysis.report.examples.EACH_WAY", 1)
    monkeypatch.setattr("jtrans.analysis.report.examples.RANDOM", 2)
    different, drawn = choose_examples(study)
    shown = [len(study.text.length_side.words[example.line]) for example in (*different, *drawn)]
    assert len(shown) >= 2
    assert max(shown) <= sorted(map(len, study.text.length_side.words))[3]


@pytest.mark.parametrize(
    ("text", "reference", "is_spaced", "expected"),
    [
        ("a big dog", "a dog", True, [("a ", True), ("big", False), (" dog", True)]),
        ("我很好", "我好", False, [("我", True), ("很", False), ("好", True)]),
        ("same", "same", True, [("same", True)]),
        (
            "用 Visual Studio Code 写。",
            "用 Visual Basic 写。",
            False,
            [("用 Visual ", True), ("Studio Code", False), (" 写。", True)],
        ),
        ("", "a", True, []),
    ],
)
def test_what_leaves_the_reference_is_marked(
    text: str, reference: str, is_spaced: bool, expected: list[tuple[str, bool]]
) -> None:
    parts = compare_texts(text, reference, is_spaced=is_spaced)
    assert [(part.text, part.is_shared) for part in parts if not part.is_dropped] == expected


@pytest.mark.parametrize(
    ("text", "reference", "is_spaced", "expected"),
    [
        ("the dog runs", "the big dog runs", True, "the {big}dog runs"),
        ("the dog", "the dog runs fast", True, "the dog{runs fast}"),
        ("a X dog", "a Y dog", True, "a {Y}[X] dog"),
        ("no shared word", "something else", True, "[no shared word]"),
        ("我好", "我很好", False, "我{很}好"),
        ("", "a", True, ""),
    ],
)
def test_words_that_a_translation_lacks_are_marked_where_they_are_missing(
    text: str, reference: str, is_spaced: bool, expected: str
) -> None:
    parts = compare_texts(text, reference, is_spaced=is_spaced)
    marked = [
        f"{{{part.text}}}" if part.is_dropped else part.text if part.is_shared else f"[{part.text}]"
        for part in parts
    ]
    assert "".join(marked) == expected


@given(
    text=st.text("ab ", max_size=200),
    reference=st.text("ab ", max_size=90),
    first=st.integers(0, 90),
    last=st.integers(0, 90),
)
def test_the_parts_of_a_cut_translation_make_up_the_whole(
    text: str, reference: str, first: int, last: int
) -> None:
    parts = compare_texts(text, reference)
    ends = sorted([0, min(first, len(text)), min(last, len(text)), len(text) + 1])
    cut = [between(parts, a, b) for a, b in pairwise(ends)]
    whole = "".join(part.text for spans in cut for part in spans if not part.is_dropped)
    assert whole == (text if text.strip() else "")
    assert sum(part.is_dropped for spans in cut for part in spans) == sum(
        part.is_dropped for part in parts
    )


def test_the_page_shows_a_looping_translation_cut_and_names_in_any_script(
    corpus: PreparedCorpus, run_on: RunOn, tmp_path: Path
) -> None:
    path = tmp_path / "نظام <b>.en"
    path.write_text(("the cat " * 100 + f"end\n{'x' * 10_000} Dog\n") * 6, encoding="utf-8")
    study = load_study([run_on(corpus)], "test", ON_CPU, hypotheses=[path])
    html = page(gather(study, Silent()))
    assert 'class="rest"><summary><bdi dir="ltr">… 403 characters …</bdi></summary>' in html
    assert "9,604 characters left out" in html
    assert "x" * 500 not in html
    assert html.count("<bdi>نظام &lt;b&gt;.en</bdi>") > 5
    assert "<b>.en" not in html
    assert 'dir="auto" lang="de"' in html


@pytest.mark.parametrize("language", ["en", "zh"])
def test_missing_last_words_stand_apart_in_languages_with_spaces(
    corpus: PreparedCorpus, run_on: RunOn, tmp_path: Path, language: str
) -> None:
    lines = [line.rpartition(" ")[0] or line for line in corpus.raw_lines("test", "target")]
    path = tmp_path / "cut.en"
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    study = load_study([run_on(corpus)], "test", ON_CPU, hypotheses=[path])
    target = replace(study.words.target, language=language)
    study.words = replace(study.words, target=target)
    html = page(gather(study, Silent())).partition('id="examples"')[2]
    assert bool(re.search(r"\w<del", html)) == (language == "zh")
    assert bool(re.search(r"\w <del", html)) == (language == "en")
    assert ('class="example spaced"' in html) == (language == "en")


def test_every_heading_of_a_table_says_what_it_heads(study: Study) -> None:
    html = page(gather(study, Silent()))
    headings = re.findall(r"<th\b[^>]*>", html)
    assert len(headings) > 30
    assert all(re.search(r'scope="(col|row|rowgroup)"', heading) for heading in headings)


@pytest.mark.parametrize("is_spaced", [True, False])
@given(text=st.text("ab 我 "), reference=st.text("ab 我 "))
def test_the_spans_make_up_the_text(text: str, reference: str, is_spaced: bool) -> None:
    parts = compare_texts(text, reference, is_spaced=is_spaced)
    spans = [part.text for part in parts if not part.is_dropped]
    assert "".join(spans) == (text if text.strip() else "")


def test_the_score_of_an_example_is_that_of_its_text(corpus: PreparedCorpus, run_on: RunOn) -> None:
    runs = [
        run_on(corpus, f"s-{n}", weights_seed=n, config={"training": {"seed": n}}) for n in (1, 2)
    ]
    study = load_study(runs, "test", ON_CPU)
    _, drawn = choose_examples(study)
    references = [study.reference_lines[example.line] for example in drawn]
    for example, reference in zip(drawn, references, strict=True):
        [shown] = example.translations
        text = "".join(part.text for part in shown.parts if not part.is_dropped)
        assert shown.score == pytest.approx(CHRF().sentence_score(text, [reference]).score)


def test_case_is_ignored_where_scores_ignore_it() -> None:
    [part] = compare_texts("The Dog", "the dog", lowercase=True)
    assert part.is_shared


def test_an_unfinished_log_has_no_curve(study: Study) -> None:
    data: ReportData = gather(study, Silent())
    assert data.curves == []
    assert 'id="training"' not in page(data)


def test_gold_links_that_fit_one_run_only_are_left_out(
    corpus: PreparedCorpus, run_on: RunOn
) -> None:
    links = "".join("0-0\n" for _ in corpus.raw_lines("test", "source"))
    (corpus.folder / "text" / "test.alignments.txt").write_text(links, encoding="utf-8")
    other = run_on(corpus, "lower")
    source = replace(corpus.pipeline.source, segmenter="character")
    TextPipeline(source, corpus.pipeline.target).save(other.folder / "pipeline.json")
    runs = [run_on(corpus, "first"), Run.open(other.folder)]
    data = gather(load_study(runs, "test", ON_CPU), Silent())
    assert "alignment" not in [section.name for section in data.sections]
    assert any("Word alignment is left out" in warning for warning in data.warnings)
    alone = gather(load_study(runs[:1], "test", ON_CPU), Silent())
    assert "alignment" in [section.name for section in alone.sections]
