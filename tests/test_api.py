"""The Python API: the documented example, and what recipes and references may be."""

from __future__ import annotations

import concurrent.futures
import copy
import doctest
import pickle
import signal
import subprocess
import sys
import traceback
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import jtrans
from jtrans.api import load_recipe
from jtrans.data.prepared import PreparedCorpus
from jtrans.decoding.prepared import choose
from jtrans.decoding.prepared.base import Searchable
from jtrans.errors import ConfigError, CorpusError, DecodingError
from jtrans.training.events import Advance, TrainingEvents

pytestmark = pytest.mark.filterwarnings("ignore:training ends after")  # that of tests is short

SIZES = {"width": 16, "ffn_width": 32, "heads": 2, "encoder_layers": 1, "decoder_layers": 1}


@pytest.fixture(autouse=True)
def _own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("JTRANS_DEVICE", "cpu")


def test_the_documented_example_gives_what_it_shows() -> None:
    results = doctest.testmod(jtrans)
    assert results.attempted > 5 and results.failed == 0


@pytest.fixture
def model(corpus: PreparedCorpus) -> jtrans.LoadedRun:
    """A tiny model, trained for two updates."""
    recipe = {"model": {"system": "transformer", **SIZES}, "decoding": {"max_length": "S+2"}}
    settings = {"training.max_updates": 2, "training.validate_sentences": 0, "model.dropout": 0.2}
    result = jtrans.train(recipe, data=corpus.folder, run="run", set=settings)
    return jtrans.load(result.run)


def test_a_recipe_may_be_a_mapping(model: jtrans.LoadedRun) -> None:
    text = (model.run.folder / "config.toml").read_text(encoding="utf-8")
    assert "width = 16" in text and "\ndropout = 0.2" in text


