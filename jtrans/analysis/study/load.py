"""Build a study from runs and files of translations, and check that they are comparable."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from jtrans.analysis.study.members import FileMember, Member, SplitText
from jtrans.analysis.study.study import Study, Subject
from jtrans.analysis.study.words import StudyWords
from jtrans.data.prepared import PreparedCorpus, test_set_commands
from jtrans.decoding.options import DecodingChoices
from jtrans.errors import ConfigError, CorpusError, JtransError, usage_error
from jtrans.evaluation.leftovers import check_hypothesis, reference_warnings
from jtrans.evaluation.names import distinct_names, group_names
from jtrans.files import as_text
from jtrans.models.zoo import system_configs
from jtrans.progress import Progress, Silent
from jtrans.runs import Run


def load_study(
    runs: Sequence[Run],
    split: str = "test",
    decoding: DecodingChoices = DecodingChoices(),
    *,
    data: Path | None = None,
    hypotheses: Sequence[Path] = (),
    lowercase: bool | None = None,
    as_is: bool = False,
    progress: Progress = Silent(),
) -> Study:
    """Gather runs and files of translations for analysis; nothing is computed yet.

    Args:
        runs: at least one; those that differ only by seed become one system.
        split: a split of the prepared corpus; its text must be the same for all runs.
        decoding: which checkpoint, and how it is loaded and translates.
        data: a prepared corpus to use instead of each run's own.
        hypotheses: files of translations by other tools.
        lowercase: compare words and scores without case; None: if a run writes lower case.
        as_is: accept files with subword pieces or escaped characters.
        progress: receives the progress of the work.

    Raises:
        JtransError: no corpus, no such split, an empty one, different texts, no checkpoint,
            a run given twice, or a file that is not plain text.
    """
    if not runs:
        raise ConfigError("no run to analyse", hint="jtrans analyze length RUN")
    names = system_names(runs, hypotheses)
    members = open_members(
        runs, split, decoding, data, progress, names=names[: len(runs)], lowercase=lowercase
    )
    text, corpus, words = members[0].text, members[0].corpus, members[0].words
    if not text.source_lines:
        raise CorpusError(
            f"{split} of {corpus.folder} is empty: nothing to analyse",
            hint="choose another: --split "
            + "|".join(name for name in corpus.splits if name != "train"),
            kind="corpus.empty",
        )
    files = [
        FileMember.read(name, path, text, words)
        for name, path in zip(names[len(runs) :], hypotheses, strict=True)
    ]
    warnings = _warnings(members)
    for path, file in zip(hypotheses, files, strict=True):
        warnings += check_hypothesis(
            as_text(str(path)),
            file.hypotheses,
            text.references,
            lowercase=words.lowercase,
            as_is=as_is,
        )
    groups: list[Sequence[Member | FileMember]] = [
        *seed_groups(members),
        *([file] for file in files),
    ]
    subjects = [
        Subject(name, group, index)
        for index, (name, group) in enumerate(zip(seed_group_names(groups), groups, strict=True))
    ]
    return Study(subjects, text, corpus, words, warnings)


def open_members(
    runs: Sequence[Run],
    split: str,
    decoding: DecodingChoices,
    data: Path | None,
    progress: Progress,
    *,
    names: Sequence[str] | None = None,
    lowercase: bool | None = None,
) -> list[Member]:
    """Return runs as members on the split they share; nothing is computed yet.

    The arguments are those of `load_study`, and the names of the runs, by default their own.

    Raises:
        JtransError: no corpus, no such split, different texts, no checkpoint, a run given twice,
            or a search option that cannot be used.
    """
    names = names or system_names(runs)
    corpora = [open_corpus(run, data) for run in runs]
    words = StudyWords.of([run.pipeline for run in runs], lowercase)
    text = SplitText(split, *_shared_lines(runs, corpora, split), words)
    return [
        Member(name, run, corpus, text, words, decoding, progress)
        for name, run, corpus in zip(names, runs, corpora, strict=True)
    ]


def open_windows(
    runs: Sequence[Run],
    split: str,
    decoding: DecodingChoices,
    data: Path | None,
    progress: Progress,
) -> list[Member]:
    """Return every checkpoint of the runs' best windows of validations as a member of its own.

    The arguments are those of `open_members`, without a checkpoint.

    Raises:
        JtransError: a run without a window, or what `open_members` refuses.
    """
    if named := [run for run in runs if run.chosen]:
        raise usage_error(
            f"{named[0].with_chosen(named[0].name)} names a checkpoint, and a window has several",
            "name the run alone, or leave out --checkpoint window",
        )
    windows = [[str(checkpoint.update) for checkpoint in run.window()] for run in runs]
    any_checkpoint = replace(decoding, checkpoint="last")
    members = open_members(runs, split, any_checkpoint, data, progress)
    return [
        replace(
            member, name=f"{member.name}@{update}", decoding=replace(decoding, checkpoint=update)
        )
        for member, window in zip(members, windows, strict=True)
        for update in window
    ]


def open_searches(
    runs: Sequence[Run],
    split: str,
    decodings: Mapping[str, DecodingChoices],
    data: Path | None,
    progress: Progress,
) -> list[Member]:
    """Return every run with every search as a member of its own, seeds of a system together.

    The arguments are those of `open_members`, with the choices of each search under the label that
    it adds to the names of the runs.
    """
    members = open_members(runs, split, next(iter(decodings.values())), data, progress)
    return [
        replace(member, name=f"{member.name} {label}", search=f" {label}", decoding=decoding)
        for group in seed_groups(members)
        for label, decoding in decodings.items()
        for member in group
    ]


def system_names(runs: Sequence[Run], files: Sequence[Path] = ()) -> list[str]:
    """Return distinct names for all runs, with checkpoints named with them, then all files.

    Raises:
        ConfigError: a run or a file is given twice.
    """
    named = [run.with_chosen(run.name) for run in runs]
    folders = [Path(run.with_chosen(str(run.folder))) for run in runs]
    names = [as_text(name) for name in (*named, *(path.name for path in files))]
    return distinct_names(names, [*folders, *files])


def open_corpus(run: Run, data: Path | None) -> PreparedCorpus:
    """Return the prepared corpus to score or analyse a run on.

    Raises:
        CorpusError: there is no corpus, or it has other languages.
    """
    folder = data or run.info.get("data")
    if folder is None or not PreparedCorpus.exists(Path(folder)):
        raise CorpusError(
            f"no prepared corpus for {run.name}: "
            + ("it does not name one" if folder is None else f"there is none in {folder}"),
            hint="--data DIR names it; a new test set: "
            f"{test_set_commands(str(run.folder), run.pipeline.languages)}; files are scored by "
            "jtrans score --hyp FILE --ref FILE",
            kind="corpus.not-prepared",
        )
    corpus = PreparedCorpus.open(Path(folder))
    if corpus.languages != run.pipeline.languages:
        raise CorpusError(
            f"{run.name} translates {'-'.join(run.pipeline.languages)}, "
            f"{folder} is {'-'.join(corpus.languages)}",
            hint="name a corpus of these languages: --data DIR",
            kind="corpus.languages",
        )
    return corpus


# settings of training that differ between devices, or change no weight
BOOKKEEPING = ("micro_batch_joint", "micro_batch_overhead", "validate_samples")


def seed_groups(members: Sequence[Member]) -> list[list[Member]]:
    """Group runs that differ only by seed, in the order of the first of each group.

    Runs with other checkpoints named with them (``RUN@CHECKPOINT``) are other systems.

    A run with the settings and the seed of an earlier one is not another seed of its system: it
    begins a group of its own.
    """
    groups: dict[tuple[str, int], list[Member]] = {}
    times = Counter[tuple[str, int]]()  # of each seed so far, by settings
    for member in members:
        settings = f"{all_but_seed(member.run)}@{member.run.chosen}"
        seed = seed_of(member.run)
        groups.setdefault((settings, times[settings, seed]), []).append(member)
        times[settings, seed] += 1
    return list(groups.values())


def all_but_seed(run: Run, _followed: Collection[str] = ()) -> str:
    """Return a key of all but the seed of a run and of the runs whose weights it began with."""
    values = run.trained_config(system_configs()).model_dump(mode="json")
    for name in ("seed", *BOOKKEEPING):
        values["training"].pop(name, None)
    values.pop("expect", None)
    beginning = _beginning(run, _followed), run.info.get("from_checkpoint")
    key = [values, run.pipeline.fingerprint(), _training_text(run), beginning, run.changed_settings]
    return json.dumps(key, sort_keys=True)


def _beginning(run: Run, followed: Collection[str]) -> str | None:
    """Return the key of the run whose weights a run began with; its path if it has no key."""
    path = run.began_with
    if path is None or path in followed or not Run.exists(Path(path)):
        return path
    try:
        parent = Run.open(Path(path))
        # imported runs of equal settings are not seeds of one system
        return path if parent.info.get("imported") else all_but_seed(parent, (*followed, path))
    except JtransError:  # of an earlier version, or damaged
        return path


def seed_of(run: Run) -> int:
    """Return the seed that a run was trained with."""
    return run.trained_config(system_configs()).training.seed


def _training_text(run: Run) -> Any:
    """Return the digests of the text a run was trained on, None if unknown."""
    return (run.info.get("train") or {}).get("sha256")


def _shared_lines(
    runs: Sequence[Run], corpora: Sequence[PreparedCorpus], split: str
) -> tuple[list[str], list[list[str]]]:
    """Return the source lines and all reference sets of a split, which all runs must share."""
    texts = [(corpus.raw_lines(split, "source"), corpus.references(split)) for corpus in corpora]
    others = [run.name for run, text in zip(runs, texts, strict=True) if text != texts[0]]
    if others:
        same = [run for run, text in zip(runs, texts, strict=True) if text == texts[0]]
        comparable = " ".join(run.folder.as_posix() for run in same)
        part = "references" if len({tuple(source) for source, _ in texts}) == 1 else "texts"
        raise CorpusError(
            f"{', '.join(others)} and {runs[0].name} have different {part} in {split}",
            hint="--data DIR scores all of them on one corpus"
            + (f"; these share theirs: {comparable}" if len(same) > 1 else ""),
            kind="corpus.different-tests",
        )
    return texts[0]


def seed_group_names(groups: Sequence[Sequence[Member | FileMember]]) -> list[str]:
    """Return distinct names for groups of members that differ only by seed."""
    names = [[member.name for member in group] for group in groups]
    seeds = [
        [0 if member.run is None else seed_of(member.run) for member in group] for group in groups
    ]
    return group_names(names, seeds)


def _trained_on(member: Member) -> str:
    """Return the name of the corpus that a run was trained on; the test set may be another's."""
    return str(member.run.info.get("corpus", member.corpus.name))


def _warnings(members: Sequence[Member]) -> list[str]:
    first, *others = members
    warnings = [
        f"{member.name} and {first.name} were trained on different corpora "
        f"({_trained_on(member)}, {_trained_on(first)})"
        for member in others
        if _training_text(member.run) != _training_text(first.run)
    ]
    words = first.words
    if words.is_mixed:
        warnings.append(
            "the runs segment words differently: for all that counts words, the lines of all "
            f"systems are split by {words.target.segmenter}"
        )
    warnings += reference_warnings(first.text.references)
    return warnings + case_warnings(members, lowercase=words.lowercase)


def case_warnings(members: Sequence[Member], *, lowercase: bool) -> list[str]:
    """Return a warning if some runs write lower case and others do not.

    Args:
        members: the runs.
        lowercase: whether they are compared without case.
    """
    lower = [member.name for member in members if member.run.pipeline.target.lowercase]
    if len(lower) in (0, len(members)):
        return []
    how, other = ("without", "--cased") if lowercase else ("with", "--lowercase")
    return [
        f"{', '.join(lower)} write{'s' if len(lower) == 1 else ''} lower case, the other runs "
        f"do not: everything is compared {how} case ({other} changes this)"
    ]
