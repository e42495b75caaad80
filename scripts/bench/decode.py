"""Compare decoding rates in turns: jtrans and Hugging Face's Marian of the same size.

    python -m scripts.bench.decode --data data/prepared/multi30k-joint

Both have random weights and write exactly STEPS tokens for every sentence of the test set, so
that they do the same work. Marian is left out if `transformers` is not installed.
"""

from __future__ import annotations

import argparse
import functools
import importlib.util
from pathlib import Path

from scripts.bench.interleave import Amounts, Task, in_turns, report, rows
from scripts.bench.peers import SIZES, jtrans_transformer, marian

BEAM, STEPS, SPLIT = 5, 15, "test"


def decode_jtrans(data: Path, batch: int, sentences: int) -> Task:
    """Return the translation of the test set by a jtrans Transformer."""
    import torch

    from jtrans.data.batch import padded
    from jtrans.data.prepared import PreparedCorpus
    from jtrans.decoding.options import SearchOptions
    from jtrans.decoding.prepared.choose import prepared
    from jtrans.decoding.search.beam import beam_search

    corpus = PreparedCorpus.open(data)
    model = prepared(jtrans_transformer(len(corpus.pipeline.target.vocabulary)).eval())
    store = corpus.pairs(SPLIT).source
    sources = sorted((store[i] for i in range(sentences)), key=len)
    options = SearchOptions(beam=BEAM, max_length=str(STEPS))

    def work(number: int) -> Amounts:
        for first in range(0, sentences, batch):
            ids, mask = padded(sources[first : first + batch], torch.device("cpu"))
            with torch.inference_mode():
                beam_search([model], ids, mask, options)
        return {"sentences": sentences}

    return Task(work)


def decode_marian(data: Path, batch: int, sentences: int) -> Task:
    """Return the translation of the test set by Hugging Face's Marian."""
    import torch

    from jtrans.data.batch import padded
    from jtrans.data.prepared import PreparedCorpus

    corpus = PreparedCorpus.open(data)
    model = marian(len(corpus.pipeline.target.vocabulary)).eval()
    store = corpus.pairs(SPLIT).source
    sources = sorted((store[i] for i in range(sentences)), key=len)

    def work(number: int) -> Amounts:
        for first in range(0, sentences, batch):
            ids, mask = padded(sources[first : first + batch], torch.device("cpu"))
            with torch.no_grad():
                model.generate(
                    input_ids=ids,
                    attention_mask=mask.long(),
                    num_beams=BEAM,
                    min_new_tokens=STEPS,
                    max_new_tokens=STEPS,
                )
        return {"sentences": sentences}

    return Task(work)


def main() -> None:
    """Measure, print, and write the result if requested."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--data", type=Path, required=True, help="prepared, joint vocabulary")
    parser.add_argument("--batch", type=int, default=64, help="sentences")
    parser.add_argument("--quick", action="store_true", help="two short rounds")
    parser.add_argument("--json", type=Path, help="write the result to this file")
    chosen = parser.parse_args()
    count, sentences = (2, 64) if chosen.quick else (5, 512 if chosen.batch > 1 else 48)
    variants = {
        "jtrans Transformer fp32": functools.partial(
            decode_jtrans, chosen.data, chosen.batch, sentences
        )
    }
    if importlib.util.find_spec("transformers") is not None:
        variants["Hugging Face Marian fp32"] = functools.partial(
            decode_marian, chosen.data, chosen.batch, sentences
        )
    table = rows(in_turns(variants, rounds=count), "sentences")
    command = f"python -m scripts.bench.decode --data {chosen.data.name} --batch {chosen.batch}"
    settings = {"beam": BEAM, "steps": STEPS, "batch": chosen.batch}
    report(table, "sentences", path=chosen.json, command=command, sizes=SIZES, **settings)


if __name__ == "__main__":
    main()
