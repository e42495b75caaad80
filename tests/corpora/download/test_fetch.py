"""Downloads from a server on loopback that drops, lies, stalls and refuses."""

from __future__ import annotations

import dataclasses
import gzip
import hashlib
import http.client
import json
import os
import pwd
import ssl
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from plugins.listener import Listener

from jtrans.corpora.download.fetch import Patience, fetch
from jtrans.corpora.download.store import OriginalRecord, Store
from jtrans.corpora.entry import Mirror, OriginalFile
from jtrans.errors import EXIT_BAD_INPUT, EXIT_FAILED, JtransError, WorkError
from jtrans.files import cache_folder
from jtrans.locks import exclusive

DATA = bytes(range(256)) * 2000
SHA = hashlib.sha256(DATA).hexdigest()
HALF = len(DATA) // 2


def listed(file: str, mirrors: tuple[Mirror, ...]) -> OriginalFile:
    """Return a file as the catalogue lists it."""
    return OriginalFile(file=file, mirrors=mirrors)


def whole(handler: Any) -> None:
    """Serve the file, from where it is asked for."""
    wanted = handler.headers.get("Range")
    if wanted is None:
        handler.send(200, DATA, ETag='"1"')
        return
    begin = int(wanted.removeprefix("bytes=").removesuffix("-"))
    if begin >= len(DATA):
        handler.send(416, Content_Range=f"bytes */{len(DATA)}")
    else:
        place = f"bytes {begin}-{len(DATA) - 1}/{len(DATA)}"
        handler.send(206, DATA[begin:], Content_Range=place, ETag='"1"')


def dropped(handler: Any) -> None:
    """Announce all, send half, hang up."""
    handler.send(200, DATA[:HALF], Content_Length=str(len(DATA)), ETag='"1"')
    handler.cut()


def status(code: int, **headers: str) -> Callable[..., None]:
    return lambda handler: handler.send(code, b"no", **headers)


def wrong(handler: Any) -> None:
    handler.send(200, b"x" * len(DATA))


def stalled(handler: Any) -> None:
    handler.send(200, DATA[:HALF], Content_Length=str(len(DATA)), ETag='"1"')
    time.sleep(2.0)


def get(source: OriginalFile, cache: Path, **more: Any) -> Path:
    """Fetch a file into a cache; return its path."""
    return fetch(source, Store(cache), **more).path


def beside(cache: Path, mirror: Mirror, ending: str = "") -> Path:
    """Return the path of a mirror's file in a cache, or of another file beside it."""
    path = Store(cache).path(mirror)
    return path.with_name(path.name + ending)


def files_of(folder: Path) -> set[str]:
    return {path.name for path in folder.rglob("*") if path.is_file()}


def test_a_file_arrives_whole_and_its_checksum_is_recorded(
    site: Any, patience: Patience, tmp_path: Path
) -> None:
    listener = Listener()
    source = OriginalFile(
        file="data.bin", mirrors=(site.mirror("data.bin", whole, sha256=SHA, size=len(DATA)),)
    )
    path = get(source, tmp_path, patience=patience, progress=listener)
    assert path.read_bytes() == DATA
    assert files_of(tmp_path) == {"data.bin", "download.json"}
    assert fetch(source, Store(tmp_path)).record.sha256 == SHA
    assert listener.said[0][0] == "Downloaded" and "MB/s" in listener.said[0][1]
    assert listener.advances[-1] == ("Downloading data.bin", len(DATA), len(DATA))


def test_a_file_that_is_here_is_not_asked_for_again(
    site: Any, patience: Patience, tmp_path: Path
) -> None:
    source = listed("data.bin", (site.mirror("data.bin", whole, sha256=SHA),))
    get(source, tmp_path, patience=patience)
    get(source, tmp_path, patience=patience)
    assert len(site.requests) == 1


