"""Build a study from files alone: translations by any tool, and the text they translate."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from jtrans.analysis.study.aligned import read_aligned
from jtrans.analysis.study.load import system_names
from jtrans.analysis.study.members import FileMember, SplitText, TextFiles
from jtrans.analysis.study.study import Study, Subject
from jtrans.analysis.study.words import StudyWords, TrainingWords
from jtrans.corpora.lines import read_line_file
from jtrans.errors import CorpusError
from jtrans.evaluation.leftovers import check_plain_text
from jtrans.evaluation.names import check_references
from jtrans.evaluation.target import UNTOLD, find_target
from jtrans.progress import Progress, Silent
from jtrans.text.language import split_languages
from jtrans.text.pipeline import TextSide

LINES_BETWEEN_REPORTS = 10_000
CHECKED = 1000  # lines of a training text that are searched for pieces and escaped characters


def load_file_study(
    files: TextFiles, *, lowercase: bool = False, as_is: bool = False, progress: Progress = Silent()
) -> Study:
    """Gather translations of a test set for analysis, without any model.

    Words are those of the default segmenter of each language.

    Args:
        files: the test set, the translations and perhaps a training text.
        lowercase: compare words and scores without case.
        as_is: take files with subword pieces or escaped characters as they are.
        progress: receives the progress of counting the words of the training text.

    Raises:
        JtransError: a file that cannot be read, is no plain text or has another number of lines,
            one given twice, or a language that the names of the files do not tell.
    """
    names = system_names([], files.hypotheses)
    doubt = check_references(files.references, files.hypotheses)
    paths = [str(path) for path in (files.source, *files.references, *files.hypotheses)]
    source, *others = read_aligned(paths, source=0)
    references = others[: len(files.references)]
    words, warnings = _words_of(files.languages, paths, [source, *others], lowercase)
    warnings.append(doubt)
    for number, (path, lines) in enumerate(zip(paths, [source, *others], strict=True)):
        if not as_is:
            its_references = () if number <= len(references) else references
            warnings.append(check_plain_text(path, lines, its_references))
    split = files.references[0].name.partition(".")[0] or files.references[0].name
    text = SplitText.of(split, source, references, words)
    subjects = [
        Subject(name, [FileMember(name, path, text, words)], index)
        for index, (name, path) in enumerate(zip(names, files.hypotheses, strict=True))
    ]
    training = None
    if files.train is not None:
        lines = read_line_file(files.train)
        if not as_is:
            warnings.append(check_plain_text(str(files.train), lines[:CHECKED]))
        training = _count_words(files.train, lines, words, progress)
    return Study(subjects, text, None, words, [*filter(None, warnings)], files, training)


def _words_of(
    languages: str | None, paths: Sequence[str], texts: Sequence[Sequence[str]], lowercase: bool
) -> tuple[StudyWords, list[str | None]]:
    """Return the words of both languages, and warnings if files contradict or do not tell them.

    Args:
        languages: such as ``de-en``; None: by names and scripts.
        paths: of the source, then of all files in the target language.
        texts: the lines of each.
        lowercase: compare words without case.
    """
    given = split_languages(languages) if languages else (None, None)
    source = find_target(given[0], paths[:1], texts[:1])
    target = find_target(given[1], paths[1:], texts[1:])
    words = StudyWords(TextSide(source.language), TextSide(target.language), lowercase)
    sides = {"source": source, "target": target}
    untold = [side for side, language in sides.items() if language.taken_from == UNTOLD]
    warning = (
        f"no file name tells the language of the {' and the '.join(untold)}: English is assumed; "
        "name both, as --languages de-en"
    )
    return words, [target.warning, warning if untold else None]


def _count_words(
    path: Path, lines: Sequence[str], words: StudyWords, progress: Progress
) -> TrainingWords:
    """Count the words of a training text.

    Raises:
        CorpusError: it has no words.
    """
    counts = Counter[str]()
    for number, line in enumerate(lines):
        if number % LINES_BETWEEN_REPORTS == 0:
            progress.advance("Counting words", number, len(lines))
        counts.update(words.split(line))
    progress.advance("Counting words", len(lines), len(lines))
    if not counts:
        hint = "--train names the target side of the text that the systems were trained on"
        problem = "has no words" if lines else "is empty"
        raise CorpusError(f"{path} {problem}", hint=hint, kind="corpus.empty")
    return TrainingWords(path.name, words, counts)
