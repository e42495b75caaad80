"""The Python API: the commands `prepare`, `train`, `translate`, `score` and `analyze`.

Heavy modules are imported on first use.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from jtrans.errors import CorpusError, usage_error

if TYPE_CHECKING:
    from jtrans.analysis.attention.explain import Explanation
    from jtrans.config import Config
    from jtrans.corpora.own_files import OwnFiles
    from jtrans.corpora.parallel import Corpus
    from jtrans.data.prepared import PreparedCorpus
    from jtrans.decoding.lines.translation import Translation
    from jtrans.decoding.translator import Translator
    from jtrans.evaluation.systems import SystemScores
    from jtrans.preparation.options import PrepareOptions
    from jtrans.progress import Progress
    from jtrans.runs import Run
    from jtrans.training.events import Result, TrainingEvents


def prepare(
    name: str | None = None,
    *,
    train: Sequence[str] = (),
    valid: str | Sequence[str] | None = None,
    valid_size: int | None = None,
    test: Sequence[str] = (),
    languages: str | None = None,
    skip_bad_lines: bool = False,
    originals: str | Path | None = None,
    out: str | Path | None = None,
    workers: int | None = None,
    force: bool = False,
    progress: Progress | None = None,
    command: str = "",
    **options: Any,
) -> PreparedCorpus:
    """Prepare a corpus for training: segment, clean, learn BPE, encode.

    A corpus already prepared from the same text with the same options stays as it is.

    Args:
        name: the name of a catalogue corpus; None for your own files.
        train: prefixes of your training files, such as ``corpus/train`` for ``corpus/train.de``
            and ``corpus/train.en``; or files that contain both sides; or CoNLL-U files, whose
            sentences are both sides.
        valid: validation files, given like `train`; several are concatenated.
        valid_size: the number of pairs to take from the training files for validation instead.
        test: test files, given like `train`.
        languages: the languages of your files, such as ``de-en``; ``en`` for CoNLL-U.
        skip_bad_lines: leave out, and count, lines of your files that cannot be read (not UTF-8, a
            zero byte, too few columns, no JSON), together with their translations.
        originals: a folder with the original files of the named corpus, instead of a download.
        out: the output folder; for a named corpus by default ``data/prepared/NAME``.
        workers: number of processes; by default one per processor.
        force: replace another prepared corpus in `out`.
        progress: receives progress reports.
        command: what to record as the command that prepared the corpus.
        options: fields of `jtrans.preparation.options.PrepareOptions`, such as ``bpe_merges=4000``.

    Raises:
        JtransError: files or options that cannot be used, or a download that failed.
    """
    from jtrans.corpora.own_files import OwnFiles
    from jtrans.preparation.prepare import prepare as prepare_corpus

    prefixes = [valid] if isinstance(valid, str) else valid or ()
    text, combined = read_source(
        OwnFiles(train, prefixes, test, valid_size, skip_bad_lines) if name is None else name,
        options,
        languages=languages,
        originals=originals,
        out=out,
        progress=progress,
    )
    return prepare_corpus(
        text,
        Path(out or f"data/prepared/{name}"),
        options=combined,
        workers=workers,
        force=force,
        progress=progress,
        command=command,
    )


def read_source(
    source: str | OwnFiles,
    options: Mapping[str, Any],
    *,
    languages: str | None = None,
    originals: str | Path | None = None,
    out: str | Path | None = None,
    progress: Progress | None = None,
) -> tuple[Corpus, PrepareOptions]:
    """Return the text that `prepare` would prepare, and the complete options.

    Args:
        source: the name of a catalogue corpus, or files.
        options: the options chosen by the caller.
        languages: as for `prepare`, like the arguments that are not listed here.
        originals: the folder with the original files of the catalogue corpus.
        out: the output folder, after which a corpus of files is named.
        progress: receives progress reports.
    """
    from dataclasses import replace

    from jtrans.corpora.catalogue.load import find_entry
    from jtrans.corpora.download.deliver import deliver
    from jtrans.progress import Silent

    progress = progress or Silent()
    if not isinstance(source, str):
        _options({}, options)  # refuse bad options before reading
        corpus = _own_files(source, languages, out, progress)
        is_copied = corpus.languages[0] == corpus.languages[1]
        return corpus, _options({"drop_identical": False} if is_copied else {}, options)
    entry = find_entry(source)
    _options(entry.options, options)  # refuse bad options before downloading
    delivery = deliver(entry, Path(originals) if originals else None, progress=progress)
    records = tuple(record.to_json() for record in delivery.originals)
    return replace(delivery.corpus, originals=records), _options(delivery.options, options)


def _own_files(
    files: OwnFiles, languages: str | None, out: str | Path | None, progress: Progress
) -> Corpus:
    from jtrans.corpora.own_files import hold_one_language
    from jtrans.corpora.parallel import describe_notes
    from jtrans.text.language import check_language, split_languages

    train, valid = files.train, files.valid
    if valid and files.valid_size:
        raise usage_error(
            "--valid-size takes the valid split from train, but --valid gives one",
            "leave one or the other out",
        )
    if not (train and (valid or files.valid_size) and languages and out):
        needed: dict[str, Any] = {"--train": train, "--valid": valid or files.valid_size}
        needed |= {"--languages": languages, "--out": out}
        missing = [option for option, value in needed.items() if not value]
        raise usage_error(
            f"give the NAME of a corpus, or your own files: {' and '.join(missing)} missing",
            "jtrans prepare --train corpus/train --valid corpus/valid --languages de-en "
            "--out data/prepared/mine, or jtrans corpora for names",
        )
    name = Path(out).resolve().name
    if "-" not in languages and hold_one_language([*train, *valid, *files.test]):
        check_language(languages)
        pair = languages, languages
    else:
        pair = split_languages(languages)
    corpus = files.read(name, pair)
    for line in describe_notes(corpus.splits):
        progress.say("Noticed", line)
    if len(valid) > 1:
        progress.say("Valid set", f"{' + '.join(valid)}, in this order")
    if "test2" in corpus.splits:
        origins = {split: ", ".join(text.origin) for split, text in corpus.splits.items()}
        names = (f"{split} is {origin}" for split, origin in origins.items() if "test" in split)
        progress.say("Test sets", " · ".join(names))
    return corpus


def _options(defaults: Mapping[str, Any], chosen: Mapping[str, Any]) -> PrepareOptions:
    """Combine the catalogue's defaults with the options chosen."""
    from jtrans.preparation.options import PIPELINE_OPTIONS, PrepareOptions

    options = PrepareOptions(**{**defaults, **chosen})
    decided = [name for name in PIPELINE_OPTIONS if name in chosen]
    if options.pipeline and decided:
        raise usage_error(
            f"--pipeline has already decided {', '.join(decided).replace('_', ' ')}",
            "leave one or the other out",
        )
    if options.bpe == "none" and {"bpe_merges", "bpe_min_frequency"} & set(chosen):
        raise usage_error(
            "--bpe-merges and --bpe-min-frequency have no meaning without BPE (--bpe none)",
            "leave them out, or choose --bpe joint",
        )
    return options


