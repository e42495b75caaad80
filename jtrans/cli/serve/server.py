"""The HTTP server: a page, and /translate for programs."""

from __future__ import annotations

import contextlib
import json
import logging
import re
import socket
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import CancelledError
from functools import cache
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler
from multiprocessing.connection import wait
from pathlib import Path
from socketserver import ThreadingTCPServer
from typing import TYPE_CHECKING, Any

from jtrans import __version__
from jtrans.cli.serve.request_queue import Answer, LinesRequest, RequestQueue
from jtrans.cli.translate.lines import InputLine, line_of, to_object
from jtrans.decoding.lines.json_lines import read_json
from jtrans.errors import EXIT_BAD_INPUT, JtransError
from jtrans.models.zoo import system_configs

if TYPE_CHECKING:
    from jtrans.exports import Translatable

MOST_BYTES = 2**20  # of a request
MOST_LINES = 1_000
DRAIN_SECONDS, MOST_DRAINED = 5.0, 2**26  # limits to what is read of a refused request, in bytes
SECONDS = 30.0  # in which the body of a request must arrive, and each line of its head
LAST_ANSWERS_SECONDS = 2.0  # for the answers of a server that is stopping
TAKES = {"/": "GET", "/models": "GET", "/translate": "POST"}
# the page loads nothing from other servers
POLICY = (
    "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; connect-src 'self'"
)

_HOST = re.compile("https?://[^/?]*", re.IGNORECASE)  # may precede the path of a request
_log = logging.getLogger(__name__)


def describe(runs: Sequence[Translatable]) -> dict[str, Any]:
    """Return the facts about the models that /models sends and the page shows."""
    source, target = runs[0].pipeline.languages
    systems = [run.config(system_configs()).model.system for run in runs]
    return {
        "runs": [run.name for run in runs],
        "systems": systems,
        "source": source,
        "target": target,
        "version": __version__,
    }


