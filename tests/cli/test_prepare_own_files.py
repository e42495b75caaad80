"""`jtrans prepare` with one's own files: several valid and test sets, bad lines, odd names."""

from __future__ import annotations

import gzip
import hashlib
import importlib.metadata
import json
import os
import platform
import random
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from plugins.command_line import Jtrans
from plugins.folders import contents
from plugins.sentence_pairs import PAIRS

from jtrans.data.prepared import PreparedCorpus

OPTIONS = ["--languages", "de-en", "--bpe-merges", "20", "--workers", "1", "--out", "out"]
OWN = ["prepare", "--train", "train", "--valid", "valid", *OPTIONS]
Pairs = list[tuple[str, str]]


def write(prefix: str, pairs: Pairs) -> None:
    for side, language in enumerate(("de", "en")):
        text = "".join(f"{pair[side]}\n" for pair in pairs)
        Path(f"{prefix}.{language}").write_text(text, encoding="utf-8", newline="\n")


@pytest.fixture(autouse=True)
def files(jtrans: Jtrans) -> None:
    """Write train, valid, news and news.tok in the working directory."""
    write("train", PAIRS[:60])
    write("valid", PAIRS[60:70])
    write("news", PAIRS[70:80])
    write("news.tok", PAIRS[80:85])


def prepared() -> PreparedCorpus:
    return PreparedCorpus.open(Path("out"))


def pairs_of(split: str) -> Pairs:
    corpus = prepared()
    lines = (corpus.raw_lines(split, "source"), corpus.raw_lines(split, "target"))
    return list(zip(*lines, strict=True))


def test_test_sets_never_share_a_file(jtrans: Jtrans) -> None:
    result = jtrans(*OWN, "--test", "news", "--test", "news.tok")
    assert result.code == 0, result.err
    assert "Test sets    test is news · test2 is news.tok" in result.err
    assert pairs_of("test") == PAIRS[70:80] and pairs_of("test2") == PAIRS[80:85]
    corpus = prepared()
    for split in corpus.splits[1:]:
        words = corpus.words_lines(split, "source")
        assert [" ".join(line) for line in words] == [
            source.replace(".", " .") for source, _ in pairs_of(split)
        ]


def test_codes_that_were_learned_elsewhere_are_used(jtrans: Jtrans) -> None:
    assert jtrans(*OWN).code == 0
    pipeline = prepared().pipeline
    assert pipeline.source.codes is not None
    Path("codes").write_text(pipeline.source.codes, encoding="utf-8", newline="\n")
    given = ["--bpe-codes", "codes"]
    without_merges = [word for word in OWN if word not in ("--bpe-merges", "20")]
    result = jtrans(*without_merges[:-1], "again", *given)
    assert result.code == 0, result.err
    assert "20 joint merges of codes, none learned" in result.err
    assert PreparedCorpus.open(Path("again")).pipeline == pipeline
    assert "Unchanged" in jtrans(*without_merges[:-1], "again", *given).err
    refused = jtrans(*OWN[:-1], "other", *given)
    assert refused.code == 2 and "--bpe-merges has no effect on the codes" in refused.err
    assert jtrans(*without_merges[:-1], "other", "--bpe", "none", *given).code == 2
    assert jtrans(*without_merges[:-1], "other", *given, "--pipeline", "out").code == 2
    assert not Path("other").exists()

    lines = pipeline.source.codes.splitlines(keepends=True)
    Path("codes").write_text("".join(lines[:-1]), encoding="utf-8", newline="\n")
    changed = jtrans(*without_merges[:-1], "again", *given)
    assert changed.code == 2 and "different contents of the codes" in changed.err
    fewer = jtrans(*without_merges[:-1], "fewer", *given)
    assert "19 joint merges of codes" in fewer.err
    assert PreparedCorpus.open(Path("fewer")).pipeline != pipeline
    Path("codes").write_text("ein mann liest\n", encoding="utf-8")
    spoilt = jtrans(*without_merges[:-1], "spoilt", *given)
    assert spoilt.code == 2 and "not a BPE codes file: line 1" in spoilt.err
    for text, hint in (
        ("".join(lines[1:]), "cat FILE) > CODES"),
        ("".join(f"{line.strip()} 7\n" for line in lines[1:]), "cut -d' ' -f1,2 FILE) > CODES"),
    ):
        Path("codes").write_text(text, encoding="utf-8", newline="\n")
        refused = jtrans(*without_merges[:-1], "spoilt", *given)
        assert refused.code == 2 and f"(echo '#version: 0.2'; {hint}" in refused.err


