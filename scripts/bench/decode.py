r"""Compare decoding rates in turns: jtrans, other toolkits and CTranslate2.

    python -m scripts.bench.decode --data data/prepared/multi30k-de-en

All models have the same sizes and random weights (CTranslate2 has an export of jtrans's), and write
exactly STEPS tokens for every sentence chosen from the test set, so that they do the same work. Two
threads of jtrans search a batch each; single sentences come one after the other, as from a user who
waits. One process with two threads is compared with two processes of one thread, which share the
batches. CTranslate2 and the toolkits of `scripts.bench.peers.installed` are left out where they are
not installed; toolkits have two threads, or one, which can be faster for single sentences.
`--batch 64 --rounds 9 --only Marian` repeats a part.
"""

from __future__ import annotations

import argparse
import functools
import importlib.util
import os
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from multiprocessing.connection import Connection, Pipe
from pathlib import Path
from typing import TYPE_CHECKING, Any

from scripts.bench.interleave import (
    Amounts,
    Task,
    Variant,
    in_turns,
    leave_waiting_alone,
    prepared_corpus,
    recorded_command,
    rows,
    timed_precisions,
    write,
)
from scripts.bench.peers.base import BEAM, SIZES, STEPS, Peer
from scripts.bench.peers.installed import installed, versions
from scripts.bench.peers.ours import jtrans_transformer

if TYPE_CHECKING:
    from jtrans.text.vocabulary import Vocabulary

SPLIT = "test"
# Sentences of a round by batch size: four batches, so that threads end at about the same time.
SENTENCES = {1: 24, 16: 64, 64: 256}
QUICK_SENTENCES = {1: 4, 16: 32, 64: 128}
THREADS = 2  # of one process; several processes divide them
Ids = list[int]


