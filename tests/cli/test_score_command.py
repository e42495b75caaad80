"""`jtrans score`: runs on a split, files, and given translations."""

from __future__ import annotations

import gc
import gzip
import json
import math
import os
import re
import shutil
import signal
import statistics
import subprocess
import time
import weakref
from pathlib import Path
from typing import Any

import pytest
import safetensors.torch
import torch
from plugins.command_line import Jtrans, start_process
from plugins.random_runs import MakeRun
from plugins.small_corpus import WHITESPACE, make_nouns
from sacrebleu.metrics.base import Metric
from sacrebleu.metrics.bleu import BLEU
from sacrebleu.metrics.chrf import CHRF
from sacrebleu.metrics.ter import TER

from jtrans.cli.score.report import Band
from jtrans.corpora.parallel import Corpus, ParallelText
from jtrans.data.prepared import PreparedCorpus, digest_of
from jtrans.decoding.translator import Translator
from jtrans.preparation.options import PrepareOptions
from jtrans.preparation.prepare import prepare
from jtrans.runs import Run
from jtrans.text.pipeline import TextSide

OVER_SENTENCES = "95 % interval over sentences"
IN_BRACKETS = "[low, high]: its ends, where ± would pass a limit of the metric"


def _run_of(corpus: PreparedCorpus, make_run: MakeRun, name: str = "run", **more: Any) -> Path:
    return make_run(name, pipeline=corpus.pipeline, data=str(corpus.folder), **more)


def test_a_run_is_scored_on_its_test_set_with_signatures(
    jtrans: Jtrans, make_run: MakeRun, corpus: PreparedCorpus
) -> None:
    result = jtrans("score", _run_of(corpus, make_run))
    header, row, *rest = result.out.splitlines()
    assert result.code == 0
    columns = ["system", "BLEU", "chrF2", "TER", "multi-bleu", "parameters", "tokens/s"]
    assert header.split() == columns
    assert row.startswith("run ")
    assert row.count("±") == 2  # no drawn test set has a BLEU above 0
    assert any(line.startswith("BLEU|nrefs:1|") and "case:mixed" in line for line in rest)


def test_json_gives_the_numbers(jtrans: Jtrans, make_run: MakeRun, corpus: PreparedCorpus) -> None:
    result = jtrans("score", _run_of(corpus, make_run), "--json", "--split", "valid")
    report = json.loads(result.out)
    [system] = report["systems"]
    assert {"name", "bleu", "chrf", "ter", "multi_bleu", "signature"} <= system.keys()
    assert system["signature"].startswith("BLEU|")
    assert (system["split"], system["sentences"], system["parameters"]) == ("valid", 4, 1234)
    assert report["paired"] == report["groups"] == report["expected"] == []


def test_scores_are_those_of_the_translations_in_a_file(
    jtrans: Jtrans, make_run: MakeRun, corpus: PreparedCorpus
) -> None:
    run = _run_of(corpus, make_run)
    [system] = json.loads(jtrans("score", run, "--json").out)["systems"]
    for side, name in (("source", "test.de"), ("target", "test.en")):
        text = "".join(line + "\n" for line in corpus.raw_lines("test", side))  # type: ignore[arg-type]
        Path(name).write_text(text, encoding="utf-8")
    jtrans("translate", run, "--input", "test.de", "--output", "hyp.en")
    files = ("--hyp", "hyp.en", "--ref", "test.en", "--metric", "bleu,chrf,ter,multi-bleu")
    [by_file] = json.loads(jtrans("score", *files, "--json").out)["systems"]
    for metric in ("bleu", "chrf", "ter", "multi_bleu"):
        assert by_file[metric] == pytest.approx(system[metric])

    made = ("--input", "test.de", "--n-best", "2", "--output")
    written = jtrans("translate", run, *made, "hyp.jsonl", "--format", "jsonl")
    assert "Next: jtrans score --hyp hyp.jsonl" in written.err
    [by_object] = json.loads(jtrans("score", "--hyp", "hyp.jsonl", *files[2:], "--json").out)[
        "systems"
    ]
    assert by_object["bleu"] == by_file["bleu"]
    assert "Next:" not in jtrans("translate", run, *made, "n-best.txt").err
    objects = Path("hyp.jsonl").read_text(encoding="utf-8").splitlines()
    Path("cut.jsonl").write_text("\n".join([*objects[:-1], objects[-1][:-9]]), encoding="utf-8")
    refused = jtrans("score", "--hyp", "cut.jsonl", *files[2:])
    assert refused.code == 2
    assert f"line {len(objects)} of cut.jsonl is not the object of a translation" in refused.err


def test_translations_are_written_to_a_folder(
    jtrans: Jtrans, make_run: MakeRun, corpus: PreparedCorpus, tmp_path: Path
) -> None:
    run = _run_of(corpus, make_run, "test", weights_seed=2)
    other = _run_of(corpus, make_run, "b/test", config={"training": {"learning_rate": 0.5}})
    result = jtrans("score", run, other, "--output", "out")
    written = {path.name: path for path in (tmp_path / "out").iterdir()}
    assert {f"Written      out/{name}" for name in written} <= {*result.err.splitlines()}
    source = corpus.folder / "text" / "test.de"
    for name, each in (("b-test.en", other), (f"{tmp_path.name}-test.en", run)):
        translated = jtrans("translate", each, "-i", source).out
        assert written.pop(name).read_text(encoding="utf-8") == translated != ""
    assert not written
    # files with the names of systems are replaced, but for those that the command reads
    Path("out/test.en").write_text("x\n", encoding="utf-8")
    assert jtrans("score", run, "--output", "out").code == 0
    given = ["--metric", "chrf", "--sentence-scores", "X=out/test.en"]
    Path("out/test.en").write_text("1\n" * 12, encoding="utf-8")
    copied = tmp_path / "copied"
    copied.mkdir()
    shutil.copy(corpus.folder / "text" / "test.en", copied)
    for folder, options, message in (
        ("out", given, "--sentence-scores and --output name the same file: out/test.en"),
        ("copied", [], "copied/test.en has text of the split test"),
        (corpus.folder / "text", [], "test.en would be in a prepared corpus"),
        ("hyp.en", [], "--output hyp.en is named like a file"),
    ):
        refused = jtrans("score", run, "--output", folder, *options)
        assert (refused.code, refused.out) == (2, "") and message in refused.err
    assert jtrans("score", run).code == 0


@pytest.mark.parametrize(
    ("options", "ends"),
    [
        (["--checkpoint", "window"], ["@10", "@20"]),
        (["--sweep", "beam=1,2"], ["-beam=1", "-beam=2"]),
    ],
)
def test_every_checkpoint_and_every_search_gets_a_file(
    jtrans: Jtrans, make_run: MakeRun, corpus: PreparedCorpus, options: list[str], ends: list[str]
) -> None:
    run = _with_window(_run_of(corpus, make_run), 10, 20)
    assert jtrans("score", run, *options, "--output", "out").code == 0
    written = {path.name: path.read_text(encoding="utf-8") for path in Path("out").iterdir()}
    assert written.keys() == {f"run{end}.en" for end in ends}
    comet = {
        name: [{"mt": line, "COMET": 0.5} for line in text.splitlines()]
        for name, text in written.items()
    }
    Path("comet.json").write_text(json.dumps(comet), encoding="utf-8")
    given = ["--sentence-scores", "COMET=comet.json", "--json"]
    systems = json.loads(jtrans("score", run, *options, *given).out)["systems"]
    assert [system["COMET"] for system in systems] == [0.5, 0.5]


def test_translations_are_kept_and_used_again(
    jtrans: Jtrans, make_run: MakeRun, corpus: PreparedCorpus, loaded_runs: list[str]
) -> None:
    run = _run_of(corpus, make_run)
    first = jtrans("score", run).out
    [cached] = (run / "translations").iterdir()
    assert cached.name.startswith("test.step-00000010.")
    assert jtrans("score", run).out == first
    assert loaded_runs == ["run"]


@pytest.mark.parametrize("change", ["options", "weights", "damage", "text"])
def test_translations_of_something_else_are_not_used(
    jtrans: Jtrans, make_run: MakeRun, corpus: PreparedCorpus, loaded_runs: list[str], change: str
) -> None:
    run = _run_of(corpus, make_run)
    jtrans("score", run)
    [cached] = (run / "translations").iterdir()
    options: list[object] = []
    if change == "options":
        options = ["--beam", "1"]
    elif change == "damage":
        cached.write_bytes(cached.read_bytes()[:100])
    elif change == "text":
        other_text = make_nouns(corpus.folder.parent / "other", test_seed=5)
        options = ["--data", other_text.folder]
    else:
        other = make_run("other", pipeline=corpus.pipeline, weights_seed=2)
        shutil.rmtree(run / "checkpoints")
        shutil.copytree(other / "checkpoints", run / "checkpoints")
    assert jtrans("score", run, *options).code == 0
    assert loaded_runs == ["run", "run"]