def test_the_same_codes_in_another_file_change_nothing(jtrans: Jtrans) -> None:
    assert jtrans(*OWN).code == 0
    codes = prepared().pipeline.source.codes
    command = [word for word in OWN if word not in ("--bpe-merges", "20")]
    for name in ("codes", "others"):
        Path(name).write_text(str(codes), encoding="utf-8", newline="\n")
        result = jtrans(*command[:-1], "again", "--bpe-codes", name)
        assert result.code == 0, result.err
    assert "Unchanged" in result.err
    info = PreparedCorpus.open(Path("again")).info
    assert info["codes_from"] == "codes" and "bpe_merges" not in info["options"]


def test_several_validation_files_are_joined_in_their_order(jtrans: Jtrans) -> None:
    result = jtrans(*OWN, "--valid", "news.tok")
    assert result.code == 0, result.err
    assert "Valid set    valid + news.tok, in this order" in result.err
    assert pairs_of("valid") == PAIRS[60:70] + PAIRS[80:85]
    assert prepared().info["splits"]["valid"]["origin"] == ["valid", "news.tok"]


def test_validation_files_need_the_same_number_of_references(jtrans: Jtrans) -> None:
    write("both.0", PAIRS[90:95])
    write("both.1", PAIRS[95:100])
    write("both", PAIRS[90:95])
    result = jtrans(*OWN, "--valid", "both")
    assert result.code == 2 and "valid 1 and both 2" in result.err


CUT = ["prepare", "--train", "train", "--test", "news", *OPTIONS]


def test_a_valid_split_is_cut_from_train_by_text_alone(jtrans: Jtrans) -> None:
    result = jtrans(*CUT, "--valid-size", 7)
    assert result.code == 0, result.err
    assert "Valid        7 pairs: chosen among those that cleaning kept" in result.err
    first, before = pairs_of("valid"), contents(Path("out"))
    assert len(set(first)) == 7 and set(first) < set(PAIRS[:60])
    assert prepared().info["cleaning"]["kept"] == 53
    assert "Unchanged" in jtrans(*CUT, "--valid-size", 7).err
    assert jtrans(*CUT, "--valid-size", 7, "--force", "--workers", 2).code == 0
    assert contents(Path("out")) == before
    shuffled = PAIRS[:60]
    random.Random(3).shuffle(shuffled)
    write("train", shuffled)
    assert jtrans(*CUT, "--valid-size", 7, "--lowercase", "--force").code == 0
    assert set(pairs_of("valid")) == set(first)


def test_no_pair_of_the_cut_split_stays_in_train_nor_comes_from_test(jtrans: Jtrans) -> None:
    pairs = PAIRS[:40]
    pairs += [(source.upper(), f"{target}!") for source, target in pairs]
    write("train", [*pairs, *PAIRS[70:75]])
    for unit in ("pair", "source"):
        options = ["--valid-size", 12, "--drop-leaked", unit, "--force"]
        assert jtrans(*CUT, *options).code == 0
        assert len({source.lower() for source, _ in pairs_of("valid")}) == 12
        assert not set(pairs_of("valid")) & set(PAIRS[70:80])
        assert prepared().info["cleaning"]["kept"] == 2 * (40 - 12)
        assert prepared().info["overlap"]["valid"] == {"source": 12, "target": 12, "pair": 12}


