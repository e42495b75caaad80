"""`jtrans serve`: what a browser and other programs get."""

from __future__ import annotations

import contextlib
import html
import http.client
import json
import shutil
import signal
import socket
import subprocess
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any, NoReturn
from urllib.parse import urlsplit

import pytest
from plugins.command_line import Jtrans, start_process
from plugins.random_runs import JOINT, MakeRun

from jtrans.cli.serve import request_queue
from jtrans.cli.serve import server as server_module
from jtrans.cli.serve.command import with_attention
from jtrans.cli.serve.request_queue import Answer, LinesRequest, RequestQueue
from jtrans.cli.serve.server import MOST_BYTES, MOST_LINES, TranslationServer, describe
from jtrans.cli.translate.lines import InputLine, line_of
from jtrans.decoding.lanes import leave_if_unwanted
from jtrans.decoding.options import DecodingChoices
from jtrans.decoding.translator import Translator
from jtrans.runs import Run, find_run

Reply = tuple[int, Any]
CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "chrome"))), None)


@pytest.fixture
def run(make_run: MakeRun) -> Run:
    return find_run(str(make_run()))


@pytest.fixture
def translator(run: Run) -> Translator:
    return Translator.load([run], DecodingChoices(device="cpu"))


@pytest.fixture
def url(translator: Translator, run: Run) -> Iterator[str]:
    """The address of a server in this process."""
    requests = RequestQueue()
    with TranslationServer("127.0.0.1", 0, requests, describe([run])) as server:
        answering = (lambda: server.serve_forever(0.01), lambda: requests.answer(translator))
        for work in answering:  # the server looks for its end every 10 ms
            threading.Thread(target=work, daemon=True).start()
        yield server.url
        server.shutdown()


def post(url: str, body: bytes | str | Any) -> Reply:
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    try:
        with urllib.request.urlopen(url + "translate", data, timeout=60) as response:
            return response.status, json.load(response)
    except urllib.error.HTTPError as error:
        return error.code, json.load(error)


def test_a_program_gets_what_translate_writes(jtrans: Jtrans, make_run: MakeRun) -> None:
    run = make_run()
    lines = [{"source": "hund"}, {"source": ""}, {"source": "ein mann", "prefix": "a", "own": 7}]
    lines += [{"source": "ein hund . " * 400}]
    with start_process("serve", run, "--port", 0, stderr=subprocess.PIPE) as process:
        watchdog = threading.Timer(120, process.kill)
        watchdog.start()
        assert process.stderr is not None
        said = process.stderr.readline().decode()
        url = next(word for word in said.split() if word.startswith("http"))
        with urllib.request.urlopen(url, timeout=60) as response:
            assert b"<title>jtrans</title>" in response.read()
            assert response.headers["Content-Type"] == "text/html; charset=utf-8"
        with urllib.request.urlopen(url + "models", timeout=60) as response:
            assert json.load(response)["systems"] == ["transformer"]
        several, single = post(url, lines), post(url, lines[0])
        process.send_signal(signal.SIGINT)
        assert process.wait() == 0
        watchdog.cancel()
    stdin = "".join(json.dumps(line) + "\n" for line in lines).encode()
    options = ("--input-format", "jsonl", "--format", "jsonl", "--alignments")
    written = jtrans("translate", run, *options, stdin=stdin).out.splitlines()
    assert several[0] == single[0] == 200
    assert several[1][3]["translations"][0]["parts"] == 400
    for answer, expected in zip(several[1], map(json.loads, written), strict=True):
        words = answer.pop("source_words")
        for translation in answer["translations"]:
            pairs = [pair.split("-") for pair in translation["alignment"].split()]
            assert all(int(i) < len(words) for i, _ in pairs)
            assert all(int(j) < len(translation["words"]) for _, j in pairs)
            del translation["words"]
        scores = [answer["translations"][0].pop("score"), expected["translations"][0].pop("score")]
        assert scores[0] == pytest.approx(scores[1], abs=1e-5)
        for name in ("log_prob", "token_log_probs"):
            pair = [each["translations"][0].pop(name) for each in (answer, expected)]
            assert pair[0] == pytest.approx(pair[1], abs=1e-5)
        assert answer == expected
    assert single[1]["translations"][0]["text"] == several[1][0]["translations"][0]["text"]