def test_a_lower_casing_run_is_scored_without_case(
    jtrans: Jtrans, make_run: MakeRun, tmp_path: Path
) -> None:
    run = _run_of(make_nouns(tmp_path / "lower", lowercase=True), make_run)
    [system] = json.loads(jtrans("score", run, "--json").out)["systems"]
    assert "case:lc" in system["signature"]
    [cased] = json.loads(jtrans("score", run, "--cased", "--json").out)["systems"]
    assert "case:mixed" in cased["signature"]
    assert cased["bleu"] <= system["bleu"]


def test_two_runs_are_compared_with_the_first(
    jtrans: Jtrans, make_run: MakeRun, corpus: PreparedCorpus
) -> None:
    runs = [
        _run_of(
            corpus, make_run, name, weights_seed=n, config={"training": {"learning_rate": n / 10}}
        )
        for n, name in enumerate("ab", 1)
    ]
    report = json.loads(jtrans("score", *runs, "--json").out)
    assert {(p["baseline"], p["system"]) for p in report["paired"]} == {("a", "b")}
    assert [p["metric"] for p in report["paired"]] == ["BLEU", "chrF2", "TER"]
    lines = jtrans("score", *runs).out.splitlines()
    assert (
        sum("paired bootstrap over sentences, 1,000 samples, p = " in line for line in lines) == 1
    )
    assert "one run of each system: the test does not cover variation between seeds" in lines


def _three_seeds(corpus: PreparedCorpus, make_run: MakeRun) -> list[Path]:
    """Return runs of one system."""
    return [
        _run_of(corpus, make_run, f"s{n}", weights_seed=n, config={"training": {"seed": n}})
        for n in (1, 2, 3)
    ]


def test_runs_that_differ_only_by_seed_get_mean_and_deviation(
    jtrans: Jtrans, make_run: MakeRun, corpus: PreparedCorpus
) -> None:
    runs = _three_seeds(corpus, make_run)
    other = _run_of(corpus, make_run, "other", config={"training": {"learning_rate": 0.5}})
    report = json.loads(jtrans("score", other, *runs, "--json").out)
    [group] = report["groups"]
    values = [system["chrf"] for system in report["systems"][1:]]
    assert group["systems"] == ["s1", "s2", "s3"]
    assert group["mean"]["chrf"] == pytest.approx(sum(values) / 3)
    assert group["sd"]["chrf"] > 0
    assert group["interval"]["chrf"] > group["sd"]["chrf"]
    result = jtrans("score", other, *runs)
    assert "s1, s2, s3 differ only by seed" in result.out
    first = ["system", "other", group["name"], "  s1", "  s2", "  s3"]
    for line, name in zip(result.out.splitlines(), first, strict=False):
        assert line.startswith(f"{name} ")


def test_a_run_whose_settings_changed_on_the_way_is_no_seed_of_the_others(
    jtrans: Jtrans, make_run: MakeRun, corpus: PreparedCorpus
) -> None:
    runs = _three_seeds(corpus, make_run)
    Run.open(Path(runs[2])).update_info(changed=["training.learning_rate"])
    assert "s1, s2 differ only by seed" in jtrans("score", *runs, "--metric", "chrf").out


def test_sentence_scores_of_seeds_are_averaged(
    jtrans: Jtrans, make_run: MakeRun, corpus: PreparedCorpus
) -> None:
    runs = _three_seeds(corpus, make_run)
    sentences = len(corpus.raw_lines("test", "target"))
    for value, run in zip((0.5, 0.6, 0.7), runs, strict=True):
        (run / "scores").write_text(f"{value}\n" * sentences, encoding="utf-8")
    given = "COMET=" + ",".join(str(run / "scores") for run in runs)
    result = jtrans("score", *runs, "--metric", "chrf", "--sentence-scores", given)
    [mean] = [line for line in result.out.splitlines() if " (seeds 1–3) " in line]
    assert "  0.6000 ±" in mean
    assert "COMET 0.6000 ± 0.1000 (mean ± sd)" in result.out


def test_groups_are_compared_over_sentences_and_seeds(
    jtrans: Jtrans, make_run: MakeRun, corpus: PreparedCorpus
) -> None:
    seeds = _three_seeds(corpus, make_run)
    others = [
        _run_of(
            corpus,
            make_run,
            f"fast-{n}",
            weights_seed=10 + n,
            config={"training": {"seed": n, "learning_rate": 0.5}},
        )
        for n in (1, 2)
    ]
    report = json.loads(jtrans("score", *seeds, *others, "--json").out)
    assert {(p["baseline"], p["system"]) for p in report["paired"]} == {
        ("s1+s2+s3 (seeds 1–3)", "fast (seeds 1, 2)")
    }
    assert {(p["baseline_runs"], p["system_runs"], p["resampled"]) for p in report["paired"]} == {
        (3, 2, "sentences and seeds")
    }
    means = [group["mean"]["bleu"] for group in report["groups"]]
    assert report["paired"][0]["difference"] == pytest.approx(means[1] - means[0])
    text = jtrans("score", *seeds, *others).out
    assert "paired bootstrap over sentences and 2 + 3 seeds, 1,000 samples, p" in text


@pytest.mark.parametrize("is_packed", [False, True])
@pytest.mark.parametrize(
    ("name", "text", "kind"),
    [
        (
            "h.sgm",
            '<tstset setid="x">\n<seg id="1">a dog .</seg>\n</tstset>\n',
            "a test set in XML",
        ),
        ("h.xml", '\n<?xml version="1.0"?>\n<seg id="1">a dog .</seg>\n', "a test set in XML"),
        ("h.tsv", "ein Hund .\ta dog .\n", "a table"),
    ],
)
def test_files_that_are_not_plain_text_are_refused_with_a_command(
    jtrans: Jtrans, tmp_path: Path, name: str, text: str, kind: str, is_packed: bool
) -> None:
    data, path = text.encode(), tmp_path / f"{name}{'.gz' if is_packed else ''}"
    path.write_bytes(gzip.compress(data) if is_packed else data)
    (tmp_path / "ref.en").write_text("a dog .\n" * text.count("\n"), encoding="utf-8")
    refused = jtrans("score", "--hyp", path, "--ref", "ref.en")
    assert refused.code == 2 and f"is {kind}, not plain text" in refused.err
    command = refused.err.partition("for example: ")[2].strip()
    subprocess.run(["bash", "-c", command], check=True, cwd=tmp_path)
    assert (tmp_path / "TEXT").read_text(encoding="utf-8") == "a dog .\n"


def test_tables_and_tags_of_plain_text_are_scored(jtrans: Jtrans, tmp_path: Path) -> None:
    for name in ("hyp.en", "hyp.tsv"):
        Path(name).write_text("a dog\tbarks .\n<p> two dogs\n", encoding="utf-8")
    assert jtrans("score", "--hyp", "hyp.en", "--ref", "hyp.tsv").code == 0


def test_significantly_worse_has_its_own_mark(jtrans: Jtrans, tmp_path: Path) -> None:
    reference = [f"the {n} dogs and the {n} cats sleep in house {n} ." for n in range(60)]
    poor = [line.replace("sleep in", "go") for line in reference]
    for name, lines in {"ref.en": reference, "poor.en": poor, "good.en": reference}.items():
        (tmp_path / name).write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    better = jtrans("score", "--hyp", "poor.en", "good.en", "--ref", "ref.en").out
    worse = jtrans("score", "--hyp", "good.en", "poor.en", "--ref", "ref.en").out
    assert (better.splitlines()[2].count("*"), better.splitlines()[2].count("↓")) == (3, 0)
    assert (worse.splitlines()[2].count("*"), worse.splitlines()[2].count("↓")) == (0, 3)
    assert "* significantly better than good.en, ↓ significantly worse (p < 0.05)" in worse
    assert "p <= 0.001" in worse
    report = jtrans("score", "--hyp", "good.en", "poor.en", "--ref", "ref.en", "--json").out
    assert {pair["mark"] for pair in json.loads(report)["paired"]} == {"↓"}


def test_the_same_run_twice_is_refused(
    jtrans: Jtrans, make_run: MakeRun, corpus: PreparedCorpus
) -> None:
    run = _run_of(corpus, make_run)
    result = jtrans("score", run, run)
    assert result.code == 2
    assert "given twice" in result.err


@pytest.mark.parametrize(("high", "code"), [(100.0, 0), (-1.0, 4)])
def test_a_score_outside_the_expected_band_fails(
    jtrans: Jtrans, make_run: MakeRun, corpus: PreparedCorpus, high: float, code: int
) -> None:
    band = {"metric": "chrf", "low": -2.0, "high": high}
    run = _run_of(corpus, make_run, config={"expect": {"test": band}})
    result = jtrans("score", run, "--json")
    assert result.code == code
    [expected] = json.loads(result.out)["expected"]
    assert expected["is_held"] == (code == 0)
    assert ("outside the expected" in result.err) == (code == 4)
    assert ("within the expected" in result.err) == (code == 0)


@pytest.mark.parametrize(("value", "is_held"), [(32.396, True), (32.394, False), (33.004, True)])
def test_a_score_is_compared_with_its_band_as_it_is_shown(value: float, is_held: bool) -> None:
    assert Band("run", "bleu", 32.4, 33.0, value).is_held == is_held


