"""Test sets with several references, from the original sgm files to the report."""

from __future__ import annotations

import json
import random
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from plugins.command_line import Jtrans, Result
from plugins.random_runs import MakeRun
from sacrebleu.metrics.bleu import BLEU
from sacrebleu.metrics.chrf import CHRF
from sacrebleu.metrics.ter import TER

from jtrans.corpora.catalogue.load import CATALOGUE
from jtrans.data.prepared import PreparedCorpus

WORDS = ["the", "a", "dog", "cat", "bird", "sees", "hears", "in", "big", "house", "it's", "well"]
SIGNS = "狗猫鸟看听大房子里好人"
RELEASES = [source.file for source in CATALOGUE["nist-zh-en"].sources][:8]
SENTENCES = 14
OTHER = ["Quite another sentence."] * SENTENCES


def _sgm(tag: str, texts: Mapping[str, Sequence[str]]) -> str:
    documents = "".join(
        f'<doc docid="news" sysid="{name}">'
        + "".join(f'<seg id="{n}">{line}</seg>\n' for n, line in enumerate(lines, start=1))
        + "</doc>\n"
        for name, lines in texts.items()
    )
    return f'<{tag} setid="x" srclang="Chinese" trglang="English">\n{documents}</{tag}>\n'


def _sentence(draw: random.Random) -> str:
    return " ".join(draw.choices(WORDS, k=draw.randint(5, 12))).capitalize() + "."


def _references(seed: int, count: int) -> dict[str, list[str]]:
    """Make translations that have much in common: each changes a third of the words."""
    draw = random.Random(seed)
    first = [_sentence(draw) for _ in range(SENTENCES)]
    files = {"r1": first}
    for number in range(2, count + 1):
        files[f"r{number}"] = [
            " ".join(draw.choice(WORDS) if draw.random() < 0.3 else w for w in line[:-1].split())
            + " now" * draw.randint(0, 2)
            + "."
            for line in first
        ]
    return files


def _originals(folder: Path, *, third: Sequence[str] = ()) -> Path:
    """Write the files of nist-zh-en: lines for training, sgm for valid (2), mt05 (1), mt08 (4).

    `third` replaces the third reference of mt08.
    """
    draw = random.Random(5)
    files = {}
    for number in RELEASES:
        pairs = [("".join(draw.choices(SIGNS, k=6)), _sentence(draw)) for _ in range(4)]
        files[f"{number}/a.zh"] = "".join(f"{source}\n" for source, _ in pairs)
        files[f"{number}/a.en"] = "".join(f"{target}\n" for _, target in pairs)
    for seed, (name, count) in enumerate({"mt06": 2, "mt05": 1, "mt08": 4}.items()):
        source = ["".join(draw.choices(SIGNS, k=draw.randint(3, 24))) for _ in range(SENTENCES)]
        references = _references(seed, count)
        if name == "mt08" and third:
            references["r3"] = list(third)
        files[f"sets/{name}-src.sgm"] = _sgm("srcset", {"nist": source})
        files[f"sets/{name}-ref.sgm"] = _sgm("refset", references)
    for path, text in files.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(text, encoding="utf-8")
    return folder


def _prepare(jtrans: Jtrans, originals: Path, out: str) -> Result:
    options = ("--source-segment", "character", "--bpe", "none", "--max-ratio", "9")
    where = ("--from", originals, "--out", out, "--workers", 1)
    return jtrans("prepare", "nist-zh-en", *where, *options)


@pytest.fixture
def corpus(jtrans: Jtrans, tmp_path: Path) -> PreparedCorpus:
    """What `jtrans prepare` makes of the original files."""
    done = _prepare(jtrans, _originals(tmp_path / "originals"), "data")
    assert done.code == 0, done.err
    return PreparedCorpus.open(tmp_path / "data")


def _translations(corpus: PreparedCorpus, split: str) -> list[str]:
    """Make translations that owe something to each reference in turn."""
    draw = random.Random(9)
    sets = corpus.references(split)
    lines = [list(alternatives) for alternatives in zip(*sets, strict=True)]
    chosen = [lines[n][n % len(sets)].split() for n in range(len(lines))]
    return [
        " ".join(word for word in words if len(words) < 3 or draw.random() < 0.9)
        for words in chosen
    ]


