"""Downloads from a server on loopback that drops, lies, stalls and refuses."""

from __future__ import annotations

import hashlib
import json
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from plugins.listener import Listener

from jtrans.corpora.download.fetch import Patience, fetch, recorded
from jtrans.corpora.entry import Mirror, OriginalFile
from jtrans.errors import EXIT_BAD_INPUT, EXIT_FAILED, JtransError, WorkError
from jtrans.files import exclusive

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
    time.sleep(1.5)


def files_of(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()}


def test_a_file_arrives_whole_and_its_checksum_is_recorded(
    site: Any, patience: Patience, tmp_path: Path
) -> None:
    listener = Listener()
    source = OriginalFile(
        file="data.tgz", mirrors=(site.mirror("data.tgz", whole, sha256=SHA, size=len(DATA)),)
    )
    path = fetch(source, tmp_path, patience=patience, progress=listener)
    assert path.read_bytes() == DATA
    assert files_of(tmp_path) == {"data.tgz", "checksums.json"}
    assert recorded(tmp_path)["data.tgz"]["sha256"] == SHA
    assert listener.said[0][0] == "Downloaded" and "MB/s" in listener.said[0][1]
    assert listener.advances[-1] == ("Downloading data.tgz", len(DATA), len(DATA))


def test_a_file_that_is_here_is_not_asked_for_again(
    site: Any, patience: Patience, tmp_path: Path
) -> None:
    source = listed("data.tgz", (site.mirror("data.tgz", whole, sha256=SHA),))
    fetch(source, tmp_path, patience=patience)
    fetch(source, tmp_path, patience=patience)
    assert len(site.requests) == 1


def test_a_dropped_connection_is_continued_where_it_ended(
    site: Any, patience: Patience, tmp_path: Path
) -> None:
    source = OriginalFile(
        file="data.tgz", mirrors=(site.mirror("data.tgz", dropped, whole, sha256=SHA),)
    )
    assert fetch(source, tmp_path, patience=patience).read_bytes() == DATA
    assert site.ranges() == [None, f"bytes={HALF}-"]


def test_a_later_run_continues_what_an_interrupted_one_left(
    site: Any, patience: Patience, tmp_path: Path
) -> None:
    mirror = site.mirror("data.tgz", dropped, status(404), whole, sha256=SHA)
    with pytest.raises(WorkError):
        fetch(listed("data.tgz", (mirror,)), tmp_path, patience=patience)
    assert (tmp_path / "data.tgz.part").stat().st_size == HALF
    assert not (tmp_path / "data.tgz").exists()
    fetch(listed("data.tgz", (mirror,)), tmp_path, patience=patience)
    assert site.ranges()[-1] == f"bytes={HALF}-"
    assert (tmp_path / "data.tgz").read_bytes() == DATA


def test_a_server_that_cannot_continue_sends_all_again(
    site: Any, patience: Patience, tmp_path: Path
) -> None:
    def anew(handler: Any) -> None:
        handler.send(200, DATA)

    source = OriginalFile(
        file="data.tgz", mirrors=(site.mirror("data.tgz", dropped, anew, sha256=SHA),)
    )
    assert fetch(source, tmp_path, patience=patience).read_bytes() == DATA


def test_a_server_that_stalls_is_left_and_asked_again(
    site: Any, patience: Patience, tmp_path: Path
) -> None:
    source = OriginalFile(
        file="data.tgz", mirrors=(site.mirror("data.tgz", stalled, whole, sha256=SHA),)
    )
    assert fetch(source, tmp_path, patience=patience).read_bytes() == DATA
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
    source = listed("data.tgz", (site.mirror("data.tgz", slow, sha256=SHA),))
    assert fetch(source, tmp_path, patience=patience, progress=listener).read_bytes() == DATA
    done = [done for _, done, _ in listener.advances]
    assert len(site.requests) == 1 and done == sorted(done) and len(set(done)) >= 5


def test_a_file_that_changed_meanwhile_is_taken_anew(
    site: Any, patience: Patience, tmp_path: Path
) -> None:
    asked = []

    def changed(handler: Any) -> None:
        asked.append(handler.headers["If-Range"])
        handler.send(200, DATA[::-1], ETag='"2"')

    source = listed("data.tgz", (site.mirror("data.tgz", dropped, changed),))
    assert fetch(source, tmp_path, patience=patience).read_bytes() == DATA[::-1]
    assert asked == ['"1"']