IMPOSSIBLE = {"metric": "chrf", "low": -2.0, "high": -1.0}


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        (["--beam", "2"], "it is for beam 5, not 2"),
        (["--length-penalty", "0.5"], "it is for length penalty 1.0, not 0.5"),
        (["--checkpoint", "last"], "it is for the checkpoint best, not last"),
        (["--lowercase"], "it is for cased text"),
        (["--metric", "bleu"], "it is for chrf, which --metric leaves out"),
    ],
)
def test_a_band_is_not_for_scores_of_another_kind(
    options: list[str], reason: str, jtrans: Jtrans, make_run: MakeRun, corpus: PreparedCorpus
) -> None:
    run = _run_of(corpus, make_run, config={"expect": {"test": IMPOSSIBLE}})
    result = jtrans("score", run, "--json", *options)
    assert result.code == 0
    assert json.loads(result.out)["expected"] == []
    assert f"run: expected range not checked: {reason}\n" in result.err


@pytest.mark.parametrize("options", [[], ["--cased"]])
def test_a_band_is_of_the_case_in_which_its_run_writes(
    jtrans: Jtrans, make_run: MakeRun, corpus: PreparedCorpus, options: list[str]
) -> None:
    config = {"expect": {"test": IMPOSSIBLE}}
    cased = _run_of(corpus, make_run, config=config)
    lower = Path(shutil.copytree(cased, Path(cased).parent / "lower"))
    pipeline = json.loads((lower / "pipeline.json").read_text("utf-8"))
    pipeline["target"]["lowercase"] = True
    (lower / "pipeline.json").write_text(json.dumps(pipeline), "utf-8")
    result = jtrans("score", cased, lower, "--metric", "chrf", *options)
    names = ("lower", "lower-cased") if options else ("run", "cased")
    assert "{}: expected range not checked: it is for {} text\n".format(*names) in result.err
    how = "with" if options else "without"
    assert f"everything is compared {how} case" in result.err
    assert result.code == 4  # the other run's band is checked


@pytest.mark.parametrize("last", [{"event": "start"}, {"event": "end", "reason": "stopped"}])
def test_a_band_is_not_for_a_run_that_is_not_finished(
    jtrans: Jtrans, make_run: MakeRun, corpus: PreparedCorpus, last: dict[str, str]
) -> None:
    run = _run_of(corpus, make_run, config={"expect": {"test": IMPOSSIBLE}})
    (run / "log.jsonl").write_text(json.dumps(last) + "\n", encoding="utf-8")
    result = jtrans("score", run)
    assert result.code == 0
    assert "run: expected range not checked: its training is not finished\n" in result.err


@pytest.mark.parametrize(
    ("info", "reason"),
    [
        ({"from": "runs/other"}, "its training began with the weights of another run"),
        (
            {"changed": ["training.clip_norm", "training.learning_rate"]},
            "during its training these changed: training.clip_norm, training.learning_rate",
        ),
    ],
)
def test_a_band_is_not_for_a_run_that_began_in_another_way(
    info: dict[str, Any],
    reason: str,
    jtrans: Jtrans,
    make_run: MakeRun,
    corpus: PreparedCorpus,
) -> None:
    run = _run_of(corpus, make_run, config={"expect": {"test": IMPOSSIBLE}})
    written = json.loads((run / "run.json").read_text("utf-8"))
    (run / "run.json").write_text(json.dumps({**written, **info}), "utf-8")
    result = jtrans("score", run)
    assert result.code == 0
    assert f"run: expected range not checked: {reason}\n" in result.err


def test_a_band_may_be_of_an_average(
    jtrans: Jtrans, make_run: MakeRun, corpus: PreparedCorpus
) -> None:
    expect = {"test": {**IMPOSSIBLE, "checkpoint": "average-1"}}
    run = _run_of(corpus, make_run, config={"expect": expect})
    result = jtrans("score", run)
    assert result.code == 0
    assert (
        "run: expected range not checked: it is for the checkpoint average-1, not best\n"
        in result.err
    )
    assert jtrans("average", run, "--last", "1", "--name", "average-1").code == 0
    assert jtrans("score", run, "--checkpoint", "average-1").code == 4
    assert jtrans("score", f"{run}@average-1").code == 4


def test_checkpoints_of_a_run_are_systems_of_their_own(
    jtrans: Jtrans, make_run: MakeRun, corpus: PreparedCorpus
) -> None:
    run = _run_of(corpus, make_run)
    assert jtrans("average", run, "--last", "1").code == 0
    values = json.loads(jtrans("score", f"{run}@best", f"{run}@average", "--json").out)
    assert [system["name"] for system in values["systems"]] == ["run@best", "run@average"]
    assert [system["checkpoint"] for system in values["systems"]][1] == "average"
    assert [pair["p_value"] for pair in values["paired"]] == [1.0] * len(values["paired"])
    alone = jtrans("score", f"{run}@average", run, "--checkpoint", "last", "--json")
    checkpoints = [system["checkpoint"] for system in json.loads(alone.out)["systems"]]
    assert checkpoints[0] == "average" and checkpoints[1].startswith("step-")
    for refused, said in (
        ((f"{run}@best", f"{run}@best"), "run@best is given twice"),
        ((f"{run}@nothing", run), "the run has no checkpoint nothing"),
        ((f"{run}@best", "--checkpoint", "window"), "names a checkpoint, and a window has several"),
    ):
        result = jtrans("score", *refused)
        assert result.code == 2 and said in result.err


def test_a_band_is_not_for_scores_by_another_tokenizer(
    jtrans: Jtrans, make_run: MakeRun, corpus: PreparedCorpus
) -> None:
    bands = {"test": {**IMPOSSIBLE, "metric": "bleu"}}
    run = _run_of(corpus, make_run, config={"expect": bands})
    result = jtrans("score", run, "--tokenize", "intl")
    assert result.code == 0 and "|tok:intl|" in result.out
    assert "run: expected range not checked: it is for the tokenizer 13a, not intl\n" in result.err
    assert jtrans("score", run, "--tokenize", "13a").code == 4


@pytest.mark.parametrize("options", [["--beam", "5"], ["--cased"], ["--checkpoint", "best"]])
def test_the_settings_of_the_recipe_may_be_given(
    options: list[str], jtrans: Jtrans, make_run: MakeRun, corpus: PreparedCorpus
) -> None:
    run = _run_of(corpus, make_run, config={"expect": {"test": IMPOSSIBLE}})
    assert jtrans("score", run, *options).code == 4


def test_a_band_is_not_for_another_corpus_than_the_recipes(
    jtrans: Jtrans, make_run: MakeRun, corpus: PreparedCorpus
) -> None:
    config = {"data": {"corpus": "trained"}, "expect": {"test": IMPOSSIBLE}}
    run = make_run(pipeline=corpus.pipeline, corpus="trained", config=config)
    result = jtrans("score", run, "--data", corpus.folder)
    assert result.code == 0
    assert f"run: expected range not checked: it is for trained, not {corpus.name}" in result.err


def test_a_band_of_a_split_that_the_corpus_lacks_is_named(
    jtrans: Jtrans, make_run: MakeRun, corpus: PreparedCorpus
) -> None:
    expect = {"tset": IMPOSSIBLE, "valid": IMPOSSIBLE}
    result = jtrans("score", _run_of(corpus, make_run, config={"expect": expect}))
    assert result.code == 0
    lines = [line for line in result.err.splitlines() if "expected range" in line]
    assert lines == [
        "run: expected range not checked: it is for the split tset, which the corpus does not have"
    ]


def test_references_are_segmented_once_and_nothing_else_is(
    jtrans: Jtrans, make_run: MakeRun, corpus: PreparedCorpus, monkeypatch: pytest.MonkeyPatch
) -> None:
    runs = [_run_of(corpus, make_run, name) for name in ("a", "b")]
    assert jtrans("score", *runs).code == 0  # translates
    segmented: list[str] = []
    segment = TextSide.segment

    def counted(self: TextSide, line: str) -> list[str]:
        segmented.append(line)
        return segment(self, line)

    monkeypatch.setattr(TextSide, "segment", counted)
    assert jtrans("score", *runs).code == 0
    assert segmented == corpus.raw_lines("test", "target")


def test_sentences_without_a_reference_are_warned_of_for_runs_as_for_files(
    jtrans: Jtrans, make_run: MakeRun, corpus: PreparedCorpus, tmp_path: Path
) -> None:
    splits = {"train": ParallelText(["die katze"], ["the cat"])}
    splits["test"] = splits["valid"] = ParallelText(["ein hund", "der hund"], ["a dog", ""])
    options = PrepareOptions(**WHITESPACE, bpe="none")
    made = prepare(Corpus("gaps", ("de", "en"), splits), tmp_path / "gaps", options=options)
    run = _run_of(corpus, make_run)
    for command in (["score"], ["analyze", "length"]):
        result = jtrans(*command, run, "--data", made.folder)
        assert (result.code, "1 sentence of 2 has no reference" in result.err) == (0, True)