@pytest.fixture
def run(jtrans: Jtrans, make_run: MakeRun, corpus: PreparedCorpus) -> Path:
    """A run whose stored translations of mt08 are those of `_translations`."""
    folder = make_run("run", pipeline=corpus.pipeline, data=str(corpus.folder))
    assert jtrans("score", folder, "--split", "mt08", "--beam", "1").code == 0
    [stored] = (folder / "translations").iterdir()
    content = json.loads(stored.read_text(encoding="utf-8"))
    content["lines"] = _translations(corpus, "mt08")
    content["words"] = [corpus.pipeline.target.segment(line) for line in content["lines"]]
    stored.write_text(json.dumps(content), encoding="utf-8")
    return folder


def _by_sacrebleu(lines: Sequence[str], references: Sequence[Sequence[str]]) -> dict[str, float]:
    metrics: dict[str, Any] = {"bleu": BLEU(force=True), "chrf": CHRF(), "ter": TER()}
    return {
        name: metric.corpus_score(list(lines), [list(one) for one in references]).score
        for name, metric in metrics.items()
    }


def _tokenised(corpus: PreparedCorpus, references: Sequence[Sequence[str]]) -> float:
    """Return multi-bleu: no tokenizer, no smoothing, on the words before BPE."""
    segment = corpus.pipeline.target.segment
    lines = [" ".join(segment(line)) for line in _translations(corpus, "mt08")]
    words = [[" ".join(segment(line)) for line in one] for one in references]
    metric = BLEU(tokenize="none", smooth_method="none", force=True)
    return float(metric.corpus_score(lines, words).score)


def test_prepare_keeps_every_reference_and_says_how_many(corpus: PreparedCorpus) -> None:
    expected = list(_references(2, 4).values())
    assert corpus.references("mt08") == expected
    assert [len(corpus.references(split)) for split in ("valid", "mt05", "mt08")] == [2, 1, 4]
    assert corpus.info["splits"]["mt08"]["references"] == 4
    assert corpus.raw_lines("mt08", "target") == expected[0]


def test_a_changed_reference_is_another_corpus(
    jtrans: Jtrans, corpus: PreparedCorpus, tmp_path: Path
) -> None:
    same = _prepare(jtrans, tmp_path / "originals", "data")
    assert (same.code, "Unchanged" in same.err) == (0, True)
    other = _prepare(jtrans, _originals(tmp_path / "other", third=OTHER), "data")
    assert other.code == 2
    assert "different text" in other.err


def test_scores_are_those_of_sacrebleu_with_all_references(
    jtrans: Jtrans, corpus: PreparedCorpus, run: Path
) -> None:
    result = jtrans("score", run, "--split", "mt08", "--beam", "1", "--json")
    report = json.loads(result.out)
    [system] = report["systems"]
    references = corpus.references("mt08")
    lines = _translations(corpus, "mt08")
    assert report["references"] == 4
    for name, value in _by_sacrebleu(lines, references).items():
        assert system[name] == pytest.approx(value)
        assert "nrefs:4" in system["signatures"][name]
        assert system[name] != pytest.approx(_by_sacrebleu(lines, references[:1])[name], abs=0.5)
    assert system["multi_bleu"] == pytest.approx(_tokenised(corpus, references))
    assert system["multi_bleu"] > _tokenised(corpus, references[:1]) + 1


def test_the_table_says_how_many_references_the_papers_score_has(jtrans: Jtrans, run: Path) -> None:
    shown = jtrans("score", run, "--split", "mt08", "--beam", "1").out
    assert "tokenised BLEU on each system's own words, 4 references" in shown
    assert shown.count("nrefs:4") == 3


def test_significance_is_tested_with_all_references(
    jtrans: Jtrans, corpus: PreparedCorpus, run: Path, make_run: MakeRun
) -> None:
    config = {"training": {"learning_rate": 0.5}}
    other = make_run("other", pipeline=corpus.pipeline, data=str(corpus.folder), config=config)
    options = ("--split", "mt08", "--beam", "1", "--metric", "bleu", "--json")
    report = json.loads(jtrans("score", other, run, *options).out)
    first, second = (system["bleu"] for system in report["systems"])
    assert second == pytest.approx(
        _by_sacrebleu(_translations(corpus, "mt08"), corpus.references("mt08"))["bleu"]
    )
    assert report["paired"][0]["difference"] == pytest.approx(second - first)


def test_runs_on_corpora_with_other_references_are_not_compared(
    jtrans: Jtrans, corpus: PreparedCorpus, run: Path, make_run: MakeRun, tmp_path: Path
) -> None:
    _prepare(jtrans, _originals(tmp_path / "originals2", third=OTHER), "data2")
    other = make_run("other", pipeline=corpus.pipeline, data=str(tmp_path / "data2"))
    for command in (("score",), ("analyze", "length")):
        result = jtrans(*command, run, other, "--split", "mt08", "--beam", "1")
        assert result.code == 2
        assert "other and run have different references in mt08" in result.err