def test_a_part_that_the_server_continues_elsewhere_is_not_used(
    site: Any, patience: Patience, tmp_path: Path
) -> None:
    def elsewhere(handler: Any) -> None:
        handler.send(206, DATA[5:], Content_Range=f"bytes 5-{len(DATA) - 1}/{len(DATA)}")

    source = OriginalFile(
        file="data.tgz", mirrors=(site.mirror("data.tgz", dropped, elsewhere, whole, sha256=SHA),)
    )
    assert fetch(source, tmp_path, patience=patience).read_bytes() == DATA


def test_416_for_a_file_that_is_complete_is_its_end(
    site: Any, patience: Patience, tmp_path: Path
) -> None:
    (tmp_path / "data.tgz.part").write_bytes(DATA)
    source = listed("data.tgz", (site.mirror("data.tgz", whole, sha256=SHA),))
    assert fetch(source, tmp_path, patience=patience).read_bytes() == DATA
    assert site.ranges() == [f"bytes={len(DATA)}-"]


def test_416_for_a_part_of_something_else_starts_over(
    site: Any, patience: Patience, tmp_path: Path
) -> None:
    (tmp_path / "data.tgz.part").write_bytes(DATA + b"more")
    source = listed("data.tgz", (site.mirror("data.tgz", whole, sha256=SHA),))
    assert fetch(source, tmp_path, patience=patience).read_bytes() == DATA
    assert site.ranges() == [f"bytes={len(DATA) + 4}-", None]


def test_a_beginning_that_does_not_fit_is_thrown_away_once(
    site: Any, patience: Patience, tmp_path: Path
) -> None:
    (tmp_path / "data.tgz.part").write_bytes(b"y" * HALF)
    source = listed("data.tgz", (site.mirror("data.tgz", whole, sha256=SHA),))
    assert fetch(source, tmp_path, patience=patience).read_bytes() == DATA
    assert site.ranges() == [f"bytes={HALF}-", None]


def test_without_a_checksum_the_part_of_another_mirror_is_not_continued(
    site: Any, patience: Patience, tmp_path: Path
) -> None:
    first = site.mirror("a/data.tgz", dropped, status(404))
    second = site.mirror("b/data.tgz", whole)
    path = fetch(listed("data.tgz", (first, second)), tmp_path, patience=patience)
    assert path.read_bytes() == DATA
    assert site.requests[-1] == ("/b/data.tgz", None)


@pytest.mark.parametrize("code", [401, 403, 404, 410])
def test_a_refusal_is_not_repeated_and_the_next_mirror_serves(
    site: Any, patience: Patience, tmp_path: Path, code: Any
) -> None:
    listener = Listener()
    mirrors = (
        site.mirror("a/data.tgz", status(code), sha256=SHA),
        site.mirror("b/data.tgz", whole, sha256=SHA),
    )
    fetch(listed("data.tgz", mirrors), tmp_path, patience=patience, progress=listener)
    assert [path for path, _ in site.requests] == ["/a/data.tgz", "/b/data.tgz"]
    assert f"a/data.tgz: {code} " in listener.warnings[0]


def test_passing_trouble_is_waited_out_with_growing_pauses(site: Any, tmp_path: Path) -> None:
    pauses: list[float] = []
    patience = Patience(sleep=pauses.append)
    answers = (status(503), status(500), status(429, Retry_After="7"), whole)
    source = listed("data.tgz", (site.mirror("data.tgz", *answers, sha256=SHA),))
    listener = Listener()
    fetch(source, tmp_path, patience=patience, progress=listener)
    assert pauses == [1.0, 2.0, 7.0]
    assert listener.said[2] == ("Retrying", "data.tgz in 7 s: 429 Too Many Requests")


def test_a_server_is_given_up_after_some_tries(
    site: Any, patience: Patience, tmp_path: Path
) -> None:
    source = OriginalFile(
        file="data.tgz", mirrors=(site.mirror("data.tgz", status(503), sha256=SHA),)
    )
    with pytest.raises(WorkError, match="503"):
        fetch(source, tmp_path, patience=patience)
    assert len(site.requests) == patience.attempts


def test_wrong_bytes_are_never_kept(site: Any, patience: Patience, tmp_path: Path) -> None:
    source = listed("data.tgz", (site.mirror("data.tgz", wrong, sha256=SHA),))
    with pytest.raises(WorkError, match="wrong contents") as caught:
        fetch(source, tmp_path, patience=patience)
    assert caught.value.exit_code == EXIT_FAILED
    assert files_of(tmp_path) == set()