@pytest.mark.parametrize(
    ("body", "fault"),
    [
        (b"", "not valid JSON"),
        (b"{", "not valid JSON"),
        (b"\xff", "not UTF-8 text"),
        (b'{"source": NaN}', "not valid JSON"),
        (b"[" * 100_000, "too many brackets"),
        (b'"hund"', "not an object with a string field `source`"),
        ({"text": "hund"}, "not an object with a string field `source`"),
        (
            [{"source": "hund"}, {"source": 1}],
            "item 2 is not an object with a string field `source`",
        ),
        ({"source": "hund\0"}, "zero byte"),
        ({"source": "hund", "phrases": "dog"}, "is not a list of strings"),
        ([{"source": ""}] * (MOST_LINES + 1), "more than 1,000"),
    ],
)
def test_a_request_that_is_something_else_is_refused(url: str, body: Any, fault: str) -> None:
    status, answer = post(url, body)
    assert status == 400
    assert fault in answer["error"]["message"] and answer["error"]["hint"]


def test_a_joint_system_shows_its_grid(make_run: MakeRun) -> None:
    run = find_run(str(make_run("joint", config={"model": JOINT})))
    translator = with_attention(Translator.load([run], DecodingChoices(device="cpu")))
    request = LinesRequest([line_of({"source": "ein mann"}, 0)])
    request_queue._answer(translator, [request])
    (translation,) = request.answers.result()[0].translations
    assert translation.source_tokens == ["ein", "mann", "</s>"]
    assert translation.grid is not None and len(translation.grid) == len(translation.tokens)


def test_who_sends_too_much_still_reads_why_it_is_refused(url: str) -> None:
    status, answer = post(url, b"x" * (8 * MOST_BYTES))
    assert (status, answer["error"]["message"]) == (413, "the request is too long")


@pytest.mark.skipif(CHROMIUM is None, reason="no Chromium (Debian package chromium)")
def test_the_page_shows_translations_and_what_is_wrong(
    url: str, translator: Translator, tmp_path: Path
) -> None:
    expected = translator.translate(["ein mann"])[0]
    assert expected
    page = html.unescape(browse(f"{url}#ein%20mann", tmp_path))
    assert f'class="translation" lang="en" dir="auto">{expected}</p>' in page
    assert "<span>ein</span> <span>mann</span>" in page and "1 line in" in page
    assert "de \u2192 en" in page
    assert "zero byte" in browse(f"{url}#ein%00mann", tmp_path)


@pytest.mark.skipif(CHROMIUM is None, reason="no Chromium (Debian package chromium)")
def test_the_grid_says_which_weight_its_darkest_cell_is(tmp_path: Path) -> None:
    tokens = {"words": ["a"], "tokens": ["a", "</s>"], "source_tokens": ["ein", "</s>"]}
    numbers = {"score": -0.1, "log_prob": -0.1, "grid": [[0.7512, 0.2], [0.1, 0.5]]}
    answers = [{"source_words": ["ein"], "translations": [{"text": "a", **tokens, **numbers}]}]
    models = {"source": "de", "target": "en", "runs": [], "systems": [], "version": ""}
    reader = f"""<script>
        const replies = {json.dumps({"models": models, "translate": answers})};
        fetch = async (path) => ({{ ok: true, json: async () => replies[path] }});
        new MutationObserver(() => {{ document.querySelector("details").open = true; }})
          .observe(document.querySelector("main"), {{ childList: true }});
    </script>"""
    text = (Path(server_module.__file__).parent / "page.html").read_text(encoding="utf-8")
    page = tmp_path / "page.html"
    page.write_text(text.replace("</main>", f"</main>{reader}"), encoding="utf-8")
    assert '<p class="score">darkest: 0.75</p>' in browse(f"{page.as_uri()}#ein", tmp_path)


def browse(address: str, folder: Path) -> str:
    """The elements of a page after its scripts have run."""
    options = ["--headless", "--no-sandbox", "--disable-gpu", "--virtual-time-budget=10000"]
    line = [str(CHROMIUM), *options, f"--user-data-dir={folder}/profile", "--dump-dom", address]
    return subprocess.run(line, capture_output=True, timeout=120, check=True).stdout.decode()