@pytest.mark.usefixtures("placeholder_pictures")
def test_length_figures_use_all_references(
    jtrans: Jtrans, corpus: PreparedCorpus, run: Path
) -> None:
    options = ("--split", "mt08", "--beam", "1", "--edges", "11", "--json")
    result = json.loads(jtrans("analyze", "length", run, *options).out)
    assert result["references"] == 4
    ratio, *_, bleu = result["results"]
    lines, references = _translations(corpus, "mt08"), corpus.references("mt08")
    segment = corpus.pipeline.target.segment
    translated = [len(segment(line)) for line in lines]
    closest = [
        min((len(segment(line)) for line in alternatives), key=lambda n: (abs(n - size), n))
        for size, alternatives in zip(translated, zip(*references, strict=True), strict=True)
    ]
    assert ratio["series"][0]["values"] == [pytest.approx(sum(translated) / sum(closest))]
    sizes = [len(line) for line in corpus.raw_lines("mt08", "source")]
    for place, lengths in enumerate((range(12), range(12, 99))):
        chosen = [n for n, size in enumerate(sizes) if size in lengths]
        part = [[one[n] for n in chosen] for one in references]
        value = _by_sacrebleu([lines[n] for n in chosen], part)["bleu"]
        assert chosen
        assert bleu["series"][0]["values"][place] == pytest.approx(value)


@pytest.mark.usefixtures("placeholder_pictures")
def test_the_report_uses_and_shows_all_references(
    jtrans: Jtrans, corpus: PreparedCorpus, run: Path, tmp_path: Path
) -> None:
    options = ("--split", "mt08", "--beam", "1", "--out", tmp_path / "report", "--json")
    result = json.loads(jtrans("analyze", "report", run, *options).out)
    scores = result["scores"]["systems"]["run"]
    references = corpus.references("mt08")
    for name, value in _by_sacrebleu(_translations(corpus, "mt08"), references).items():
        assert scores[name]["value"] == pytest.approx(value)
    assert scores["multi-bleu"]["value"] == pytest.approx(_tokenised(corpus, references))
    html = (tmp_path / "report" / "report.html").read_text(encoding="utf-8")
    assert "14 sentences with 4 references each" in html
    assert html.count("nrefs:4") == 3
    assert "<dt>reference 4</dt>" in html
    assert "Only the first of the 4 references is used." in html


@pytest.mark.usefixtures("placeholder_pictures")
def test_kept_scores_of_other_references_are_not_used(
    jtrans: Jtrans, corpus: PreparedCorpus, run: Path, tmp_path: Path
) -> None:
    options = ("--split", "mt08", "--beam", "1", "--out", tmp_path / "report", "--json")
    before = json.loads(jtrans("analyze", "report", run, *options).out)
    lines = _translations(corpus, "mt08")
    _prepare(jtrans, _originals(tmp_path / "other", third=lines), "data2")
    after = json.loads(jtrans("analyze", "report", run, "--data", "data2", *options).out)
    values = [report["scores"]["systems"]["run"]["bleu"]["value"] for report in (before, after)]
    assert values[0] < 99
    assert values[1] == pytest.approx(100)


def test_own_files_may_have_numbered_references(jtrans: Jtrans, tmp_path: Path) -> None:
    references = list(_references(2, 3).values())
    files = {f"test.{n}.en": lines for n, lines in enumerate(references)}
    files |= {"train.en": references[0], "valid.en": references[1]}
    files |= {f"{name}.de": ["Der Hund."] * SENTENCES for name in ("train", "valid", "test")}
    for name, lines in files.items():
        (tmp_path / name).write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    where = ("--train", "train", "--valid", "valid", "--test", "test", "--languages", "de-en")
    options = ("--max-ratio", "9", "--keep-leaked", "--workers", 1)
    done = jtrans("prepare", *where, "--out", "own", *options)
    assert done.code == 0, done.err
    corpus = PreparedCorpus.open(tmp_path / "own")
    assert corpus.references("test") == references
    assert corpus.references("valid") == [references[1]]
    (tmp_path / "test.2.en").write_text("One line.\n", encoding="utf-8")
    refused = jtrans("prepare", *where, "--out", "own2", *options)
    assert refused.code == 2
    assert "test.2.en" in refused.err