def test_a_run_on_other_data_than_its_recipe_names_expects_no_score(
    jtrans: Jtrans, make_run: MakeRun, corpus: PreparedCorpus
) -> None:
    expect = {"test": {"metric": "chrf", "low": -2.0, "high": -1.0}}
    config = {"data": {"corpus": "another"}, "expect": expect}
    result = jtrans("score", _run_of(corpus, make_run, config=config), "--json")
    assert result.code == 0
    assert json.loads(result.out)["expected"] == []
    assert (
        "run: expected range not checked: it is for another, not an unnamed corpus\n" in result.err
    )
    run = make_run("second", pipeline=corpus.pipeline, corpus="trained", config=config)
    result = jtrans("score", run, "--data", corpus.folder)
    assert "expected range not checked: it is for another, not trained\n" in result.err


@pytest.mark.parametrize("is_same", [True, False])
def test_a_band_is_for_the_text_that_it_was_measured_on(
    is_same: bool, jtrans: Jtrans, make_run: MakeRun, corpus: PreparedCorpus
) -> None:
    text = digest_of(corpus.digests(), "test")
    expect = {"test": {**IMPOSSIBLE, "text": text if is_same else text[::-1]}}
    config = {"data": {"corpus": corpus.name}, "expect": expect}
    run = make_run(pipeline=corpus.pipeline, corpus=corpus.name, config=config)
    result = jtrans("score", run, "--data", corpus.folder)
    reason = f"it is for other text of {corpus.name}, or another way to prepare it"
    assert result.code == (4 if is_same else 0)
    assert (f"run: expected range not checked: {reason}\n" in result.err) == (not is_same)


def test_another_corpus_can_be_named(
    jtrans: Jtrans, make_run: MakeRun, corpus: PreparedCorpus, tmp_path: Path
) -> None:
    run = make_run(pipeline=corpus.pipeline)
    refused = jtrans("score", run)
    assert refused.code == 2
    assert "--data DIR" in refused.err
    assert jtrans("score", run, "--data", tmp_path / "data").code == 0


def test_runs_with_different_test_sets_are_refused(
    jtrans: Jtrans, make_run: MakeRun, corpus: PreparedCorpus, tmp_path: Path
) -> None:
    other = make_nouns(tmp_path / "other", test_seed=5)
    runs = [_run_of(corpus, make_run, "a"), _run_of(other, make_run, "b")]
    result = jtrans("score", *runs)
    assert result.code == 2
    assert "different texts in test" in result.err


@pytest.fixture
def files(tmp_path: Path) -> Path:
    """Write some files of translations."""
    lines = {
        "ref.en": ["the dog reads a book .", "a cat runs .", "The bird sings a song ."],
        "good.en": ["the dog reads a book .", "a cat runs .", "the bird sings a song ."],
        "bad.en": ["dog book", "a cat a cat", "fish"],
        "short.en": ["the dog reads a book ."],
        "empty.en": [],
        "src.de": ["x", "y", "z"],
    }
    for name, content in lines.items():
        text = "".join(f"{line}\n" for line in content)
        (tmp_path / name).write_text(text, encoding="utf-8")
    (tmp_path / "utf16.en").write_bytes("x\ny\nz\n".encode("utf-16"))
    return tmp_path


@pytest.mark.parametrize(
    "hyp", [["--hyp", "good.en", "bad.en"], ["--hyp", "good.en", "--hyp=bad.en"]]
)
def test_files_are_scored_and_compared(jtrans: Jtrans, files: Path, hyp: list[str]) -> None:
    result = jtrans("score", *hyp, "--ref", "ref.en", "--src", "src.de", "--json")
    report = json.loads(result.out)
    assert [system["name"] for system in report["systems"]] == ["good.en", "bad.en"]
    assert report["systems"][0]["bleu"] > report["systems"][1]["bleu"]
    assert "multi_bleu" not in report["systems"][0]
    assert not any(pair["is_better"] for pair in report["paired"])


def test_the_table_for_latex_has_the_same_numbers_and_the_sentences_as_comments(
    jtrans: Jtrans, files: Path
) -> None:
    command = ["score", "--hyp", "good.en", "bad.en", "--ref", "ref.en"]
    lines = jtrans(*command).out.splitlines()
    latex = jtrans(*command, "--latex").out.splitlines()
    rows = [line.removesuffix(r" \\").split(" & ") for line in latex if line.endswith(r"\\")]
    shown = [re.split("  +", line) for line in lines[:3]]
    assert [[cell.replace(r"$\pm$", "±") for cell in row] for row in rows] == shown
    assert [line.removeprefix("% ") for line in latex if line.startswith("% ")][1:] == lines[3:]
    both = jtrans(*command, "--latex", "--json")
    assert both.code == 2 and "--json and --latex exclude each other" in both.out


def test_an_interval_that_passes_a_limit_is_shown_by_its_ends(jtrans: Jtrans, files: Path) -> None:
    command = ["score", "--hyp", "good.en", "bad.en", "--ref", "ref.en", "--metric", "bleu"]
    [good, _] = json.loads(jtrans(*command, "--json").out)["systems"]
    (low, high), half = good["interval_ends"]["bleu"], good["interval"]["bleu"]
    assert good["bleu"] + half > 100 == high and half == pytest.approx((high - low) / 2, abs=1)
    shown = f"{good['bleu']:.1f} [{low:.1f}, 100.0]"
    assert shown in jtrans(*command).out and shown in jtrans(*command, "--latex").out


@pytest.mark.parametrize(
    ("hyp", "metric", "expected"),
    [
        ("good.en", "bleu", f"[low, high] in the table: {OVER_SENTENCES}"),
        ("bad.en", "bleu,chrf", f"± in the table: {OVER_SENTENCES}; {IN_BRACKETS}"),
        ("bad.en", "chrf", f"± in the table: {OVER_SENTENCES}"),
        ("ref.en", "bleu,chrf", None),
    ],
)
def test_the_intervals_of_the_table_are_explained_once(
    jtrans: Jtrans, files: Path, hyp: str, metric: str, expected: str | None
) -> None:
    command = ["score", "--hyp", hyp, "--ref", "ref.en", "--metric", metric]
    for option, start in (("--cased", ""), ("--latex", "% ")):
        lines = jtrans(*command, option).out.splitlines()
        about = [line for line in lines if " in the table: " in line]
        assert about == ([] if expected is None else [f"{start}{expected}"])


def test_metrics_may_have_the_names_of_the_table(jtrans: Jtrans, files: Path) -> None:
    command = ("score", "--hyp", "bad.en", "--ref", "ref.en", "--json", "--metric")
    assert jtrans(*command, "chrF2,TER").out == jtrans(*command, "chrf,ter").out
    [system] = json.loads(jtrans(*command, "chrF2++").out)["systems"]
    assert 0 < system["chrf++"] < 100 and system["signatures"]["chrf++"].startswith("chrF2++|")


def test_case_matters_for_files_unless_told(jtrans: Jtrans, files: Path) -> None:
    options = ("score", "--hyp", "good.en", "--ref", "ref.en", "--json")
    [cased] = json.loads(jtrans(*options).out)["systems"]
    [lower] = json.loads(jtrans(*options, "--lowercase").out)["systems"]
    assert cased["bleu"] < lower["bleu"] == pytest.approx(100)


def test_short_translations_are_told_what_they_cost(jtrans: Jtrans) -> None:
    reference = [f"the dog number {n} sees a cat with a hat" for n in range(20)]
    short = [line.removesuffix(" a hat") for line in reference]  # 8 of 10 tokens
    _write(ref=reference, long=reference, short=short)
    command = ["score", "--hyp", "long", "short", "--ref", "ref", "--languages", "de-en"]
    whole, cut = json.loads(jtrans(*command, "--json").out)["systems"]
    assert (whole["length_ratio"], whole["brevity_penalty"]) == (1.0, 1.0)
    assert cut["length_ratio"] == pytest.approx(0.8)
    assert cut["brevity_penalty"] == pytest.approx(math.exp(1 - 1 / 0.8))
    assert cut["bleu"] == pytest.approx(100 * cut["brevity_penalty"])
    out = jtrans(*command).out
    assert "short: 20.0 % shorter than the references; the brevity penalty takes 22.1 of 100" in out
    assert "long:" not in out and "--length-penalty" not in out
    [of_chrf, _] = json.loads(jtrans(*command, "--metric", "chrf", "--json").out)["systems"]
    assert "length_ratio" not in of_chrf


def test_a_sweep_holds_one_model_at_a_time(
    jtrans: Jtrans, make_run: MakeRun, corpus: PreparedCorpus, monkeypatch: pytest.MonkeyPatch
) -> None:
    held: list[weakref.ref[Translator]] = []
    load = Translator.load

    def watched(*arguments: Any, **options: Any) -> Translator:
        gc.collect()
        assert not any(translator() for translator in held)
        translator = load(*arguments, **options)
        held.append(weakref.ref(translator))
        return translator

    monkeypatch.setattr(Translator, "load", watched)
    run = _run_of(corpus, make_run, "run")
    sweep = ("--sweep", "beam=1,2,3", "--split", "valid", "--metric", "chrf", "--device", "cpu")
    assert jtrans("score", run, *sweep).code == 0
    assert len(held) == 3


