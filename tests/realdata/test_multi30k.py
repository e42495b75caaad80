"""Real text from the files to a score: German captions, and Chinese through jieba and back."""

from __future__ import annotations

import gzip
import json
import re
from pathlib import Path

import pytest
from plugins.command_line import run_process

from jtrans.text.vocabulary import UNK

pytestmark = pytest.mark.realdata

# Latin letters, digits and spaces: what segmentation of Chinese cannot give back to the letter
SPACED = re.compile(r"[\sA-Za-z0-9.,?!\"'-]")
SETTINGS = (
    "model.width=64",
    "model.ffn_width=128",
    "model.encoder_layers=1",
    "model.decoder_layers=1",
    "training.batch_tokens=1000",
    "training.validate_every=20",
    "training.validate_sentences=20",
    "training.schedule.warmup=40",
    "training.learning_rate=2e-3",
    "training.max_updates=80",
)


def take(corpus: Path, folder: Path, lines: dict[str, int], languages: tuple[str, str]) -> None:
    """Write the first lines of a packed corpus as plain files."""
    for split, count in lines.items():
        for language in languages:
            with gzip.open(corpus / f"{split}.{language}.gz", "rt", encoding="utf-8") as stream:
                text = "".join(line for line, _ in zip(stream, range(count), strict=False))
            (folder / f"{split}.{language}").write_text(text, encoding="utf-8", newline="\n")


def run_jtrans(folder: Path, *arguments: str, stdin: str = "") -> str:
    result = run_process(*arguments, folder=folder, stdin=stdin.encode())
    assert result.code == 0, result.err
    return result.out


def test_captions_are_learned_translated_and_scored(corpora_folder: Path, tmp_path: Path) -> None:
    lines = {"train": 2000, "valid": 100, "test": 50}
    take(corpora_folder / "multi30k", tmp_path, lines, ("de", "en"))
    files = ("--train", "train", "--valid", "valid", "--test", "test", "--languages", "de-en")
    run_jtrans(
        tmp_path, "prepare", *files, "--lowercase", "--bpe-merges", "1000", "--out", "captions"
    )
    settings = [part for setting in SETTINGS for part in ("--set", setting)]
    where = ("--data", "captions", "--run", "runs/tiny")
    run_jtrans(tmp_path, "train", "demo/transformer", *where, *settings)

    log = (tmp_path / "runs/tiny/log.jsonl").read_text(encoding="utf-8").splitlines()
    events = [json.loads(line) for line in log]
    losses = [event["valid_loss"] for event in events if event["event"] == "validation"]
    assert len(losses) >= 2
    assert losses[-1] < losses[0] - 0.2

    source = (tmp_path / "test.de").read_text(encoding="utf-8")
    translated = run_jtrans(tmp_path, "translate", "tiny", stdin=source)
    assert translated.count("\n") == source.count("\n")
    scores = json.loads(run_jtrans(tmp_path, "score", "tiny", "--beam", "1", "--json"))
    (system,) = scores["systems"]
    assert 0.0 <= system["bleu"] < 100.0
    assert "case:lc" in json.dumps(system["signature"])


def test_chinese_is_cut_by_jieba_and_comes_back(corpora_folder: Path, tmp_path: Path) -> None:
    lines = {"train": 1500, "valid": 50, "test": 50}
    take(corpora_folder / "tatoeba-zh-en", tmp_path, lines, ("zh", "en"))
    files = ("--train", "train", "--valid", "valid", "--test", "test", "--languages", "zh-en")
    run_jtrans(tmp_path, "prepare", *files, "--bpe-merges", "1000", "--out", "chinese")

    from jtrans.data.prepared import PreparedCorpus

    corpus = PreparedCorpus.open(tmp_path / "chinese")
    side = corpus.pipeline.source
    assert side.segment("你叫什么名字？") == ["你", "叫", "什么", "名字", "？"]
    sentences = (tmp_path / "train.zh").read_text(encoding="utf-8").splitlines()
    encoded = {line: side.encode(line) for line in sentences[:300]}
    known = [line for line, ids in encoded.items() if UNK not in ids and not SPACED.search(line)]
    assert len(known) > 100
    assert [side.decode(encoded[line]) for line in known] == known
