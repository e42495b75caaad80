"""`jtrans prepare`: prepare a catalogue corpus or the user's own files for training."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from jtrans.cli import completion, console
from jtrans.cli.options import (
    JSON,
    WORKERS,
    argument,
    check_choice,
    flag,
    grouped,
    option,
    option_group,
)
from jtrans.data import PREPARED
from jtrans.errors import CorpusError, usage_error

if TYPE_CHECKING:
    from jtrans.data.prepared import PreparedCorpus

DEMO, LABELLED_DEMO, DEMO_CORPUS = "demo/reformer-fast", "demo/transformer-pp", "grammar-de-en"
LEAKED = ("pair", "source", "target")
TAGGER = "ud-en/transformer-pp"
TEXT, CLEANING = "Segmentation", "Cleaning of the training data"


def _drop_flag(name: str, text: str) -> Any:
    return flag(f"--drop-{name}/--keep-{name}", text, CLEANING, f"drop-{name}")


@option_group
class TextOptions:
    """Options for segmentation and cleaning, named like the fields of `PrepareOptions`."""

    segment: str | None = option(
        "Word segmentation: moses, moses-escaped (as in the published IWSLT14), jieba (Chinese), "
        "unspaced (characters, but words in scripts with spaces; spaces are kept), character, "
        "whitespace (for segmented text), or auto (by language).",
        None,
        "auto",
        TEXT,
    )
    source_segment: str | None = option("Segmentation of the source only.", panel=TEXT)
    target_segment: str | None = option("Segmentation of the target only.", panel=TEXT)
    lowercase: bool | None = flag(
        "--lowercase/--cased", "Lower-case the text, or keep its case.", TEXT, "cased"
    )
    truecase: bool | None = option(
        "Give the first word of a sentence the case it has within sentences; undone in output.",
        panel=TEXT,
        names=["--truecase"],
    )
    jieba_dictionary: Path | None = option(
        "Extra words for jieba, one per line.", "FILE", panel=TEXT
    )
    pipeline: Path | None = option(
        "Reuse the text pipeline of a run or prepared corpus; --train and --valid become optional.",
        "RUN|DIR",
        panel=TEXT,
    )
    bpe: str | None = option(
        "BPE: joint (learned from both languages together), separate or none.", None, "joint", TEXT
    )
    bpe_codes: Path | None = option(
        "Use these BPE codes (as of subword-nmt) for both sides; learn none.", "FILE", panel=TEXT
    )
    bpe_merges: int | None = option(
        "Number of merges to learn; for each side with --bpe separate.", "N", "10000", TEXT, min=1
    )
    bpe_min_frequency: int | None = option(
        "Merge only pairs at least this frequent.", "N", "2", TEXT, min=1
    )
    vocabulary: str | None = option(
        "Vocabularies: separate, or one joint (for tied embeddings).", None, "separate", TEXT
    )
    min_count: int | None = option("Replace rarer tokens by <unk>.", "N", "1", TEXT, min=1)
    strip_invisible: bool | None = flag(
        "--strip-invisible/--keep-invisible",
        "Remove soft hyphens, zero-width spaces, direction marks and the like.",
        TEXT,
        "strip-invisible",
    )
    protect: bool | None = flag(
        "--protect/--no-protect",
        "Keep URLs, e-mail addresses, times, C++ and emoji sequences in one piece.",
        TEXT,
        "protect",
    )
    spell: bool | None = flag(
        "--spell/--no-spell", "Split unknown BPE pieces into smaller known ones.", TEXT, "spell"
    )
    narrow: bool | None = flag(
        "--narrow/--keep-wide",
        "Convert full-width letters, digits and signs to ASCII, but not Chinese punctuation.",
        TEXT,
        "narrow for Chinese, unless most of its letters are wide",
    )
    max_length: int | None = option(
        "Drop pairs with a side of more than N words.", "N", "175", CLEANING, min=1
    )
    max_ratio: float | None = option(
        "Drop pairs with a side more than N times as long as the other.", "N", "3", CLEANING, min=1
    )
    deduplicate: bool | None = flag(
        "--deduplicate/--no-deduplicate", "Keep each pair once.", CLEANING, "deduplicate"
    )
    drop_leaked: str | None = option(
        "Drop pairs that are in valid or test as a whole (pair) or on one side (source, target), "
        "ignoring case, punctuation and spaces; source and target also drop common lines such as "
        "'Yes.'.",
        "SIDE",
        "pair",
        CLEANING,
        autocompletion=completion.choice("|".join(LEAKED)),
    )
    keep_leaked: bool = flag("--keep-leaked", "Keep such pairs.", CLEANING)
    drop_identical: bool | None = _drop_flag("identical", "Drop pairs with identical sides.")
    drop_wrong_script: bool | None = _drop_flag(
        "wrong-script", "Drop pairs with a side that has no letter of its language's script."
    )
    labels: list[str] | None = option(
        "Parts of speech and entities of the source words, for systems that tag: spacy:MODEL or "
        "conllu:FILE; repeatable: the first that has labels for a sentence gives them.",
        "SOURCE",
        "the corpus's own, if it has some",
        TEXT,
    )

    def chosen(self) -> dict[str, Any]:
        """Return the fields of `PrepareOptions`; None leaves the default."""
        values = dict(vars(self))
        segment = values.pop("segment")
        if segment and self.source_segment and self.target_segment:
            raise usage_error(
                f"--segment {segment} has no effect with --source-segment and --target-segment",
                "leave one of the three out",
            )
        for side in ("source_segment", "target_segment"):
            values[side] = values[side] or segment
        if values.pop("keep_leaked"):
            if self.drop_leaked:
                raise usage_error(
                    "--drop-leaked and --keep-leaked exclude each other", "choose one of the two"
                )
            values["drop_leaked"] = False
        elif self.drop_leaked is not None:
            check_choice("--drop-leaked", self.drop_leaked, LEAKED)
        if self.lowercase is None and self.truecase:
            values["lowercase"] = False
        if self.truecase is None and self.lowercase:
            values["truecase"] = False
        return values


def as_options(fields: Mapping[str, Any]) -> str:
    """Return fields of `PrepareOptions` as they are typed."""
    return " ".join(_as_option(name, value) for name, value in fields.items())


def _as_option(name: str, value: Any) -> str:
    if not isinstance(value, bool):
        return f"--{name.replace('_', '-')} {value}"
    if name == "drop_leaked":
        return "--keep-leaked"
    on, _, off = TextOptions.OPTIONS[name].param_decls[0].partition("/")  # type: ignore[attr-defined]
    return str(on if value else off)


@grouped()
def prepare(
    *,
    name: str | None = argument("NAME", "A corpus of `jtrans corpora`.", None, completion.corpora),
    train: list[str] | None = option(
        "Training files: PREFIX.de and PREFIX.en, plain or compressed; one .tsv, .tmx, .jsonl or "
        ".xml (WMT); .conllu (the target is the source); or prepared corpora to merge; repeatable.",
        "PREFIX",
    ),
    valid: list[str] | None = option("Validation files; repeatable, joined in order.", "PREFIX"),
    valid_size: int | None = option(
        "Take N pairs from train instead, after cleaning, the same ones every time.", "N", min=1
    ),
    test: list[str] | None = option(
        "Test files; repeatable. PREFIX.0.en, PREFIX.1.en ...: several references.", "PREFIX"
    ),
    languages: str | None = option("Languages, such as de-en; one for .conllu.", "SOURCE-TARGET"),
    skip_bad_lines: bool = flag(
        "--skip-bad-lines",
        "Skip and count pairs with a line that is not UTF-8 or has a zero byte, .tsv lines with "
        "too few columns and .jsonl lines without a pair.",
    ),
    out: Path | None = option("Folder to write.", "DIR", "data/prepared/NAME, with NAME"),
    originals: Path | None = option(
        "Read the original files of NAME from this folder instead of downloading them.",
        "DIR",
        names=["--from"],
    ),
    text: TextOptions,
    workers: int | None = WORKERS,
    force: bool = flag("--force", "Replace a different prepared corpus in --out."),
    as_json: bool = JSON,
) -> None:
    r"""Prepare a corpus for training: segment, clean, learn BPE, encode.

    [bold]Examples[/bold]

    jtrans prepare grammar-de-en

    jtrans prepare --train corpus/train --valid corpus/valid --test corpus/test \
      --languages de-en --lowercase --bpe-merges 4000 --out data/prepared/captions

    jtrans prepare --test new --languages de-en --pipeline runs/mine \
      --out data/new
    """
    from jtrans.api import prepare as prepare_corpus
    from jtrans.corpora.own_files import LINE_ERRORS, hold_one_language

    chosen = text.chosen()
    files: dict[str, Any] = {
        "train": train or [],
        "valid": valid or [],
        "valid_size": valid_size,
        "test": test or [],
        "languages": languages,
        **({"skip_bad_lines": True} if skip_bad_lines else {}),
    }
    if name is None and any(_is_prepared(path, languages) for path in files["train"]):
        if workers is not None:
            raise usage_error("--workers has no effect on merging", "leave it out")
        options = {**files, "from": originals, **chosen}
        _show(_merge_parts(files["train"], options, out, force=force), as_json=as_json)
        return
    try:
        prepared = prepare_corpus(
            name,
            **files,
            originals=originals,
            out=out,
            workers=workers,
            force=force,
            progress=console.TerminalProgress(),
            command=_command(),
            **{option: value for option, value in chosen.items() if value is not None},
        )
    except (KeyboardInterrupt, SystemExit):  # SIGTERM and SIGHUP exit
        console.talk("stopped; the same command continues")
        raise
    except CorpusError as error:
        is_of_text = not any(
            str(error.where).startswith(source.removeprefix("conllu:"))
            for source in chosen.get("labels") or ()
        )
        prefixes = [*files["train"], *files["valid"], *files["test"]]
        can_skip = name is None and not skip_bad_lines and not hold_one_language(prefixes)
        if can_skip and is_of_text and error.kind in LINE_ERRORS:
            error.hint = f"{error.hint}; or leave such lines out: --skip-bad-lines"
        raise
    _show(prepared, as_json=as_json)


def _is_prepared(path: str, languages: str | None = None) -> bool:
    """Return whether a path is that of a prepared corpus and not also a prefix of text files."""
    from jtrans.files.packed import find_packed

    sides = languages.split("-") if languages else []
    is_prefix = any(find_packed(Path(f"{path}.{side}")) for side in sides)
    return not is_prefix and (Path(path) / "corpus.json").is_file()


def _merge_parts(
    train: list[str], options: dict[str, Any], out: Path | None, *, force: bool
) -> PreparedCorpus:
    """Merge prepared corpora, which already determine most of the other options."""
    from jtrans.preparation.merge import merge_prepared

    text = [path for path in train if not _is_prepared(path)]
    if text:
        raise usage_error(
            f"{text[0]} is not a prepared corpus, but others given with --train are: "
            "they cannot be mixed",
            f"prepare it first: jtrans prepare --train {text[0]} --pipeline DIR",
        )
    extra = [name for name, value in options.items() if value not in (None, []) and name != "train"]
    if extra:
        raise usage_error(
            f"--{extra[0].replace('_', '-')} cannot be combined with prepared corpora as --train: "
            "they already determine it",
            "leave it out, or prepare the parts again with it",
        )
    if out is None:
        raise usage_error("--out is missing", "--out data/prepared/all")
    folders = [Path(path) for path in train]
    return merge_prepared(
        folders, out, force=force, progress=console.TerminalProgress(), command=_command()
    )


def _command() -> str:
    """Return the command as typed, without options that do not change the result."""
    arguments = list(console.settings.arguments)
    for name in ("--out", "--workers"):
        while name in arguments:
            place = arguments.index(name)
            del arguments[place : place + 2]
    quiet = ("--force", "--json", "--quiet", "-q", "--verbose", "-v", "--debug")
    return shlex.join(
        ["jtrans"]
        + [
            argument
            for argument in arguments
            if argument not in quiet and not argument.startswith(("--out=", "--workers="))
        ]
    )


def _show(prepared: PreparedCorpus, *, as_json: bool) -> None:
    if as_json:
        console.print_json({"folder": str(prepared.folder), **prepared.info})
    if {"train", "valid"} <= set(prepared.splits):
        console.next_step(shlex.join(["jtrans", "train", *_train_arguments(prepared)]))
    elif prepared.splits != ["train"]:
        console.next_step(shlex.join(["jtrans", "score", *_score_arguments(prepared)]))


def _score_arguments(prepared: PreparedCorpus) -> list[str]:
    """Return the arguments that score a run on a corpus without training text."""
    from jtrans.runs import Run

    origin = prepared.info.get("pipeline_from", "")
    run = origin if Run.exists(Path(origin)) else "RUN"
    tests = [name for name in prepared.splits if name not in ("train", "valid")]
    split = tests[0] if tests else "valid"
    return [run, "--data", str(prepared.folder), *(["--split", split] if split != "test" else [])]


def _needs_joint_vocabulary(recipe: str) -> bool:
    from jtrans.config import load_config
    from jtrans.models.zoo import system_configs

    return getattr(load_config(recipe, system_configs()).model, "tie", None) == "all"


def _train_arguments(prepared: PreparedCorpus) -> list[str]:
    """Return the arguments of a `jtrans train` that fits a corpus."""
    from jtrans.config import recipe_names
    from jtrans.runs import Run

    data = ["--data", str(prepared.folder), "--run"]
    origin = prepared.info.get("pipeline_from")
    if origin is not None and Run.exists(Path(origin)):  # to continue from that run's weights
        config = str(Path(origin) / "config.toml")
        return [config, *data, f"runs/{prepared.name}", "--from", origin]
    # the recipes for a corpus are in a folder of its name; those in demo/ fit any corpus
    recipes = [recipe for recipe in recipe_names() if recipe.startswith(f"{prepared.name}/")]
    source, target = prepared.pipeline.source.vocabulary, prepared.pipeline.target.vocabulary
    if source.tokens != target.tokens:  # not in the options if a pipeline was reused
        recipes = [recipe for recipe in recipes if not _needs_joint_vocabulary(recipe)]
    demo = DEMO
    if prepared.info["options"].get("labels"):  # labels given by --labels are to be learned
        demo = LABELLED_DEMO
        recipes = [recipe for recipe in recipes if recipe.endswith("/transformer-pp")]
    usual = TAGGER if prepared.languages[0] == prepared.languages[1] else demo
    recipe = min(recipes, key=lambda each: not each.endswith("/reformer-fast"), default=usual)
    group, _, system = recipe.partition("/")
    corpus = DEMO_CORPUS if recipe == demo else group
    if prepared.folder == PREPARED / corpus:  # where `jtrans train` looks for it
        return [recipe]
    return [recipe, *data, f"runs/{prepared.name}-{system}"]