def test_a_dropped_connection_is_continued_where_it_ended(
    site: Any, patience: Patience, tmp_path: Path
) -> None:
    source = OriginalFile(
        file="data.bin", mirrors=(site.mirror("data.bin", dropped, whole, sha256=SHA),)
    )
    assert get(source, tmp_path, patience=patience).read_bytes() == DATA
    assert site.ranges() == [None, f"bytes={HALF}-"]


def test_a_later_run_continues_what_an_interrupted_one_left(
    site: Any, patience: Patience, tmp_path: Path
) -> None:
    mirror = site.mirror("data.bin", dropped, status(404), whole, sha256=SHA)
    with pytest.raises(WorkError):
        get(listed("data.bin", (mirror,)), tmp_path, patience=patience)
    assert beside(tmp_path, mirror, ".part").stat().st_size == HALF
    assert not beside(tmp_path, mirror).exists()
    get(listed("data.bin", (mirror,)), tmp_path, patience=patience)
    assert site.ranges()[-1] == f"bytes={HALF}-"
    assert beside(tmp_path, mirror).read_bytes() == DATA


def test_a_server_that_cannot_continue_sends_all_again(
    site: Any, patience: Patience, tmp_path: Path
) -> None:
    def anew(handler: Any) -> None:
        handler.send(200, DATA)

    source = OriginalFile(
        file="data.bin", mirrors=(site.mirror("data.bin", dropped, anew, sha256=SHA),)
    )
    assert get(source, tmp_path, patience=patience).read_bytes() == DATA


def test_a_server_that_stalls_is_left_and_asked_again(
    site: Any, patience: Patience, tmp_path: Path
) -> None:
    source = OriginalFile(
        file="data.bin", mirrors=(site.mirror("data.bin", stalled, whole, sha256=SHA),)
    )
    short = dataclasses.replace(patience, timeout_seconds=1.0)
    assert get(source, tmp_path, patience=short).read_bytes() == DATA
    assert site.ranges()[1] == f"bytes={HALF}-"