def test_sentences_that_train_has_in_other_pairs_are_cut_last(jtrans: Jtrans) -> None:
    shared = [(f"{source} .", f"Oh, {target}") for source, target in PAIRS[:30]]
    write("train", [*PAIRS[:60], *shared])
    for size, expected in ((30, 0), (40, 10)):
        assert jtrans(*CUT, "--valid-size", size, "--force").code == 0
        assert len(set(pairs_of("valid")) - set(PAIRS[30:60])) == expected
    assert jtrans(*CUT, "--valid-size", 30, "--force").code == 0
    assert prepared().info["overlap"]["valid"] == {"source": 0, "target": 0, "pair": 0}


@pytest.mark.parametrize("size", [60, 1000])
def test_a_valid_split_larger_than_train_is_refused(jtrans: Jtrans, size: int) -> None:
    result = jtrans(*CUT, "--valid-size", size)
    assert result.code == 2
    assert f"--valid-size takes {size:,} pairs from train, which has 60" in result.err
    assert not Path("out").exists() and not Path(".out.work").exists()


def test_a_valid_split_that_cleaning_leaves_no_pairs_for_names_the_rule(jtrans: Jtrans) -> None:
    result = jtrans(*CUT, "--valid-size", 50, "--max-length", 1)
    assert result.code == 2
    assert "most were dropped for: too long (--max-length is 1)" in result.err


def test_another_size_needs_force_and_both_ways_exclude_each_other(jtrans: Jtrans) -> None:
    assert jtrans(*CUT, "--valid-size", 7).code == 0
    other = jtrans(*CUT, "--valid-size", 8)
    assert other.code == 2 and "different share of train for valid" in other.err
    both = jtrans(*OWN, "--valid-size", 8)
    assert both.code == 2 and "--valid gives one" in both.err
    named = jtrans("prepare", "grammar-de-en", "--valid-size", 8)
    assert named.code == 2 and "--valid-size cannot be combined with NAME" in named.err


@pytest.mark.parametrize("arguments", [["train.en"], ["train", "--languages", "de-en"]])
def test_a_file_in_place_of_a_name_gets_the_option_for_files(
    jtrans: Jtrans, arguments: list[str]
) -> None:
    given = ("--train", "train") if "--languages" not in arguments else ()
    result = jtrans("prepare", *arguments, *given)
    assert result.code == 2
    assert f"no corpus called {arguments[0]} in the catalogue" in result.err
    assert "your own files: jtrans prepare --train PREFIX" in result.err


@pytest.mark.parametrize(
    ("change", "kind"),
    [
        (lambda line: f"{line[0]}@@ {line[1:]}", "BPE pieces"),
        (lambda line: " ".join(f"\u2581{word}" for word in line.split()), "SentencePiece pieces"),
        (lambda line: f"{line} &apos;", "escaped characters"),
    ],
)
def test_text_that_was_processed_before_is_warned_of(
    jtrans: Jtrans, change: Callable[[str], str], kind: str
) -> None:
    assert "undo them" not in jtrans(*OWN).err
    for name in ("train.de", "train.en"):
        lines = Path(name).read_text(encoding="utf-8").splitlines()
        Path(name).write_text("".join(f"{change(line)}\n" for line in lines), encoding="utf-8")
    result = jtrans(*OWN, "--force")
    assert result.code == 0
    told = [line for line in result.err.splitlines() if "undo them" in line]
    assert [line.partition(" in ")[0] for line in told] == [
        f"warning: train.de has {kind}",
        f"warning: train.en has {kind}",
    ]
    assert "text to translate" in told[0] and "translations would have them" in told[1]
    assert "--target-segment" not in result.err
    as_it_is = jtrans(*OWN, "--force", "--segment", "whitespace").err
    assert ("undo them" in as_it_is) == ("pieces" in kind)  # published text may have escapes


def test_unchanged_pairs_of_one_language_are_kept(jtrans: Jtrans) -> None:
    path = Path("train.en")
    path.write_text(Path("train.de").read_text(encoding="utf-8"), encoding="utf-8")
    for name in ("train", "valid"):
        Path(f"{name}.en_GB").write_bytes(Path(f"{name}.en").read_bytes())
    files = ["--train", "train", "--valid", "valid", "--languages", "en-en_GB", "--bpe", "none"]
    shutil.copy("train.de", "train.en_GB")
    result = jtrans("prepare", *files, "--out", "out", "--workers", 1)
    assert result.code == 0 and "identical 0" in result.err


