"""A web server on loopback that misbehaves as told, and archives to serve."""

from __future__ import annotations

import http.server
import io
import socket
import tarfile
import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from jtrans.corpora.download.fetch import Patience
from jtrans.corpora.entry import Mirror


class Handler(http.server.BaseHTTPRequestHandler):
    """Answers a request as the server's `answers` say; counts requests."""

    server: Server
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        self.server.site.requests.append((self.path, self.headers.get("Range")))
        answers = self.server.site.answers[self.path]
        answer = answers.pop(0) if len(answers) > 1 else answers[0]
        answer(self)
        self.close_connection = True

    def send(self, code: int, body: bytes = b"", **headers: str) -> None:
        self.send_response(code)
        headers.setdefault("Content_Length", str(len(body)))
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        self.end_headers()
        self.wfile.write(body)
        self.wfile.flush()

    def cut(self) -> None:
        """Drop the connection."""
        self.connection.shutdown(socket.SHUT_RDWR)

    def log_message(self, *_arguments: object) -> None:
        """Say nothing."""


class Server(http.server.ThreadingHTTPServer):
    daemon_threads = True
    site: Site


Answer = Callable[[Handler], None]


@dataclass
class Site:
    """What the server offers.

    Attributes:
        url: address of its root.
        answers: by path, one for each request; the last one goes on for ever.
        requests: path and Range header of each request so far.
    """

    url: str
    answers: dict[str, list[Answer]] = field(default_factory=dict)
    requests: list[tuple[str, str | None]] = field(default_factory=list)

    def mirror(self, name: str, *answers: Answer, sha256: str = "", size: int = 0) -> Mirror:
        self.answers[f"/{name}"] = list(answers)
        return Mirror(url=f"{self.url}/{name}", sha256=sha256, size=size)

    def ranges(self) -> list[str | None]:
        return [wanted for _, wanted in self.requests]


@pytest.fixture
def site(monkeypatch: pytest.MonkeyPatch) -> Iterator[Site]:
    """Serve on loopback and use no proxy."""
    monkeypatch.setenv("no_proxy", "*")
    monkeypatch.delenv("JTRANS_OFFLINE", raising=False)
    server = Server(("127.0.0.1", 0), Handler)
    server.site = Site(f"http://127.0.0.1:{server.server_address[1]}")
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield server.site
    server.shutdown()
    server.server_close()
    thread.join()


@pytest.fixture
def patience() -> Patience:
    """Do not really wait."""
    return Patience(sleep=lambda _seconds: None)


def make_tar(path: Path, files: Mapping[str, bytes]) -> Path:
    """Write a packed tar archive."""
    with tarfile.open(path, "w:gz") as archive:
        for name, data in files.items():
            info = tarfile.TarInfo(name)
            info.size = len(data)
            archive.addfile(info, io.BytesIO(data))
    return path


@pytest.fixture
def tar() -> Callable[[Path, Mapping[str, bytes]], Path]:
    return make_tar
