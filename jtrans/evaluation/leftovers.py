"""Differences between texts that distort scores: subword marks, escapes, case, Unicode forms."""

from __future__ import annotations

import unicodedata
from collections.abc import Mapping, Sequence
from itertools import chain

from jtrans.errors import CorpusError, how_many
from jtrans.text.leftovers import (
    BPE,
    ESCAPED,
    ESCAPED_BY_MOSES,
    SENTENCEPIECE,
    WORDPIECE,
    find_leftover,
)
from jtrans.text.segment import has_spaces

LONG_WORD = 8  # characters: the mean word of languages without spaces is shorter
RARE = 0.01  # lines with capitals in a lower-cased text, as a share of those in a cased one
UNDOING = {
    BPE: "join them: sed -r 's/(@@ )|(@@ ?$)//g'",
    SENTENCEPIECE: "join them: spm_decode, or sed 's/ //g; s/\u2581/ /g; s/^ //'",
    WORDPIECE: "join them: sed 's/ ##//g'",
    ESCAPED: "undo them, as sacremoses detokenize does",
}
TOKENISED = 100  # lines that end in a separate period: the limit of sacreBLEU's own check


def check_plain_text(
    name: str, lines: Sequence[str], references: Sequence[Sequence[str]] = ()
) -> str | None:
    """Refuse lines with subword pieces or escaped characters.

    Returns:
        A warning if the marks may be part of the text, None if there are none.

    Raises:
        CorpusError: there are too many marks for that.
    """
    leftover = find_leftover(lines, references)
    if leftover is None:
        return None
    many = "a line" if leftover.lines == 1 else f"{leftover.lines:,} lines"
    text = f"{name} has {leftover.kind} in {many}, such as {leftover.example}"
    if not leftover.is_certain:
        return f"{text} (line {leftover.first:,})"
    hint = f"{UNDOING[leftover.kind]}; or take the text as it is: --as-is"
    where = f"{name}:{leftover.first}"
    raise CorpusError(text, where=where, hint=hint, kind="corpus.not-plain-text")


def check_hypothesis(
    name: str,
    lines: Sequence[str],
    references: Sequence[Sequence[str]],
    *,
    lowercase: bool,
    as_is: bool,
) -> list[str]:
    """Check translations of another tool before they are compared with references.

    Args:
        name: the name of their file.
        lines: the translations.
        references: reference sets, each as long as `lines`.
        lowercase: whether they will be compared without case.
        as_is: whether subword pieces and escaped characters are accepted.

    Returns:
        Warnings.

    Raises:
        CorpusError: see `check_plain_text`.
    """
    warnings = [
        None if as_is else check_plain_text(name, lines, references),
        None if lowercase else case_warning(name, lines, references),
        empty_warning(name, lines, references),
    ]
    return [*filter(None, warnings)]


def escaped_warning(references: Sequence[Sequence[str]]) -> str | None:
    """Return a warning about references whose characters Moses escaped, None for others.

    sacreBLEU's tokenizer splits ``&apos;s`` into four tokens, which match together: BLEU on
    IWSLT14's usual text is some three points higher than on the same text unescaped.
    """
    marked = [line for text in references for line in text if ESCAPED_BY_MOSES.search(line)]
    if len(marked) < TOKENISED:
        return None
    example = ESCAPED_BY_MOSES.findall(marked[0])[0]
    return (
        f"{len(marked):,} lines of the references have escaped characters, such as {example}, "
        "which sacreBLEU splits into tokens that match together: its BLEU is too high, unlike "
        "multi-bleu"
    )


def reference_warnings(references: Sequence[Sequence[str]]) -> list[str]:
    """Return warnings about the references of a prepared corpus, which are not refused."""
    warnings = [empty_references_warning(references)]
    for lines in references:
        leftover = find_leftover(lines)
        if leftover is not None and leftover.is_certain and "pieces" in leftover.kind:
            warnings.append(
                f"{leftover.lines:,} lines of the references have {leftover.kind}, such as "
                f"{leftover.example}: scores count pieces as words"
            )
    return list(filter(None, warnings))