def spoil(path: str, changes: dict[int, bytes]) -> None:
    lines = Path(path).read_bytes().split(b"\n")
    for number, line in changes.items():
        lines[number] = line
    Path(path).write_bytes(b"\n".join(lines))


def test_pairs_with_a_line_that_is_no_text_are_left_out(jtrans: Jtrans) -> None:
    spoil("train.de", {3: b"a \0 b", 17: b"T\xfcr", 59: b"\xe4\xb8"})
    spoil("train.en", {3: b"\xff", 30: b"x\0"})
    refused = jtrans(*OWN)
    assert refused.code == 2 and "train.de:4" in refused.err
    assert "or leave such lines out: --skip-bad-lines" in refused.err
    result = jtrans(*OWN, "--skip-bad-lines")
    assert result.code == 0, result.err
    assert " · 4 bad lines (zero byte 2, not UTF-8 2)" in result.err
    info = prepared().info
    assert info["splits"]["train"]["skipped"] == {"zero byte": 2, "not UTF-8": 2}
    assert info["cleaning"]["kept"] == 56
    write("train", [pair for i, pair in enumerate(PAIRS[:60]) if i not in (3, 17, 30, 59)])
    assert "Unchanged" in jtrans(*OWN).err


def test_a_skipped_line_of_a_test_set_is_left_out_of_all_references(jtrans: Jtrans) -> None:
    write("both.0", PAIRS[90:95])
    write("both.1", PAIRS[95:100])
    write("both", PAIRS[90:95])
    spoil("both.1.en", {2: b"\xff"})
    result = jtrans(*OWN, "--test", "both", "--skip-bad-lines")
    assert result.code == 0, result.err
    assert "warning: 1 bad line (not UTF-8 1) left out of test: its scores are not" in result.err
    stays = [0, 1, 3, 4]
    assert prepared().references("test") == [
        [PAIRS[90 + i][1] for i in stays],
        [PAIRS[95 + i][1] for i in stays],
    ]


TSV = [b"%s\t%s" % (s.encode(), t.encode()) for s, t in PAIRS[:40]]
JSON = [json.dumps({"de": s, "en": t}).encode() for s, t in PAIRS[:40]]


@pytest.mark.parametrize(
    ("name", "good", "bad"),
    [
        ("t.tsv", TSV, {"too few columns": [b"only one", b"two"], "not UTF-8": [b"T\xfcr\tdoor"]}),
        (
            "t.jsonl",
            JSON,
            {
                "no JSON pair": [b"{", b'{"de": 3, "en": "x"}', b"[" * 100_000],
                "half a character": [b'{"de": "\\ud800", "en": "x"}'],
                "zero byte": [b'{"de": "\0", "en": "x"}', b'{"de": "\\u0000", "en": "x"}'],
            },
        ),
    ],
)
def test_bad_rows_are_left_out_by_reason(
    jtrans: Jtrans, name: str, good: list[bytes], bad: dict[str, list[bytes]]
) -> None:
    lines = list(good)
    for line in (line for lines in bad.values() for line in lines):
        lines.insert(7, line)
    Path(name).write_bytes(b"\n".join(lines) + b"\n")
    command = ["prepare", "--train", name, "--valid", "valid", *OPTIONS]
    refused = jtrans(*command)
    assert refused.code == 2 and f"{name}:" in refused.err and "--skip-bad-lines" in refused.err
    result = jtrans(*command, "--skip-bad-lines")
    assert result.code == 0, result.err
    train = prepared().info["splits"]["train"]
    assert train["pairs"] == 40
    assert train["skipped"] == {reason: len(lines) for reason, lines in bad.items()}


