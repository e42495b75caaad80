"""One request for one file: resume a partial file, write the data, check the length."""

from __future__ import annotations

import contextlib
import http.client
import re
import shutil
import ssl
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from jtrans import __version__
from jtrans.corpora.download.contents import HEAD_BYTES, wrong_kind
from jtrans.corpora.entry import Mirror
from jtrans.errors import WorkError
from jtrans.files import read_table, write_json
from jtrans.progress import Progress

CHUNK_BYTES = 1 << 16
# HTTP status codes of temporary errors; any other error would recur.
TEMPORARY = frozenset({408, 425, 429, 500, 502, 503, 504})


class RefusedError(Exception):
    """An address that does not deliver: a retry is pointless."""


class StoppedError(Exception):
    """A transfer that failed or ended too early: a retry may help.

    The server may ask for a pause of `wait_seconds`; a restart begins at the first byte.
    """

    def __init__(
        self, message: str, *, wait_seconds: float | None = None, is_restart: bool = False
    ) -> None:
        super().__init__(message)
        self.wait_seconds = wait_seconds
        self.is_restart = is_restart


class _NoDowngrade(urllib.request.HTTPRedirectHandler):
    """Follows redirections, but never from https to anything less secure."""

    def redirect_request(
        self, req: urllib.request.Request, fp: Any, code: int, msg: str, headers: Any, newurl: str
    ) -> urllib.request.Request | None:
        if req.type == "https" and not newurl.lower().startswith("https:"):
            raise RefusedError(f"redirects to {newurl}, which is not https")
        return super().redirect_request(req, fp, code, msg, headers, newurl)


def transfer(mirror: Mirror, part: Path, *, timeout: float, progress: Progress) -> None:
    """Complete `part`, the partial file of `mirror`.

    Raises:
        RefusedError: the server does not have the file, or sends something else.
        StoppedError: the connection failed or ended early; `part` keeps what has arrived.
        WorkError: the file does not fit on the disk.
    """
    begin = _begin(mirror, part)
    try:
        with _open(mirror, begin, part, timeout) as response:
            if begin and response.status == 200:
                begin = 0  # the server cannot resume files, or has a new version
            elif begin and not _continues(response, begin):
                raise StoppedError("resumes at the wrong place", is_restart=True)
            _write(response, mirror, part, begin, progress)
    except urllib.error.HTTPError as error:
        error.close()
        _explain(error, part, begin)
    except urllib.error.URLError as error:
        if isinstance(error.reason, ssl.SSLCertVerificationError):
            problem = error.reason.verify_message
            raise RefusedError(f"its certificate is not valid: {problem}") from error
        plain = error.reason.strerror if isinstance(error.reason, OSError) else None
        raise StoppedError(plain or str(error.reason)) from error
    except http.client.HTTPException as error:
        raise StoppedError(f"connection lost ({type(error).__name__})") from error


def _begin(mirror: Mirror, part: Path) -> int:
    """Return how many bytes are present and can be kept."""
    if not part.exists():
        return 0
    size = part.stat().st_size
    is_same = bool(mirror.sha256) or _metadata(part).get("url") == mirror.url
    is_too_long = 0 < mirror.size < size
    return size if is_same and not is_too_long else 0


def _open(mirror: Mirror, begin: int, part: Path, timeout: float) -> Any:
    headers = {"User-Agent": f"jtrans/{__version__}", "Accept-Encoding": "identity"}
    if begin:
        headers["Range"] = f"bytes={begin}-"
        if validator := _metadata(part).get("validator"):
            headers["If-Range"] = validator
    request = urllib.request.Request(mirror.url, headers=headers)
    opener = urllib.request.build_opener(_NoDowngrade)
    with _network_errors():
        return opener.open(request, timeout=timeout)


@contextlib.contextmanager
def _network_errors() -> Iterator[None]:
    """Turn failures of a connection, of any layer, into `StoppedError`."""
    try:
        yield
    except urllib.error.URLError:  # `transfer` explains it; HTTP errors are a subclass
        raise
    except TimeoutError as error:
        raise StoppedError("no data arrived for too long") from error
    except OSError as error:  # raised by the socket or by TLS
        reason = getattr(error, "reason", None) or type(error).__name__
        raise StoppedError(f"connection lost ({reason})") from error