def test_a_sweep_scores_every_run_with_every_search(
    jtrans: Jtrans, make_run: MakeRun, corpus: PreparedCorpus
) -> None:
    runs = [
        _run_of(corpus, make_run, name, weights_seed=n, config={"training": {"seed": n}})
        for n, name in enumerate(("one", "two"), start=1)
    ]
    command = ["score", *runs, "--split", "valid", "--metric", "bleu,chrf", "--device", "cpu"]
    sweep = ["--sweep", "beam=1,2", "--sweep", "length-penalty=0, 1"]
    swept = json.loads(jtrans(*command, *sweep, "--json").out)
    labels = [f"beam={beam} length-penalty={a}" for beam in (1, 2) for a in (0, 1)]
    names = [f"{run.name} {label}" for label in labels for run in runs]  # two seeds of a system
    assert [system["name"] for system in swept["systems"]] == names
    assert [group["systems"] for group in swept["groups"]] == [
        names[place : place + 2] for place in range(0, 8, 2)
    ]
    for group, label in zip(swept["groups"], labels, strict=True):
        assert group["name"].endswith(label)
    alone = ["--beam", 2, "--length-penalty", 0, "--json"]
    expected = json.loads(jtrans(*command, *alone).out)["systems"]
    for ours, theirs in zip(swept["systems"][4:6], expected, strict=True):
        assert [ours[key] for key in ("bleu", "chrf")] == [theirs["bleu"], theirs["chrf"]]
    assert all(pair["is_same_runs"] for pair in swept["paired"])
    assert [group["runs"] for group in swept["groups"]] == [g["systems"] for g in swept["groups"]]
    shown = jtrans(*command, *sweep)
    assert "over sentences and 2 seeds" in shown.out and "--split valid" not in shown.err
    on_test = jtrans("score", runs[0], "--sweep", "beam=1,2", "--device", "cpu")
    assert "a search that is chosen on test is fitted to it" in on_test.err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--sweep", "bema=1,2"], "did you mean beam"),
        (["--sweep", "beam"], "beam cannot be ''"),
        (["--sweep", "beam=1"], "needs two or more different values"),
        (["--sweep", "beam=1,2,2"], "needs two or more different values"),
        (["--sweep", "beam=1,many"], "beam cannot be 'many'"),
        (["--sweep", "beam=0,1"], "beam"),
        (["--sweep", "length-penalty=1,nan"], "between -10 and 10"),
        (["--sweep", "beam=1,2", "--sweep", "beam=3,4"], "beam is given twice"),
        (["--sweep", "beam=1,2", "--beam", "3"], "beam is given twice"),
        (["--sweep", "beam=1,2", "--checkpoint", "window"], "no effect on a window"),
        (["--sweep", "beam=1,2", "--force", "a", "--src", "b"], "no effect with --force"),
    ],
)
def test_an_impossible_sweep_is_refused(
    arguments: list[str],
    message: str,
    jtrans: Jtrans,
    make_run: MakeRun,
    corpus: PreparedCorpus,
) -> None:
    done = jtrans("score", _run_of(corpus, make_run, "run"), *arguments)
    assert done.code == 2 and message in done.err and "Traceback" not in done.err


def test_several_references_and_the_language_are_in_the_signature(
    jtrans: Jtrans, files: Path
) -> None:
    options = ("score", "--hyp", "bad.en", "--ref", "ref.en", "good.en", "--json")
    [system] = json.loads(jtrans(*options, "--languages", "en-zh").out)["systems"]
    assert "nrefs:2" in system["signature"]
    assert "tok:zh" in system["signature"]


def _write(**files: list[str]) -> None:
    for name, lines in files.items():
        text = "".join(f"{line}\n" for line in lines)
        Path(name.replace("_", ".")).write_text(text, encoding="utf-8")


def test_bpe_pieces_and_escapes_are_refused_unless_told(jtrans: Jtrans) -> None:
    plain = ["we went home", "it's late", "they &amp; we"]
    _write(ref_en=plain, bpe_en=["we w@@ ent home", *plain[1:]], same_en=plain)
    _write(escaped_en=[plain[0], "it &apos;s late", plain[2]])
    for name, where in {"bpe.en": "bpe.en:1", "escaped.en": "escaped.en:2"}.items():
        options = ("score", "--hyp", "same.en", name, "--ref", "ref.en")
        result = jtrans(*options)
        assert (result.code, result.out) == (2, "")
        assert where in result.err
        assert "--as-is" in result.err
        assert jtrans(*options, "--as-is").code == 0
    assert jtrans("score", "--hyp", "same.en", "--ref", "ref.en").code == 0
    assert jtrans("score", "--hyp", "same.en", "--ref", "bpe.en").code == 2


def test_the_warning_of_sacrebleu_about_tokenised_text_is_shown(jtrans: Jtrans) -> None:
    _write(ref_en=["it is late."] * 150, hyp_en=["it is late ."] * 150)
    result = jtrans("score", "--hyp", "hyp.en", "--ref", "ref.en", "--json")
    assert result.code == 0
    assert "150 lines end in a tokenized period" in result.err
    [warning] = json.loads(result.out)["warnings"]
    assert warning in result.err


def test_the_target_language_and_the_tokenizer_are_told(jtrans: Jtrans) -> None:
    _write(
        ref_zh=["我很好。", "你好吗？"],
        hyp_txt=["我很好。", "您好吗？"],
        plain_txt=["我很好。"] * 2,
    )
    result = jtrans("score", "--hyp", "hyp.txt", "--ref", "ref.zh", "--json")
    report = json.loads(result.out)
    assert (report["target_language"], report["tokenizer"]) == ("zh", "zh")
    assert report["systems"][0]["bleu"] > 20
    assert "name of ref.zh" in result.err
    refused = jtrans("score", "--hyp", "hyp.txt", "--ref", "plain.txt")
    assert refused.code == 2
    assert "--languages" in refused.err
    languages = ("--languages", "en-zh-Hant")
    assert "tok:zh" in jtrans("score", "--hyp", "hyp.txt", "--ref", "plain.txt", *languages).out


def test_multi_bleu_of_files_splits_at_ascii_white_space_only(jtrans: Jtrans) -> None:
    # words with a no-break space, an ideographic space, U+2028, next line and U+001F inside them
    odd = ["a\u00a0b c\u3000d e\u2028f g\u0085h i\x1fj"]
    _write(
        ref_en=odd,
        hyp_en=["a b c d e f g h i j"],
        same_en=["a\u00a0b\tc\u3000d e\u2028f g\u0085h  x"],
    )
    options = ("--ref", "ref.en", "--metric", "multi-bleu", "--json")
    report = json.loads(jtrans("score", "--hyp", "hyp.en", "same.en", *options).out)
    # of five words four are the same: 4/5, 3/4, 2/3 and 1/2
    expected = [0, 100 * (4 / 5 * 3 / 4 * 2 / 3 * 1 / 2) ** 0.25]
    assert [system["multi_bleu"] for system in report["systems"]] == pytest.approx(expected)


def test_multi_bleu_of_text_without_spaces_is_warned_of(jtrans: Jtrans) -> None:
    raw = ["一个男人正在看一本很旧的书。", "两只狗在草地上跑，它们很高兴。"]
    split = [" ".join(line) for line in raw]
    _write(ref_zh=raw, hyp_zh=raw, split_zh=split, split_ref_zh=split)
    metric = ("--metric", "multi-bleu", "--json")
    warned = jtrans("score", "--hyp", "hyp.zh", "split.zh", "--ref", "ref.zh", *metric)
    assert (
        "multi-bleu splits files at white space, and ref.zh and hyp.zh have little of it"
        in warned.err
    )
    quiet = jtrans("score", "--hyp", "split.zh", "--ref", "split.ref.zh", *metric)
    assert quiet.code == 0 and "white space" not in quiet.err


def test_a_file_that_is_compared_with_itself_is_named(jtrans: Jtrans) -> None:
    _write(ref_en=["A dog runs.", "A cat sleeps."])
    result = jtrans("score", "--hyp", "./ref.en", "--ref", "ref.en", "--metric", "chrf", "--json")
    report = json.loads(result.out)
    assert report["systems"][0]["chrf"] == 100
    said = "ref.en is given as --hyp and as --ref: it is compared with itself"
    assert report["warnings"] == [said] and f"warning: {said}" in result.err


def test_the_tokenizer_can_be_chosen(jtrans: Jtrans) -> None:
    reference, hypothesis = ["it costs them 5$ ."] * 100, ["it costs them only 5$ ."] * 100
    _write(ref_en=reference, hyp_en=hypothesis)
    files = ("score", "--hyp", "hyp.en", "--ref", "ref.en", "--json")
    usual, result = jtrans(*files), jtrans(*files, "--tokenize", "none")
    assert "tokenizer none" in result.err
    report = json.loads(result.out)
    assert report["tokenizer"] == "none"
    assert "|tok:none|" in report["systems"][0]["signatures"]["bleu"]
    expected = BLEU(tokenize="none", force=True).corpus_score(hypothesis, [reference]).score
    assert report["systems"][0]["bleu"] == pytest.approx(expected)
    assert json.loads(usual.out)["systems"][0]["bleu"] != pytest.approx(expected)
    # the text of the tokenizer none is meant to be tokenised
    assert "tokenized period" in usual.err and "tokenized period" not in result.err