def test_a_model_is_prepared_once(model: jtrans.LoadedRun, monkeypatch: pytest.MonkeyPatch) -> None:
    prepared: list[object] = []

    def count(*arguments: object) -> Searchable:
        prepared.append(arguments)
        return choose.prepared(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr("jtrans.decoding.translator.prepared", count)
    first = model.translate(["hund sieht katze"])
    assert first == model.translate(["hund sieht katze"])
    assert len(model.translate(["hund sieht katze"], beam=1, max_length="2")[0].split()) <= 1
    model.score(["maus"], ["mouse"], beam=3)
    assert len(prepared) == 1


def test_several_sets_of_references_are_scored_together(model: jtrans.LoadedRun) -> None:
    sources = ["hund sieht katze", "maus mag fisch vogel"]
    metrics = ["bleu", "multi-bleu"]
    one_set = model.score(sources, model.translate(sources), metrics=metrics)
    assert [one_set.value(metric) for metric in metrics] == pytest.approx([100.0, 100.0])
    sets = [["x", "y"], model.translate(sources)]
    scores = model.score(sources, sets, metrics=metrics)
    assert scores.value("bleu") == pytest.approx(100.0)
    assert "nrefs:2" in scores.scores["bleu"].signature


def test_a_translation_is_explained_whoever_made_it(model: jtrans.LoadedRun) -> None:
    translated = model.explain("hund sieht katze")
    given = model.explain("hund sieht katze", "dog sees cat")
    assert translated.source == given.source == ["hund", "sieht", "katze", "</s>"]
    assert given.predicted == ["dog", "sees", "cat", "</s>"]
    assert given.layers("decoder.cross")[0].weights.shape == (2, 4, 4)


def test_a_string_is_not_taken_for_a_list_of_its_characters(model: jtrans.LoadedRun) -> None:
    for call in (
        lambda: model.translate("hund"),
        lambda: model.score("hund", ["d", "o", "g", "s"]),
        lambda: model.score(["h", "u", "n", "d"], "dogs"),
        lambda: model.score(["hund"], ["dog"], metrics="bleu"),
    ):
        with pytest.raises(ConfigError, match="is a string, not a list of strings"):
            call()


def test_sentences_may_come_from_anything_that_yields_strings(model: jtrans.LoadedRun) -> None:
    sources, references = ["hund sieht katze", "maus"], ["dog sees cat", "mouse"]
    assert model.translate(iter(sources)) == model.translate(sources)
    score = model.score(sources, references).value("chrf")
    assert model.score(iter(sources), iter(references)).value("chrf") == score
    assert model.score(sources, iter([iter(references)])).value("chrf") == score


def test_what_is_no_string_is_refused_with_its_place(model: jtrans.LoadedRun) -> None:
    missing: Any = ["hund", None]
    for call in (
        lambda: model.translate(missing),
        lambda: model.score(["hund", "maus"], missing),
        lambda: model.score(["hund", "maus"], [missing]),
    ):
        with pytest.raises(ConfigError, match=r"\w+\[1\] is of the type NoneType, not a string"):
            call()


def test_a_pair_to_explain_is_two_strings(model: jtrans.LoadedRun) -> None:
    wrong: Any = ["hund"]
    for source, target in ((wrong, None), ("hund", wrong)):
        with pytest.raises(ConfigError, match="is of the type list, not a string"):
            model.explain(source, target)


def test_a_traceback_says_where_and_what_to_do() -> None:
    settings = {"training.max_updates": True}
    with pytest.raises(jtrans.JtransError) as caught:
        jtrans.train("demo/transformer", set=settings)
    text = "".join(traceback.format_exception(caught.value))
    assert "training.max_updates" in text
    with pytest.raises(jtrans.JtransError) as caught:
        jtrans.load("absent")
    assert f"\nhint: {caught.value.hint}" in "".join(traceback.format_exception(caught.value))


class _At(TrainingEvents):
    """Calls a function after the first update."""

    def __init__(self, call: Callable[[], object]) -> None:
        self.call: Callable[[], object] | None = call

    def update(self, advance: Advance) -> None:
        call, self.call = self.call, None
        if call:
            call()


def test_an_interrupted_training_is_saved(model: jtrans.LoadedRun, corpus: PreparedCorpus) -> None:
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    recipe, settings = model.run.folder / "config.toml", {"training.max_updates": 50}
    interrupt = _At(lambda: signal.raise_signal(signal.SIGINT))
    try:
        with pytest.raises(KeyboardInterrupt):
            jtrans.train(recipe, data=corpus.folder, run="other", set=settings, events=interrupt)
        assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    finally:
        signal.signal(signal.SIGINT, before)
    assert jtrans.load("other", "last").run.checkpoints()[-1].update == 1
    assert jtrans.load("other@1").run.chosen == "1"


def test_a_second_training_in_the_process_is_refused(
    model: jtrans.LoadedRun, corpus: PreparedCorpus
) -> None:
    errors: list[BaseException | None] = []

    def train_too() -> None:
        with concurrent.futures.ThreadPoolExecutor(1) as pool:
            same = pool.submit(jtrans.train, recipe, data=corpus.folder, run="third")
            errors.append(same.exception())

    recipe = model.run.folder / "config.toml"
    jtrans.train(recipe, data=corpus.folder, run="second", events=_At(train_too))
    assert isinstance(errors[0], jtrans.JtransError)
    assert "another thread of this process is training" in str(errors[0])
    assert not Path("third").exists()
    jtrans.train(recipe, data=corpus.folder, run="third")


def test_events_that_are_no_listener_are_refused_before_a_run_begins(
    corpus: PreparedCorpus,
) -> None:
    events: Any = print
    with pytest.raises(ConfigError, match="events is of the type builtin_function_or_method"):
        jtrans.train("demo/transformer", data=corpus.folder, run="new", events=events)
    assert not Path("new").exists()


def test_warnings_of_training_are_those_of_python(corpus: PreparedCorpus) -> None:
    recipe = {"model": {"system": "transformer", **SIZES}}
    settings = {"training.max_updates": 2, "training.validate_sentences": 0}
    settings["training.schedule.warmup"] = 4000
    with pytest.warns(UserWarning, match="the learning rate rises for 4,000") as warned:
        jtrans.train(recipe, data=corpus.folder, run="run", set=settings)
    assert warned[0].filename == __file__
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        own = TrainingEvents()
        jtrans.train(recipe, data=corpus.folder, run="own", set=settings, events=own)


def test_a_corpus_that_is_gone_is_not_called_damaged(
    corpus: PreparedCorpus, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(corpus.folder.parent)
    opened = PreparedCorpus.open(Path(corpus.folder.name))
    monkeypatch.chdir(tmp_path)
    for read in (lambda: opened.pairs("train"), lambda: opened.raw_lines("valid", "source")):
        with pytest.raises(CorpusError, match=r"the prepared corpus in \S+ is gone"):
            read()


def test_a_model_that_has_translated_can_be_copied(model: jtrans.LoadedRun) -> None:
    sources = ["hund sieht katze"]
    expected = model.translate(sources)
    for other in (copy.deepcopy(model), pickle.loads(pickle.dumps(model))):
        assert other.translate(sources) == expected


def test_loading_draws_no_random_numbers(model: jtrans.LoadedRun) -> None:
    torch.manual_seed(5)
    expected = torch.rand(3)
    torch.manual_seed(5)
    jtrans.load(model.run)
    assert torch.equal(torch.rand(3), expected)


def test_lines_that_are_too_long_are_warned_of(model: jtrans.LoadedRun) -> None:
    with pytest.warns(UserWarning, match="translated in"):
        model.translate(["katze sieht hund " * 500], beam=1, max_length="2")


def test_search_options_are_checked_by_name(model: jtrans.LoadedRun) -> None:
    with pytest.raises(DecodingError, match="unknown option stoping") as caught:
        model.translate(["hund"], stoping="bound")
    assert caught.value.hint == "did you mean stopping?"
    with pytest.raises(DecodingError, match="nbest is not an option") as caught:
        model.translate(["hund"], nbest=3)
    assert caught.value.hint == "translate_nbest(sources, n)"
    with pytest.raises(DecodingError, match="unknown option n"):
        model.translate(["hund"], n=3)
    sources = ["hund sieht katze"]
    assert model.translate(sources, max_length=2) == model.translate(sources, max_length="2")


def test_translations_keep_their_constraints(model: jtrans.LoadedRun) -> None:
    sources = ["hund sieht katze", "", "katze"]
    free = [jtrans.Constraints()] * 3
    assert model.translate(sources, constraints=free) == model.translate(sources)
    wanted = [jtrans.Constraints(prefix="bird"), free[0], jtrans.Constraints(required=["fish"])]
    first, empty, last = model.translate(sources, constraints=iter(wanted))
    assert first.startswith("bird") and empty == "" and "fish" in last.split()
    with pytest.raises(DecodingError, match="constraints for 1 line, but the text has 3"):
        model.translate(sources, constraints=free[:1])
    for wrong in ("fish", None, [3]):
        with pytest.raises(ConfigError, match="forbidden"):
            jtrans.Constraints(forbidden=wrong)  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match="prefix is of the type list"):
        jtrans.Constraints(prefix=["a", "dog"])  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match="constraints is of the type Constraints"):
        model.translate(["katze"], constraints=free[0])  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match=r"constraints\[0\] is of the type str"):
        model.translate_nbest(["katze"], 1, constraints=["fish"])  # type: ignore[list-item]