def train(
    recipe: str | Path | Mapping[str, Any] | Config,
    *,
    data: str | Path | None = None,
    run: str | Path | None = None,
    set: Mapping[str, Any] | None = None,  # noqa: A002
    device: str | None = None,
    restart: bool = False,
    initial: str | Path | None = None,
    keep_optimiser: bool = False,
    tensorboard: bool = False,
    shard_model: bool = False,
    events: TrainingEvents | None = None,
    should_stop: Callable[[], bool] = lambda: False,
) -> Result:
    """Train a new run, or continue an existing one where it stopped.

    Args:
        recipe: a name of `jtrans recipes`, a TOML file, or its sections as a mapping.
        data: folder of the prepared corpus; by default the corpus of the existing run, otherwise
            the recipe's corpus.
        run: folder of the run; by default ``runs/RECIPE``.
        set: settings to change, such as ``{"model.width": 256}``.
        device: "auto", "cpu", "cuda" or "mps".
        restart: start over, deleting the existing run.
        initial: a run with the same vocabularies; a new run starts from its best weights.
        keep_optimiser: also take the optimiser's moments from `initial`.
        tensorboard: also write curves for TensorBoard, to the run's folder ``tensorboard``.
        shard_model: with several processes, each holds only a shard of the weights.
        events: receives training events.
        should_stop: called after each update and during validation; True saves and stops.

    Returns:
        How training ended; its `run` is the folder that `load` takes.

    Raises:
        JtransError: settings or data that cannot be used, or work that failed.
    """
    from jtrans.runs import find_run
    from jtrans.training.session import train as train_run

    config = load_recipe(recipe, set)
    folder = Path(run) if run else default_run(recipe)
    return train_run(
        config,
        data=Path(data) if data else default_data(config, None if restart else folder),
        run=folder,
        device=device,
        restart=restart,
        initial=find_run(str(initial)) if initial else None,
        keep_optimiser=keep_optimiser,
        tensorboard=tensorboard,
        shard_model=shard_model,
        events=events,
        should_stop=should_stop,
    )