OF_FILES = ["--hyp", "good.en", "--ref", "ref.en"]
REFUSED: list[tuple[list[str], str]] = [
    ([], "nothing to score"),
    (["--hyp", "good.en"], "--hyp and --ref must be given together"),
    (["--hyp", "short.en", "--ref", "ref.en"], "short.en has 1 line, ref.en has 3"),
    (["--hyp", "good.en", "--ref", "short.en"], "good.en has 3 lines, short.en has 1"),
    (["--hyp", "good.en", "--ref", "ref.en", "--src", "short.en"], "short.en has 1 line"),
    (["--hyp", "none.en", "--ref", "ref.en"], "no such file: none.en"),
    (["--hyp", "utf16.en", "--ref", "ref.en"], "UTF-16"),
    (["--hyp", "good.en", "--ref", "empty.en"], "empty.en is empty"),
    (["--hyp", "good.en", "--ref", "ref.en", "--metric", "blue"], "unknown metric 'blue'"),
    (["--hyp", "good.en", "--ref", "ref.en", "--languages", "de"], "--languages de is"),
    (["--hyp", "good.en", "--ref", "ref.en", "./ref.en"], "ref.en is given twice"),
    ([*OF_FILES, "--tokenize", "inlt"], "unknown tokenizer 'inlt'"),
    ([*OF_FILES, "--tokenize", "intl", "--metric", "ter"], "--tokenize has no effect without"),
    ([*OF_FILES, "--sentences", "./good.en"], "--hyp and --sentences name the same file: good.en"),
    (
        [*OF_FILES, "--sentences", "a", "--metric", "multi-bleu"],
        "multi-bleu has no sentence scores",
    ),
    (["nowhere"], "no such run: nowhere"),
    (["nowhere", "--force", "good.en"], "--force and --src must be given together"),
    (["nowhere", "--src", "src.de"], "no such run: nowhere"),
    (["--force", "good.en", "--src", "src.de"], "--force needs a RUN"),
    (["--force", "good.en"], "--force needs a RUN"),
]


TEXT = ["--languages de-en", "--as-is"]
SEARCH = ["--beam 7", "--length-penalty 0.5", "--length-penalty-form gnmt", "--max-length 9"]
SEARCH += ["--batch-tokens 99", "--sweep beam=1,2", "--split valid", "--data data"]
SCORES = ["--metric chrf", "--cased", "--tokenize intl", "--latex", "--output out"]
SCORES += ["--sentences out.jsonl", "--sentence-scores COMET=a"]
MODEL = ["--checkpoint last", "--device cpu", "--precision fp32"]
USES: list[tuple[str, list[str], list[str]]] = [
    ("on the scores of runs", ["run"], TEXT),
    ("with --force", ["run", "--force", "good.en", "--src", "ref.en"], TEXT + SEARCH + SCORES),
    ("with --hyp and --ref", OF_FILES, [*SEARCH, *MODEL, "--output out"]),
]


@pytest.mark.parametrize(
    ("use", "line", "option"),
    [(use, line, option) for use, line, options in USES for option in options],
)
def test_options_of_another_use_are_refused(
    jtrans: Jtrans, files: Path, use: str, line: list[str], option: str
) -> None:
    result = jtrans("score", *line, *option.split())
    assert (result.code, result.out) == (2, "")
    name = "--lowercase/--cased" if option == "--cased" else option.split()[0]
    assert f"{name} has no effect {use}" in result.err.splitlines()[0]


@pytest.mark.parametrize(("options", "message"), REFUSED)
def test_bad_input_is_refused(
    jtrans: Jtrans, files: Path, options: list[str], message: str
) -> None:
    result = jtrans("score", *options)
    assert (result.code, result.out) == (2, "")
    assert message in result.err.splitlines()[0]


@pytest.mark.parametrize("files_beside", [["--src", "src.de"], ["--ref", "ref.en"], None])
def test_files_beside_a_run_get_the_commands_for_a_new_test_set(
    jtrans: Jtrans, files: Path, make_run: MakeRun, files_beside: list[str] | None
) -> None:
    make_run("a run")
    given = files_beside or ["--src", "src.de", "--ref", "ref.en"]
    result = jtrans("score", "a run", *given)
    told, hint = result.err.splitlines()
    assert result.code == 2
    assert told.endswith(f"a prepared corpus, not on {' and '.join(given[::2])}")
    prepare = "jtrans prepare --test new --languages de-en --pipeline 'a run' --out data/new"
    assert hint.startswith(f"hint: {prepare}, then jtrans score 'a run' --data data/new; ")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--split", "tst"], "no split tst"),
        (["--checkpoint", "5"], "no checkpoint 5"),
        (["--beam", "0"], "beam 0"),
        (["--precision", "half"], "unknown value 'half'"),
    ],
)
def test_impossible_choices_for_a_run_are_refused(
    jtrans: Jtrans,
    make_run: MakeRun,
    corpus: PreparedCorpus,
    options: list[str],
    message: str,
) -> None:
    run = _run_of(corpus, make_run)
    result = jtrans("score", run, *options)
    assert result.code == 2
    assert message in result.err
    assert not (run / "translations").exists()


def test_given_translations_get_the_log_probabilities_of_the_search(
    jtrans: Jtrans, make_run: MakeRun
) -> None:
    run = make_run(weights_seed=2)  # writes none of the words that fill the vocabulary
    Path("src.de").write_text("ein mann liest .\n\nhund\n", encoding="utf-8")
    lines = jtrans("translate", run, "--input", "src.de", "--format", "jsonl").out.splitlines()
    best = [json.loads(line)["translations"][0] for line in lines]
    text = "".join(f"{translation['text']}\n" for translation in best)
    Path("hyp.en").write_text(text, encoding="utf-8")
    options = ("score", run, "--force", "hyp.en", "--src", "src.de")
    sentences = json.loads(jtrans(*options, "--json").out)["sentences"]
    assert [sentence["id"] for sentence in sentences] == [0, 1, 2]
    for sentence, translation in zip(sentences, best, strict=True):
        assert sentence["log_prob"] == pytest.approx(translation["log_prob"], abs=1e-4)
        assert sentence["tokens"] == translation["tokens"]
        expected = pytest.approx(translation["token_log_probs"], abs=1e-4)
        assert sentence["token_log_probs"] == expected
    rows = jtrans(*options).out.split("\n")
    assert float(rows[0].split("\t")[0]) == pytest.approx(sentences[0]["log_prob"], abs=1e-3)
    assert rows[1] == "0.0000\t"
    assert rows[2].endswith(f"</s>:{sentences[2]['token_log_probs'][-1]:.4f}")


def _forced(jtrans: Jtrans, run: Path, *options: object) -> Any:
    on_cpu = ("--device", "cpu", "--precision", "fp32", "--json")
    return json.loads(jtrans("score", run, "--force", *options, *on_cpu).out)["sentences"]


@pytest.mark.parametrize("search", [[], ["--sample", "--temperature", "3"]])
def test_n_best_lists_and_samples_get_their_log_probabilities_back(
    jtrans: Jtrans, make_run: MakeRun, search: list[str]
) -> None:
    run = make_run()  # its search writes words that fill the vocabulary, which no text has
    Path("src.de").write_text("ein mann liest .\n\nhund\n", encoding="utf-8")
    made = ("--input", "src.de", "--output", "n.jsonl", "--format", "jsonl", "--n-best", "3")
    jtrans("translate", run, *made, *search, "--beam", "3")
    lines = Path("n.jsonl").read_text(encoding="utf-8").splitlines()
    lists = [json.loads(line)["translations"] for line in lines]
    expected = [(i, rank, each) for i, nbest in enumerate(lists) for rank, each in enumerate(nbest)]
    written = {token for *_, each in expected for token in each["tokens"]}
    assert any(token.startswith("madeup") for token in written) == (not search)
    sentences = _forced(jtrans, run, "n.jsonl", "--src", "src.de")
    assert len(sentences) == 7
    for sentence, (line, rank, translation) in zip(sentences, expected, strict=True):
        assert (sentence["id"], sentence["rank"]) == (line, rank)
        assert sentence["tokens"] == translation["tokens"]
        assert sentence["log_prob"] == pytest.approx(translation["log_prob"], abs=1e-4)
    rows = jtrans("score", run, "--force", "n.jsonl", "--src", "src.de").out.splitlines()
    assert rows[3] == "1\t0\t0.0000\t"
    assert rows[6].startswith(f"2\t2\t{sentences[6]['log_prob']:.4f}\t")


def _objects(*translations: dict[str, Any]) -> str:
    return "".join(json.dumps({"translations": [each]}) + "\n" for each in translations)


def test_json_lines_without_tokens_are_segmented(jtrans: Jtrans, make_run: MakeRun) -> None:
    run = make_run()
    Path("src.de").write_text("ein mann\nhund\n", encoding="utf-8")
    Path("hyp.en").write_text("a man\ndog\n", encoding="utf-8")
    Path("hyp.jsonl").write_text(_objects({"text": "a man"}, {"text": "dog"}), encoding="utf-8")
    by_object, by_text = (
        _forced(jtrans, run, name, "--src", "src.de") for name in ("hyp.jsonl", "hyp.en")
    )
    assert by_object == by_text
    assert [sentence["tokens"][0] for sentence in by_text] == ["a", "dog"]


