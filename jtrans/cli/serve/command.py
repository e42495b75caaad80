"""`jtrans serve`: load the models, then answer requests until it is stopped."""

from __future__ import annotations

import contextlib
import threading
from dataclasses import replace
from typing import TYPE_CHECKING

from jtrans.cli import console
from jtrans.cli.options import (
    SEARCH,
    DecodingOptions,
    argument,
    check_choice,
    flag,
    grouped,
    option,
)
from jtrans.cli.translate.options import ENGINE, ENGINES
from jtrans.errors import ConfigError

if TYPE_CHECKING:
    from jtrans.decoding.translator import Translator

ADDRESS = "Address"
LOCAL = ("127.0.0.1", "::1", "localhost")


@grouped()
def serve(
    runs: list[str] = argument("RUN", "A run, or several as an ensemble."),
    *,
    port: int = option(
        "Port to listen on; 0: any free port.",
        "N",
        default=8000,
        panel=ADDRESS,
        min=0,
        max=65535,
    ),
    host: str = option(
        "Address to listen on; 0.0.0.0 accepts requests from other machines.",
        "ADDRESS",
        default="127.0.0.1",
        panel=ADDRESS,
    ),
    open_page: bool = flag("--open", "Open the page in a browser.", ADDRESS),
    decoding: DecodingOptions,
    n_best: int = option("Translations per line.", default=1, panel=SEARCH),
    engine: str = ENGINE,
) -> None:
    """Translate in a browser, or for other programs, until Ctrl-C.

    The page shows word alignments, and the grid of joint systems.
    Programs POST to /translate an object like those of `jtrans translate --input-format jsonl`,
    or a list of them. They get what `--format jsonl` writes, plus the words that are aligned.
    Requests that arrive together are translated together.

    [bold]Examples[/bold]

    jtrans serve @last --open

    jtrans serve runs/a runs/b --port 8080 --n-best 3
    """
    from jtrans.cli.serve.request_queue import RequestQueue
    from jtrans.cli.serve.server import TranslationServer, describe
    from jtrans.decoding.engines.ctranslate2_options import check_engine
    from jtrans.decoding.options import TranslationExtras
    from jtrans.exports import find_models

    check_choice("--engine", engine, ENGINES)
    opened = find_models(runs, engine)
    choices = decoding.choices(nbest=n_best)
    choices.check(opened)
    check_engine(opened, choices)
    queue = RequestQueue()
    # opened before the models are loaded, so that an address in use is reported at once
    with TranslationServer(host, port, queue, describe(opened)) as server:
        from jtrans.decoding.engines.open import open_translator

        # long lines are split even with --n-best or a grid, which a client has not chosen
        translator = replace(open_translator(opened, choices), refuses_long=False)
        if engine == "torch":
            translator = with_attention(translator)
        else:
            translator = replace(translator, extras=TranslationExtras(alignments=True))
        threading.Thread(target=server.serve_forever, daemon=True).start()
        names = " + ".join(run.name for run in opened)
        console.talk(f"{names} at {server.url}   (Ctrl-C to stop)")
        if host not in LOCAL:
            console.warn(
                f"anyone who can reach {host} can send requests; the connection is not encrypted"
            )
        if open_page:
            import webbrowser

            webbrowser.open(server.url)
        try:
            with contextlib.suppress(KeyboardInterrupt):
                queue.answer(translator)
        finally:
            server.wait_for_answers()


def with_attention(translator: Translator) -> Translator:
    """Return the translator with word alignments and the grid, as far as its system has them."""
    from jtrans.decoding.options import TranslationExtras
    from jtrans.decoding.word_alignments import choose_layer

    model = translator.models[0]
    try:
        choose_layer(model)
    except ConfigError:
        return translator
    return replace(translator, extras=TranslationExtras(alignments=True, grid=model.is_joint))