def test_options_beyond_the_search_are_given_by_name(model: jtrans.LoadedRun) -> None:
    sources = ["hund sieht katze", "katze"]
    plain = model.translate(sources)
    sampling = jtrans.SamplingOptions(seed=3)
    samples = model.translate_nbest(sources, 4, beam=4, sampling=sampling)
    assert samples == model.translate_nbest(sources, 4, beam=4, sampling=sampling)
    assert len({each.text for each in samples[0]}) > 1
    chosen = model.translate(sources, beam=4, sampling=sampling, mbr="chrf")
    assert all(
        best in [each.text for each in drawn] for best, drawn in zip(chosen, samples, strict=True)
    )
    aligned = model.translate_nbest(sources, 1, alignments=True)
    assert all(each[0].alignment is not None for each in aligned)
    assert model.translate(sources) == plain  # nothing is kept for the next call
    for options, said in (
        ({"sampling": True}, "sampling is of the type bool, not SamplingOptions"),
        ({"coverage_penalty": "0.2"}, "coverage_penalty is of the type str"),
        ({"mbr": "chrf", "beam": 1}, "--beam 1 gives a single translation"),
        ({"sampling": sampling, "stopping": "bound"}, "--sample draws translations at random"),
        ({"grid": True}, "has no grid"),
        ({"alignments": True, "alignment_layer": "nowhere"}, "nowhere"),
        ({"alignment_layer": "nowhere"}, "has no effect without word alignments"),
        ({"alignments": "no"}, "alignments is of the type str, not True or False"),
        ({"top_p": 0.9}, "top_p is an option of sampling"),
    ):
        with pytest.raises(jtrans.JtransError, match=said):
            model.translate(sources, **options)


def test_nbest_lists_have_scores(model: jtrans.LoadedRun) -> None:
    sources = ["hund sieht katze", "", "katze"]
    lists = model.translate_nbest(sources, 3, beam=4)
    assert [each[0].text for each in lists] == model.translate(sources, beam=4)
    assert [len(each) for each in lists[::2]] == [3, 3]
    for each in (*lists[0], *lists[2]):
        assert each.log_prob == pytest.approx(sum(each.token_log_probs))
    with pytest.raises(DecodingError, match="beam 2 cannot give 3 translations"):
        model.translate_nbest(sources, 3, beam=2)


