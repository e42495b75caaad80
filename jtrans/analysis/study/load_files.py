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
from jtrans.evaluation.leftovers import (
    check_hypothesis,
    check_plain_text,
    empty_references_warning,
)
from jtrans.evaluation.names import check_references
from jtrans.evaluation.target import UNTOLD, find_target
from jtrans.files import as_text
from jtrans.progress import Progress, Silent
from jtrans.text.language import split_languages
from jtrans.text.pipeline import TextSide

LINES_BETWEEN_REPORTS = 10_000
CHECKED = 1000  # lines of a training text that are searched for pieces and escaped characters

NamedTexts = tuple[Sequence[str], Sequence[Sequence[str]]]  # paths, and the lines of each


def load_file_study(
    files: TextFiles, *, lowercase: bool = False, as_is: bool = False, progress: Progress = Silent()
) -> Study:
    """Gather translations of a test set for analysis, without any model.

    Words are those of the default segmenter of each language.

    Args:
        files: the test set, the translations and perhaps a training text.
        lowercase: compare words and scores without case.
        as_is: accept files with subword pieces or escaped characters.
        progress: receives the progress of counting the words of the training text.

    Raises:
        JtransError: a file cannot be read, is not plain text, has another number of lines or is
            given twice, or the languages are invalid or unclear from names and scripts.
    """
    names = system_names([], files.hypotheses)
    doubt = check_references(files.references, files.hypotheses)
    sources = [] if files.source is None else [str(files.source)]
    targets = [str(path) for path in (*files.references, *files.hypotheses)]
    texts = read_aligned([*sources, *targets], source=0 if sources else None)
    source, translated = texts[: len(sources)], texts[len(sources) :]
    references = translated[: len(files.references)]
    words, warnings = _words_of(
        files.languages, (sources, source), (targets, translated), lowercase
    )
    warnings += [doubt, empty_references_warning(references)]
    if not as_is:
        originals = zip([*sources, *targets], [*source, *references], strict=False)
        warnings += [check_plain_text(as_text(path), lines) for path, lines in originals]
    hypotheses = translated[len(references) :]
    for file, lines in zip(files.hypotheses, hypotheses, strict=True):
        warnings += check_hypothesis(
            as_text(str(file)), lines, references, lowercase=lowercase, as_is=as_is
        )
    name = as_text(files.references[0].name)
    split = name.partition(".")[0] or name
    text = SplitText(split, source[0] if source else None, references, words)
    subjects = [
        Subject(name, [FileMember(name, lines, words)], index)
        for index, (name, lines) in enumerate(zip(names, hypotheses, strict=True))
    ]
    training = None
    if files.train is not None:
        lines = read_line_file(files.train)
        if not as_is:
            warnings.append(check_plain_text(as_text(str(files.train)), lines[:CHECKED]))
        training = _count_words(files.train, lines, words, progress)
    return Study(subjects, text, None, words, [*filter(None, warnings)], files, training)


def _words_of(
    languages: str | None, source: NamedTexts, target: NamedTexts, lowercase: bool
) -> tuple[StudyWords, list[str | None]]:
    """Return the words of both languages, and warnings if files contradict or do not tell them.

    Args:
        languages: such as ``de-en``; None: by names and scripts.
        source: the file of the source, or none.
        target: all files in the target language, references first.
        lowercase: compare words without case.
    """
    given = split_languages(languages) if languages else (None, None)
    sides = {
        side: find_target(language, *named)
        for side, language, named in zip(("source", "target"), given, (source, target), strict=True)
        if named[0]
    }
    split = {side: TextSide(each.language) for side, each in sides.items()}
    words = StudyWords(split.get("source"), split["target"], lowercase)
    untold = [side for side, language in sides.items() if language.taken_from == UNTOLD]
    warning = (
        f"no file name tells the language of the {' and the '.join(untold)}: English is assumed; "
        "name both, as --languages de-en"
    )
    return words, [sides["target"].warning, warning if untold else None]


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
    return TrainingWords(as_text(path.name), words, counts)