def test_a_list_may_be_empty(url: str) -> None:
    assert post(url, []) == (200, [])


def test_what_cannot_be_translated_is_refused_with_its_reason(url: str) -> None:
    both = {"source": "hund", "phrases": ["dog"], "forbidden": ["dog"]}
    status, answer = post(url, [{"source": "hund"}, both])
    assert status == 400
    assert "line 2" in answer["error"]["message"]


@pytest.mark.parametrize(
    ("method", "path", "headers", "status"),
    [
        ("GET", "/other", {}, 404),
        ("GET", "/translate?x=1", {}, 405),
        ("POST", "/other", {"Content-Length": "2"}, 404),
        ("POST", "/translate", {}, 411),
        ("POST", "/translate", {"Content-Length": "-1"}, 411),
        ("POST", "/translate", {"Content-Length": str(MOST_BYTES + 1)}, 413),
        ("POST", "/translate", {"Content-Length": "9" * 5000}, 413),
        ("GET", "/translate", {}, 405),
        ("POST", "/", {}, 405),
        ("DELETE", "/translate", {}, 405),
        ("PUT", "/other", {}, 404),
    ],
)
def test_other_requests_are_refused(
    url: str, method: str, path: str, headers: dict[str, str], status: int
) -> None:
    connection = http.client.HTTPConnection(urlsplit(url).netloc, timeout=60)
    connection.putrequest(method, path)
    for name, value in headers.items():
        connection.putheader(name, value)
    connection.endheaders()
    response = connection.getresponse()
    assert response.status == status
    assert json.load(response)["error"]["message"]
    assert response.headers["Allow"] == ({"/": "GET"}.get(path, "POST") if status == 405 else None)
    connection.close()


@pytest.mark.parametrize(("path", "status"), [("/", 200), ("/?from=probe", 200), ("/other", 404)])
def test_an_answer_to_head_has_the_status_of_get_and_no_body(
    url: str, path: str, status: int
) -> None:
    for method in ("GET", "HEAD"):
        connection = http.client.HTTPConnection(urlsplit(url).netloc, timeout=60)
        connection.request(method, path)
        response = connection.getresponse()
        body = response.read()
        assert (response.status, bool(body)) == (status, method == "GET")
        connection.close()


def test_a_request_may_begin_with_a_byte_order_mark(url: str) -> None:
    status, reply = post(url, b'\xef\xbb\xbf{"source": "hund"}')
    assert status == 200 and reply["translations"]


def test_what_cannot_be_read_is_refused_as_json(url: str) -> None:
    address = urlsplit(url)
    with socket.create_connection((address.hostname, address.port), timeout=60) as connection:
        connection.sendall(b"GET /".ljust(65537, b"a"))  # the server reads as much of a line
        answer = b"".join(iter(lambda: connection.recv(4096), b""))
    head, _, body = answer.partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 414 ")
    assert json.loads(body)["error"]["message"]


def answer_to(url: str, *sent: bytes, ends: bool = False) -> tuple[int, str]:
    """Return the status and the message of the answer to what is sent on a connection."""
    address = urlsplit(url)
    with socket.create_connection((address.hostname, address.port), timeout=60) as connection:
        for part in sent:
            connection.sendall(part)
        if ends:
            connection.shutdown(socket.SHUT_WR)
        answer = b"".join(iter(lambda: connection.recv(4096), b""))
    head, _, body = answer.partition(b"\r\n\r\n")
    return int(head.split()[1]), json.loads(body)["error"]["message"]


BEGUN = b"POST /translate HTTP/1.1\r\nContent-Length: 100\r\n\r\n", b"{"


def test_a_body_that_ends_early_is_refused(url: str) -> None:
    assert answer_to(url, *BEGUN, ends=True) == (400, "the request ends after 1 of 100 bytes")


def test_a_body_that_does_not_come_in_time_is_refused(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server_module, "SECONDS", 0.05)
    assert answer_to(url, *BEGUN) == (408, "the request has not arrived in 0 seconds")


