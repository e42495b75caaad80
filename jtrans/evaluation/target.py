"""The target language of files: from their names, and checked against their script."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from jtrans.errors import CorpusError
from jtrans.evaluation.scores import tokenizer_name
from jtrans.text.language import base_language, language_of_file, language_script, main_script

# script with a tokenizer of its own -> language; Han alone may be Chinese or Japanese
_BY_SCRIPT = {"Thai": "th", "Lao": "lo", "Khmer": "km", "Myanmar": "my", "Hangul": "ko"}
_AMBIGUOUS = {"Han": "zh", "Japanese": "ja"}
_USUAL = {**_BY_SCRIPT, **_AMBIGUOUS}
_HAN = re.compile("[\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff]")
UNTOLD = "not in any file name"
_SAMPLE = 1000  # lines whose script is examined


@dataclass(frozen=True)
class TargetLanguage:
    """The language that decides sacreBLEU's tokenizer, and where it was taken from."""

    language: str
    taken_from: str
    warning: str | None = None
    chosen: str | None = None  # the tokenizer that the user chose

    @property
    def tokenizer(self) -> str:
        """The name of sacreBLEU's tokenizer."""
        return self.chosen or tokenizer_name(self.language)

    def describe(self) -> str:
        """Describe the choice in words."""
        text = f"target language is {self.language} ({self.taken_from}), tokenizer {self.tokenizer}"
        is_makeshift = self.tokenizer == "char" != self.chosen and base_language(self.language) in (
            "ja",
            "ko",
        )
        return text + (": MeCab is not installed" if is_makeshift else "")


def find_target(
    language: str | None,
    names: Sequence[str],
    texts: Sequence[Sequence[str]],
    *,
    tokenizer: str | None = None,
) -> TargetLanguage:
    """Return the target language of files of references and hypotheses.

    Args:
        language: the user's choice, if any; other scripts then only cause a warning.
        names: the names of the files, references first.
        texts: the lines of each file.
        tokenizer: the user's choice, if any; names and scripts are then not checked.

    Raises:
        CorpusError: names and scripts contradict each other and the tokenizer depends on it, or
            they do not distinguish Chinese from Japanese.
    """
    named = {name: code for name in names if (code := language_of_file(name)) is not None}
    scripts = dict(zip(names, map(_script, texts), strict=True))
    script = scripts[names[0]]
    if language is not None:
        target = TargetLanguage(language, "--languages")
    elif named:
        target = TargetLanguage(next(iter(named.values())), f"name of {next(iter(named))}")
    elif script in _AMBIGUOUS and tokenizer is None:
        raise _refusal(f"{names[0]} is in {script} characters, and no file name has its language")
    elif script in _USUAL:
        target = TargetLanguage(_USUAL[script], f"{script} characters")
    else:
        target = TargetLanguage("en", UNTOLD)
    if tokenizer is not None:
        return replace(target, chosen=tokenizer)
    problem = _contradiction(target, {} if language else named, scripts)
    if problem and language is None:
        raise _refusal(problem)
    return replace(target, warning=problem)


def _script(lines: Sequence[str]) -> str | None:
    """Return the script of most letters; Han or Japanese if most lines have such characters."""
    lines = [line for line in lines[:_SAMPLE] if line.strip()]
    chinese = ["".join(characters) for line in lines if (characters := _HAN.findall(line))]
    return main_script(chinese if 2 * len(chinese) > len(lines) else lines)


def _contradiction(
    target: TargetLanguage, named: Mapping[str, str], scripts: Mapping[str, str | None]
) -> str | None:
    """Return in words which file contradicts the tokenizer and how, None if none does."""
    choice = f"the {target.describe()}"
    for name, language in named.items():
        if tokenizer_name(language) != target.tokenizer:
            return f"{name} is named {language}, but {choice}"
    expected = language_script(target.language)
    for name, script in scripts.items():
        usual = _USUAL.get(script or "", "en")
        is_usual = script in (None, expected) or (script, expected) == ("Han", "Japanese")
        if not is_usual and tokenizer_name(usual) != target.tokenizer:
            return f"{name} is in {script} characters, but {choice}"
    return None


def _refusal(message: str) -> CorpusError:
    hint = "name source and target: --languages en-zh (or zh-en, en-ja and so on)"
    return CorpusError(message, hint=hint, kind="corpus.target-language")
