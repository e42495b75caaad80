"""From the name of a corpus to its text: archives, folders, ready files, licensed releases."""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import os
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from plugins.command_line import environment

from jtrans.corpora.catalogue import load as catalogue
from jtrans.corpora.catalogue.load import CATALOGUE, find_entry
from jtrans.corpora.download import search
from jtrans.corpora.download.deliver import deliver
from jtrans.corpora.download.search import find_part, list_files
from jtrans.corpora.download.store import OriginalRecord
from jtrans.corpora.entry import OriginalFile
from jtrans.errors import EXIT_BAD_INPUT, CorpusError, JtransError

GERMAN = "".join(f"<title>Titel {i}</title>\n<talkid>{i}</talkid>\nSatz {i}.\n" for i in range(9))
ENGLISH = GERMAN.replace("Titel", "Title").replace("Satz", "Sentence")
SETS = ("TED.dev2010", "TEDX.dev2012", "TED.tst2010", "TED.tst2011", "TED.tst2012")


@pytest.fixture(autouse=True)
def downloads(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Keep downloads and unpacked archives in the test's folder, and the network out."""
    monkeypatch.setenv("JTRANS_CACHE", str(tmp_path / "downloads"))
    monkeypatch.setenv("JTRANS_OFFLINE", "1")
    return tmp_path / "downloads"


def wit3_files() -> dict[str, bytes]:
    """Make a small release of IWSLT14."""
    files = {"train.tags.de-en.de": GERMAN, "train.tags.de-en.en": ENGLISH}
    for name in SETS:
        for language in ("de", "en"):
            segment = f'<doc>\n<seg id="1"> {name} {language} </seg>\n</doc>\n'
            files[f"IWSLT14.{name}.de-en.{language}.xml"] = segment
    return {f"de-en/{name}": text.encode() for name, text in files.items()}


def put(folder: Path, files: dict[str, bytes]) -> Path:
    for name, data in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
    return folder


class Log:
    def __init__(self) -> None:
        self.lines: list[str] = []

    def say(self, label: str, text: str) -> None:
        self.lines.append(f"{label} {text}")

    def warn(self, text: str) -> None:
        self.lines.append(f"warning {text}")

    def advance(self, task: str, done: int, total: int | None = None, *, unit: str = "") -> None:
        pass


def check_iwslt14(folder: Path) -> None:
    corpus = deliver(find_entry("iwslt14-de-en"), folder).corpus
    assert list(corpus.splits["train"].source[:2]) == ["Titel 0", "Satz 0."]
    assert list(corpus.splits["test"].target) == [f"{name} en" for name in SETS]
    assert (list(corpus.splits), corpus.valid_every) == (["train", "test"], 23)


def test_an_original_archive_is_unpacked_elsewhere_and_read(
    tmp_path: Path, tar: Any, downloads: Path
) -> None:
    folder = tmp_path / "original"
    folder.mkdir()
    tar(folder / "de-en.tgz", wit3_files())
    check_iwslt14(folder)
    assert [path.name for path in folder.iterdir()] == ["de-en.tgz"]
    unpacked = sorted(downloads.rglob("*.xml"))
    check_iwslt14(folder)
    assert sorted(downloads.rglob("*.xml")) == unpacked and len(unpacked) == 10


def test_an_archive_itself_or_what_it_holds_will_do(tmp_path: Path, tar: Any) -> None:
    check_iwslt14(tar(tmp_path / "renamed.tar.gz", wit3_files()))
    check_iwslt14(put(tmp_path / "deep/down", wit3_files()).parent)


def test_packed_files_are_found_by_their_names(tmp_path: Path) -> None:
    files = {f"{name}.gz": gzip.compress(data) for name, data in wit3_files().items()}
    check_iwslt14(put(tmp_path / "in", files))


def test_a_name_with_swapped_languages_swaps_the_sides(tmp_path: Path) -> None:
    folder = put(tmp_path / "in", wit3_files())
    corpus = deliver(find_entry("iwslt14-en-de"), folder).corpus
    assert (corpus.name, corpus.languages) == ("iwslt14-en-de", ("en", "de"))
    assert list(corpus.splits["train"].source[:2]) == ["Title 0", "Sentence 0."]
    assert list(corpus.splits["test"].target) == [f"{name} de" for name in SETS]


def test_missing_files_are_listed_together(tmp_path: Path) -> None:
    files = wit3_files()
    del files["de-en/IWSLT14.TED.tst2010.de-en.en.xml"], files["de-en/train.tags.de-en.de"]
    with pytest.raises(CorpusError) as caught:
        deliver(find_entry("iwslt14-de-en"), put(tmp_path / "in", files))
    assert "lacks 2 of 6 parts" in caught.value.message
    for part in ("train.tags.de-en.de", "IWSLT14.TED.tst2010.de-en.en.xml"):
        assert part in caught.value.message
    assert "de-en.tgz" in str(caught.value.hint)
    assert caught.value.exit_code == EXIT_BAD_INPUT


def ready_files() -> dict[str, bytes]:
    return {
        f"{split}.{language}": f"{split} {language} &apos;s .\n".encode()
        for split in ("train", "val", "test")
        for language in ("de", "en")
    }


def test_ready_files_stand_in_for_originals_and_are_said_to(tmp_path: Path) -> None:
    log = Log()
    folder = put(tmp_path / "in", ready_files())
    delivery = deliver(find_entry("iwslt14-en-de"), folder, progress=log)
    assert list(delivery.corpus.splits["valid"].source) == ["val en &apos;s ."]
    assert delivery.options["source_segment"] == "whitespace"
    assert delivery.corpus.valid_every is None
    assert log.lines[:1] == [f"Ready files train, valid, test taken from {folder} as they are"]


def test_originals_go_before_ready_files(tmp_path: Path) -> None:
    check_iwslt14(put(tmp_path / "in", {**ready_files(), **wit3_files()}))


def test_a_corpus_in_one_piece_is_split(tmp_path: Path) -> None:
    rows = "".join(f"Sentence {i} is here.\tSatz {i} ist hier.\tCC-BY {i}\n" for i in range(20_000))
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        archive.writestr("deu.txt", rows)
        archive.writestr("_about.txt", "about")
    folder = put(tmp_path / "in", {"deu-eng.zip": packed.getvalue()})
    splits = deliver(find_entry("tatoeba-de-en"), folder).corpus.splits
    assert {name: len(text) for name, text in splits.items()} == {
        "train": 16_000, "valid": 2_000, "test": 2_000,
    }  # fmt: skip
    assert splits["test"].source[0].endswith("ist hier.")


def test_a_blank_pair_at_the_end_is_dropped_and_said(tmp_path: Path, tar: Any) -> None:
    log = Log()
    folder = put(tmp_path / "in", {"val.de": b"a\n", "val.en": b"b\n", "test.de": b"a\n",
                                   "test.en": b"b\n"})  # fmt: skip
    tar(folder / "training.tar.gz", {"train.de": b"Ja\x0c.\n\n", "train.en": b"Yes.\n\n"})
    splits = deliver(find_entry("multi30k-de-en"), folder, progress=log).corpus.splits
    assert list(splits["train"].target) == ["Yes."]
    assert "Noticed train: blank pair at the end 1 · form feed inside a line 1" in log.lines
    assert any(line.startswith("warning") and "different sha256" in line for line in log.lines)


def counted_files(train: int, valid: int, test: int) -> dict[str, bytes]:
    """Make text with the file names of Multi30k, and as many lines as asked for."""
    return {
        f"{split}.{language}": "".join(f"{language} {i}\n" for i in range(count)).encode()
        for split, count in (("train", train), ("val", valid), ("test", test))
        for language in ("de", "en")
    }


def warnings_of(name: str, folder: Path) -> list[str]:
    log = Log()
    deliver(find_entry(name), folder, progress=log)
    return [line.removeprefix("warning ") for line in log.lines if line.startswith("warning ")]


def test_a_split_of_another_size_than_in_the_catalogue_gets_a_warning(tmp_path: Path) -> None:
    folder = put(tmp_path / "in", counted_files(200, 1_014, 2_000))
    assert warnings_of("multi30k-en-de", folder) == [
        f"train has 200 pairs, multi30k-en-de has 29,000: is {folder} complete?",
        f"test has 2,000 pairs, multi30k-en-de has 1,000: is {folder} this corpus?",
    ]


def test_ready_files_of_another_size_get_the_same_warning(tmp_path: Path) -> None:
    folder = put(tmp_path / "in", counted_files(54_000, 7_283, 6_750))
    assert warnings_of("iwslt14-de-en", folder) == [
        f"train has 54,000 pairs, iwslt14-de-en has 160,239: is {folder} complete?"
    ]


@pytest.mark.parametrize(
    ("name", "sizes"),
    [
        ("multi30k-de-en", (29_000, 1_014, 1_000)),
        ("multi30k-de-en", (29_001, 1_015, 1_001)),  # a blank line more
        ("iwslt14-de-en", (160_239, 7_283, 6_750)),
        ("iwslt14-de-en", (174_443, 7_283, 6_750)),  # before cleaning
        ("tatoeba-zh-en", (60_000, 1_000, 1_000)),  # as it grows
        ("tatoeba-zh-en", (18_000, 1_000, 1_000)),  # a release of 2018
    ],
)
def test_a_complete_copy_gets_no_warning(
    tmp_path: Path, name: str, sizes: tuple[int, int, int]
) -> None:
    files = counted_files(*sizes)
    if name.startswith("tatoeba"):
        files = {path.replace(".de", ".zh"): data for path, data in files.items()}
    assert warnings_of(name, put(tmp_path / "in", files)) == []


LDC = [source.file for source in CATALOGUE["nist-zh-en"].sources][:8]


def nist_files() -> dict[str, bytes]:
    """Make synthetic text with the layout of the NIST corpora."""
    files: dict[str, bytes] = {}
    for number in LDC:
        for part in ("a", "b"):
            files[f"{number}/data/{part}.zh"] = f"{number} {part} 一。\n".encode()
            files[f"{number}/data/{part}.en"] = f"{number} {part} one.\n".encode()
    for name in ("MT06", "MT05"):
        files[f"{name}/{name}.zh"] = "一\n二\n".encode()
        for i in range(4):
            files[f"{name}/{name}.{i}.en"] = f"one {i}\ntwo {i}\n".encode()
    source = '<srcset><doc docid="a"><seg id="1">一</seg></doc></srcset>'
    docs = "".join(f'<doc docid="a" sysid="r{i}"><seg id="1">one {i}</seg></doc>' for i in range(4))
    files["eval/mt08_chinese_evlset_v0.sgm"] = source.encode()
    files["eval/mt08_chinese_evlset_v0-ref.sgm"] = f"<refset>{docs}</refset>".encode()
    return files


def test_licensed_releases_are_read_with_all_references(tmp_path: Path) -> None:
    splits = deliver(find_entry("nist-zh-en"), put(tmp_path / "in", nist_files())).corpus.splits
    assert list(splits) == ["train", "valid", "mt05", "mt08"]
    assert len(splits["train"]) == 16
    assert splits["train"].target[1] == f"{LDC[0]} b one."
    assert [list(lines) for lines in splits["valid"].references][3] == ["one 3", "two 3"]
    assert [lines[0] for lines in splits["mt08"].references] == [f"one {i}" for i in range(4)]


@pytest.mark.parametrize("ending", ["tgz", "TGZ", "Tar.Gz"])
def test_a_release_may_be_an_archive_named_by_its_number(
    tmp_path: Path, tar: Any, ending: str
) -> None:
    files = nist_files()
    inside = {name: files.pop(name) for name in list(files) if name.startswith(LDC[2])}
    folder = put(tmp_path / "in", files)
    tar(
        folder / f"{LDC[2]}.{ending}",
        {name.split("/", 1)[1]: data for name, data in inside.items()},
    )
    assert len(deliver(find_entry("nist-zh-en"), folder).corpus.splits["train"]) == 16


def test_missing_releases_are_named_by_their_catalogue_numbers(tmp_path: Path) -> None:
    files = {
        name: data
        for name, data in nist_files().items()
        if not name.startswith((LDC[0], LDC[5], "MT05"))
    }
    with pytest.raises(CorpusError) as caught:
        deliver(find_entry("nist-zh-en"), put(tmp_path / "in", files))
    assert "lacks 3 of 11 parts of nist-zh-en" in caught.value.message
    for number in (LDC[0], LDC[5], "LDC2010T14"):
        assert f"{number} (" in caught.value.message
    assert LDC[1] not in caught.value.message


def test_sides_with_different_numbers_of_files_are_refused(tmp_path: Path) -> None:
    files = nist_files()
    del files[f"{LDC[3]}/data/b.en"]
    with pytest.raises(CorpusError, match="2 source files and 1 target files do not make pairs"):
        deliver(find_entry("nist-zh-en"), put(tmp_path / "in", files))


def test_licensed_corpora_cannot_be_downloaded() -> None:
    with pytest.raises(CorpusError, match="is licensed") as caught:
        deliver(find_entry("nist-zh-en"))
    assert all(number in caught.value.message for number in LDC)
    assert "--from FOLDER" in str(caught.value.hint)


def test_built_in_corpora_take_nothing_from_a_folder(tmp_path: Path) -> None:
    with pytest.raises(CorpusError, match="built in"):
        deliver(find_entry("grammar-de-en"), tmp_path)


def test_offline_is_refused_before_anything_else() -> None:
    with pytest.raises(JtransError, match="JTRANS_OFFLINE"):
        deliver(find_entry("multi30k-de-en"))


def test_a_folder_that_is_not_there_is_named(tmp_path: Path) -> None:
    for name, is_licensed in (("multi30k-de-en", False), ("nist-zh-en", True)):
        with pytest.raises(CorpusError, match="no such folder") as caught:
            deliver(find_entry(name), tmp_path / "nowhere")
        assert ("download" in str(caught.value.hint)) is not is_licensed


def test_a_file_that_is_no_archive_is_not_unpacked(tmp_path: Path) -> None:
    put(tmp_path, {"train.de": b"Ein Hund .\n"})
    with pytest.raises(CorpusError, match=r"train\.de is neither a folder nor an archive"):
        deliver(find_entry("multi30k-de-en"), tmp_path / "train.de")


def test_a_download_is_unpacked_read_and_not_repeated(
    tar: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, downloads: Path, site: Any
) -> None:
    data = tar(tmp_path / "de-en.tgz", wit3_files()).read_bytes()
    mirror = site.mirror("texts/de-en.tgz", lambda handler: handler.send(200, data))
    sources = (OriginalFile(file="de-en.tgz", mirrors=(mirror,)),)
    entry = find_entry("iwslt14-de-en").model_copy(update={"sources": sources})
    monkeypatch.setitem(catalogue.CATALOGUE, entry.name, entry)
    for name in ("iwslt14-de-en", "iwslt14-en-de"):
        assert len(deliver(find_entry(name)).corpus.splits["test"]) == 5
    assert len(site.requests) == 1
    assert next((downloads / "files").rglob("de-en.tgz")).read_bytes() == data


def test_licence_and_size_are_shown_before_the_download_and_the_origin_is_handed_on(
    tar: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, site: Any
) -> None:
    data = tar(tmp_path / "de-en.tgz", wit3_files()).read_bytes()
    answer = lambda handler: handler.send(200, data)  # noqa: E731
    mirror = site.mirror("de-en.tgz", answer, size=len(data))
    sources = (OriginalFile(file="de-en.tgz", mirrors=(mirror,)),)
    entry = find_entry("iwslt14-de-en").model_copy(update={"sources": sources})
    log = Log()
    record = OriginalRecord("de-en.tgz", mirror.url, len(data), hashlib.sha256(data).hexdigest())
    assert deliver(entry, progress=log).originals == (record,)
    assert log.lines[0].startswith("Licence CC BY-NC-ND 3.0")
    assert log.lines[1].startswith("Download 1 file, 0.0 MB")
    assert log.lines[2].startswith("Downloaded")
    again = Log()
    assert deliver(entry, progress=again).originals == (record,) and again.lines == []


def test_files_of_the_user_are_recorded_by_their_digests(tmp_path: Path, tar: Any) -> None:
    files = {"val.de": b"a\n", "val.en": b"b\n", "test.de": b"a\n", "test.en": b"b\n"}
    folder = put(tmp_path / "in", files)
    tar(folder / "training.tar.gz", {"train.de": b"Ja.\n", "train.en": b"Yes.\n"})
    originals = deliver(find_entry("multi30k-de-en"), folder).originals
    assert {original.file for original in originals} == {"training.tar.gz", *files}
    assert all(not original.url and len(original.sha256) == 64 for original in originals)


def test_the_official_files_of_multi30k_come_first_and_older_archives_still_serve(
    tmp_path: Path, downloads: Path, tar: Any
) -> None:
    entry = find_entry("multi30k-de-en")
    for source in entry.sources:
        url = source.mirrors[0].url
        assert url.startswith(
            "https://raw.githubusercontent.com/multi30k/dataset/master/data/task1"
        )
    old, records = downloads / "multi30k-de-en", {}
    old.mkdir(parents=True)
    sources = []
    for source in entry.sources:
        name, ends = source.mirrors[1].file, source.file.split(".")[0]
        texts = {f"{ends}.{language}": b"a\n" for language in ("de", "en")}
        data = (tar(old / name, texts) if name not in records else old / name).read_bytes()
        sha256 = hashlib.sha256(data).hexdigest()
        records[name] = {"sha256": sha256, "size": len(data), "url": "https://x"}
        mirrors = (source.mirrors[0], source.mirrors[1].model_copy(update={"sha256": sha256}))
        sources.append(source.model_copy(update={"mirrors": mirrors}))
    (old / "checksums.json").write_text(json.dumps(records), "utf-8")
    splits = deliver(entry.model_copy(update={"sources": tuple(sources)})).corpus.splits
    assert list(splits) == ["train", "valid", "test"]


@pytest.mark.parametrize("disk", ["/", "///", "/tmp/.."])
def test_a_whole_disk_is_not_searched(disk: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.walk", lambda *_: pytest.fail("the disk is searched"))
    with pytest.raises(CorpusError, match="is a whole disk") as caught:
        deliver(find_entry("iwslt14-de-en"), Path(disk))
    assert caught.value.exit_code == EXIT_BAD_INPUT


def test_a_folder_with_far_too_much_in_it_is_not_searched_to_its_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(search, "MOST_ENTRIES", 50)
    for n in range(30):
        (tmp_path / f"{n:02}/a").mkdir(parents=True)
    visited: list[str] = []
    walk = os.walk

    def spy(top: Path) -> Iterator[Any]:
        for row in walk(top):
            visited.append(str(row[0]))
            yield row

    monkeypatch.setattr("os.walk", spy)
    with pytest.raises(CorpusError, match="holds more than 50 files and folders"):
        deliver(find_entry("wmt14-en-de"), tmp_path)
    assert len(visited) < 50


def test_both_sides_come_from_one_folder_where_possible(tmp_path: Path, downloads: Path) -> None:
    """The official train.de has a line less than the one in the archive, with its blank end."""
    (tmp_path / "official").mkdir()
    (tmp_path / "official/train.de").write_bytes(b"Ja.\n")
    put(tmp_path / "archive", {"train.de": b"Ja.\n\n", "train.en": b"Yes.\n\n"})
    folders = [tmp_path / "official", tmp_path / "archive"]
    part = find_entry("multi30k-de-en").parts["train"][0]
    files = find_part([list_files(folder) for folder in folders], part)
    assert files is not None
    assert {path.parent.name for path in files.paths} == {"archive"}
    (tmp_path / "archive/train.de").unlink()
    files = find_part([list_files(folder) for folder in folders], part)
    assert files is not None and [path.parent.name for path in files.paths] == [
        "official", "archive",
    ]  # fmt: skip


@pytest.mark.thorough
def test_processes_that_prepare_one_corpus_at_once_share_its_files(
    tar: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, site: Any
) -> None:
    data = tar(tmp_path / "de-en.tgz", wit3_files()).read_bytes()
    mirror = site.mirror("de-en.tgz", lambda handler: handler.send(200, data))
    program = f"""
from jtrans.corpora.catalogue.load import find_entry
from jtrans.corpora.download.deliver import deliver
from jtrans.corpora.entry import Mirror, OriginalFile

source = OriginalFile(file="de-en.tgz", mirrors=(Mirror(url={mirror.url!r}),))
entry = find_entry("iwslt14-de-en").model_copy(update={{"sources": (source,)}})
print(len(deliver(entry).corpus.splits["test"]))
"""
    command = [sys.executable, "-c", program]
    processes = [
        subprocess.Popen(command, env=environment(), stdout=subprocess.PIPE) for _ in range(4)
    ]
    assert [process.communicate(timeout=120)[0] for process in processes] == [b"5\n"] * 4
    assert len(site.requests) == 1