def test_requests_of_a_server_that_is_stopped_are_refused(
    translator: Translator, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun, stop = threading.Event(), threading.Event()

    def interrupted(*_: Any) -> NoReturn:
        begun.set()
        stop.wait(60)
        raise KeyboardInterrupt

    def answer() -> None:
        with contextlib.suppress(KeyboardInterrupt):
            requests.answer(translator)
        server.wait_for_answers()
        ended.set()

    monkeypatch.setattr(request_queue, "_translated", interrupted)
    requests, ended = RequestQueue(), threading.Event()
    replies: list[Reply] = []
    with TranslationServer("127.0.0.1", 0, requests, describe([run])) as server:
        ask = partial(post, server.url, {"source": "hund"})
        threading.Thread(target=lambda: server.serve_forever(0.01), daemon=True).start()
        threading.Thread(target=answer, daemon=True).start()
        waiting = threading.Thread(target=lambda: replies.append(ask()))
        waiting.start()
        assert begun.wait(60)
        stop.set()
        waiting.join(60)
        assert ended.wait(60)
        replies.append(ask())
        server.shutdown()
    assert [(status, reply["error"]["kind"]) for status, reply in replies] == [
        (503, "serve.stopping")
    ] * 2


def test_a_connection_serves_several_requests(url: str) -> None:
    connection = http.client.HTTPConnection(urlsplit(url).netloc, timeout=60)
    connection.connect()
    port = connection.sock.getsockname()
    for source in ("hund", "ein mann"):
        connection.request("POST", "/translate", json.dumps({"source": source}))
        assert json.load(connection.getresponse())["source"] == source
        connection.request("GET", "/models", headers={"Content-Length": "0"})
        assert json.load(connection.getresponse())
        assert connection.sock.getsockname() == port
    connection.close()


def test_the_body_of_a_get_is_no_further_request(url: str) -> None:
    address = urlsplit(url)
    request = (
        b"GET http://localhost/models?a=b HTTP/1.1\r\nHost: a\r\ncontent-length: 5\r\n\r\nhello"
    )
    with socket.create_connection((address.hostname, address.port), timeout=60) as connection:
        connection.sendall(request)
        answer = b"".join(iter(lambda: connection.recv(4096), b""))  # the server closes it
    assert answer.count(b"HTTP/1.1") == answer.count(b"HTTP/1.1 200") == 1
    assert b"\r\nConnection: close\r\n" in answer


def test_requests_that_wait_are_translated_together_and_fail_alone(
    translator: Translator, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: list[int] = []
    translate = Translator.translate_nbest

    def counted(self: Translator, lines: Any, *args: Any, **more: Any) -> Any:
        calls.append(len(lines))
        return translate(self, lines, *args, **more)

    monkeypatch.setattr(Translator, "translate_nbest", counted)
    objects: list[list[dict[str, Any]]] = [
        [{"source": "hund"}, {"source": "ein mann"}],
        [{"source": "hund", "phrases": ["dog"], "forbidden": ["dog"]}],
        [{"source": "mann"}],
    ]
    requests = [LinesRequest([line_of(each, 0) for each in request]) for request in objects]
    request_queue._answer(translator, [requests[0], requests[2]])
    assert calls == [3]
    expected = [requests[0].answers.result(), requests[2].answers.result()]

    requests = [LinesRequest([line_of(each, 0) for each in request]) for request in objects]
    request_queue._answer(translator, requests)
    assert texts(requests[0].answers.result()) == texts(expected[0])
    assert texts(requests[2].answers.result()) == texts(expected[1])
    with pytest.raises(Exception, match="line 1"):
        requests[1].answers.result()


def test_short_requests_wait_for_one_long_request_at_most(
    translator: Translator, monkeypatch: pytest.MonkeyPatch
) -> None:
    requests, order = RequestQueue(), []
    asked = {
        name: LinesRequest([line_of({"source": name * times}, 0)])
        for name, times in [("a", 1), ("B", 2000), ("c", 1), ("D", 1001), ("e", 1000), ("f", 1)]
    }
    arriving = {"a": "BcDe", "B": "f"}  # while another is being translated

    def recorded(_: Translator, lines: list[InputLine]) -> list[Answer]:
        names = "".join(line.source[0] for line in lines)
        order.append(names)
        for name in arriving.get(names, ""):
            requests._requests.put(asked[name])
        return [Answer([], [], []) for _ in lines]

    monkeypatch.setattr(request_queue, "_translated", recorded)
    requests._requests.put(asked["a"])
    threading.Thread(target=requests.answer, args=(translator,), daemon=True).start()
    for request in asked.values():
        request.answers.result(60)
    assert order == ["a", "ce", "B", "f", "D"]


def texts(answers: list[Answer]) -> list[str]:
    return [answer.translations[0].text for answer in answers]


def test_a_bug_is_an_answer_too(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def failing(*_: Any) -> None:
        raise ValueError("broken")

    with monkeypatch.context() as patch:
        patch.setattr(request_queue, "_translated", failing)
        status, answer = post(url, {"source": "hund"})
    assert status == 500 and "ValueError: broken" in answer["error"]["message"]
    assert post(url, {"source": "hund"})[0] == 200


def test_a_client_that_leaves_early_disturbs_nobody(
    url: str, capfd: pytest.CaptureFixture[str]
) -> None:
    with socket.create_connection(("127.0.0.1", urlsplit(url).port or 0)) as client:
        client.sendall(b"POST /translate HTTP/1.1\r\nContent-Length: 100\r\n\r\n{")
        client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")  # reset
    assert post(url, {"source": "hund"})[0] == 200
    assert "Traceback" not in capfd.readouterr().err


def test_a_search_ends_when_its_client_leaves(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    begun, translated = threading.Event(), request_queue._translated

    def endless(translator: Translator, lines: list[InputLine]) -> list[Answer]:
        while [line.source for line in lines] == ["endless"]:
            begun.set()
            time.sleep(0.01)
            leave_if_unwanted()
        return translated(translator, lines)

    monkeypatch.setattr(request_queue, "_translated", endless)
    client = http.client.HTTPConnection(urlsplit(url).netloc, timeout=60)
    client.request("POST", "/translate", json.dumps({"source": "endless"}))
    assert begun.wait(60)
    replies: list[Reply] = []
    waiting = threading.Thread(target=lambda: replies.append(post(url, {"source": "hund"})))
    waiting.start()
    waiting.join(0.2)
    assert waiting.is_alive()
    client.close()
    waiting.join(60)
    assert [status for status, _ in replies] == [200]


def test_requests_of_clients_that_have_gone_are_not_translated(
    translator: Translator, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[list[str]] = []

    def recorded(_: Translator, lines: list[InputLine]) -> list[Answer]:
        asked.append([line.source for line in lines])
        return [Answer([], [line.source], []) for line in lines]

    monkeypatch.setattr(request_queue, "_translated", recorded)
    there = LinesRequest([line_of({"source": "hund"}, 0)])
    gone = LinesRequest([line_of({"source": "mann"}, 0)], is_wanted=lambda: False)
    request_queue._answer(translator, [gone, there])
    assert asked == [["hund"]]
    assert there.answers.result() == [Answer([], ["hund"], [])]
    assert gone.answers.cancelled()


def test_a_server_with_too_many_lines_asks_to_come_again(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(request_queue, "MOST_WAITING", 3)
    started, go_on = threading.Event(), threading.Event()
    translated = request_queue._translated

    def slow(*args: Any) -> Any:
        started.set()
        go_on.wait(60)
        return translated(*args)

    monkeypatch.setattr(request_queue, "_translated", slow)
    replies: list[Reply] = []
    first = threading.Thread(target=lambda: replies.append(post(url, [{"source": "hund"}] * 2)))
    first.start()
    assert started.wait(60)
    status, answer = post(url, [{"source": "hund"}] * 2)
    go_on.set()
    first.join()
    assert (status, answer["error"]["kind"]) == (503, "serve.busy")
    assert replies[0][0] == 200
    assert post(url, [{"source": "hund"}] * 4)[0] == 200  # more than may wait, but nobody else does


def test_a_port_in_use_is_refused(jtrans: Jtrans, make_run: MakeRun) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        result = jtrans("serve", make_run(), "--port", port)
    assert result.code == 2
    assert "cannot listen" in result.err and f"--port {port}" in result.err
    assert "--port 0" in result.err


def test_a_host_that_is_none_is_refused(jtrans: Jtrans, make_run: MakeRun) -> None:
    result = jtrans("serve", make_run(), "--host", "256.0.0.1", "--port", 0)
    assert result.code == 2
    assert "cannot listen on 256.0.0.1" in result.err
