"""Compare RNMT+ in turns: its layers with torch.nn.LSTM, its search with a Transformer's.

    python -m scripts.bench.recurrent

Training: the forward and backward pass of one layer on the same random sequences, layer-normalised
and as torch's LSTM without any norm. The attentive layer is the decoder's first; torch's LSTM that
it is compared with does not attend. Search: the cost of a step after prefixes of several lengths,
with random models of the IWSLT sizes, without selecting the beam.
"""

from __future__ import annotations

import argparse
import functools
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from scripts.bench.interleave import Amounts, Task, in_turns, recorded_command, rows, spread, write

if TYPE_CHECKING:
    from torch import Tensor

STEPS, SOURCE = 30, 25  # steps of a sequence; source positions
# name: input width, width, sentences, directions, whether it attends
LAYERS: dict[str, tuple[int, int, int, int, bool]] = {
    "encoder, E = N = 256": (256, 256, 64, 2, False),
    "encoder, E = N = 1024": (1024, 1024, 32, 2, False),
    "decoder, E = N = 256": (512, 256, 64, 1, False),
    "decoder, E = N = 1024": (2048, 1024, 32, 1, False),
    "attentive, E = N = 256": (256, 256, 64, 1, True),
    "attentive, E = N = 1024": (1024, 1024, 32, 1, True),
}
PREFIXES = (1, 16, 64, 256)
TIMED = 4  # steps after each prefix
SENTENCES, BEAM = 16, 5
RECIPES = ("iwslt14-de-en/transformer", "iwslt14-de-en/rnmt-plus")
VOCABULARIES = (8848, 6632)


def train_torch(layer: str, repeats: int) -> Task:
    """Return forward and backward passes of torch's LSTM."""
    import torch

    _prepare()
    input_width, width, sentences, directions, attends = LAYERS[layer]
    if attends:
        input_width += width  # the context
    lstm = torch.nn.LSTM(input_width, width, bidirectional=directions == 2)
    x = torch.randn(STEPS, sentences, input_width, requires_grad=True)
    return _passes(lambda: lstm(x)[0], sentences, repeats)


def train_normed(layer: str, repeats: int) -> Task:
    """Return forward and backward passes of a layer of RNMT+."""
    import torch

    from jtrans.nn.recurrent.first_layer import AttentiveLstm
    from jtrans.nn.recurrent.lstm import BidirectionalLstm, NormedLstm, Reversal

    _prepare()
    input_width, width, sentences, directions, attends = LAYERS[layer]
    x = torch.randn(STEPS, sentences, input_width, requires_grad=True)
    if attends:
        attentive = AttentiveLstm(input_width, width, width, 4, dropout=0.0, initial=0.04)
        memory = torch.randn(sentences, SOURCE, width, requires_grad=True)
        mask = torch.ones(sentences, SOURCE, dtype=torch.bool)
        return _passes(
            lambda: attentive(x, attentive.attention.keys(memory, mask)), sentences, repeats
        )
    if directions == 2:
        both = BidirectionalLstm(input_width, width, initial=0.04)
        reversal = Reversal.of(torch.ones(STEPS, sentences, dtype=torch.bool))
        return _passes(lambda: both.read(x, reversal), sentences, repeats)
    lstm = NormedLstm(input_width, width, initial=0.04)
    return _passes(lambda: lstm(x), sentences, repeats)


def _prepare() -> None:
    """Make the processor ready as every training does."""
    import torch

    from jtrans.nn.device import prepare_device

    prepare_device(torch.device("cpu"), for_training=True)


def _passes(forward: Callable[[], Tensor], sentences: int, repeats: int) -> Task:
    def work(number: int) -> Amounts:
        for _ in range(repeats):
            states = forward()
            states.backward(states.detach())
        return {"tokens": repeats * sentences * STEPS}

    return Task(work)


def search(recipe: str) -> Task:
    """Return steps of a search; the amounts are the seconds of a step after each prefix."""
    import torch

    from jtrans.config import load_config
    from jtrans.models.zoo import build_model, system_configs

    model = build_model(load_config(recipe, system_configs()).model, *VOCABULARIES).eval()
    source = torch.randint(4, VOCABULARIES[0], (SENTENCES, SOURCE))
    rows = torch.arange(SENTENCES * BEAM).view(SENTENCES, BEAM)

    @torch.inference_mode()
    def work(number: int) -> Amounts:
        seconds: dict[str, float] = {}
        state: Any = model.begin(model.encode(source, source > 0), BEAM)
        token = torch.randint(4, VOCABULARIES[1], (SENTENCES * BEAM,))
        for length in range(PREFIXES[-1] + TIMED):
            start = time.perf_counter()
            model.project(model.step(token, state))
            state = state.select(rows.flip(1))  # a beam that changes its order
            done = time.perf_counter() - start
            for prefix in PREFIXES:
                if prefix <= length < prefix + TIMED:
                    seconds[str(prefix)] = seconds.get(str(prefix), 0.0) + done / TIMED
        return seconds

    return Task(work)


def measure_training(rounds: int, repeats: int) -> list[dict[str, Any]]:
    """Return a row for each layer and variant."""
    return [
        {"layer": layer, **row}
        for layer in LAYERS
        for row in rows(
            in_turns(
                {
                    "torch.nn.LSTM": functools.partial(train_torch, layer, repeats),
                    "jtrans": functools.partial(train_normed, layer, repeats),
                },
                rounds=rounds,
            ),
            "tokens",
        )
    ]


def measure_search(rounds: int) -> list[dict[str, Any]]:
    """Return a row for each system: its steps by length of the prefix, and their rates."""
    measured = in_turns(
        {recipe: functools.partial(search, recipe) for recipe in RECIPES}, rounds=rounds
    )
    first = measured[RECIPES[0]]
    table = []
    for recipe, done in measured.items():
        milliseconds, rates = {}, {}
        for prefix in map(str, PREFIXES):
            seconds = [each.amounts[prefix] for each in done]
            base = [each.amounts[prefix] for each in first]
            milliseconds[prefix] = round(1e3 * statistics.median(seconds), 2)
            rates[prefix] = spread([b / timed for timed, b in zip(seconds, base, strict=True)])
        table.append({"recipe": recipe, "milliseconds": milliseconds, "rate": rates})
    return table


def main() -> None:
    """Measure, print, and write the result if requested."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--quick", action="store_true", help="two short rounds")
    parser.add_argument("--json", type=Path, help="write the result to this file")
    chosen = parser.parse_args()
    rounds, repeats = (2, 1) if chosen.quick else (7, 2)
    training, searching = measure_training(rounds, repeats), measure_search(rounds)
    for row in training:
        ratio = "{median:.2f} ({low:.2f} to {high:.2f})".format(**row["ratio"])
        print(f"{row['layer']:<24} {row['variant']:<14} {row['tokens_per_second']:>9,.0f} {ratio}")
    for row in searching:
        print(f"{row['recipe']:<26} ms a step by prefix: {row['milliseconds']}")
    settings = {"steps": STEPS, "source": SOURCE, "sentences": SENTENCES, "beam": BEAM}
    command = recorded_command("recurrent")
    write(chosen.json, command=command, **settings, rows=training, search=searching)


if __name__ == "__main__":
    main()
