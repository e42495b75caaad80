"""Downloads over TLS whose connection is damaged in mid-transfer."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import socket
import ssl
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from jtrans.corpora.download.fetch import Patience, fetch
from jtrans.corpora.download.store import Store
from jtrans.corpora.entry import Mirror, OriginalFile
from jtrans.errors import WorkError

DATA = os.urandom(300_000)
PIECE = 100_000


class Server:
    """Sends a piece of the file for each request, then a TLS record that cannot be decrypted."""

    def __init__(self, certificate: Path) -> None:
        self.begins: list[int] = []
        self.never_whole = False
        self._context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self._context.load_cert_chain(certificate)
        self.socket = socket.create_server(("127.0.0.1", 0))
        self.url = f"https://127.0.0.1:{self.socket.getsockname()[1]}/x"

    def serve(self) -> None:
        with contextlib.suppress(OSError):  # the socket is closed at the end
            while True:
                self._answer(self.socket.accept()[0])

    def _answer(self, plain: socket.socket) -> None:
        with (
            contextlib.suppress(OSError),
            self._context.wrap_socket(plain, server_side=True) as tls,
        ):
            request = b""
            while b"\r\n\r\n" not in request:
                request += tls.recv(4096)
            match = re.search(rb"Range: bytes=(\d+)-", request)
            begin = int(match[1]) if match else 0
            self.begins.append(begin)
            place = f"Content-Range: bytes {begin}-{len(DATA) - 1}/{len(DATA)}\r\n" if match else ""
            head = f"HTTP/1.1 {206 if match else 200} OK\r\n{place}"
            head += f"Content-Length: {len(DATA) - begin}\r\nConnection: close\r\n\r\n"
            tls.sendall(head.encode())
            tls.sendall(DATA[begin : begin + (0 if self.never_whole else PIECE)])
            if self.never_whole or begin + PIECE < len(DATA):
                os.write(tls.fileno(), b"\x17\x03\x03\x00\x40" + os.urandom(64))


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Make a certificate of 127.0.0.1 and its key, in one file."""
    openssl = shutil.which("openssl")
    if openssl is None:
        pytest.skip("no openssl")
    path = tmp_path_factory.mktemp("tls") / "loopback.pem"
    command = ["req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=x"]
    command += ["-addext", "subjectAltName=IP:127.0.0.1"]
    command += ["-keyout", str(path), "-out", f"{path}.crt"]
    subprocess.run([openssl, *command], check=True, capture_output=True)
    path.write_text(path.read_text() + Path(f"{path}.crt").read_text())
    return path


@pytest.fixture
def server(certificate: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    monkeypatch.setenv("no_proxy", "*")
    monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
    monkeypatch.delenv("JTRANS_OFFLINE", raising=False)
    server = Server(certificate)
    thread = threading.Thread(target=server.serve, daemon=True)
    thread.start()
    yield server
    server.socket.shutdown(socket.SHUT_RDWR)
    server.socket.close()
    thread.join()


def test_a_damaged_record_is_an_error_of_the_network_and_the_file_is_continued(
    server: Server, patience: Patience, tmp_path: Path
) -> None:
    source = OriginalFile(file="x", mirrors=(Mirror(url=server.url, size=len(DATA)),))
    download = fetch(source, Store(tmp_path), patience=patience)
    assert download.path.read_bytes() == DATA
    assert server.begins == [0, PIECE, 2 * PIECE]


def test_a_connection_that_is_always_damaged_is_a_failed_download(
    server: Server, patience: Patience, tmp_path: Path
) -> None:
    server.never_whole = True
    source = OriginalFile(file="x", mirrors=(Mirror(url=server.url),))
    with pytest.raises(WorkError, match=r"connection lost \(.*(MAC|RECORD)") as caught:
        fetch(source, Store(tmp_path), patience=patience)
    assert caught.value.kind == "download.failed"
    assert len(server.begins) == patience.attempts


def test_a_certificate_that_nobody_vouches_for_is_refused(
    server: Server, patience: Patience, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("SSL_CERT_FILE")
    source = OriginalFile(file="x", mirrors=(Mirror(url=server.url),))
    with pytest.raises(WorkError, match="its certificate is not valid"):
        fetch(source, Store(tmp_path), patience=patience)
