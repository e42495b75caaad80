"""Own files in any language: prepared by default, and translated."""

from __future__ import annotations

from pathlib import Path

import pytest
from plugins.command_line import Jtrans
from plugins.random_runs import MakeRun

from jtrans.data.prepared import PreparedCorpus

ENGLISH = [f"The old dog number {i} sees the red ball of my friend." for i in range(12)]
LINES = {
    "ja": "古い犬の番号{i}は私の友人の赤いボールを見ます。カメラ・GPU C++ です。",
    "th": "สุนัขแก่หมายเลข {i} เห็นลูกบอลสีแดงของเพื่อนของฉัน ครับ",
    "lo": "ໝາເຖົ້າໝາຍເລກ {i} ເຫັນໝາກບານສີແດງຂອງເພື່ອນຂອງຂ້ອຍ",
    "km": "ឆ្កែចាស់លេខ {i} ឃើញបាល់ក្រហមរបស់មិត្តខ្ញុំ។",
    "my": "ခွေးအိုနံပါတ် {i} သည် ကျွန်တော့်သူငယ်ချင်း၏ ဘောလုံးနီကို မြင်သည်။",
    "bo": "ཁྱི་རྒན་ཨང་ {i} གིས་ངའི་གྲོགས་པོའི་སྤོ་ལོ་དམར་པོ་མཐོང་།",
    "cmn": "{i}号老狗看见我朋友的红球。",
    "yue": "{i}號老狗睇到我朋友嘅紅波。",
    "zho": "{i}号老狗看见我朋友的红球。",
    "zh-TW": "{i}號老狗看見我朋友的紅球。",
    "zh_Hant_HK": "{i}號老狗看見我朋友的紅球。",
    "jpn": "古い犬の番号{i}は私の友人の赤いボールを見ます。",
    "pt-BR": "O velho cachorro número {i} vê a bola vermelha do meu amigo.",
}
SEGMENTERS = {"cmn": "jieba", "yue": "jieba", "zho": "jieba", "zh-TW": "jieba"}
SEGMENTERS |= {"zh_Hant_HK": "jieba", "pt-BR": "moses"}


@pytest.mark.sample(4)
@pytest.mark.parametrize("language", sorted(LINES))
def test_own_files_in_any_language_are_prepared_and_translated(
    jtrans: Jtrans, make_run: MakeRun, tmp_path: Path, language: str
) -> None:
    lines = [LINES[language].format(i=i) for i in range(12)]
    for ending, side in ((language, lines), ("en", ENGLISH)):
        for name, part in (("train", side[:9]), ("valid", side[9:])):
            (tmp_path / f"{name}.{ending}").write_text("\n".join(part) + "\n", encoding="utf-8")
    command = ["prepare", "--train", "train", "--valid", "valid", "--bpe-merges", "20"]
    command += ["--languages", f"en-{language}", "--out", "out", "--workers", "1"]
    result = jtrans(*command)
    assert result.code == 0, result.err
    corpus = PreparedCorpus.open(tmp_path / "out")
    assert corpus.info["splits"]["train"]["pairs"] == 9
    target = corpus.pipeline.target
    assert target.segmenter == SEGMENTERS.get(language, "unspaced")
    assert [target.decode(target.encode(line)) for line in lines[:9]] == lines[:9]
    run = make_run(pipeline=corpus.pipeline)
    result = jtrans("translate", run, stdin=b"The old dog.\n")
    assert result.code == 0, result.err


def test_separate_bpe_of_one_language_beside_characters_of_another(
    jtrans: Jtrans, make_run: MakeRun, tmp_path: Path
) -> None:
    chinese = [f"GPU {i} 号的老狗看见球。" for i in range(12)]
    for name, side in (("zh", chinese), ("en", ENGLISH)):
        (tmp_path / f"train.{name}").write_text("\n".join(side) + "\n", encoding="utf-8")
    command = ["prepare", "--train", "train", "--valid-size", "3", "--bpe", "separate"]
    command += ["--bpe-merges", "20", "--target-segment", "character", "--workers", "1"]
    result = jtrans(*command, "--languages", "en-zh", "--out", "out")
    assert result.code == 0, result.err
    assert "BPE          en 20 merges learned" in result.err
    target = PreparedCorpus.open(tmp_path / "out").pipeline.target
    assert target.pieces(chinese[1]) == [*"GPU▁1▁号的老狗看见球。"]
    assert target.decode(target.encode(chinese[1])) == chinese[1]
    command += ["--source-segment", "character"]
    result = jtrans(*command, "--languages", "en-zh", "--out", "no")
    assert result.code == 2 and "--bpe has no effect" in result.err and "Reading" not in result.err