def read_sources(data: Path, sentences: int) -> tuple[list[Ids], Vocabulary]:
    """Return sentences spread over the lengths of the test set, and the larger vocabulary."""
    from jtrans.data.prepared import PreparedCorpus

    corpus = PreparedCorpus.open(data)
    store = corpus.pairs(SPLIT).source
    everything = sorted((store[i].tolist() for i in range(len(store.lengths))), key=len)
    taken = everything[:: max(1, len(everything) // sentences)][:sentences]
    sides = corpus.pipeline.source, corpus.pipeline.target
    return taken, max((side.vocabulary for side in sides), key=len)


def decode_jtrans(
    data: Path, batch: int, sentences: int, *, precision: str = "fp32", workers: int = 1
) -> Task:
    """Return decoding with the search of `jtrans translate`."""
    if workers > 1:
        worker = functools.partial(decode_jtrans, data, batch, sentences, precision=precision)
        return forked(worker, workers)
    import torch

    from jtrans.data.batch import padded
    from jtrans.decoding.lanes import lane_count
    from jtrans.decoding.options import SearchOptions
    from jtrans.decoding.prepared.base import backend_for
    from jtrans.decoding.prepared.choose import prepared
    from jtrans.decoding.search.beam import beam_search
    from jtrans.nn.device import prepare_device

    device = torch.device("cpu")
    torch.set_num_threads(THREADS // _share[1])
    prepare_device(device)
    sources, vocabulary = read_sources(data, sentences)
    model = jtrans_transformer(len(vocabulary)).eval().requires_grad_(False)
    form = prepared(model, precision)
    options = SearchOptions(beam=BEAM, max_length=str(STEPS), min_length=STEPS - 1)

    def work(number: int) -> Amounts:
        with torch.inference_mode(), backend_for([form]):
            return count(
                batches_of(sources, batch),
                lambda part: beam_search([form], *padded(part, device), options),
                lanes=lane_count(device) if batch > 1 else 1,
            )

    return Task(work)


def decode_peer(
    peer: type[Peer], data: Path, batch: int, sentences: int, *, threads: int = THREADS
) -> Task:
    """Return decoding with another toolkit."""
    leave_waiting_alone()
    import torch

    torch.set_num_threads(threads)
    torch.manual_seed(1)
    sources, vocabulary = read_sources(data, sentences)
    toolkit = peer(len(vocabulary))
    toolkit.model.eval().requires_grad_(False)

    def search(part: Sequence[Ids]) -> None:
        assert all(len(translation) == STEPS for translation in toolkit.search(part))

    def work(number: int) -> Amounts:
        with torch.inference_mode():
            return count(batches_of(sources, batch), search)

    return Task(work)


def decode_ctranslate2(
    data: Path, batch: int, sentences: int, *, compute_type: str, workers: int
) -> Task:
    """Return decoding with CTranslate2 and the exported weights."""
    leave_waiting_alone()
    import ctranslate2

    from jtrans.decoding.engines.token_names import token_names
    from jtrans.exchange.to_ctranslate2 import transformer_spec
    from jtrans.models.transformer import Transformer
    from jtrans.text.pipeline import TextPipeline

    sources, vocabulary = read_sources(data, sentences)
    model = jtrans_transformer(len(vocabulary)).eval()
    assert isinstance(model, Transformer)
    spec = transformer_spec(model, TextPipeline.whitespace("de", "en", vocabulary, vocabulary))
    spec.validate()
    spec.optimize(quantization=None)
    with tempfile.TemporaryDirectory() as folder:
        spec.save(folder)
        translator = ctranslate2.Translator(
            folder,
            "cpu",
            compute_type=compute_type,
            inter_threads=workers,
            intra_threads=THREADS // workers,
        )
    names = token_names(vocabulary)
    texts = [[names[token] for token in source[:-1]] for source in sources]  # it adds </s>

    def work(number: int) -> Amounts:
        results = translator.translate_batch(
            texts,
            max_batch_size=batch,
            beam_size=BEAM,
            min_decoding_length=STEPS,
            max_decoding_length=STEPS,
        )
        assert all(len(result.hypotheses[0]) == STEPS for result in results)
        return {"sentences": len(results)}

    return Task(work)


_share = (0, 1)  # the number of this worker, and the number of workers


def batches_of(sources: Sequence[Ids], batch: int) -> list[Sequence[Ids]]:
    """Cut sentences into batches of neighbours in length, and return this worker's.

    The longest come first, as in `jtrans translate`: small batches at the end divide better.
    """
    number, workers = _share
    ordered = sorted(sources, key=len, reverse=True)
    batches = [ordered[first : first + batch] for first in range(0, len(ordered), batch)]
    return [*batches[number::workers]]


def count(
    batches: Sequence[Sequence[Ids]],
    search: Callable[[Sequence[Ids]], object],
    *,
    lanes: int = 1,
) -> Amounts:
    """Search for the translations of all batches, `lanes` at a time, and count the sentences."""
    from jtrans.decoding.lanes import in_lanes

    def compute(numbers: Iterator[list[int]]) -> Iterator[int]:
        for [number] in numbers:
            search(batches[number])
            yield len(batches[number])

    return {"sentences": sum(in_lanes([[i] for i in range(len(batches))], compute, lanes))}


def forked(variant: Variant, workers: int) -> Task:
    """Return the work of a variant divided among processes, each with its part of the threads."""
    connections: list[Connection[Any, Any]] = []
    for number in range(workers):
        ours, theirs = Pipe()
        if os.fork() == 0:
            for other in [*connections, ours]:
                other.close()  # when this process's parent is gone, `recv` raises
            _work_forked(variant, (number, workers), theirs)
        theirs.close()
        connections.append(ours)
    for connection in connections:
        connection.recv()

    def work(number: int) -> Amounts:
        for connection in connections:
            connection.send(number)
        return {"sentences": sum(connection.recv()["sentences"] for connection in connections)}

    return Task(work)


def _work_forked(
    variant: Variant, share: tuple[int, int], connection: Connection[Any, Any]
) -> None:
    global _share
    _share = share
    try:
        task = variant()
        connection.send("ready")
        while True:
            connection.send(dict(task.work(connection.recv())))
    except EOFError:
        os._exit(0)
    except BaseException:
        os._exit(1)


def variants(data: Path, batch: int, sentences: int) -> dict[str, Variant]:
    """Return the variants that can run on this machine, jtrans first."""
    common = data, batch, sentences
    variants_by_name: dict[str, Variant] = {
        "jtrans fp32, 1 x 2": functools.partial(decode_jtrans, *common),
        "jtrans fp32, 2 x 1": functools.partial(decode_jtrans, *common, workers=2),
        "jtrans bf16, 1 x 2": functools.partial(decode_jtrans, *common, precision="bf16"),
        "jtrans int8, 1 x 2": functools.partial(decode_jtrans, *common, precision="int8"),
        "jtrans int8, 2 x 1": functools.partial(
            decode_jtrans, *common, precision="int8", workers=2
        ),
    }
    if "bf16" not in timed_precisions():
        del variants_by_name["jtrans bf16, 1 x 2"]
    for peer in installed():
        for threads in (THREADS, 1) if batch == 1 else (THREADS,):
            variants_by_name[f"{peer.name} fp32, 1 x {threads}"] = functools.partial(
                decode_peer, peer, *common, threads=threads
            )
    if importlib.util.find_spec("ctranslate2") is not None:
        for compute_type in ("float32", "int8"):
            for workers in (1, 2):
                name = f"CTranslate2 {compute_type}, {workers} x {THREADS // workers}"
                variants_by_name[name] = functools.partial(
                    decode_ctranslate2, *common, compute_type=compute_type, workers=workers
                )
    return variants_by_name


def only(everything: Mapping[str, Variant], parts: Sequence[str]) -> dict[str, Variant]:
    """Return the first variant and those whose names contain one of `parts`; all without parts."""
    first = next(iter(everything))
    return {
        name: variant
        for name, variant in everything.items()
        if not parts or name == first or any(part in name for part in parts)
    }


def main() -> None:
    """Measure, print, and write the result if requested."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--data", type=prepared_corpus, required=True, help="a prepared corpus")
    parser.add_argument("--quick", action="store_true", help="two short rounds")
    parser.add_argument(
        "--batch", type=int, action="append", choices=SENTENCES, help="only batches of this size"
    )
    parser.add_argument("--rounds", type=int, help="how often each variant is timed")
    parser.add_argument(
        "--only", action="append", default=[], help="only variants whose names contain this"
    )
    parser.add_argument("--json", type=Path, help="write the result to this file")
    chosen = parser.parse_args()
    rounds, amounts = (2, QUICK_SENTENCES) if chosen.quick else (5, SENTENCES)
    table: list[dict[str, Any]] = []
    for batch in chosen.batch or amounts:
        compared = only(variants(chosen.data, batch, amounts[batch]), chosen.only)
        measured = in_turns(compared, rounds=chosen.rounds or rounds, drops_failing=True)
        table += [{"batch": batch, **row} for row in rows(measured, "sentences")]
    for row in table:
        print(
            f"{row['variant']:<34} batch {row['batch']:>2} {row['sentences_per_second']:>8.1f} "
            "sentences/s   {median:.2f} x ({low:.2f} to {high:.2f})".format(**row["ratio"])
        )
    command = recorded_command("decode")
    settings = {"beam": BEAM, "steps": STEPS, "sizes": SIZES}
    write(chosen.json, rows=table, command=command, toolkits=versions(), **settings)


if __name__ == "__main__":
    main()