def load_recipe(
    recipe: str | Path | Mapping[str, Any] | Config, settings: Mapping[str, Any] | None = None
) -> Config:
    """Return the configuration of a recipe with some settings changed, given as for `train`."""
    from jtrans.config import Config, build_config, load_config, set_values
    from jtrans.models.zoo import system_configs

    if isinstance(recipe, Config) and not settings:
        return recipe
    if isinstance(recipe, (str, Path)):
        return load_config(str(recipe), system_configs(), options=settings)
    values = recipe.model_dump() if isinstance(recipe, Config) else copy.deepcopy(dict(recipe))
    set_values(values, (settings or {}).items(), "set")
    return build_config(values, system_configs(), where="the recipe given")


def default_data(config: Config, continued: Path | None = None) -> Path:
    """Return the folder of the data that a run continues with, or of a recipe's prepared corpus.

    Raises:
        ConfigError: the recipe names no corpus.
        CorpusError: the recipe names a catalogue corpus that has not been prepared yet.
    """
    from jtrans.runs import Run

    if continued is not None and Run.exists(continued):
        recorded = Run(continued).info.get("data")
        if recorded and Path(recorded).is_dir():
            return Path(recorded)
    if config.data.corpus is None:
        raise usage_error(
            "the recipe names no corpus",
            "--data DIR, a folder made by jtrans prepare",
            where="--data",
        )
    from jtrans.corpora.catalogue.load import is_in_catalogue

    folder = Path("data/prepared") / config.data.corpus
    if not folder.exists() and is_in_catalogue(config.data.corpus):
        raise CorpusError(
            f"no prepared corpus in {folder}",
            hint=f"jtrans prepare {config.data.corpus}; or name another folder: --data DIR",
            kind="corpus.not-prepared",
        )
    return folder


def default_run(recipe: object) -> Path:
    """Return the default folder of a recipe's run.

    Raises:
        ConfigError: the recipe has no name.
    """
    from jtrans.runs import RUNS, Run

    if not isinstance(recipe, (str, Path)):
        raise usage_error(
            "a recipe without a name needs a run folder", "run='runs/mine'", where="run"
        )
    path = Path(recipe)
    if path.suffix != ".toml":
        return RUNS / recipe
    # the configuration file inside a run's folder means that run
    return path.parent if Run.exists(path.parent) else RUNS / path.stem