def test_a_score_that_was_not_computed_is_named(model: jtrans.LoadedRun) -> None:
    scores = model.score(["hund"], ["dog"], metrics=["bleu"])
    with pytest.raises(ConfigError, match="no score in 'ter'") as caught:
        scores.value("ter")
    assert caught.value.hint == "metrics=['bleu', 'ter']"


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"beam": "5"}, "beam is of the type str, not an integer"),
        ({"beam": True}, "beam is of the type bool, not an integer"),
        ({"length_penalty": None}, "length_penalty is of the type NoneType, not a number"),
        ({"min_length": 1.5}, "min_length is of the type float, not an integer"),
        ({"stopping": 1}, "stopping is of the type int, not a string"),
        ({"sources": 5}, "sources is of the type int, not a list of strings"),
        ({"sources": Path("test.de")}, "sources is of the type .*Path, not a list of strings"),
    ],
)
def test_arguments_of_another_type_are_refused_by_name(
    given: dict[str, Any], said: str, model: jtrans.LoadedRun
) -> None:
    with pytest.raises(ConfigError, match=said):
        model.translate(**{"sources": ["hund"], **given})


def test_numbers_of_numpy_and_devices_of_torch_are_taken(model: jtrans.LoadedRun) -> None:
    numbers: dict[str, Any] = {
        "beam": np.int64(2),
        "length_penalty": np.float32(1),
        "max_length": np.int32(4),
    }
    translator = jtrans.load("run", device=torch.device("cpu"))
    expected = model.translate(["hund"], beam=2, length_penalty=1.0, max_length=4)
    assert translator.translate(["hund"], **numbers) == expected


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda of: jtrans.load(of(None)), "run is of the type NoneType, not a path"),
        (lambda of: jtrans.load(of("")), "run is an empty path"),
        (lambda _: jtrans.load("a\0b"), "run is a path with a zero byte"),
        (lambda of: jtrans.train(of(None)), "recipe is of the type NoneType"),
        (lambda of: jtrans.train("demo/transformer", data=of(5)), "data is of the type int"),
        (lambda of: jtrans.train("demo/transformer", run=of("")), "run is an empty path"),
        (
            lambda of: jtrans.train("demo/transformer", restart=of("no")),
            "restart is of the type str, not True or False",
        ),
        (
            lambda of: jtrans.train("demo/transformer", should_stop=of(True)),
            "should_stop is of the type bool, not a function",
        ),
        (lambda of: jtrans.prepare(of(5)), "name is of the type int, not a string"),
        (lambda of: jtrans.prepare(train=of(5)), "train is of the type int, not a path"),
        (lambda of: jtrans.prepare(train=[of(5)]), "train is of the type int, not a path"),
        (
            lambda of: jtrans.prepare(train="a", languages=of(("de", "en"))),
            "languages is of the type tuple, not a string",
        ),
        (lambda of: jtrans.prepare("grammar-de-en", out=of("")), "out is an empty path"),
    ],
)
def test_other_types_are_refused_before_any_work(
    call: Callable[[Callable[[Any], Any]], object], said: str
) -> None:
    with pytest.raises(ConfigError, match=said):
        call(lambda value: value)
    assert not [*Path().iterdir()]


def test_a_name_that_no_folder_can_have_is_refused() -> None:
    with pytest.raises(jtrans.JtransError, match="name too long"):
        jtrans.load("x" * 300)


def test_a_model_is_loaded_by_the_number_of_an_update(model: jtrans.LoadedRun) -> None:
    assert jtrans.load("run", 2).translate(["hund"]) == model.translate(["hund"])
    with pytest.raises(ConfigError, match="unknown precision: fp16"):
        jtrans.load("run", precision="fp16")


def test_none_removes_a_limit_of_a_recipe(corpus: PreparedCorpus) -> None:
    settings = {"training.max_updates": None, "training.max_epochs": 3}
    config = load_recipe("demo/transformer", {"training.max_updates": 2, **settings})
    assert config.training.max_updates is None and config.training.max_epochs == 3
    with pytest.raises(ConfigError, match=r"model\.width.*got None"):
        jtrans.train("demo/transformer", data=corpus.folder, set={"model.width": None})


def test_a_model_is_not_divided_in_a_single_process(corpus: PreparedCorpus) -> None:
    with pytest.raises(ConfigError, match="shard_model divides the weights"):
        jtrans.train("demo/transformer", data=corpus.folder, shard_model=True)
    assert not Path("runs").exists()


