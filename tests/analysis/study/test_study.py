"""What is analysed: systems, their text, and the cache of their measurements."""

from __future__ import annotations

import json
import shutil
import statistics
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from plugins.random_runs import ON_CPU
from plugins.small_corpus import make_nouns

from jtrans.analysis.figures.bins import Binning
from jtrans.analysis.figures.length import length_figures
from jtrans.analysis.figures.position import position_figures
from jtrans.analysis.figures.results import Figure
from jtrans.analysis.report.content import gather
from jtrans.analysis.study.load import load_study
from jtrans.analysis.study.scores import score_subjects
from jtrans.analysis.study.study import Study
from jtrans.data.prepared import PreparedCorpus
from jtrans.decoding.options import DecodingChoices
from jtrans.decoding.split import SplitTranslation
from jtrans.errors import CheckpointError, ConfigError, CorpusError, WorkError
from jtrans.progress import Silent
from jtrans.runs import Run

RunOn = Callable[..., Run]


def _study(*runs: Run, **more: object) -> Study:
    return load_study(list(runs), "test", ON_CPU, **more)  # type: ignore[arg-type]


def test_a_second_analysis_does_no_model_work(
    corpus: PreparedCorpus, run_on: RunOn, loaded_runs: list[str]
) -> None:
    run = run_on(corpus)
    first = [*position_figures(_study(run)), *length_figures(_study(run))]
    assert set(loaded_runs) == {"run"}
    loaded_runs.clear()
    again = _study(Run.open(run.folder))
    assert [*position_figures(again), *length_figures(again)] == first
    assert loaded_runs == []


@pytest.mark.parametrize("change", ["weights", "damage", "text", "empty"])
def test_measurements_of_something_else_are_not_used(
    corpus: PreparedCorpus, run_on: RunOn, loaded_runs: list[str], change: str
) -> None:
    run = run_on(corpus)
    before = _study(run).subjects[0].teacher_forced
    [cached] = (run.folder / "analysis").iterdir()
    data = None
    if change == "damage":
        cached.write_bytes(cached.read_bytes()[:-20])
    elif change == "empty":
        cached.write_bytes(b"")
    elif change == "text":
        data = make_nouns(corpus.folder.parent / "other", test_seed=5).folder
    else:
        other = run_on(corpus, "other", weights_seed=2)
        shutil.rmtree(run.checkpoints_folder)
        shutil.copytree(other.checkpoints_folder, run.checkpoints_folder)
    after = _study(Run.open(run.folder), data=data).subjects[0].teacher_forced
    assert loaded_runs == ["run", "run"]
    same = np.array_equal(before.ids, after.ids) and np.allclose(before.log_probs, after.log_probs)
    assert same == (change in ("damage", "empty"))


def test_references_are_scored_in_the_precision_asked_for(
    corpus: PreparedCorpus, run_on: RunOn
) -> None:
    run = run_on(corpus)
    scores = [
        load_study([run], "test", DecodingChoices(device="cpu", precision=precision))
        .subjects[0]
        .teacher_forced.log_probs
        for precision in ("fp32", "bf16")
    ]
    assert scores[1] == pytest.approx(scores[0], abs=0.1) and (scores[1] != scores[0]).any()


def test_seeds_are_one_system_with_mean_and_spread(corpus: PreparedCorpus, run_on: RunOn) -> None:
    runs = [
        run_on(corpus, f"base-s{n}", weights_seed=n, config={"training": {"seed": n}})
        for n in (1, 2, 3)
    ]
    other = run_on(corpus, "other", config={"training": {"learning_rate": 0.5}})
    study = _study(runs[0], other, *runs[1:])
    assert [subject.name for subject in study.subjects] == ["base (seeds 1–3)", "other"]
    pooled = position_figures(study, Binning(edges=(3,)))[0]
    alone = [position_figures(_study(run), Binning(edges=(3,)))[0] for run in runs]
    assert isinstance(pooled, Figure)
    values = [f.series[0].values for f in alone if isinstance(f, Figure)]
    for place in range(2):
        column = [float(row[place] or 0) for row in values]
        assert pooled.series[0].values[place] == pytest.approx(statistics.mean(column))
        assert pooled.series[0].spread[place] == pytest.approx(statistics.stdev(column))
    assert pooled.series[1].spread == []


def test_systems_with_equal_names_are_told_apart_and_keep_their_scores(
    corpus: PreparedCorpus, run_on: RunOn, tmp_path: Path
) -> None:
    for folder, lines in (("x", corpus.raw_lines("test", "target")), ("y", ["Dog"] * 12)):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "out.en").write_text("\n".join(lines) + "\n", encoding="utf-8")
    files = [tmp_path / "x/out.en", tmp_path / "y/out.en"]
    data = gather(_study(run_on(corpus, "out.en"), hypotheses=files), Silent())
    assert [system.name for system in data.systems][1:] == ["x/out.en", "y/out.en"]
    assert data.systems[0].name.endswith("/out.en")
    perfect, bad = data.scores.systems[1:]
    assert ["multi-bleu" in values for values in data.scores.systems] == [True, False, False]
    assert perfect["bleu"].value == pytest.approx(100)
    assert bad["bleu"].value < 50