def test_a_slow_server_is_waited_for_and_watched(
    site: Any, patience: Patience, tmp_path: Path
) -> None:
    def slow(handler: Any) -> None:
        handler.send(200, DATA[:HALF], Content_Length=str(len(DATA)))
        for begin in range(HALF, len(DATA), HALF // 4):
            time.sleep(0.05)
            handler.wfile.write(DATA[begin : begin + HALF // 4])

    listener = Listener()
    source = listed("data.bin", (site.mirror("data.bin", slow, sha256=SHA),))
    assert get(source, tmp_path, patience=patience, progress=listener).read_bytes() == DATA
    done = [done for _, done, _ in listener.advances]
    assert len(site.requests) == 1 and done == sorted(done) and len(set(done)) >= 5


def test_a_file_that_changed_meanwhile_is_taken_anew(
    site: Any, patience: Patience, tmp_path: Path
) -> None:
    asked = []

    def changed(handler: Any) -> None:
        asked.append(handler.headers["If-Range"])
        handler.send(200, DATA[::-1], ETag='"2"')

    source = listed("data.bin", (site.mirror("data.bin", dropped, changed),))
    assert get(source, tmp_path, patience=patience).read_bytes() == DATA[::-1]
    assert asked == ['"1"']


def test_a_part_that_the_server_continues_elsewhere_is_not_used(
    site: Any, patience: Patience, tmp_path: Path
) -> None:
    def elsewhere(handler: Any) -> None:
        handler.send(206, DATA[5:], Content_Range=f"bytes 5-{len(DATA) - 1}/{len(DATA)}")

    source = OriginalFile(
        file="data.bin", mirrors=(site.mirror("data.bin", dropped, elsewhere, whole, sha256=SHA),)
    )
    assert get(source, tmp_path, patience=patience).read_bytes() == DATA


def test_416_for_a_file_that_is_complete_is_its_end(
    site: Any, patience: Patience, tmp_path: Path
) -> None:
    mirror = site.mirror("data.bin", whole, sha256=SHA)
    part = beside(tmp_path, mirror, ".part")
    part.parent.mkdir(parents=True)
    part.write_bytes(DATA)
    source = listed("data.bin", (mirror,))
    assert get(source, tmp_path, patience=patience).read_bytes() == DATA
    assert site.ranges() == [f"bytes={len(DATA)}-"]


def test_416_for_a_part_of_something_else_starts_over(
    site: Any, patience: Patience, tmp_path: Path
) -> None:
    mirror = site.mirror("data.bin", whole, sha256=SHA)
    part = beside(tmp_path, mirror, ".part")
    part.parent.mkdir(parents=True)
    part.write_bytes(DATA + b"more")
    source = listed("data.bin", (mirror,))
    assert get(source, tmp_path, patience=patience).read_bytes() == DATA
    assert site.ranges() == [f"bytes={len(DATA) + 4}-", None]


def test_a_beginning_that_does_not_fit_is_thrown_away_once(
    site: Any, patience: Patience, tmp_path: Path
) -> None:
    mirror = site.mirror("data.bin", whole, sha256=SHA)
    part = beside(tmp_path, mirror, ".part")
    part.parent.mkdir(parents=True)
    part.write_bytes(b"y" * HALF)
    source = listed("data.bin", (mirror,))
    assert get(source, tmp_path, patience=patience).read_bytes() == DATA
    assert site.ranges() == [f"bytes={HALF}-", None]


def test_without_a_checksum_the_part_of_another_mirror_is_not_continued(
    site: Any, patience: Patience, tmp_path: Path
) -> None:
    first = site.mirror("a/data.bin", dropped, status(404))
    second = site.mirror("b/data.bin", whole)
    path = get(listed("data.bin", (first, second)), tmp_path, patience=patience)
    assert path.read_bytes() == DATA
    assert site.requests[-1] == ("/b/data.bin", None)


@pytest.mark.parametrize("code", [401, 403, 404, 410])
def test_a_refusal_is_not_repeated_and_the_next_mirror_serves(
    site: Any, patience: Patience, tmp_path: Path, code: Any
) -> None:
    listener = Listener()
    mirrors = (
        site.mirror("a/data.bin", status(code), sha256=SHA),
        site.mirror("b/data.bin", whole, sha256=SHA),
    )
    get(listed("data.bin", mirrors), tmp_path, patience=patience, progress=listener)
    assert [path for path, _ in site.requests] == ["/a/data.bin", "/b/data.bin"]
    assert f"a/data.bin: {code} " in listener.warnings[0]


def test_passing_trouble_is_waited_out_with_growing_pauses(site: Any, tmp_path: Path) -> None:
    pauses: list[float] = []
    patience = Patience(sleep=pauses.append)
    answers = (status(503), status(500), status(429, Retry_After="7"), whole)
    source = listed("data.bin", (site.mirror("data.bin", *answers, sha256=SHA),))
    listener = Listener()
    get(source, tmp_path, patience=patience, progress=listener)
    assert pauses == [1.0, 2.0, 7.0]
    assert listener.said[2] == ("Retrying", "data.bin in 7 s: 429 Too Many Requests")


def test_a_server_is_given_up_after_some_tries(
    site: Any, patience: Patience, tmp_path: Path
) -> None:
    source = OriginalFile(
        file="data.bin", mirrors=(site.mirror("data.bin", status(503), sha256=SHA),)
    )
    with pytest.raises(WorkError, match="503"):
        get(source, tmp_path, patience=patience)
    assert len(site.requests) == patience.attempts


def test_wrong_bytes_are_never_kept(site: Any, patience: Patience, tmp_path: Path) -> None:
    source = listed("data.bin", (site.mirror("data.bin", wrong, sha256=SHA),))
    with pytest.raises(WorkError, match="wrong contents") as caught:
        get(source, tmp_path, patience=patience)
    assert caught.value.exit_code == EXIT_FAILED
    assert files_of(tmp_path) == set()


def test_a_length_that_lies_short_is_found_by_the_checksum(
    site: Any, patience: Patience, tmp_path: Path
) -> None:
    def short(handler: Any) -> None:
        handler.send(200, DATA, Content_Length=str(HALF))

    source = listed("data.bin", (site.mirror("data.bin", short, sha256=SHA),))
    with pytest.raises(WorkError, match="wrong contents"):
        get(source, tmp_path, patience=patience)


@pytest.mark.parametrize("is_announced", [True, False])
def test_more_than_the_file_has_is_not_even_taken(
    site: Any, patience: Patience, tmp_path: Path, is_announced: Any
) -> None:
    def endless(handler: Any) -> None:
        if is_announced:
            handler.send(200, DATA * 2)
        else:
            handler.send_response(200)
            handler.end_headers()
            handler.wfile.write(DATA * 2)

    mirror = site.mirror("data.bin", endless, sha256=SHA, size=len(DATA))
    with pytest.raises(WorkError, match=r"sends (more than|1,024,000 bytes)"):
        get(listed("data.bin", (mirror,)), tmp_path, patience=patience)
    assert not beside(tmp_path, mirror).exists()


def test_all_that_was_tried_is_listed_with_a_way_out(
    site: Any, patience: Patience, tmp_path: Path
) -> None:
    mirrors = (
        site.mirror("a/data.bin", status(404)),
        site.mirror("b/other.zip", status(403)),
        Mirror(url="http://127.0.0.1:1/data.bin"),
    )
    with pytest.raises(WorkError) as caught:
        get(listed("data.bin", mirrors), tmp_path, patience=patience)
    for part in ("a/data.bin (404", "b/other.zip (403", "127.0.0.1:1/data.bin ("):
        assert part in caught.value.message
    assert caught.value.kind == "download.failed"
    assert "data.bin or other.zip" in str(caught.value.hint)
    assert "--from FOLDER" in str(caught.value.hint)


def test_an_unknown_checksum_is_recorded_at_the_first_download_and_said(
    site: Any, patience: Patience, tmp_path: Path
) -> None:
    listener = Listener()
    mirror = site.mirror("data.bin", whole)
    get(listed("data.bin", (mirror,)), tmp_path, patience=patience, progress=listener)
    assert any(label == "Recorded" and SHA in text for label, text in listener.said)
    record = Store(tmp_path).earlier(mirror)
    assert record == OriginalRecord("data.bin", f"{site.url}/data.bin", len(DATA), SHA)


def test_a_corpus_that_changed_since_it_was_deleted_is_taken_with_a_warning(
    site: Any, patience: Patience, tmp_path: Path
) -> None:
    listener = Listener()
    source = listed("data.bin", (site.mirror("data.bin", whole, wrong),))
    get(source, tmp_path, patience=patience).unlink()
    path = get(source, tmp_path, patience=patience, progress=listener)
    assert path.read_bytes() == b"x" * len(DATA)
    assert "not the file of the last download" in listener.warnings[0]


@pytest.mark.parametrize("value", ["1", "yes"])
def test_offline_refuses_at_once(
    site: Any, patience: Patience, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, value: Any
) -> None:
    monkeypatch.setenv("JTRANS_OFFLINE", value)
    source = listed("data.bin", (site.mirror("data.bin", whole),))
    with pytest.raises(JtransError, match="JTRANS_OFFLINE") as caught:
        get(source, tmp_path / "new", patience=patience)
    assert caught.value.exit_code == EXIT_BAD_INPUT
    assert site.requests == [] and not (tmp_path / "new").exists()


def test_offline_takes_what_is_here(
    site: Any, patience: Patience, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = listed("data.bin", (site.mirror("data.bin", whole),))
    get(source, tmp_path, patience=patience)
    monkeypatch.setenv("JTRANS_OFFLINE", "1")
    assert get(source, tmp_path, patience=patience).read_bytes() == DATA


def test_redirections_are_followed(site: Any, patience: Patience, tmp_path: Path) -> None:
    site.mirror("there", whole)
    mirror = site.mirror("data.bin", status(302, Location=f"{site.url}/there"), sha256=SHA)
    assert get(listed("data.bin", (mirror,)), tmp_path, patience=patience).read_bytes() == DATA


def test_a_file_larger_than_the_disk_is_refused_before_it_is_written(
    site: Any, patience: Patience, tmp_path: Path
) -> None:
    def huge(handler: Any) -> None:
        handler.send(200, b"", Content_Length=str(10**18))

    with pytest.raises(WorkError, match="disk is full") as caught:
        get(listed("d", (site.mirror("d", huge),)), tmp_path, patience=patience)
    assert caught.value.kind == "disk.full"


def test_two_processes_do_not_write_the_same_file(
    site: Any, patience: Patience, tmp_path: Path
) -> None:
    mirror = site.mirror("data.bin", whole, sha256=SHA)
    short = dataclasses.replace(patience, other_process_seconds=0.2)
    with (
        exclusive(beside(tmp_path, mirror, ".part.lock.json"), JtransError),
        pytest.raises(WorkError, match=rf"process {os.getpid()} on .* is getting data\.bin"),
    ):
        get(listed("data.bin", (mirror,)), tmp_path, patience=short)
    assert site.requests == []


def test_a_second_process_waits_for_the_first_and_takes_its_file(
    site: Any, patience: Patience, tmp_path: Path
) -> None:
    mirror = site.mirror("data.bin", whole, sha256=SHA)
    listener, store = Listener(), Store(tmp_path)
    part = beside(tmp_path, mirror, ".part")
    owner, begun, results = part.with_name(f"{part.name}.lock.json"), threading.Event(), []

    def first() -> None:
        with exclusive(owner, JtransError):
            begun.set()
            while not listener.said:
                time.sleep(0.01)
            part.write_bytes(DATA)
            results.append(store.keep(mirror, part, SHA).path)

    thread = threading.Thread(target=first)
    thread.start()
    begun.wait()
    path = get(listed("data.bin", (mirror,)), tmp_path, patience=patience, progress=listener)
    thread.join()
    assert listener.said[0][0] == "Waiting"
    assert results == [path] and site.requests == []


# What servers send in place of a file.

PAGE = b"\n<!DOCTYPE html>\n<html><head><title>Log in</title></head><body>" + b"x" * 2000
GZIP = gzip.compress(os.urandom(4000))


def page(handler: Any) -> None:
    handler.send(200, PAGE, Content_Type="text/html; charset=utf-8")


def sends(data: bytes, **headers: str) -> Callable[..., None]:
    return lambda handler: handler.send(200, data, **headers)


NAMES = ["a.tgz", "a.tar.gz", "a.zip", "a.tar", "a.tar.xz", "a.tar.bz2", "train.de.gz", "train.de"]


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("type_", ["text/html", "application/octet-stream"])
def test_a_page_with_status_200_is_refused_and_nothing_is_kept(
    site: Any, patience: Patience, tmp_path: Path, name: str, type_: str
) -> None:
    source = listed(name, (site.mirror(name, sends(PAGE, Content_Type=type_)),))
    with pytest.raises(WorkError, match="sends a web page instead of the file"):
        get(source, tmp_path, patience=patience)
    assert len(site.requests) == 1 and files_of(tmp_path) == set()


def test_the_next_mirror_serves_in_place_of_a_page(
    site: Any, patience: Patience, tmp_path: Path
) -> None:
    mirrors = (site.mirror("a/x.gz", page), site.mirror("b/x.gz", sends(GZIP)))
    assert get(listed("x.gz", mirrors), tmp_path, patience=patience).read_bytes() == GZIP


def test_a_redirection_to_a_login_page_is_named(
    site: Any, patience: Patience, tmp_path: Path
) -> None:
    site.mirror("login?next=x", page)
    away = status(302, Location=f"{site.url}/login?next=x")
    with pytest.raises(WorkError, match=r"web page instead of the file \(from http://.*/login"):
        get(listed("x.gz", (site.mirror("x.gz", away),)), tmp_path, patience=patience)


@pytest.mark.parametrize(
    "data",
    [b'{"error": "quota"}', b"", GZIP[:1000], b"PK" + GZIP],
    ids=["notice", "empty", "cut off", "not at its beginning"],
)
@pytest.mark.parametrize("name", ["a.tgz", "train.de.gz"])
def test_what_is_not_packed_or_not_whole_is_refused(
    site: Any, patience: Patience, tmp_path: Path, name: str, data: bytes
) -> None:
    fault = r"sends something that is not \.gz|is damaged"
    with pytest.raises(WorkError, match=fault) as caught:
        get(listed(name, (site.mirror(name, sends(data)),)), tmp_path, patience=patience)
    assert "\n" not in caught.value.message
    assert files_of(tmp_path) == set()


@pytest.mark.parametrize("size", [len(GZIP) - 1, len(GZIP) + 1, 5])
@pytest.mark.parametrize("is_announced", [True, False])
def test_a_wrong_length_is_refused_without_a_checksum_too(
    site: Any, patience: Patience, tmp_path: Path, size: int, is_announced: bool
) -> None:
    def answer(handler: Any) -> None:
        handler.send_response(200)
        if is_announced:
            handler.send_header("Content-Length", str(len(GZIP)))
        handler.end_headers()
        handler.wfile.write(GZIP)

    mirror = site.mirror("x.gz", answer, size=size)
    with pytest.raises(WorkError, match=r"bytes"):
        get(listed("x.gz", (mirror,)), tmp_path, patience=patience)
    assert not beside(tmp_path, mirror).exists()
    assert Store(tmp_path).earlier(mirror) is None


def test_a_page_does_not_replace_what_has_arrived(
    site: Any, patience: Patience, tmp_path: Path
) -> None:
    mirror = site.mirror("data.bin", dropped, page, whole)
    with pytest.raises(WorkError, match="web page"):
        get(listed("data.bin", (mirror,)), tmp_path, patience=patience)
    assert beside(tmp_path, mirror, ".part").stat().st_size == HALF
    assert get(listed("data.bin", (mirror,)), tmp_path, patience=patience).read_bytes() == DATA
    assert site.ranges() == [None, f"bytes={HALF}-", f"bytes={HALF}-"]


@pytest.mark.parametrize("is_old", [True, False])
def test_a_page_that_was_recorded_as_the_corpus_heals_itself(
    site: Any, patience: Patience, tmp_path: Path, is_old: bool
) -> None:
    mirror = site.mirror("x.gz", sends(GZIP))
    record = {"url": mirror.url, "size": len(PAGE), "sha256": hashlib.sha256(PAGE).hexdigest()}
    store = Store(tmp_path / "new", (tmp_path / "old",))
    path = tmp_path / "old/x.gz" if is_old else store.path(mirror)
    path.parent.mkdir(parents=True)
    path.write_bytes(PAGE)
    name = "checksums.json" if is_old else "download.json"
    text = json.dumps({"x.gz": record} if is_old else record)
    (path.parent / name).write_text(text, encoding="utf-8")
    for _ in range(2):
        download = fetch(listed("x.gz", (mirror,)), store, patience=patience)
        assert download.path.read_bytes() == GZIP
    assert len(site.requests) == 1


def test_a_file_of_an_earlier_version_is_found_and_a_truncated_one_is_not(
    site: Any, patience: Patience, tmp_path: Path
) -> None:
    mirror = site.mirror("x.gz", sends(GZIP))
    store = Store(tmp_path / "new", (tmp_path / "old",))
    (tmp_path / "old").mkdir()
    for data, requests in ((GZIP, 0), (GZIP[:2000], 1)):
        (tmp_path / "old/x.gz").write_bytes(data)
        record = {"url": "x", "size": len(data), "sha256": hashlib.sha256(data).hexdigest()}
        (tmp_path / "old/checksums.json").write_text(json.dumps({"x.gz": record}), "utf-8")
        path = fetch(listed("x.gz", (mirror,)), store, patience=patience).path
        assert path.read_bytes() == GZIP and len(site.requests) == requests


def test_a_file_that_two_corpora_share_is_downloaded_once(
    site: Any, patience: Patience, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("JTRANS_CACHE", str(tmp_path))
    source = listed("data.bin", (site.mirror("data.bin", whole, sha256=SHA),))
    paths = {fetch(source, Store.of(name), patience=patience).path for name in ("one", "two")}
    assert len(paths) == len(site.requests) == 1


def test_the_cache_is_the_users_and_not_the_folders(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("JTRANS_CACHE", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert cache_folder() == tmp_path / "jtrans"
    monkeypatch.delenv("XDG_CACHE_HOME")
    assert cache_folder() == Path.home() / ".cache/jtrans"


@pytest.mark.parametrize("home", [None, "file/home"])
def test_without_a_home_to_write_in_the_cache_is_temporary(
    home: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("JTRANS_CACHE", "XDG_CACHE_HOME", "HOME"):
        monkeypatch.delenv(name, raising=False)
    if home is not None:
        (tmp_path / "file").touch(mode=0o400)
        monkeypatch.setenv("HOME", str(tmp_path / home))
        monkeypatch.setattr(os, "access", lambda path, _: path != tmp_path / "file")  # for root
    monkeypatch.setattr(pwd, "getpwuid", {}.__getitem__)  # whom the system does not know
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    assert cache_folder() == tmp_path / f"jtrans-{os.getuid()}"


@pytest.mark.parametrize(
    "error",
    [
        ssl.SSLError(1, "[SSL: DECRYPTION_FAILED_OR_BAD_RECORD_MAC] decryption failed"),
        ssl.SSLEOFError(8, "EOF occurred in violation of protocol"),
        http.client.IncompleteRead(b"x", 100),
        ConnectionResetError(104, "Connection reset by peer"),
        TimeoutError("timed out"),
        OSError(113, "No route to host"),
    ],
    ids=lambda error: type(error).__name__,
)
def test_any_error_of_the_connection_is_tried_again_where_it_broke(
    site: Any,
    patience: Patience,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    error: Exception,
) -> None:
    original, reads = http.client.HTTPResponse.read1, []

    def read1(self: http.client.HTTPResponse, size: int = -1) -> bytes:
        reads.append(size)
        if len(reads) == 3:
            raise error
        return original(self, min(size, 5000))

    monkeypatch.setattr(http.client.HTTPResponse, "read1", read1)
    source = listed("data.bin", (site.mirror("data.bin", whole, sha256=SHA),))
    assert get(source, tmp_path, patience=patience).read_bytes() == DATA
    assert site.ranges()[0] is None and str(site.ranges()[1]).startswith("bytes=")


def test_a_connection_that_never_recovers_is_a_failed_download(
    site: Any, patience: Patience, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def read1(_self: http.client.HTTPResponse, _size: int = -1) -> bytes:
        raise ssl.SSLError(1, "[SSL] bad record mac")

    monkeypatch.setattr(http.client.HTTPResponse, "read1", read1)
    with pytest.raises(WorkError, match="connection lost") as caught:
        get(listed("d", (site.mirror("d", whole),)), tmp_path, patience=patience)
    assert caught.value.kind == "download.failed"