class LoadedRun:
    """A trained model to translate with, score and inspect.

    Attributes:
        run: the run on disk.
        translator: for n-best lists and teacher-forced scores.
    """

    def __init__(self, run: Run, translator: Translator) -> None:
        self.run = run
        self.translator = translator

    def translate(
        self, sources: Sequence[str], *, beam: int | None = None, **search: Any
    ) -> list[str]:
        """Return the best translation of every sentence, in order; empty sentences stay empty.

        Args:
            sources: raw text.
            beam: hypotheses kept per sentence; by default as in the run's configuration.
            search: other options of `jtrans.decoding.options.SearchOptions`.

        Raises:
            JtransError: options that cannot be used.
        """
        return [best.text for best in self._search(sources, beam, search)]

    def score(
        self,
        sources: Sequence[str],
        references: Sequence[str] | Sequence[Sequence[str]],
        *,
        metrics: Sequence[str] = ("bleu", "chrf"),
        beam: int | None = None,
        **search: Any,
    ) -> SystemScores:
        """Translate and score as `jtrans score` does.

        Args:
            sources: raw text.
            references: one reference per sentence, or several such sets.
            metrics: any of ``bleu``, ``chrf``, ``ter`` and ``multi-bleu``.
            beam: see `translate`.
            search: see `translate`.

        Returns:
            The scores: ``value("bleu")`` is the score, ``scores["bleu"].signature`` its signature.

        Raises:
            JtransError: metrics or options that cannot be used, or line counts that differ.
        """
        from jtrans.evaluation.systems import SystemOutput, check_metrics, evaluate

        side = self.run.pipeline.target
        is_one_set = all(isinstance(reference, str) for reference in references)
        sets: Any = [references] if is_one_set else references
        names = check_metrics(metrics)
        best = self._search(sources, beam, search)
        output = SystemOutput(
            self.run.name,
            [translation.text for translation in best],
            [translation.words for translation in best],
            [[side.segment(line) for line in lines] for lines in sets],
        )
        evaluation = evaluate(
            [output], sets, metrics=names, target_language=side.language, lowercase=side.lowercase
        )
        return evaluation.systems[0]

    def explain(self, source: str, target: str | None = None) -> Explanation:
        """Return every attention map of one sentence, with the pieces on both sides.

        Args:
            source: raw text.
            target: a translation to inspect; by default the model's own.

        Raises:
            DecodingError: a sentence is empty, or the pair is too long to keep all its weights.
        """
        from jtrans.analysis.attention.pairs import explain_pair
        from jtrans.analysis.attention.views import ViewSelection
        from jtrans.progress import Silent

        pair = explain_pair(
            self.translator, self.run.name, source, target, None, ViewSelection(), Silent()
        )
        return pair.explanation

    def _search(
        self, sources: Sequence[str], beam: int | None, search: Mapping[str, Any]
    ) -> list[Translation]:
        from dataclasses import replace

        chosen = dict(search) if beam is None else {**search, "beam": beam}
        translator = self.translator.with_options(replace(self.translator.options, **chosen))
        return [best[0] for best in translator.translate_nbest(sources, 1)]


def load(
    run: str | Path | Run,
    checkpoint: str = "best",
    device: str | None = None,
    precision: str = "auto",
) -> LoadedRun:
    """Load a trained model.

    Args:
        run: a run's folder, its name under runs/, or ``@last``.
        checkpoint: ``best``, ``last``, an update's number or the name of an average.
        device: "cpu", "cuda" or "mps"; by default the machine's best.
        precision: "fp32" or "bf16"; "auto" means bf16 on CUDA.

    Raises:
        JtransError: the run, checkpoint or device does not exist or cannot be used.
    """
    from jtrans.decoding.options import DecodingChoices
    from jtrans.decoding.translator import Translator
    from jtrans.runs import Run, find_run

    opened = run if isinstance(run, Run) else find_run(str(run))
    choices = DecodingChoices(checkpoint, device, precision)
    return LoadedRun(opened, Translator.load([opened], choices))