def test_groups_of_seeds_are_named_after_what_their_members_share(
    corpus: PreparedCorpus, run_on: RunOn
) -> None:
    def run(name: str, seed: int, rate: float) -> Run:
        return run_on(corpus, name, config={"training": {"seed": seed, "learning_rate": rate}})

    runs = [run(f"exp{n}", n, 0.1 if n < 3 else 0.2) for n in (1, 2, 3, 4)]
    runs += [run(f"base-{n}", n, 0.3) for n in (11, 12, 13)]
    assert [subject.name for subject in _study(*runs).subjects] == [
        "exp1+exp2 (seeds 1, 2)",
        "exp3+exp4 (seeds 3, 4)",
        "base (seeds 11–13)",
    ]


def test_seeds_with_other_checkpoints_are_another_system(
    corpus: PreparedCorpus, run_on: RunOn
) -> None:
    runs = [run_on(corpus, f"exp-{n}", config={"training": {"seed": n}}) for n in (1, 2)]
    chosen = [Run(run.folder, checkpoint) for checkpoint in ("best", "last") for run in runs]
    assert [subject.name for subject in _study(*chosen).subjects] == [
        "exp-…@best (seeds 1, 2)",
        "exp-…@last (seeds 1, 2)",
    ]


def test_what_changes_no_weight_divides_no_group_of_seeds(
    corpus: PreparedCorpus, run_on: RunOn
) -> None:
    band = {"metric": "bleu", "low": 1.0, "high": 2.0}
    first = run_on(corpus, "exp1", config={"training": {"seed": 1, "micro_batch_overhead": 200}})
    other = {"seed": 2, "micro_batch_overhead": 20_000, "validate_samples": 0}
    second = run_on(corpus, "exp2", config={"training": other, "expect": {"test": band}})
    assert [subject.name for subject in _study(first, second).subjects] == [
        "exp1+exp2 (seeds 1, 2)"
    ]


def test_a_seed_that_a_group_has_already_begins_another(
    corpus: PreparedCorpus, run_on: RunOn
) -> None:
    def run(name: str, seed: int, **facts: Any) -> Run:
        return run_on(corpus, name, config={"training": {"seed": seed}}, **facts)

    twice = [run(f"{name}-{n}", n) for name in ("old", "new") for n in (1, 2)]
    names = ["old (seeds 1, 2)", "new (seeds 1, 2)"]
    assert [subject.name for subject in _study(*twice).subjects] == names
    mixed = _study(twice[0], twice[2], twice[1], twice[3])
    assert [subject.name for subject in mixed.subjects] == names


def test_runs_that_began_with_the_weights_of_another_are_another_system(
    corpus: PreparedCorpus, run_on: RunOn
) -> None:
    def run(name: str, seed: int, began: str | None, checkpoint: str | None = None) -> Run:
        facts = {"from": began, "from_checkpoint": checkpoint}
        return run_on(corpus, name, config={"training": {"seed": seed}}, **facts)

    runs = [run("plain", 1, None), run("tuned", 2, "runs/general")]
    assert [subject.name for subject in _study(*runs).subjects] == ["plain", "tuned"]
    tuned = [run("tuned-3", 3, "runs/general"), runs[1]]
    assert [subject.name for subject in _study(*tuned).subjects] == ["tuned (seeds 2, 3)"]
    of_average = run("average", 4, "runs/general", "average")
    assert len(_study(runs[1], of_average).subjects) == 2


def test_letters_of_any_alphabet_are_compared_without_case(
    corpus: PreparedCorpus, run_on: RunOn
) -> None:
    lines = ["Über Ärzte Öfter Üben", "Москва Жук Лес Дом"] * 6
    study = _study(run_on(corpus, "cased"), run_on(corpus, "lower"), lowercase=True)
    study.text.reference_lines[:] = lines
    texts = lines, [line.lower() for line in lines]
    for subject, written in zip(study.subjects, texts, strict=True):
        words = [line.split() for line in written]
        vars(subject.run_members[0])["translation"] = SplitTranslation(written, words, 24, 1.0)
    first, second = score_subjects(study).systems
    assert first.value("multi-bleu") == second.value("multi-bleu")
    assert first.value("multi-bleu") == 100


def test_runs_with_different_texts_are_refused_and_told_which_share_theirs(
    corpus: PreparedCorpus, run_on: RunOn
) -> None:
    other = make_nouns(corpus.folder.parent / "other", test_seed=5)
    runs = [run_on(corpus, "a"), run_on(other, "b"), run_on(corpus, "c", weights_seed=2)]
    with pytest.raises(CorpusError, match="b and a have different texts in test") as refused:
        _study(*runs)
    assert f"{runs[0].folder} {runs[2].folder}" in str(refused.value.hint)
    assert len(_study(*runs, data=corpus.folder).runs) == 3