def test_files_that_are_not_read_by_lines_have_no_bad_lines(jtrans: Jtrans) -> None:
    Path("train.conllu").write_bytes(conllu("Hund sieht Ball").encode())
    files = ["--train", "train.conllu", "--valid", "train.conllu", "--languages", "de"]
    result = jtrans("prepare", *files, "--out", "p", "--skip-bad-lines")
    assert result.code == 2 and "has no effect on .conllu files" in result.err


def test_a_file_that_is_mostly_no_text_is_refused_all_the_same(jtrans: Jtrans) -> None:
    Path("train.de").write_bytes(random.Random(1).randbytes(20_000))
    result = jtrans(*OWN, "--skip-bad-lines")
    assert result.code == 2 and "train.de is binary or UTF-16" in result.err


def test_a_file_mostly_in_another_encoding_says_why_its_lines_are_not_left_out(
    jtrans: Jtrans,
) -> None:
    spoil("train.de", dict.fromkeys(range(2, 42), b"T\xfcr"))
    result = jtrans(*OWN, "--skip-bad-lines")
    assert result.code == 2
    assert (
        "error: train.de is not UTF-8 text in 40 of 60 lines, too many to leave out: "
        "byte 0xfc in line 3" in " ".join(result.err.split())
    )
    assert "iconv -f ISO-8859-1 -t UTF-8 < train.de" in result.err
    spoil("train.de", dict.fromkeys(range(2, 32), b"T\xc3\xbcr"))
    result = jtrans(*OWN, "--skip-bad-lines")
    assert result.code == 0 and "10 bad lines (not UTF-8 10)" in result.err


def test_files_whose_names_are_not_utf8_are_read_and_shown(jtrans: Jtrans) -> None:
    name = os.fsdecode(b"caf\xe9")
    write(name, PAIRS[:60])
    write(f"{name}.tok", PAIRS[90:95])
    train = ["prepare", "--train", name, "--valid", "valid", *OPTIONS[:-1]]
    tests = ["--test", "news", "--test", f"{name}.tok"]
    result = jtrans(*train, f"{name}-out", *tests, "--json")
    assert result.code == 0, result.err
    assert "caf\\udce9-out" in result.err
    assert json.loads(result.out)["splits"]["train"]["origin"] == [name]
    corpus = PreparedCorpus.open(Path(f"{name}-out"))
    assert corpus.info["splits"]["train"]["origin"] == [name]
    assert corpus.raw_lines(f"{name}.tok", "source") == [source for source, _ in PAIRS[90:95]]
    assert "Unchanged" in jtrans(*train, f"{name}-out", *tests).err
    missing = jtrans(*train, "out", "--test", f"{name}x")
    assert missing.code == 2 and "no such file: caf\\udce9x.de" in missing.err
    assert "did you mean caf\\udce9" in missing.err


def digest(path: str) -> dict[str, Any]:
    data = Path(path).read_bytes()
    return {"path": path, "bytes": len(data), "sha256": hashlib.sha256(data).hexdigest()}


def test_the_provenance_of_a_corpus_is_recorded(jtrans: Jtrans) -> None:
    Path("more.tsv.gz").write_bytes(gzip.compress(b"Ein Haus.\tA house.\n"))
    command = [*OWN, "--train", "more.tsv.gz", "--test", "news", "--force", "--json", "--out=out2"]
    assert jtrans(*command).code == 0
    provenance = PreparedCorpus.open(Path("out2")).info["provenance"]
    assert provenance["command"] == (
        "jtrans prepare --train train --valid valid --languages de-en --bpe-merges 20 "
        "--train more.tsv.gz --test news"
    )
    files = ["train.de", "train.en", "more.tsv.gz", "valid.de", "valid.en", "news.de", "news.en"]
    assert provenance["inputs"] == [digest(path) for path in files]
    assert provenance["tools"]["python"] == platform.python_version()
    assert provenance["tools"]["sacremoses"] == importlib.metadata.version("sacremoses")


def test_a_corpus_may_have_the_name_of_its_training_files(jtrans: Jtrans) -> None:
    line = [*OWN[:-1], "train"]
    assert jtrans(*line).code == 0
    again = jtrans(*line)
    assert again.code == 0 and "Unchanged" in again.err
    assert jtrans(*OWN).code == 0 and Path("out", "corpus.json").is_file()