def _continues(response: Any, begin: int) -> bool:
    match = re.match(r"bytes (\d+)-", response.headers.get("Content-Range", ""))
    return response.status == 206 and match is not None and int(match[1]) == begin


def _explain(error: urllib.error.HTTPError, part: Path, begin: int) -> None:
    """Interpret an error status as an exception; return if the file is complete."""
    if error.code == 416 and begin:
        if error.headers.get("Content-Range", "").rpartition("/")[2] == str(begin):
            return
        part.unlink(missing_ok=True)
        raise StoppedError("cannot resume the file (416)", is_restart=True) from error
    message = f"{error.code} {error.reason}"
    if error.code not in TEMPORARY:
        raise RefusedError(message) from error
    wait = error.headers.get("Retry-After", "")
    raise StoppedError(message, wait_seconds=float(wait) if wait.isdigit() else None) from error


def _write(response: Any, mirror: Mirror, part: Path, begin: int, progress: Progress) -> None:
    announced = response.headers.get("Content-Length", "")
    total = begin + int(announced) if announced.isdigit() else None
    expected = mirror.size or None
    _check_space(part.parent, (total or mirror.size) - begin)
    head = _head(response, total) if begin == 0 else b""
    # before overwriting anything: a partial file is worth more than an error page
    if begin == 0 and (message := wrong_kind(mirror, head, response.headers.get_content_type())):
        is_redirected = response.url != mirror.url
        raise RefusedError(message + (f" (from {response.url})" if is_redirected else ""))
    if expected is not None and total is not None and total != expected:
        raise RefusedError(f"sends {total:,} bytes instead of {expected:,}")
    _save_metadata(mirror, part, response)
    task, done, size = f"Downloading {mirror.file}", begin, total or expected
    progress.advance(task, begin, size, unit="bytes")
    with part.open("r+b" if begin else "wb") as handle:
        handle.seek(begin)
        chunk = head or _read(response)
        while chunk:
            handle.write(chunk)
            done += len(chunk)
            if expected is not None and done > expected:
                raise RefusedError(f"sends more than the {expected:,} bytes of the file")
            progress.advance(task, min(done, size or done), size, unit="bytes")
            chunk = _read(response)
    if size is not None and done < size:
        raise StoppedError(f"connection lost after {done:,} of {size:,} bytes")


def _head(response: Any, total: int | None) -> bytes:
    """Return enough of the beginning to tell what kind of file the server sends."""
    head = b""
    while len(head) < HEAD_BYTES and (chunk := _read(response)):
        head += chunk
    if total is not None and len(head) < min(total, HEAD_BYTES):
        raise StoppedError(f"connection lost after {len(head):,} of {total:,} bytes")
    return head


def _read(response: Any) -> bytes:
    """Return the data that has arrived, waiting only if there is none."""
    with _network_errors():
        return bytes(response.read1(CHUNK_BYTES))


def _check_space(folder: Path, needed: int) -> None:
    """Check, before writing, that a file fits on the disk."""
    free = shutil.disk_usage(folder).free
    if needed > free:
        raise WorkError(
            f"the disk is full: {needed / 1e6:,.0f} MB needed, {free / 1e6:,.0f} MB free in "
            f"{folder}",
            hint="free some space, or choose another folder: JTRANS_CACHE=FOLDER",
            kind="disk.full",
        )


def _metadata(part: Path) -> dict[str, str]:
    """Return the address and version of the file that a partial one belongs to."""
    return read_table(part.with_name(f"{part.name}.json"))


def _save_metadata(mirror: Mirror, part: Path, response: Any) -> None:
    validator = response.headers.get("ETag", "")
    if not validator or validator.startswith("W/"):
        validator = response.headers.get("Last-Modified", "")
    metadata = {"url": mirror.url, "validator": validator}
    write_json(part.with_name(f"{part.name}.json"), metadata)