def test_runs_trained_on_different_text_carry_a_warning(
    corpus: PreparedCorpus, run_on: RunOn
) -> None:
    other = make_nouns(corpus.folder.parent / "other", seed=4)
    study = _study(run_on(corpus, "a"), run_on(other, "b"))
    assert ["b and a were trained on different corpora" in text for text in study.warnings] == [
        True
    ]


def test_the_corpora_of_training_are_named_not_that_of_the_test_set(
    corpus: PreparedCorpus, run_on: RunOn
) -> None:
    others = [make_nouns(corpus.folder.parent / name, seed=4) for name in ("other", "third")]
    runs = [run_on(corpus, "a"), run_on(others[0], "b")]
    for run, name in zip(runs, ("news", "talks"), strict=True):
        info = json.loads((run.folder / "run.json").read_text(encoding="utf-8"))
        (run.folder / "run.json").write_text(json.dumps(info | {"corpus": name}), encoding="utf-8")
    runs = [Run.open(run.folder) for run in runs]
    [warning] = _study(*runs, data=others[1].folder).warnings
    assert warning.endswith("(talks, news)")


def test_an_empty_test_set_is_refused(run_on: RunOn, tmp_path: Path) -> None:
    corpus = make_nouns(tmp_path / "data", test=3)
    for side in ("de", "en", "tok.de", "tok.en"):
        (corpus.folder / f"text/test.{side}").write_bytes(b"")
    run = run_on(corpus)
    corpus.info["splits"]["test"]["pairs"] = 0
    from jtrans.files import write_json

    write_json(corpus.folder / "corpus.json", corpus.info)
    with pytest.raises(CorpusError, match=r"test of .* is empty"):
        _study(run)


def test_a_file_is_given_once(corpus: PreparedCorpus, run_on: RunOn, tmp_path: Path) -> None:
    path = tmp_path / "out.en"
    path.write_text("Dog\n" * 12, encoding="utf-8")
    with pytest.raises(ConfigError, match=r"out\.en is given twice"):
        _study(run_on(corpus), hypotheses=[path, tmp_path / "." / "out.en"])


def test_a_run_is_given_once_and_has_a_checkpoint(corpus: PreparedCorpus, run_on: RunOn) -> None:
    run = run_on(corpus)
    with pytest.raises(ConfigError, match="run is given twice"):
        _study(run, Run.open(run.folder))
    with pytest.raises(CheckpointError, match="no checkpoint 7"):
        load_study([run], "test", DecodingChoices("7"))


def test_an_unknown_split_is_refused(corpus: PreparedCorpus, run_on: RunOn) -> None:
    with pytest.raises(CorpusError, match="has no split tset"):
        load_study([run_on(corpus)], "tset")


def test_a_corpus_without_a_test_split_gets_the_option_for_valid(
    corpus: PreparedCorpus, run_on: RunOn
) -> None:
    splits = {"valid": corpus.info["splits"]["valid"]}
    path = corpus.folder / "corpus.json"
    path.write_text(json.dumps({**corpus.info, "splits": splits}), encoding="utf-8")
    with pytest.raises(CorpusError, match="has no split test") as caught:
        load_study([run_on(corpus)], "test")
    assert caught.value.hint is not None and "--split valid" in caught.value.hint


def test_json_lines_of_jtrans_translate_are_translations(
    corpus: PreparedCorpus, run_on: RunOn, tmp_path: Path
) -> None:
    texts = [f"dog {number}" for number in range(12)]
    path = tmp_path / "other.jsonl"
    lines = [json.dumps({"translations": [{"text": text}, {"text": ""}]}) for text in texts]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    study = _study(run_on(corpus), hypotheses=[path])
    assert study.subjects[-1].members[0].hypotheses == texts


def test_a_file_of_translations_must_have_a_line_for_each(
    corpus: PreparedCorpus, run_on: RunOn, tmp_path: Path
) -> None:
    path = tmp_path / "short.en"
    path.write_text("Dog\n", encoding="utf-8")
    with pytest.raises(CorpusError, match="1 translation, but test has 12 lines"):
        _study(run_on(corpus), hypotheses=[path])


def test_a_run_without_data_is_refused(run_on: RunOn, corpus: PreparedCorpus) -> None:
    run = run_on(corpus)
    run.update_info(data="/nowhere")
    with pytest.raises(CorpusError, match="there is none in /nowhere") as caught:
        _study(run)
    assert caught.value.hint is not None
    assert f"--test new --languages de-en --pipeline {run.folder} --out" in caught.value.hint


@pytest.mark.parametrize("measure", ["teacher_forced", "translation"])
def test_missing_memory_is_told_with_the_line_of_the_split(
    fresh_study: Study, monkeypatch: pytest.MonkeyPatch, measure: str
) -> None:
    def fail(*_: object) -> None:
        raise MemoryError

    monkeypatch.setattr("jtrans.decoding.teacher_forcing._of_batch", fail)
    monkeypatch.setattr("jtrans.decoding.batched_search.beam_search", fail)
    member = fresh_study.with_model[0].run_members[0]
    with pytest.raises(WorkError, match=r"line \d+: out of memory with a single") as raised:
        getattr(member, measure)
    assert raised.value.where == f"test of {member.corpus.folder}:{raised.value.line}"
