"""Preparing a corpus: one of the catalogue, or your own files."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from jtrans.config.arguments import check_argument, type_error
from jtrans.data import PREPARED
from jtrans.errors import ConfigError, JtransError, usage_error
from jtrans.processors import MOST_WORKERS

if TYPE_CHECKING:
    from jtrans.corpora.own_files import OwnFiles
    from jtrans.corpora.parallel import Corpus
    from jtrans.data.prepared import PreparedCorpus
    from jtrans.preparation.options import PrepareOptions
    from jtrans.progress import Progress


Files = str | Path | Sequence[str | Path]  # one file, or several


def prepare(
    name: str | None = None,
    *,
    train: Files = (),
    valid: Files | None = None,
    valid_size: int | None = None,
    test: Files = (),
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
        train: your training files, which are concatenated: prefixes, such as ``corpus/train`` for
            ``corpus/train.de`` and ``corpus/train.en``; files with both sides; or CoNLL-U files,
            whose sentences become both sides. With the option ``pipeline``, a run or prepared
            corpus whose text pipeline is reused, one of `train`, `valid` and `test` is enough.
        valid: validation files, given like `train`.
        valid_size: the number of pairs to take from the training files for validation instead.
        test: test files, given like `train`.
        languages: the languages of your files, such as ``de-en``; ``en`` for CoNLL-U.
        skip_bad_lines: skip and count lines of your files that cannot be read (not UTF-8, a zero
            byte, too few columns, no JSON), together with their translations.
        originals: a folder with the original files of the named corpus, instead of a download.
        out: the output folder; for a named corpus by default ``data/prepared/NAME``.
        workers: number of processes, 1 to 1024; by default one per processor.
        force: replace another prepared corpus in `out`.
        progress: receives progress reports.
        command: the command to record in the prepared corpus.
        options: fields of `jtrans.preparation.options.PrepareOptions`, such as ``bpe_merges=4000``.

    Raises:
        JtransError: files or options that cannot be used, or a download that failed.
    """
    from jtrans.corpora.own_files import OwnFiles
    from jtrans.preparation.prepare import prepare as prepare_corpus

    for argument, word in (("name", name), ("languages", languages)):
        if word is not None:
            check_argument(argument, word, str)
    for argument, path in (("originals", originals), ("out", out)):
        if path is not None:
            check_argument(argument, path, os.PathLike)
    for argument, flag in (("skip_bad_lines", skip_bad_lines), ("force", force)):
        check_argument(argument, flag, bool)
    if valid_size is not None:
        valid_size = check_argument("valid_size", valid_size, int)
    if workers is not None:
        workers = check_argument("workers", workers, int)
        if not 1 <= workers <= MOST_WORKERS:
            raise usage_error(
                f"workers is {workers}, not between 1 and {MOST_WORKERS}",
                "leave it out for one per processor",
            )
    if options.get("pipeline"):
        options["pipeline"] = _pipeline_folder(options["pipeline"])
    files = OwnFiles(
        _names("train", train),
        _names("valid", () if valid is None else valid),
        _names("test", test),
        valid_size,
        skip_bad_lines,
    )
    _check_source(name, files, languages, originals)
    text, combined = read_source(
        files if name is None else name,
        options,
        languages=languages,
        originals=originals,
        out=out,
        progress=progress,
    )
    return prepare_corpus(
        text,
        Path(out or f"{PREPARED}/{name}"),
        options=combined,
        workers=workers,
        force=force,
        progress=progress,
        command=command,
    )


def _pipeline_folder(given: Any) -> Any:
    """Return the folder of a run given by its name, anything else as it is."""
    from jtrans.runs import find_run

    if not isinstance(given, (str, os.PathLike)) or (Path(given) / "pipeline.json").is_file():
        return given
    try:
        return find_run(os.fspath(given)).folder
    except JtransError as error:
        if Path(given).exists():  # to be refused where it is read
            return given
        raise ConfigError(
            f"no text pipeline in {given}: there is no such folder and no such run",
            where="--pipeline",
            hint=error.hint,
            kind="corpus.missing-pipeline",
        ) from None


def _names(name: str, files: Files) -> list[str]:
    several = [files] if isinstance(files, (str, os.PathLike)) else files
    if not isinstance(several, Iterable):
        raise type_error(name, files, "a path or a list of paths")
    return [os.fspath(check_argument(name, file, os.PathLike)) for file in several]


