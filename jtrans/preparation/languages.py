"""Checks of the languages of a text by a sample: swapped sides, scripts, full-width letters."""

from __future__ import annotations

from collections.abc import Sequence

from jtrans.corpora.parallel import Corpus, ParallelText
from jtrans.progress import Progress
from jtrans.text.language import base_language, is_wrong_script, look_swapped
from jtrans.text.widths import is_mostly_wide

SAMPLE = 1000
LONGEST = 1000
# The share of lines of a sample that may be in another script without a warning.
FEW = 0.5
# A split looks crossed if its words occur this many times as often in the other side of train as in
# their own side. Names and punctuation are on both sides of good text.
MANY_FOREIGN = 2.0

Samples = tuple[list[str], list[str]]


def check_languages(corpus: Corpus, progress: Progress) -> None:
    """Warn of sides that look swapped, or are not in the script of their language.

    Swapped sides are recognised by their script, or by the most common words of the languages in
    `jtrans.text.language`. In other languages only a difference between the splits can be
    recognised: valid or a test split whose source has the words of train's target and vice versa.
    """
    source, target = corpus.languages
    train: Samples | None = None
    for name, text in corpus.splits.items():
        samples = _sample(text)
        if look_swapped(*samples, corpus.languages):
            progress.warn(
                f"the sides of {name} look swapped: its source looks like {target}, its target "
                f"like {source}; check the names of its files, or the order of its columns"
            )
            continue
        if name == "train":
            train = samples
        elif train is not None and _is_crossed(samples, train):
            progress.warn(
                f"the sides of {name} look swapped: its source has the words of train's "
                "target, its target those of train's source; check the names of its files"
            )
            continue
        _check_script(name, samples, corpus.languages, progress)


def lower_case_warning(languages: tuple[str, str]) -> str | None:
    """Return a warning if lower-casing confuses dotted and dotless i, as sacreBLEU's does, too."""
    dotted = [name for name in languages if base_language(name) in ("az", "tr")]
    if not dotted:
        return None
    return (
        f"lower-casing {' and '.join(dotted)} turns I into i, not ı, and İ into i with an extra "
        "dot: --cased keeps both"
    )


def is_narrow_by_default(corpus: Corpus) -> bool:
    """Return the default of the option `narrow`: whether full-width letters become ASCII.

    They do if a language is Chinese, in which they are too rare for models to learn, unless most
    letters of the text are full-width: then references have them, too.
    """
    samples = zip(corpus.languages, _sample(corpus.splits["train"]), strict=True)
    chinese = [lines for language, lines in samples if base_language(language) == "zh"]
    return bool(chinese) and not any(map(is_mostly_wide, chinese))


def _sample(text: ParallelText) -> Samples:
    positions = range(0, len(text), max(1, len(text) // SAMPLE))
    source, target = (
        [lines[i][:LONGEST] for i in positions] for lines in (text.source, text.target)
    )
    return source, target


def _is_crossed(samples: Samples, train: Samples) -> bool:
    """Return whether each side of a split has the words of the other side of train."""
    known = [{word for line in lines for word in line.lower().split()} for lines in train]
    for side, lines in enumerate(samples):
        words = [word for line in lines for word in line.lower().split()]
        right, wrong = (sum(word in known[n] for word in words) for n in (side, 1 - side))
        if wrong <= MANY_FOREIGN * right + len(words) / 10:
            return False
    return True


def _check_script(
    name: str, samples: Samples, languages: Sequence[str], progress: Progress
) -> None:
    for sample, language in zip(samples, languages, strict=True):
        wrong = sum(is_wrong_script(line, language) for line in sample)
        if wrong > FEW * len(sample):
            progress.warn(
                f"{100 * wrong / len(sample):.0f} % of the {language} lines of {name} have no "
                f"letter of the script of {language}"
            )