def unsegmented_warning(language: str, texts: Mapping[str, Sequence[str]]) -> str | None:
    """Return a warning about texts of a language without spaces that are not split into words.

    Args:
        language: the language of all texts.
        texts: lines by the names of their files.
    """
    raw = [
        name
        for name, lines in texts.items()
        if sum(map(len, lines)) > LONG_WORD * sum(len(line.split()) for line in lines)
    ]
    if not raw or has_spaces(language):
        return None
    return (
        f"multi-bleu splits files at white space, and {' and '.join(raw)} "
        f"ha{'s' if len(raw) == 1 else 've'} little of it: segment the text into words first"
    )


def empty_warning(
    name: str, lines: Sequence[str], references: Sequence[Sequence[str]]
) -> str | None:
    """Return a warning about translations that are empty while their references are not."""
    wanted = [any(map(str.strip, texts)) for texts in zip(*references, strict=True)]
    count = sum(has and not line.strip() for line, has in zip(lines, wanted, strict=True))
    if not count:
        return None
    verb = "is" if count == 1 else "are"
    return f"{count:,} of {how_many(len(lines), 'line')} of {name} {verb} empty"


def empty_references_warning(references: Sequence[Sequence[str]]) -> str | None:
    """Return a warning about sentences whose references are all empty, None if there are none."""
    alternatives = zip(*references, strict=True)
    count = sum(not any(map(str.strip, texts)) for texts in alternatives)
    if not count:
        return None
    verb, owner, them = ("has", "its", "it") if count == 1 else ("have", "their", "them")
    lines = "line is" if count == len(references) == 1 else "lines are"
    return (
        f"{how_many(count, 'sentence')} of {len(references[0]):,} {verb} no reference: "
        f"{owner} {lines} empty, and BLEU and TER count translations of {them} as wrong"
    )


def normal_form_warning(
    lines_by_name: Mapping[str, Sequence[str]], references: Sequence[Sequence[str]]
) -> str | None:
    """Return a warning about letters that are composed on one side only, None if there are none.

    They look alike but do not match. Runs write Unicode's NFC.
    """
    forms = [set(map(_form, texts)) for texts in zip(*references, strict=True)]
    counts = {
        name: sum(
            {_form(line), *theirs} >= {"NFC", "NFD"}
            for line, theirs in zip(lines, forms, strict=True)
        )
        for name, lines in lines_by_name.items()
    }
    names = [name for name, count in counts.items() if count]
    if not names:
        return None
    return (
        f"accented letters are composed on one side only (Unicode's NFC and NFD) in "
        f"{how_many(max(counts.values()), 'line')} of {' and '.join(names)} and the references, "
        "and do not match: compose all text (uconv -x nfc), that of a corpus before jtrans prepare"
    )


def _form(line: str) -> str:
    """Return the normal form of a line: NFC, NFD, or both."""
    if line.isascii():
        return "both"
    if not unicodedata.is_normalized("NFC", line):
        return "NFD"
    return "both" if unicodedata.is_normalized("NFD", line) else "NFC"


def case_warning(
    name: str, lines: Sequence[str], references: Sequence[Sequence[str]]
) -> str | None:
    """Return a warning if either the hypotheses or the references are in lower case, else None."""
    for text in (lines, chain(*references)):
        if not any(line.upper() != line.lower() for line in text):
            return None  # no letters that have a case
    alternatives = zip(*references, strict=True)
    sides = {
        name: sum(map(_has_capitals, lines)),
        "the references": sum(any(map(_has_capitals, texts)) for texts in alternatives),
    }
    lower, cased = sorted(sides, key=sides.__getitem__)
    if 2 * sides[cased] < len(lines) or sides[lower] > RARE * sides[cased]:
        return None
    verbs = {side: "is" if side == name else "are" for side in sides}
    return (
        f"{lower} {verbs[lower]} in lower case, and {cased} {verbs[cased]} not: "
        "--lowercase compares without case"
    )


def _has_capitals(line: str) -> bool:
    return line != line.lower()


def tokenised_warning(name: str, lines: Sequence[str]) -> str | None:
    """Return sacreBLEU's warning if hypotheses are not detokenised, else None."""
    number = sum(line.endswith(" .") for line in lines)
    if number < TOKENISED:
        return None
    return (
        f"{name}: {number:,} lines end in a tokenized period ('.'); sacreBLEU expects detokenized "
        "text, anything else may hurt the score"
    )