def test_a_length_that_lies_short_is_found_by_the_checksum(
    site: Any, patience: Patience, tmp_path: Path
) -> None:
    def short(handler: Any) -> None:
        handler.send(200, DATA, Content_Length=str(HALF))

    source = listed("data.tgz", (site.mirror("data.tgz", short, sha256=SHA),))
    with pytest.raises(WorkError, match="wrong contents"):
        fetch(source, tmp_path, patience=patience)


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

    mirror = site.mirror("data.tgz", endless, sha256=SHA, size=len(DATA))
    with pytest.raises(WorkError, match=r"sends (more than|1,024,000 bytes)"):
        fetch(listed("data.tgz", (mirror,)), tmp_path, patience=patience)
    assert not (tmp_path / "data.tgz").exists()


def test_all_that_was_tried_is_listed_with_a_way_out(
    site: Any, patience: Patience, tmp_path: Path
) -> None:
    mirrors = (
        site.mirror("a/data.tgz", status(404)),
        site.mirror("b/other.zip", status(403)),
        Mirror(url="http://127.0.0.1:1/data.tgz"),
    )
    with pytest.raises(WorkError) as caught:
        fetch(listed("data.tgz", mirrors), tmp_path, patience=patience)
    for part in ("a/data.tgz (404", "b/other.zip (403", "127.0.0.1:1/data.tgz ("):
        assert part in caught.value.message
    assert caught.value.kind == "download.failed"
    assert "data.tgz or other.zip" in str(caught.value.hint)
    assert "--from FOLDER" in str(caught.value.hint)


def test_an_unknown_checksum_is_recorded_at_the_first_download_and_said(
    site: Any, patience: Patience, tmp_path: Path
) -> None:
    listener = Listener()
    source = listed("data.tgz", (site.mirror("data.tgz", whole, size=5),))
    fetch(source, tmp_path, patience=patience, progress=listener)
    assert any(label == "Recorded" and SHA in text for label, text in listener.said)
    assert "the catalogue says 5" in listener.warnings[0]
    facts = json.loads((tmp_path / "checksums.json").read_text("utf-8"))["data.tgz"]
    assert facts == {"sha256": SHA, "size": len(DATA), "url": f"{site.url}/data.tgz"}


def test_a_recorded_checksum_binds_later_downloads(
    site: Any, patience: Patience, tmp_path: Path
) -> None:
    source = listed("data.tgz", (site.mirror("data.tgz", whole, wrong),))
    fetch(source, tmp_path, patience=patience).unlink()
    with pytest.raises(WorkError, match="wrong contents"):
        fetch(source, tmp_path, patience=patience)


@pytest.mark.parametrize("value", ["1", "yes"])
def test_offline_refuses_at_once(
    site: Any, patience: Patience, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, value: Any
) -> None:
    monkeypatch.setenv("JTRANS_OFFLINE", value)
    source = listed("data.tgz", (site.mirror("data.tgz", whole),))
    with pytest.raises(JtransError, match="JTRANS_OFFLINE") as caught:
        fetch(source, tmp_path / "new", patience=patience)
    assert caught.value.exit_code == EXIT_BAD_INPUT
    assert site.requests == [] and not (tmp_path / "new").exists()


def test_offline_takes_what_is_here(
    site: Any, patience: Patience, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = listed("data.tgz", (site.mirror("data.tgz", whole),))
    fetch(source, tmp_path, patience=patience)
    monkeypatch.setenv("JTRANS_OFFLINE", "1")
    assert fetch(source, tmp_path, patience=patience).read_bytes() == DATA


def test_redirections_are_followed(site: Any, patience: Patience, tmp_path: Path) -> None:
    site.mirror("there", whole)
    mirror = site.mirror("data.tgz", status(302, Location=f"{site.url}/there"), sha256=SHA)
    assert fetch(listed("data.tgz", (mirror,)), tmp_path, patience=patience).read_bytes() == DATA


def test_a_file_larger_than_the_disk_is_refused_before_it_is_written(
    site: Any, patience: Patience, tmp_path: Path
) -> None:
    def huge(handler: Any) -> None:
        handler.send(200, b"", Content_Length=str(10**18))

    with pytest.raises(WorkError, match="disk is full") as caught:
        fetch(listed("d", (site.mirror("d", huge),)), tmp_path, patience=patience)
    assert caught.value.kind == "disk.full"


def test_two_processes_do_not_write_the_same_file(
    site: Any, patience: Patience, tmp_path: Path
) -> None:
    source = listed("data.tgz", (site.mirror("data.tgz", whole, sha256=SHA),))
    with (
        exclusive(tmp_path / "data.tgz.part.lock.json", JtransError),
        pytest.raises(WorkError, match=rf"process {os.getpid()} on .* is downloading data\.tgz"),
    ):
        fetch(source, tmp_path, patience=patience)
    assert site.requests == []