def test_only_the_text_and_the_options_decide_what_is_up_to_date(jtrans: Jtrans) -> None:
    assert jtrans(*OWN).code == 0
    for name in ("train.de", "train.en"):
        Path(name).rename(f"same_{name}")
    other = [argument.replace("train", "same_train") for argument in OWN[2:]]
    assert "Unchanged" in jtrans("prepare", "--train", *other).err


def test_a_corpus_prepared_when_fewer_options_existed_is_recognised(jtrans: Jtrans) -> None:
    plain = ["--keep-invisible", "--no-protect", "--no-spell"]
    assert jtrans(*OWN, *plain).code == 0
    info = json.loads(Path("out/corpus.json").read_bytes())
    for name in ("strip_invisible", "protect", "spell", "narrow"):
        del info["options"][name]
    info["options"]["drop_leaked"] = True
    for name in ("provenance", "overlap", "files"):
        del info[name]
    Path("out/corpus.json").write_text(json.dumps(info), encoding="utf-8")
    result = jtrans(*OWN, *plain)
    assert result.code == 0
    assert "Unchanged" in result.err
    assert "--force prepares the corpus by today's rules" in result.err
    result = jtrans(*OWN)
    assert result.code == 2
    assert "different --strip-invisible (off, now on)" in result.err
    assert "drop_leaked" not in result.err
    # what may have been prepared by other rules is not replaced without being asked to
    Path("out/train.source.npy").unlink()
    assert jtrans(*OWN, *plain).code == 2
    assert jtrans(*OWN, *plain, "--force").code == 0
    assert "Note" not in jtrans(*OWN, *plain).err


def test_merged_corpora_have_the_provenance_of_their_parts(jtrans: Jtrans) -> None:
    assert jtrans(*OWN).code == 0
    again = ["prepare", "--train", "news", "--valid", "valid", "--languages", "de-en"]
    assert jtrans(*again, "--pipeline", "out", "--out", "two", "--workers", 1).code == 0
    assert jtrans("prepare", "--train", "out", "--train", "two", "--out", "all").code == 0
    provenance = PreparedCorpus.open(Path("all")).info["provenance"]
    assert provenance["command"] == "jtrans prepare --train out --train two"
    parts = provenance["parts"]
    assert [part["inputs"][0] for part in parts] == [digest("train.de"), digest("news.de")]


def test_originals_of_a_named_corpus_are_in_its_provenance(jtrans: Jtrans) -> None:
    Path("mine").mkdir()
    for split, pairs in (("train", PAIRS[:60]), ("valid", PAIRS[60:70]), ("test", PAIRS[70:80])):
        write(f"mine/{split}", pairs)
    options = ["--bpe-merges", 20, "--workers", 1, "--out", "out"]
    result = jtrans("prepare", "multi30k-de-en", "--from", "mine", *options)
    assert result.code == 0, result.err
    provenance = prepared().info["provenance"]
    assert provenance["command"].startswith("jtrans prepare multi30k-de-en --from mine")
    assert {entry["path"] for entry in provenance["inputs"]} == {
        f"{split}.{language}" for split in ("train", "valid", "test") for language in ("de", "en")
    }
    assert (
        provenance["inputs"][0]["sha256"]
        == digest(f"mine/{provenance['inputs'][0]['path']}")["sha256"]
    )


def conllu(*lines: str) -> str:
    """Return sentences as CoNLL-U: words in capitals are nouns, the others verbs."""
    rows = [
        [
            f"{i}\t{word}\t_\t{'NOUN' if word[0].isupper() else 'VERB'}\t_\t_\t0\t_\t_\t_"
            for i, word in enumerate(line.split(), start=1)
        ]
        for line in lines
    ]
    return "".join("\n".join(sentence) + "\n\n" for sentence in rows)