def test_characters_on_both_sides_need_no_option_to_do_without_bpe(
    jtrans: Jtrans, tmp_path: Path
) -> None:
    for name, line in (("zh", "我看见了老狗"), ("en", "I saw {} dogs.")):
        lines = [line.format(i) + str(i) for i in range(12)]
        (tmp_path / f"train.{name}").write_text("\n".join(lines) + "\n", encoding="utf-8")
    command = ("prepare", "--train", "train", "--valid-size", "3", "--segment", "character")
    result = jtrans(*command, "--languages", "zh-en", "--workers", "1", "--out", "out")
    assert result.code == 0, result.err
    assert "Note         no BPE" in result.err
    assert PreparedCorpus.open(tmp_path / "out").info["options"]["bpe"] == "none"


@pytest.mark.parametrize(
    "options",
    [
        ("--source-segment", "unspaced"),
        ("--source-segment", "character"),
        ("--source-segment", "character", "--target-segment", "character"),
        ("--segment", "unspaced"),
    ],
)
def test_lengths_are_compared_in_words_also_where_units_are_characters(
    jtrans: Jtrans, tmp_path: Path, options: tuple[str, ...]
) -> None:
    pairs = [
        ("好的。", "All right then."),
        ("他去了。", "He has already gone."),
        ("不行。", "No, never!"),
    ]
    pairs += [("我看见了老狗", "I have seen the old dog.")]
    for side, name in enumerate(("zh", "en")):
        lines = [pair[side] for pair in pairs]
        (tmp_path / f"train.{name}").write_text("\n".join(lines) + "\n", encoding="utf-8")
    command = ["prepare", "--train", "train", "--valid-size", "1", "--bpe", "none", "--out", "out"]
    result = jtrans(*command, "--languages", "zh-en", "--workers", "1", *options)
    assert result.code == 0, result.err
    assert "kept 3 · empty 0 · too long 0 · ratio 0" in result.err


TOKENISED = "the old dog , number {} , sees me ."
MARKED = "Call *dog* with ``{}`` first."


@pytest.mark.parametrize(
    ("language", "line", "options", "change", "advice"),
    [
        ("en", TOKENISED, (), "0 , sees me .' becomes", "whitespace"),
        ("en", TOKENISED, ("--target-segment", "whitespace"), None, None),
        ("en", MARKED, (), "becomes 'Call * dog * with", "unspaced"),
        ("en", MARKED, ("--target-segment", "unspaced"), None, None),
        ("zh", "我在 Python 里看见{}狗。", (), "becomes '我在Python里看见0狗。'", "unspaced"),
        ("zh", "我在 Python 里看见{}狗。", ("--target-segment", "unspaced"), None, None),
        ("zh", "我在 Python {} 里看见狗。", (), None, None),  # the spaces are the rule
        ("zh", "我在Python {}里看见狗。", (), None, None),
    ],
)
def test_prepare_warns_of_spaces_that_translations_will_not_have(
    jtrans: Jtrans,
    tmp_path: Path,
    language: str,
    line: str,
    options: tuple[str, ...],
    change: str | None,
    advice: str | None,
) -> None:
    german = [f"Der alte Hund sieht die Nummer {i}." for i in range(12)]
    for name, side in (("de", german), (language, [line.format(i) for i in range(12)])):
        (tmp_path / f"train.{name}").write_text("\n".join(side) + "\n", encoding="utf-8")
    command = ["prepare", "--train", "train", "--valid-size", "2", "--bpe", "none", "--out", "out"]
    result = jtrans(*command, "--languages", f"de-{language}", "--workers", "1", *options)
    assert result.code == 0, result.err
    warnings = [line for line in result.err.splitlines() if "split into words and joined" in line]
    if change is None:
        assert warnings == []
    else:
        assert change in warnings[0] and f"--target-segment {advice} " in warnings[0]
        assert "(100 % in train)" in warnings[0]


def test_a_tokenised_test_set_of_other_text_is_to_be_detokenised(
    jtrans: Jtrans, tmp_path: Path
) -> None:
    for name, line in (("train", "The dog, number {}."), ("test", "A cat , number {} .")):
        for language in ("de", "en"):
            text = "".join(f"{line.format(i)} {language}\n" for i in range(12))
            (tmp_path / f"{name}.{language}").write_text(text, encoding="utf-8")
    command = [
        "prepare",
        "--train",
        "train",
        "--valid-size",
        "2",
        "--test",
        "test",
        "--bpe",
        "none",
    ]
    result = jtrans(*command, "--languages", "de-en", "--out", "out", "--workers", "1")
    assert result.code == 0, result.err
    assert "(100 % in test); if the text is tokenised, detokenise it first" in result.err
