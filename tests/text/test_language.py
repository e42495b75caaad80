"""Scripts, language codes, and sides that look exchanged."""

from __future__ import annotations

from typing import Any

import pytest

from jtrans.errors import ConfigError
from jtrans.text.language import check_language, is_wrong_script, look_swapped


@pytest.mark.parametrize("language", ["de", "zh", "pt-BR", "zh_TW", "EN", "yue"])
def test_real_codes_are_accepted(language: str) -> None:
    check_language(language)


@pytest.mark.parametrize("language", ["xx", "d", "german", "1", "de!"])
def test_what_is_no_code_is_refused(language: str) -> None:
    with pytest.raises(ConfigError, match=f"{language} is not a language code"):
        check_language(language)


@pytest.mark.parametrize(
    ("line", "language", "is_wrong"),
    [
        ("Das ist ein Haus.", "de", False),
        ("Đây là một ngôi nhà", "vi", False),
        ("海边有一座房子", "zh", False),
        ("海边有一座房子", "de", True),
        ("A house by the sea", "zh", True),
        ("NASA", "zh", False),  # too few letters to tell
        ("1 + 1 = 2 :-)", "zh", False),
        ("使用 requests 库", "zh", False),
        ("дом у моря", "en", True),
        ("whatever", "tlh", False),  # nobody knows its script here
    ],
)
def test_a_line_without_a_letter_of_its_script_is_wrong(
    line: Any, language: str, is_wrong: Any
) -> None:
    assert is_wrong_script(line, language) is is_wrong


GERMAN = ["Ich bin nicht da.", "Das ist ein Haus.", "Wir gehen und sie sieht die Katze."] * 5
ENGLISH = ["I am not here.", "This is a house.", "We go and she sees the cat."] * 5
CHINESE = ["我不在。", "这是一座房子。", "我们走, 她看见猫。"] * 5


@pytest.mark.parametrize(
    ("source", "target", "languages"),
    [(GERMAN, ENGLISH, ("de", "en")), (CHINESE, ENGLISH, ("zh", "en"))],
)
def test_only_exchanged_sides_look_exchanged(source: Any, target: Any, languages: Any) -> None:
    assert not look_swapped(source, target, languages)
    assert look_swapped(target, source, languages)
    assert not look_swapped(source, source, languages)
    assert not look_swapped([], [], languages)