def _check_source(
    name: str | None, files: OwnFiles, languages: str | None, originals: str | Path | None
) -> None:
    """Refuse a catalogue name with options of files, and files with ``--from``."""
    from jtrans.corpora.catalogue.load import find_entry

    if name is None:
        if originals is not None:
            raise usage_error(
                "--from needs the NAME of a corpus",
                "jtrans prepare NAME --from DIR; jtrans corpora lists the names",
            )
        return
    of_files = {
        "--train": files.train,
        "--valid": files.valid,
        "--valid-size": files.valid_size,
        "--test": files.test,
        "--languages": languages,
        "--skip-bad-lines": files.skips_bad,
    }
    for option, value in of_files.items():
        if value:
            find_entry(name)  # has a better error for a name that is not in the catalogue
            raise usage_error(
                f"{option} cannot be combined with NAME ({name})", f"jtrans prepare {name}"
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
        options: the options chosen by the caller, as for `prepare`.
        languages: the languages of files.
        originals: the folder with the original files of a catalogue corpus.
        out: the output folder, after which a corpus of files is named.
        progress: receives progress reports.

    Raises:
        JtransError: files or options that cannot be used, or a download that failed.
    """
    from jtrans.corpora.catalogue.load import find_entry
    from jtrans.corpora.download.deliver import deliver
    from jtrans.progress import Silent
    from jtrans.text.language import base_language

    progress = progress or Silent()
    if not isinstance(source, str):
        chosen = _options({}, options)  # refuse bad options before reading
        if chosen.pipeline:
            _check_reusing(source, options)
        corpus = _own_files(source, languages, out, progress, reuses=bool(chosen.pipeline))
        # within one language, as in grammatical error correction, identical pairs are examples
        has_one_language = len(set(map(base_language, corpus.languages))) == 1
        defaults = {"drop_identical": False} if has_one_language else {}
        return corpus, _options(defaults, options, progress)
    entry = find_entry(source)
    _options(entry.options, options)  # refuse bad options before downloading
    delivery = deliver(entry, Path(originals) if originals else None, progress=progress)
    records = tuple(record.to_json() for record in delivery.originals)
    combined = _options(delivery.options, options, progress)
    return replace(delivery.corpus, originals=records), combined


def _check_reusing(files: OwnFiles, options: Mapping[str, Any]) -> None:
    """Refuse options for training text when a pipeline is reused without training text."""
    from jtrans.preparation.clean import Rules

    if files.train:
        return
    given = {"valid_size": files.valid_size, **options}
    for name in ("valid_size", *(rule.name for rule in fields(Rules))):
        if given.get(name) is not None:
            option = name
            if given[name] is False:
                option = f"no_{name}" if name == "deduplicate" else name.replace("drop", "keep")
            raise usage_error(
                f"--{option.replace('_', '-')} has no effect without --train", "leave it out"
            )


def _own_files(
    files: OwnFiles,
    languages: str | None,
    out: str | Path | None,
    progress: Progress,
    *,
    reuses: bool,
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
    if files.valid_size is not None and files.valid_size < 1:
        raise usage_error(f"--valid-size {files.valid_size} is less than 1", "--valid-size 2000")
    languages, folder = _complete(files, languages, out, reuses=reuses)
    name = folder.resolve().name
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


def _complete(
    files: OwnFiles, languages: str | None, out: str | Path | None, *, reuses: bool
) -> tuple[str, Path]:
    """Return the languages and the output folder; refuse files if either or a split is missing."""
    needed: dict[str, Any] = {"--train": files.train, "--valid": files.valid or files.valid_size}
    if reuses:  # nothing is learned: one split is enough
        needed = {"--train, --valid or --test": files.train or files.valid or files.test}
    needed |= {"--languages": languages, "--out": out}
    missing = [option for option, value in needed.items() if not value]
    if languages and out and not missing:
        return languages, Path(out)
    hint = (
        "jtrans prepare --train corpus/train --valid corpus/valid --languages de-en "
        "--out data/prepared/mine, or jtrans corpora for names"
    )
    if files.test and not files.train and not reuses:
        hint += "; or, for a test set alone to score a run on, --pipeline RUN"
    raise usage_error(
        f"give the NAME of a corpus, or your own files: {' and '.join(missing)} missing", hint
    )


def _options(
    defaults: Mapping[str, Any], chosen: Mapping[str, Any], progress: Progress | None = None
) -> PrepareOptions:
    """Combine the catalogue's defaults with the options chosen."""
    from jtrans.preparation.options import PIPELINE_OPTIONS, PrepareOptions

    options = PrepareOptions(**{**defaults, **chosen})
    decided = [name for name in PIPELINE_OPTIONS if name in chosen]
    if options.pipeline and decided:
        raise usage_error(
            f"--pipeline already determines {', '.join(decided).replace('_', ' ')}",
            "leave one or the other out",
        )
    _check_effect(options, chosen)
    learning = [name for name in ("bpe", "bpe_merges", "bpe_min_frequency") if chosen.get(name)]
    if options.bpe_codes:
        if learning:
            raise usage_error(
                f"--{learning[0].replace('_', '-')} has no effect on the codes of --bpe-codes",
                "leave one or the other out",
            )
        options = options.model_copy(update={"bpe": "joint"})
    of_bpe = ("bpe_merges", "bpe_min_frequency", "spell")
    if options.source_segment == options.target_segment == "character" and options.bpe != "none":
        useless = [name for name in ("bpe", "bpe_codes", *of_bpe) if chosen.get(name)]
        if useless:
            raise usage_error(
                f"--{useless[0].replace('_', '-')} has no effect: BPE has nothing to merge in "
                "single characters",
                "leave it out, or choose --segment unspaced, which keeps words between spaces",
            )
        options = options.model_copy(update={"bpe": "none"})
        if progress:
            progress.say("Note", "no BPE, which has nothing to merge in single characters")
    if options.bpe == "none" and any(map(chosen.get, of_bpe)):
        raise usage_error(
            "--bpe-merges, --bpe-min-frequency and --spell have no meaning without BPE "
            "(--bpe none)",
            "leave them out, or choose --bpe joint",
        )
    return options


def _check_effect(options: PrepareOptions, chosen: Mapping[str, Any]) -> None:
    """Refuse chosen options that have no effect on the segmenter of either side."""
    from jtrans.text.segment import IGNORED_BY

    segmenters = dict.fromkeys((options.source_segment, options.target_segment))
    for name, ignoring in IGNORED_BY.items():
        if chosen.get(name) and segmenters.keys() <= set(ignoring):
            raise usage_error(
                f"--{name.replace('_', '-')} has no effect on text segmented by "
                f"{' and '.join(segmenters)}",
                "leave it out, or choose another segmenter for one side",
            )
