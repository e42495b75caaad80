"""The target language of files, by name and script."""

from __future__ import annotations

import pytest

from jtrans.errors import CorpusError
from jtrans.evaluation.target import find_target

CHINESE = ["我很好。", "你叫什么名字？", "请使用 VisualStudioCode 编辑器"]
JAPANESE = ["私は元気です。", "これは何ですか", "コーヒーを飲む"]
ENGLISH = ["I am well.", "What is your name?", "a cup of coffee"]
THAI = ["ฉันสบายดี", "คุณชื่ออะไร", "กาแฟหนึ่งถ้วย"]


@pytest.mark.parametrize(
    "name", ["test.zh.xz", "zh.txt", "test.zh-CN", "ref.zh.0", "x/test.zh_TW.gz", "cmn.txt"]
)
@pytest.mark.parametrize("is_reference", [True, False])
def test_chinese_is_read_from_names_of_references_and_hypotheses(
    name: str, is_reference: bool
) -> None:
    names = [name, "out"] if is_reference else ["refs.txt", name]
    target = find_target(None, names, [CHINESE, CHINESE])
    assert target.tokenizer == "zh"
    assert name in target.taken_from
    assert target.warning is None


@pytest.mark.parametrize(
    ("names", "texts"),
    [
        (["refs", "hyps"], [CHINESE, CHINESE]),  # nothing tells Chinese from Japanese
        (["refs", "hyps"], [JAPANESE, JAPANESE]),
        (["refs.en", "hyps"], [CHINESE, CHINESE]),
        (["refs.zh", "hyps"], [ENGLISH, ENGLISH]),
        (["refs.zh", "hyps"], [CHINESE, ENGLISH]),
        (["refs.zh", "hyps"], [JAPANESE, JAPANESE]),
        (["refs.en", "hyps.zh"], [ENGLISH, ENGLISH]),
        (["refs.en", "hyps"], [THAI, THAI]),
    ],
)
def test_names_and_scripts_that_contradict_each_other_are_refused(
    names: list[str], texts: list[list[str]]
) -> None:
    with pytest.raises(CorpusError) as caught:
        find_target(None, names, texts)
    assert caught.value.hint is not None
    assert "--languages" in caught.value.hint
    target = find_target(None, names, texts, tokenizer="flores200")  # depends on no language
    assert (target.tokenizer, target.warning) == ("flores200", None)
    target = find_target("zh", names, texts)
    assert (target.tokenizer, target.taken_from) == ("zh", "--languages")
    assert (target.warning is None) == (texts == [CHINESE, CHINESE])


@pytest.mark.parametrize(
    ("names", "lines", "language", "tokenizer"),
    [
        (["refs", "hyps"], ENGLISH, "en", "13a"),
        (["refs", "hyps"], THAI, "th", "char"),
        (["refs.de", "hyps.en"], ENGLISH, "de", "13a"),  # the same tokenizer
        (["refs.en", "hyps"], ["12", "34"], "en", "13a"),
        (["refs.zh", "hyps"], ["", "我"], "zh", "zh"),
    ],
)
def test_the_script_decides_where_no_name_does(
    names: list[str], lines: list[str], language: str, tokenizer: str
) -> None:
    target = find_target(None, names, [lines, lines])
    assert (target.language, target.tokenizer, target.warning) == (language, tokenizer, None)


def test_a_language_that_mecab_is_missing_for_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("jtrans.evaluation.scores.find_spec", lambda module: None)
    target = find_target(None, ["refs.ja", "hyps"], [JAPANESE, JAPANESE])
    assert target.tokenizer == "char"
    assert "MeCab is not installed" in target.describe()