def test_labels_that_were_asked_for_are_followed_by_a_system_that_learns_them(
    jtrans: Jtrans,
) -> None:
    lines = [f"Hund {i} sieht Ball" for i in range(30)]
    for language, form in (("de", "Hund {} sieht Ball"), ("en", "dog {} sees a ball")):
        text = "".join(form.format(i) + "\n" for i in range(30))
        Path(f"train.{language}").write_text(text, encoding="utf-8")
    Path("tags.conllu").write_text(conllu(*lines), encoding="utf-8")
    command = ["prepare", "--train", "train", "--valid-size", "5", "--languages", "de-en"]
    command += ["--bpe-merges", "20", "--workers", "1", "--labels", "conllu:tags.conllu", "--out"]
    following = "Next: jtrans train demo/transformer-pp --data out --run runs/out-transformer-pp"
    assert jtrans(*command, "out").err.splitlines()[-1] == following
    # its other recipes do not learn labels
    done = jtrans(*command, "data/prepared/iwslt15-vi-en", "--force")
    assert "Next: jtrans train demo/transformer-pp --data" in done.err


def test_tagged_sentences_are_prepared_as_source_and_target(jtrans: Jtrans) -> None:
    train = [f"Hund {i} sieht Ball" for i in range(30)]
    Path("train.conllu.gz").write_bytes(gzip.compress(conllu(*train).encode()))
    Path("dev.conllu").write_text(conllu("Ball sieht"), encoding="utf-8", newline="\n")
    files = ["--train", "train.conllu.gz", "--valid", "dev.conllu"]
    options = ["--bpe-merges", "20", "--workers", "1", "--out", "out"]
    result = jtrans("prepare", *files, "--languages", "de", *options)
    assert result.code == 0, result.err
    assert "Labels       pos from the corpus itself: train 30 of 30 · valid 1 of 1" in result.err
    for line in result.err.splitlines():  # source and target are the same: nothing is said twice
        parts = re.split(r" {2,}| · |, ", line)
        assert len(set(parts)) == len(parts), line
    assert "Overlap      in train before cleaning: valid 0 sentences\n" in result.err
    assert pairs_of("valid") == [("Ball sieht", "Ball sieht")]
    corpus = prepared()
    names, labels = corpus.label_names["pos"], corpus.pairs("train").labels["pos"][0]
    assert names[labels[0]] == "NOUN" and labels[-1] < 0
    assert "Unchanged" in jtrans("prepare", *files, "--languages", "de", *options).err
    assert "Next: jtrans train ud-en/transformer-pp --data out" in result.err
    settings = ["model.width=8", "training.max_updates=1", "training.validate_samples=0"]
    changes = [part for setting in settings for part in ("--set", setting)]
    result = jtrans("train", "ud-en/transformer-pp", "--data", "out", "--run", "tagger", *changes)
    assert result.err.splitlines()[-1] == "Next: jtrans tag tagger", result.err


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--languages", "de-en"], "sentences of one language, not pairs of de-en"),
        (["--languages", "deu5"], "deu5 is not a language code"),
        (["--languages", "de", "--source-segment", "character"], "are the same text"),
        (["--languages", "de", "--test", "news"], "is one language, not two"),
    ],
)
def test_tagged_sentences_are_of_one_language(
    options: list[str], message: str, jtrans: Jtrans
) -> None:
    Path("train.conllu").write_text(conllu("Hund sieht Ball"), encoding="utf-8", newline="\n")
    files = ["--train", "train.conllu", "--valid", "train.conllu"]
    result = jtrans("prepare", *files, *options, "--out", "out")
    assert result.code == 2 and message in result.err
    assert not Path("out").exists()


def test_lines_of_conllu_are_not_offered_to_be_left_out(jtrans: Jtrans) -> None:
    Path("train.conllu").write_bytes(conllu("Hund sieht Ball").encode() + b"# text = \xff\n")
    files = ["--train", "train.conllu", "--valid", "train.conllu", "--languages", "de"]
    for command in (["prepare", *files, "--out", "p"], [*OWN, "--labels", "conllu:train.conllu"]):
        result = jtrans(*command)
        assert result.code == 2 and "train.conllu is not UTF-8" in result.err
        assert "--skip-bad-lines" not in result.err