class TranslationServer(ThreadingTCPServer):
    """Receives requests, each in a thread of its own, and queues them for translation.

    Args:
        host: the address to listen on.
        port: the port; 0 for any free one.
        requests: the queue.
        models: the facts that `describe` returns.

    Raises:
        JtransError: the address cannot be used.
    """

    allow_reuse_address = True
    daemon_threads = True
    request_queue_size = 128

    def __init__(
        self, host: str, port: int, requests: RequestQueue, models: Mapping[str, Any]
    ) -> None:
        self.requests, self.models = requests, models
        self._answering, self._has_answered = 0, threading.Condition()
        self.address_family = socket.AF_INET6 if ":" in host else socket.AF_INET
        try:
            super().__init__((host, port), _Handler)
        except (OSError, UnicodeError) as error:
            is_host = isinstance(error, (socket.gaierror, UnicodeError))
            raise JtransError(
                f"cannot listen on {host}: {getattr(error, 'strerror', None) or error}",
                where=f"--host {host}" if is_host else f"--port {port}",
                hint="--host 127.0.0.1 for this machine, --port 0 for any free port",
                kind="serve.address",
            ) from error

    @contextlib.contextmanager
    def answering(self) -> Iterator[None]:
        """Count a request that is being answered, for `wait_for_answers`."""
        with self._has_answered:
            self._answering += 1
        try:
            yield
        finally:
            with self._has_answered:
                self._answering -= 1
                self._has_answered.notify_all()

    def wait_for_answers(self) -> None:
        """Wait until all requests are answered, at most `LAST_ANSWERS_SECONDS`."""
        with self._has_answered:
            self._has_answered.wait_for(lambda: self._answering == 0, LAST_ANSWERS_SECONDS)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Log a broken connection."""
        _log.info("connection of %s", client_address, exc_info=True)

    @property
    def url(self) -> str:
        """The address of the page."""
        host, port = self.server_address[:2]
        name = host.decode() if isinstance(host, (bytes, bytearray)) else str(host)
        return f"http://{f'[{name}]' if ':' in name else name}:{port}/"


class _Handler(BaseHTTPRequestHandler):
    """One connection."""

    server: TranslationServer
    protocol_version = "HTTP/1.1"
    timeout = SECONDS

    def do_GET(self) -> None:
        """Send the page, or the facts about the models."""
        lengths = self.headers.get_all("Content-Length", [])
        has_body = any(length.strip() != "0" for length in lengths)
        has_body |= "Transfer-Encoding" in self.headers
        self.close_connection |= has_body  # an unread body would be taken for the next request
        if self._page_path == "/":
            self._send(200, _page(), "text/html; charset=utf-8")
        elif self._page_path == "/models":
            self._send_json(200, self.server.models)
        else:
            self._refuse_method()
        if has_body:
            self._drain()

    def do_HEAD(self) -> None:
        """Send what `do_GET` sends, without the content."""
        self.do_GET()

    @property
    def _page_path(self) -> str:
        """The path of the request, without the host that HTTP/1.1 allows, or a query."""
        host = _HOST.match(self.path)
        return self.path[host.end() if host else 0 :].partition("?")[0] or "/"

    def do_POST(self) -> None:
        """Translate the lines of a request."""
        if self._page_path != "/translate":
            self._refuse_method()
            return
        body = self._body()
        if body is not None:
            with self.server.answering():
                self._translate(body)

    def _translate(self, body: bytes) -> None:
        """Translate the lines in the body of a request, and send the answer."""
        try:
            lines, is_list = _read(body)
        except ValueError as fault:
            hint = '{"source": "Ein Mann liest ."}, or a list of such objects'
            self._refuse(400, f"the request is {fault}", hint)
            return
        try:
            request = LinesRequest(lines, self._is_waiting)
            answers = self.server.requests.ask(request) if lines else []
        except CancelledError:
            self.close_connection = True
        except JtransError as error:
            status = 400 if error.exit_code == EXIT_BAD_INPUT else 503
            self._refuse(status, error.message, error.hint, error.kind)
        except Exception as error:
            _log.exception("a translation failed")
            message = f"this is a bug: {type(error).__name__}: {error}"
            self._refuse(500, message, "please report it with the output of jtrans info", "bug")
        else:
            answered = list(map(_to_object, lines, answers))
            self._send_json(200, answered if is_list else answered[0])

    def _is_waiting(self) -> bool:
        """Return whether the client is still connected."""
        try:
            return not wait([self.connection], 0) or bool(self.connection.recv(1, socket.MSG_PEEK))
        except OSError:
            return False

    def send_error(self, code: int, message: str | None = None, explain: str | None = None) -> None:
        """Refuse as JSON what the base class cannot parse or has no method for."""
        if code == HTTPStatus.NOT_IMPLEMENTED:
            self._refuse_method()
        else:
            self._refuse(code, message or HTTPStatus(code).phrase, explain)

    def _refuse_method(self) -> None:
        """Refuse a path that does not exist, or that has another method."""
        path = self._page_path
        if path in TAKES:
            self._refuse(405, f"{path} accepts only {TAKES[path]}", "see jtrans serve --help")
        else:
            hint = ", ".join(f"{method} {path}" for path, method in TAKES.items())
            self._refuse(404, f"there is no {path}", hint)

    def _body(self) -> bytes | None:
        """Return the body of the request; None if it was refused."""
        length = self.headers.get("Content-Length", "")
        if not (length.isascii() and length.isdecimal()):
            self._refuse(
                411, "the request has no valid Content-Length", "send the header Content-Length"
            )
        elif len(length) > 9 or int(length) > MOST_BYTES:
            hint = f"at most {MOST_BYTES:,} bytes; for files: jtrans translate"
            self._refuse(413, "the request is too long", hint)
        else:
            return self._read_body(int(length))
        return None

    def _read_body(self, length: int) -> bytes | None:
        """Return the body of this length; None, after a refusal, if it does not arrive in time."""
        end, body = time.monotonic() + SECONDS, b""
        try:
            while len(body) < length:
                self.connection.settimeout(max(end - time.monotonic(), 1e-3))
                part = self.rfile.read1(length - len(body))
                if not part:
                    self._refuse(
                        400, f"the request ends after {len(body):,} of {length:,} bytes", None
                    )
                    return None
                body += part
        except TimeoutError:
            self._refuse(
                408, f"the request has not arrived in {SECONDS:.0f} seconds", "send it again"
            )
            return None
        self.connection.settimeout(self.timeout)
        return body

    def _refuse(
        self, status: int, message: str, hint: str | None, kind: str = "serve.request"
    ) -> None:
        self.close_connection = True  # the rest of what the client sent was not read
        self._send_json(status, {"error": {"kind": kind, "message": message, "hint": hint}})
        self._drain()

    def _drain(self) -> None:
        """Drop what the client still sends: unread bytes would reset the connection."""
        end, left = time.monotonic() + DRAIN_SECONDS, MOST_DRAINED
        with contextlib.suppress(OSError):
            self.wfile.flush()
            self.connection.shutdown(socket.SHUT_WR)
            while left > 0 and (seconds := end - time.monotonic()) > 0:
                self.connection.settimeout(seconds)
                data = self.connection.recv(2**16)
                if not data:
                    return
                left -= len(data)

    def _send_json(self, status: int, value: Any) -> None:
        text = json.dumps(value, ensure_ascii=False) + "\n"
        self._send(status, text.encode(), "application/json; charset=utf-8")

    def _send(self, status: int, content: bytes, kind: str) -> None:
        with contextlib.suppress(ConnectionError):  # the client has disconnected
            self.send_response(status)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(content)))
            self.send_header("Content-Security-Policy", POLICY)
            self.send_header("X-Content-Type-Options", "nosniff")
            if status == HTTPStatus.METHOD_NOT_ALLOWED:
                self.send_header("Allow", TAKES[self._page_path])
            if self.close_connection:
                self.send_header("Connection", "close")
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(content)

    def log_message(self, *message: Any) -> None:
        """Log a request for --verbose."""
        _log.info(*message)


def _read(body: bytes) -> tuple[list[InputLine], bool]:
    """Return the lines of a request, and whether they came as a list.

    Raises:
        ValueError: saying what the request is instead.
    """
    try:
        asked = read_json(body.decode("utf-8-sig"))
    except UnicodeDecodeError:
        raise ValueError("not UTF-8 text") from None
    is_list = isinstance(asked, list)
    objects = asked if is_list else [asked]
    if len(objects) > MOST_LINES:
        raise ValueError(
            f"a list of {len(objects):,} objects, more than {MOST_LINES:,}: send fewer at once"
        )
    lines = []
    for number, each in enumerate(objects, start=1):
        try:
            lines.append(line_of(each, number - 1))
        except ValueError as fault:
            raise ValueError(
                f"a list whose item {number:,} is {fault}" if is_list else fault
            ) from None
    return lines, is_list


def _to_object(line: InputLine, answer: Answer) -> dict[str, Any]:
    """Return what `translate --format jsonl` writes, plus the words that alignments refer to."""
    result = to_object(line, answer.translations)
    for entry, words in zip(result["translations"], answer.words, strict=True):
        entry["words"] = words
    return {**result, "source_words": answer.source_words}


@cache
def _page() -> bytes:
    return (Path(__file__).parent / "page.html").read_bytes()