@pytest.mark.parametrize(
    ("tokens", "message"),
    [
        (["a", "wolf", "</s>"], "line 2: the run has no target token 'wolf'"),
        (["<pad>", "</s>"], "line 2: the run has no target token '<pad>'"),
        (["a", "man"], "line 2: </s> must end the tokens and occur nowhere else: a man"),
        (["a", "</s>", "man", "</s>"], "line 2: </s> must end the tokens"),
        ("a man", "line 2 of hyp.jsonl is not the object of a translation"),
        (["a", 1], "line 2 of hyp.jsonl is not the object of a translation"),
    ],
)
def test_tokens_that_the_run_cannot_write_are_refused(
    jtrans: Jtrans, make_run: MakeRun, tokens: object, message: str
) -> None:
    Path("src.de").write_text("ein mann\nhund\n", encoding="utf-8")
    given = _objects({"text": "a"}, {"text": "a man", "tokens": tokens})
    Path("hyp.jsonl").write_text(given, encoding="utf-8")
    result = jtrans("score", make_run(), "--force", "hyp.jsonl", "--src", "src.de")
    assert (result.code, result.out) == (2, "")
    assert message in result.err.splitlines()[0]
    assert "hyp.jsonl:2" in result.err


@pytest.mark.parametrize("text", ['{"source": "ein mann"}', '{"translations": []}'])
def test_objects_without_translations_are_not_scored_as_text(
    jtrans: Jtrans, make_run: MakeRun, text: str
) -> None:
    for name, line in (("src.de", "ein mann"), ("hyp.jsonl", text)):
        Path(name).write_text(f"{line}\n", encoding="utf-8")
    result = jtrans("score", make_run(), "--force", "hyp.jsonl", "--src", "src.de")
    assert (result.code, result.out) == (2, "")
    assert "line 1 of hyp.jsonl is not the object of a translation" in result.err


def test_the_source_is_read_from_json_lines(jtrans: Jtrans, make_run: MakeRun) -> None:
    run = make_run()
    Path("src.de").write_text("ein mann liest .\n\nhund\n", encoding="utf-8")
    made = ("--input", "src.de", "--output", "n.jsonl", "--format", "jsonl", "--n-best", "2")
    jtrans("translate", run, *made)
    by_object, by_text = (
        _forced(jtrans, run, "n.jsonl", "--src", name) for name in ("n.jsonl", "src.de")
    )
    assert by_object == by_text


@pytest.mark.parametrize("line", ['{"text": "hund"}', '{"source": 3}', "hund", ""])
def test_json_lines_without_a_source_are_refused(
    jtrans: Jtrans, make_run: MakeRun, line: str
) -> None:
    Path("src.jsonl").write_text(f'{{"source": "ein mann"}}\n{line}\n', encoding="utf-8")
    Path("hyp.en").write_text("a man\ndog\n", encoding="utf-8")
    result = jtrans("score", make_run(), "--force", "hyp.en", "--src", "src.jsonl")
    assert (result.code, result.out) == (2, "")
    assert "line 2 of src.jsonl is not" in result.err and "src.jsonl:2" in result.err


def test_unequal_files_cannot_be_forced(jtrans: Jtrans, make_run: MakeRun, files: Path) -> None:
    result = jtrans("score", make_run(), "--force", "short.en", "--src", "src.de")
    assert result.code == 2
    assert "short.en has 1 line, src.de has 3" in result.err


def _with_window(run: Path, *updates: int) -> Path:
    """Give a run checkpoints of some updates with weights of their own, as its window."""
    for number, update in enumerate(updates):
        folder = run / "checkpoints" / f"step-{update:08d}"
        if number:
            shutil.copytree(run / "checkpoints" / "step-00000010", folder)
            weights = safetensors.torch.load_file(folder / "model.safetensors")
            noisy = {key: value + 0.1 * torch.randn_like(value) for key, value in weights.items()}
            safetensors.torch.save_file(noisy, folder / "model.safetensors")
            (folder / "sha256.json").unlink(missing_ok=True)
    Run(run).set_pointers(window={"size": len(updates), "updates": updates, "mean": 1.0})
    return run


def test_a_window_is_scored_checkpoint_by_checkpoint(
    jtrans: Jtrans, make_run: MakeRun, corpus: PreparedCorpus
) -> None:
    run = _with_window(_run_of(corpus, make_run), 10, 20, 30)
    report = json.loads(jtrans("score", run, "--checkpoint", "window", "--json").out)
    assert [system["name"] for system in report["systems"]] == ["run@10", "run@20", "run@30"]
    assert [system["checkpoint"][-2:] for system in report["systems"]] == ["10", "20", "30"]
    [group] = report["groups"]
    values = [system["chrf"] for system in report["systems"]]
    assert (group["name"], group["of"]) == ("run", "checkpoints")
    assert group["mean"]["chrf"] == pytest.approx(statistics.mean(values))
    assert group["sd"]["chrf"] == pytest.approx(statistics.stdev(values))
    [alone] = json.loads(jtrans("score", run, "--checkpoint", "20", "--json").out)["systems"]
    assert alone["chrf"] == values[1]
    lines = jtrans("score", run, "--checkpoint", "window").out.splitlines()
    assert [line.split()[0] for line in lines[1:5]] == ["run", "run@10", "run@20", "run@30"]
    assert any("run, window of 3 validations, updates 10 to 30: BLEU" in line for line in lines)
    assert "± in the table: 95 % interval over sentences" in lines
    other = _run_of(corpus, make_run, "other", config={"training": {"learning_rate": 0.5}})
    pair = jtrans("score", run, _with_window(other, 10, 20), "--checkpoint", "window").out
    assert "(paired bootstrap over sentences, 1,000 samples" in pair
    assert "one run of each system: the test does not cover variation between seeds" in pair


def test_the_band_of_the_best_checkpoint_is_that_of_a_window_too(
    jtrans: Jtrans, make_run: MakeRun, corpus: PreparedCorpus
) -> None:
    config = {"expect": {"test": IMPOSSIBLE, "valid": {**IMPOSSIBLE, "checkpoint": "last"}}}
    run = _with_window(_run_of(corpus, make_run, config=config), 10, 20)
    assert jtrans("score", run, "--checkpoint", "window").code == 4
    other = jtrans("score", run, "--checkpoint", "window", "--split", "valid")
    reason = "it is for the checkpoint last, not the mean of a window"
    assert other.code == 0 and f"run: expected range not checked: {reason}\n" in other.err


def test_runs_that_began_with_different_systems_are_not_seeds_of_one(
    jtrans: Jtrans, make_run: MakeRun, corpus: PreparedCorpus
) -> None:
    def seeded(name: str, seed: int, info: dict[str, Any], rate: float = 0.5) -> Path:
        training = {"seed": seed, "learning_rate": rate}
        run = _run_of(corpus, make_run, name, weights_seed=seed, config={"training": training})
        path = run / "run.json"
        values = {**json.loads(path.read_text(encoding="utf-8")), **info}
        path.write_text(json.dumps(values), encoding="utf-8")
        return run

    def groups(*parents: object) -> list[Any]:
        place = f"of-{'-and-'.join(Path(str(parent)).name for parent in parents)}"
        runs = [
            seeded(f"{place}/seed-{n}", n, {"from": str(parent)})
            for n, parent in enumerate(parents)
        ]
        command = ("score", *runs, "--split", "valid", "--metric", "chrf", "--json")
        return list(json.loads(jtrans(*command).out)["groups"])

    parents = [seeded("first", 1, {}), seeded("second", 2, {}), seeded("other", 1, {}, 0.25)]
    assert len(groups(parents[0], parents[0])) == len(groups(parents[0], parents[1])) == 1
    assert groups(parents[0], parents[2]) == []
    assert len(groups("gone", "gone")) == 1
    assert groups("gone", "lost") == []
    originals = [seeded(f"imported-{n}", 1, {"imported": {"format": "fairseq"}}) for n in (1, 2)]
    assert groups(*originals) == []


def test_windows_of_seeds_are_averaged_run_by_run(
    jtrans: Jtrans, make_run: MakeRun, corpus: PreparedCorpus
) -> None:
    seeds = [
        _run_of(corpus, make_run, f"mine/seed-{seed}", config={"training": {"seed": seed}})
        for seed in (1, 2)
    ]
    runs = [_with_window(seeds[0], 10, 20, 30), _with_window(seeds[1], 10, 20)]
    result = jtrans("score", *runs, "--checkpoint", "window")
    lines = result.out.splitlines()
    assert [line.split()[0] for line in lines[1:9]] == [
        *("mine", "mine/seed-1", *(f"mine/seed-1@{update}" for update in (10, 20, 30))),
        *("mine/seed-2", "mine/seed-2@10", "mine/seed-2@20"),
    ]
    assert any("mine/seed-1, window of 3 validations, updates 10 to 30" in line for line in lines)
    assert any("mine/seed-1, mine/seed-2 differ only by seed: BLEU" in line for line in lines)
    assert "one run of each system" not in result.out
    report = json.loads(jtrans("score", *runs, "--checkpoint", "window", "--json").out)
    [group] = report["groups"]
    assert (group["of"], group["runs"]) == ("seeds", ["mine/seed-1", "mine/seed-2"])
    values = [system["chrf"] for system in report["systems"]]
    means = [statistics.mean(values[:3]), statistics.mean(values[3:])]
    assert group["mean"]["chrf"] == pytest.approx(statistics.mean(means))
    assert group["sd"]["chrf"] == pytest.approx(statistics.stdev(means))