def test_results_are_shown_by_their_folder(model: jtrans.LoadedRun, corpus: PreparedCorpus) -> None:
    assert repr(model) == "LoadedRun('run')"
    assert repr(corpus) == f"PreparedCorpus(folder={corpus.folder!r})"


def test_what_cannot_be_used_is_refused(model: jtrans.LoadedRun, corpus: PreparedCorpus) -> None:
    with pytest.raises(ConfigError, match="unknown metric"):
        model.score(["hund"], ["dog"], metrics=["blue"])
    with pytest.raises(ConfigError, match="no metric to score with"):
        model.score(["hund"], ["dog"], metrics=[])
    with pytest.raises(ConfigError, match="unknown precision: fp16"):
        jtrans.load(model.run, precision="fp16")
    with pytest.raises(CorpusError):
        model.score(["hund"], ["dog", "cat"])
    with pytest.raises(ConfigError, match="needs a run folder"):
        jtrans.train({"model": {"system": "transformer"}}, data=corpus.folder)
    with pytest.raises(ConfigError, match="set must be a mapping"):
        jtrans.train("demo/transformer", set="model.width=3")  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match="keep_optimiser needs initial"):
        jtrans.train("demo/transformer", data=corpus.folder, keep_optimiser=True)
    with pytest.raises(ConfigError, match=r"unknown key model\.widht"):
        jtrans.train("demo/transformer", set={"model.widht": 3})
    with pytest.raises(ConfigError, match="--languages and --out missing"):
        jtrans.prepare(train=["a"], valid="b")
    with pytest.raises(ConfigError, match="bpe_mergs"):
        jtrans.prepare("grammar-de-en", bpe_mergs=3)


def _write_pairs(folder: Path) -> Path:
    """Write a few pairs as files, and return their prefix."""
    lines = [f"hund {number} sieht katze ." for number in range(40)]
    for language in ("de", "en"):
        (folder / f"pairs.{language}").write_text("\n".join([*lines, ""]), encoding="utf-8")
    return folder / "pairs"


def test_files_to_prepare_are_paths_or_strings_one_or_several(tmp_path: Path) -> None:
    pairs = _write_pairs(tmp_path)
    common: dict[str, Any] = {
        "languages": "de-en",
        "valid_size": 4,
        "drop_identical": False,
        "workers": 1,
    }
    one = jtrans.prepare(train=pairs, out="one", bpe_merges=20, **common)
    several = jtrans.prepare(train=[str(pairs)], out="two", pipeline=Path("one"), **common)
    assert one.info["splits"]["valid"] == several.info["splits"]["valid"]


def test_spelling_without_bpe_is_refused_before_anything_is_read() -> None:
    with pytest.raises(ConfigError, match="--spell have no meaning without BPE"):
        jtrans.prepare(train="nowhere", bpe="none", spell=True)


@pytest.mark.parametrize("workers", [5000, 0, -1])
def test_an_impossible_number_of_processes_is_refused(workers: int, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=f"workers is {workers}, not between 1 and 1024"):
        jtrans.prepare("grammar-de-en", out="mine", workers=workers)
    assert not list(tmp_path.iterdir())


def test_a_named_corpus_and_files_exclude_each_other(tmp_path: Path) -> None:
    pairs = _write_pairs(tmp_path)
    conflicts: list[dict[str, Any]] = [{"train": pairs}, {"languages": "de"}, {"valid_size": 7}]
    for files in conflicts:
        with pytest.raises(ConfigError, match="cannot be combined with NAME"):
            jtrans.prepare("grammar-de-en", **files)
    with pytest.raises(ConfigError, match="--from needs the NAME"):
        jtrans.prepare(train=pairs, valid=pairs, languages="de-en", out="mine", originals="x")
    with pytest.raises(ConfigError, match="--valid-size -1 is less than 1"):
        jtrans.prepare(train=pairs, valid_size=-1, languages="de-en", out="mine")


def test_the_functions_are_imported_on_first_use() -> None:
    """What is imported before `jtrans.__main__` runs cannot be interrupted without a traceback."""
    code = "import sys, jtrans; assert not {'pydantic', 'jtrans.config'} & sys.modules.keys()"
    subprocess.run([sys.executable, "-c", f"{code}; jtrans.train, jtrans.LoadedRun"], check=True)
    with pytest.raises(AttributeError, match="no attribute 'trian'"):
        _ = jtrans.trian  # type: ignore[attr-defined]
    assert set(jtrans.__all__) <= set(dir(jtrans))
