"""Scripts, language codes, and sides that look exchanged."""

from __future__ import annotations

from typing import Any

import pytest

from jtrans.errors import ConfigError
from jtrans.text.language import (
    base_language,
    check_language,
    is_wrong_script,
    language_of_file,
    language_script,
    look_swapped,
    main_script,
    split_languages,
)


@pytest.mark.parametrize(
    "language",
    ["de", "zh", "pt-BR", "zh_TW", "EN", "yue", "zh-Hant-HK", "zho_Hans", "de_DE.UTF-8", "tok"],
)
def test_real_codes_are_accepted(language: str) -> None:
    check_language(language)


@pytest.mark.parametrize(
    "language", ["xx", "d", "german", "1", "de!", "zh-Hanz", "de-YZ", "en-de.txt"]
)
def test_what_is_no_code_is_refused(language: str) -> None:
    with pytest.raises(ConfigError, match=f"{language} is not a language code"):
        check_language(language)


@pytest.mark.parametrize(
    ("language", "base", "script"),
    [
        ("zh", "zh", "Han"),
        ("cmn", "zh", "Han"),
        ("yue", "zh", "Han"),
        ("chi", "zh", "Han"),
        ("zh-Hant-HK", "zh", "Han"),
        ("zh-Latn", "zh", "Latin"),
        ("jpn", "ja", "Japanese"),
        ("pt_BR", "pt", "Latin"),
        ("arb", "ar", "Arabic"),
        ("ger", "de", "Latin"),
        ("sr", "sr", None),  # written in two scripts
        ("sr-Cyrl", "sr", "Cyrillic"),
        ("kor_Hang", "ko", "Hangul"),
        ("km", "km", "Khmer"),
        ("bo", "bo", "Tibetan"),
        ("tok", "tok", None),  # newer than the registry
    ],
)
def test_a_tag_has_a_base_and_a_script(language: str, base: str, script: str | None) -> None:
    assert (base_language(language), language_script(language)) == (base, script)


@pytest.mark.parametrize(
    ("pair", "source", "target"),
    [
        ("de-en", "de", "en"),
        ("zh-Hans-en", "zh-Hans", "en"),
        ("en-zh-Hant", "en", "zh-Hant"),
        ("pt-BR-en", "pt-BR", "en"),
        ("en-pt-BR", "en", "pt-BR"),  # not English of Portugal and Breton
        ("en-pt-br", "en", "pt-br"),
        ("zh_TW-en", "zh_TW", "en"),
        ("pt-BR-pt-PT", "pt-BR", "pt-PT"),
        ("sr-Latn-sr-Cyrl", "sr-Latn", "sr-Cyrl"),
        ("zho_Hans-eng_Latn", "zho_Hans", "eng_Latn"),
        ("EN-DE", "EN", "DE"),
        ("fr-ca", "fr", "ca"),  # Catalan
    ],
)
def test_pairs_of_tags_are_split(pair: str, source: str, target: str) -> None:
    assert split_languages(pair) == (source, target)


@pytest.mark.parametrize(
    ("pair", "message"),
    [
        ("de", "is one language"),
        ("pt-BR", "is one language"),
        ("fr-CA", "is one language"),
        ("en-fr-ca", "may be en and fr-ca or en-fr and ca"),
        ("de-en-fr", "may be de and en-fr"),
        ("de-de", "names one language twice"),
        ("de-", "not two languages"),
        ("german-en", "german is not a language code"),
        ("zh-Hanz-en", "not two languages"),
    ],
)
def test_what_is_no_pair_is_refused(pair: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message) as caught:
        split_languages(pair)
    assert caught.value.hint


@pytest.mark.parametrize(
    ("name", "language"),
    [
        ("test.zh.xz", "zh"),
        ("zh.txt", "zh"),
        ("test.zh-CN", "zh-CN"),
        ("ref.zh.0", "zh"),
        ("newstest2020-enzh-ref.zh.txt", "zh"),
        ("hyp.zh", "zh"),
        ("news.en-zh.zh", "zh"),
        ("test.tok.0.en.gz", "en"),
        ("newstest2021.en-zh.ref.A.zh", "zh"),
        ("zho_Hans.devtest", "zho_Hans"),
        ("ref-zh.txt", "zh"),
        ("hyp_pt-BR.txt", "pt-BR"),
        ("test.jpn", "jpn"),
        ("ref.yue.1.zst", "yue"),
        ("x.is", "is"),
        ("test.fr-CA", "fr-CA"),
        ("test.fr-ca", None),  # Canadian French, or French and Catalan
        ("news.en-zh.txt", None),
        ("news.en-de", None),
        ("what.is.new.txt", None),
        ("all-there-is.txt", None),
        ("b.zh/hyp.txt", None),
        ("made.for", None),
        ("README", None),
        ("0.gz", None),
    ],
)
def test_a_file_is_in_the_language_its_name_ends_in(name: str, language: str | None) -> None:
    assert language_of_file(f"corpus.de/{name}") == language


@pytest.mark.parametrize(
    ("line", "script"),
    [
        ("我不在 NASA 工作。", "Han"),
        ("これは本です。", "Japanese"),
        ("我爱这の字，不爱别的字，一二三四五六", "Han"),
        ("Ich bin ein Berliner 我", "Latin"),
        ("ไม่มี", "Thai"),
        ("བོད་སྐད", "Tibetan"),
        ("မြန်မာ", "Myanmar"),
        ("한국어 123", "Hangul"),
        ("123 :-)", None),
    ],
)
def test_the_main_script_is_that_of_most_letters(line: str, script: str | None) -> None:
    assert main_script([line]) == script


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