@pytest.mark.parametrize(
    ("window", "message"),
    [
        (None, "keeps no window of validations"),
        ({"size": 21, "updates": [], "recent": [10, 20]}, "and the run has only 2 so far"),
        ({"size": 2, "updates": [10, 20], "recent": []}, "the run has no checkpoint 20"),
    ],
)
def test_a_run_without_a_whole_window_is_refused(
    window: object, message: str, jtrans: Jtrans, make_run: MakeRun, corpus: PreparedCorpus
) -> None:
    run = _run_of(corpus, make_run)
    Run(run).set_pointers(window=window)
    result = jtrans("score", run, "--checkpoint", "window")
    assert result.code == 2 and result.out == ""
    assert message in result.err and "hint: " in result.err and "Traceback" not in result.err


def test_only_score_takes_a_window(
    jtrans: Jtrans, make_run: MakeRun, corpus: PreparedCorpus
) -> None:
    run = _with_window(_run_of(corpus, make_run), 10, 20)
    for command in (["translate", run, "--input", "x"], ["analyze", "length", run]):
        result = jtrans(*command, "--checkpoint", "window")
        assert result.code == 2 and "only one can be used here" in result.err


@pytest.mark.sample(1)
@pytest.mark.parametrize(
    ("number", "ending"),
    [(signal.SIGINT, (130, b"interrupted\n")), (signal.SIGTERM, (143, b"terminated\n"))],
)
def test_a_signal_is_named_and_decides_the_exit_code(
    tmp_path: Path, number: int, ending: tuple[int, bytes]
) -> None:
    for command in ("score", "analyze compare"):
        pipe = tmp_path / f"{command.split()[0]}.en"
        os.mkfifo(pipe)
        files = ("--hyp", "hyp.en", "--ref", pipe, "--src", pipe)
        with (
            start_process(*command.split(), *files, stderr=subprocess.PIPE) as process,
            pipe.open("wb"),  # opens when the command reads the file, and keeps it waiting
        ):
            time.sleep(0.5)  # a signal between opening and reading does not end the reading
            process.send_signal(number)
            _, said = process.communicate(timeout=60)
        assert (process.returncode, said) == ending, command


def test_scores_of_other_metrics_join_the_table(jtrans: Jtrans, files: Path) -> None:
    systems = {
        name: (files / name).read_text(encoding="utf-8").splitlines()
        for name in ("bad.en", "good.en")
    }
    content = {
        name: [
            {"mt": line, "COMET": value + 0.01 * (place % 3)} for place, line in enumerate(lines)
        ]
        for value, (name, lines) in zip((0.25, 0.75), systems.items(), strict=True)
    }
    Path("comet.json").write_text(json.dumps(content), encoding="utf-8")
    numbers = {"good.en": "1.5", "bad.en": "10"}
    for name, number in numbers.items():
        Path(f"{name}.metricx").write_text(f"{number}\n" * len(systems[name]), encoding="utf-8")
    command = ["score", "--hyp", "good.en", "bad.en", "--ref", "ref.en", "--metric", "bleu"]
    command += ["--sentence-scores", "COMET=comet.json"]
    command += ["--sentence-scores", "MetricX=good.en.metricx,bad.en.metricx"]
    [_, good, bad, *_] = result = jtrans(*command).out.splitlines()
    assert re.search(r" 0\.7600 ± 0\.0100 +1\.50$", good)
    assert re.search(r" 0\.2600 ± 0\.0100 +10\.00$", bad)
    sentence = "bad.en and good.en do not differ significantly in COMET: -0.5000"  # by 3 sentences
    assert any(line.startswith(sentence) for line in result)
    report = json.loads(jtrans(*command, "--json").out)
    assert [system["MetricX"] for system in report["systems"]] == [1.5, 10]
    assert [pair["metric"] for pair in report["paired"]] == ["BLEU", "COMET", "MetricX"]
    assert [pair["is_better"] for pair in report["paired"]] == [False] * 3
    assert "MetricX" in jtrans(*command, "--latex").out


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ("COMET", "--sentence-scores COMET is not NAME=FILE"),
        ("COMET=,", "is not NAME=FILE"),
        ("chrf2=a", "sentence scores cannot be named chrf2, like another metric"),
        ("multi_bleu=a", "sentence scores cannot be named multi_bleu, like another metric"),
        (" Name =a", "sentence scores cannot be named Name, like another metric or field"),
        ("Line=a", "sentence scores cannot be named Line, like another metric or field"),
        ("COMET=absent", "no such file: absent"),
        ("COMET=good.en", "good.en:1 has no sentence scores"),
    ],
)
def test_sentence_scores_that_cannot_be_used_are_refused(
    given: str, message: str, jtrans: Jtrans, files: Path
) -> None:
    command = ["score", "--hyp", "good.en", "--ref", "ref.en", "--sentence-scores", given]
    result = jtrans(*command)
    assert result.code == 2
    assert message in result.err


def test_every_sentence_is_scored_as_by_sacrebleu(jtrans: Jtrans) -> None:
    lines = ["the dog reads a book .", "A cat", "x y", ""]  # TER of x y is 200
    references = [
        ["the dog reads the book .", "a cat sings a song .", "fish", "a"],
        ["", "The cat .", " ", "b"],  # blank: missing
    ]
    _write(hyp_en=lines, other_en=lines[::-1], ref_en=references[0], second_en=references[1])
    _write(x=["1", "2", "3", "4"], y=["1", "2", "3", "4"])
    command = ["score", "--hyp", "hyp.en", "other.en", "--ref", "ref.en", "second.en"]
    command += ["--metric", "bleu,chrf,chrf++,ter,multi-bleu", "--lowercase", "--sentences", "s"]
    result = jtrans(*command, "--sentence-scores", "X=x,y")
    assert result.code == 0 and "Written      s\n" in result.err
    rows = [json.loads(row) for row in Path("s").read_text(encoding="utf-8").splitlines()]
    fields = "id", "line", "system", "X"
    assert [tuple(map(row.pop, fields)) for row in rows] == [
        (line - 1, line, name, line) for line in (1, 2, 3, 4) for name in ("hyp.en", "other.en")
    ]
    metrics: dict[str, Metric] = {
        "bleu": BLEU(lowercase=True, effective_order=True),
        "chrf": CHRF(lowercase=True),
        "chrf++": CHRF(lowercase=True, word_order=2),
        "ter": TER(),
    }
    for row, line, *alternatives in zip(rows[::2], lines, *references, strict=True):
        present = [text for text in alternatives if text.strip()]
        assert row == pytest.approx(
            {name: each.sentence_score(line, present).score for name, each in metrics.items()}
        )


def test_every_sentence_of_runs_is_scored(
    jtrans: Jtrans, make_run: MakeRun, corpus: PreparedCorpus
) -> None:
    run = _run_of(corpus, make_run)
    other = _run_of(corpus, make_run, "other", config={"training": {"learning_rate": 0.5}})
    command = ["score", run, other, "--sentences", "a.jsonl", "--tokenize", "char"]
    assert jtrans(*command, "--output", "out", "--json").code == 0
    files = ["out/run.en", "out/other.en", "--ref", corpus.folder / "text" / "test.en"]
    command = ["score", "--hyp", *files, "--sentences", "b.jsonl", "--tokenize", "char"]
    assert jtrans(*command, "--json").code == 0
    of_runs, of_files = (Path(name).read_text(encoding="utf-8") for name in ("a.jsonl", "b.jsonl"))
    assert of_runs.count("\n") == 24
    assert of_files.replace('.en"', '"') == of_runs
    refused = jtrans("score", run, "--sentences", "out/run.en", "--output", "out")
    assert refused.code == 2 and "--sentences and --output name the same file" in refused.err


def test_systems_may_share_a_file_of_sentence_scores(jtrans: Jtrans, files: Path) -> None:
    Path("numbers").write_text("0.5\n" * 3, encoding="utf-8")
    command = ["score", "--hyp", "good.en", "bad.en", "--ref", "ref.en", "--json"]
    result = jtrans(*command, "--sentence-scores", "COMET=numbers,numbers")
    assert [system["COMET"] for system in json.loads(result.out)["systems"]] == [0.5, 0.5]


def test_translations_of_runs_are_not_written_to_stdout(jtrans: Jtrans, make_run: MakeRun) -> None:
    result = jtrans("score", make_run(), "--output", "-")
    assert (result.code, "--output names a folder" in result.err) == (2, True)


def test_scores_of_sentences_do_not_join_those_of_systems_on_stdout(
    jtrans: Jtrans, files: Path
) -> None:
    result = jtrans("score", "--hyp", "good.en", "--ref", "ref.en", "--sentences", "-")
    assert result.code == 2
    assert "--sentences writes to a file" in result.err
