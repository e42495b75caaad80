"""Compare decoding with the joint models in turns: jtrans, and the method of the original code.

    python -m scripts.bench.decode_joint --data data/prepared/multi30k-joint

The models have random weights and the published sizes for IWSLT; every sentence chosen from the
test set gets exactly STEPS tokens, so that all variants do the same work. The share of products is
the model's FLOP/s in the search over the FLOP/s of its largest product alone, measured after every
round; its reciprocal bounds the speed-up that another method could reach. Peak memory is that of
each variant's process. `--batch 1 --batch 16 --rounds 2` repeats a part. Two other measurements:

    --memory         with a small model, the peak memory of `translate` by the length of a file
    --agreement RUN  how many translations of a trained run's test set are the same in bf16
"""

from __future__ import annotations

import argparse
import functools
import statistics
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from scripts.bench.decode import Ids, batches_of, count, read_sources
from scripts.bench.interleave import (
    Amounts,
    Round,
    Task,
    in_turns,
    leave_waiting_alone,
    prepared_corpus,
    recorded_command,
    spread,
    timed_precisions,
    write,
)

if TYPE_CHECKING:
    from jtrans.decoding.options import SearchOptions
    from jtrans.models.base import TranslationModel

BEAM, STEPS = 5, 15
SYSTEMS = ("reformer-base", "reformer-fast")
SIZES = {"width": 256, "ffn_width": 1024, "heads": 4}  # with 7 joint layers, or 5 and a PreNet of 5
BATCHES = (1, 16, 64)
PRECISIONS = ("fp32", "bf16")
REFERENCE = "original's way, fp32"
SENTENCES = 64  # of a round; an eighth of them if batches hold one sentence
BATCHES_OF_ROUND = 4  # at least: each thread searches a batch, so few batches say little
SMALL = {"width": 64, "ffn_width": 128, "heads": 2, "layers": 2, "prenet_layers": 1}
FILE_LINES = (250, 1000, 4000)  # lengths of the files for which memory is measured


def decode_reference(system: str, data: Path, batch: int, sentences: int, sizes: Any) -> Task:
    """Return decoding as the original does it: torch's defaults, no device set-up."""
    leave_waiting_alone()
    from jtrans.data.batch import padded
    from scripts.bench.reference_decoding import ReferenceDecoding

    sources, vocabulary = read_sources(data, sentences)
    model = make_model(system, len(vocabulary), sizes)
    search = ReferenceDecoding(model).search
    flops = sentence_flops(model)

    def work(number: int) -> Amounts:
        batches = cut(sources, batch, is_warming_up=number == 0)
        for part in batches:
            search(padded(part, _cpu())[0], BEAM, STEPS)
        return amounts(batches, flops)

    return Task(work, functools.partial(products, model, "fp32"))


def decode_jtrans(
    system: str, data: Path, batch: int, sentences: int, sizes: Any, *, precision: str
) -> Task:
    """Return decoding with the search of `jtrans translate`."""
    import torch

    from jtrans.data.batch import padded
    from jtrans.decoding.lanes import lane_count
    from jtrans.decoding.prepared.base import backend_for
    from jtrans.decoding.prepared.choose import prepared
    from jtrans.decoding.search.beam import beam_search
    from jtrans.nn.device import prepare_device

    prepare_device(_cpu())
    sources, vocabulary = read_sources(data, sentences)
    model = make_model(system, len(vocabulary), sizes)
    form = prepared(model, precision)
    flops = sentence_flops(model)
    options = exact_length()

    def work(number: int) -> Amounts:
        batches = cut(sources, batch, is_warming_up=number == 0)
        with torch.inference_mode(), backend_for([form]):
            count(
                batches,
                lambda part: beam_search([form], *padded(part, _cpu()), options),
                lanes=lane_count(_cpu()) if batch > 1 else 1,
            )
        return amounts(batches, flops)

    return Task(work, functools.partial(products, model, precision))


def exact_length() -> SearchOptions:
    """Return the options of a search for translations of exactly STEPS tokens."""
    from jtrans.decoding.options import SearchOptions

    return SearchOptions(beam=BEAM, max_length=str(STEPS), min_length=STEPS - 1)


def sentence_flops(model: TranslationModel) -> Callable[[int], float]:
    """Return the FLOPs of a search for a sentence of S tokens, counted on the plain model.

    They are quadratic in the length, so the counts of three lengths determine them.
    """
    import torch

    from jtrans.bench.flops import count_flops
    from jtrans.decoding.search.beam import beam_search

    def count(length: int) -> int:
        source = torch.full((1, length), 4)
        with torch.inference_mode():
            return count_flops(lambda: beam_search([model], source, source.bool(), exact_length()))

    few, more, most = count(2), count(3), count(4)
    second = (most - 2 * more + few) / 2
    return lambda length: few + (more - few) * (length - 2) + second * (length - 2) * (length - 3)


def amounts(batches: list[Sequence[Ids]], flops: Callable[[int], float]) -> Amounts:
    """Return the sentences of the batches, and their FLOPs."""
    lengths = [len(source) for batch in batches for source in batch]
    return {"sentences": len(lengths), "flops": sum(map(flops, lengths))}


def products(model: TranslationModel, precision: str) -> Amounts:
    """Return the FLOPs per second of the model's largest product."""
    from jtrans.bench.machine import product_rate

    return {"product_rate": product_rate(model, precision)}


def translate_file(data: Path, lines: int) -> Task:
    """Return the translation of a file of `lines` in micro-batches, with a small model."""
    import torch

    from jtrans.decoding.batched_search import translate_ids
    from jtrans.decoding.prepared.choose import prepared
    from jtrans.nn.device import prepare_device

    prepare_device(_cpu())
    sources, vocabulary = read_sources(data, FILE_LINES[0])
    model = prepared(make_model("reformer-fast", len(vocabulary), SMALL))
    options = exact_length()

    def work(number: int) -> Amounts:
        if number:
            with torch.inference_mode():
                translate_ids([model], sources * (lines // len(sources)), options)
        return {"sentences": lines}

    return Task(work)


def cut(sources: list[Ids], batch: int, *, is_warming_up: bool) -> list[Sequence[Ids]]:
    """Return sentences in batches of neighbours in length; to warm up, only the middle batch.

    Batches of one sentence take only an eighth of the sentences, at all lengths.
    """
    batches = batches_of(sources[4::8] if batch == 1 else sources, batch)
    return [batches[len(batches) // 2][:16]] if is_warming_up else batches


def make_model(system: str, vocabulary: int, sizes: Mapping[str, int]) -> TranslationModel:
    """Return a model with random weights and one vocabulary."""
    import torch

    from jtrans.models.zoo import build_model, system_configs

    torch.manual_seed(1)
    config = system_configs()[system].model_validate({"system": system, "tie": "all", **sizes})
    return build_model(config, vocabulary, vocabulary).eval().requires_grad_(False)


def _cpu() -> Any:
    import torch

    return torch.device("cpu")


def measure(
    system: str,
    data: Path,
    sentences: int,
    rounds: int,
    sizes: Any,
    *,
    batches: Sequence[int] = BATCHES,
    precisions: Sequence[str] = PRECISIONS,
) -> list[dict[str, Any]]:
    """Return a row for each variant of `system` and size of batch."""
    given = {"data": data, "sizes": sizes}
    reference = functools.partial(decode_reference, system, **given)
    ours = functools.partial(decode_jtrans, system, **given)
    variants = {
        (name, batch): functools.partial(
            variant, batch=batch, sentences=max(sentences, BATCHES_OF_ROUND * batch)
        )
        for batch in batches
        for name, variant in (
            (REFERENCE, reference),
            *((f"jtrans {each}", functools.partial(ours, precision=each)) for each in precisions),
        )
        if name != REFERENCE or batch < 64  # it is slower in such large batches
    }
    names = {f"{name}, batches of {batch}": (name, batch) for name, batch in variants}
    measured = in_turns({shown: variants[names[shown]] for shown in names}, rounds=rounds)
    return [
        {"system": system, "variant": name, "batch": batch, **row(measured, names, shown)}
        for shown, (name, batch) in names.items()
    ]


def row(
    measured: Mapping[str, list[Round]], names: Mapping[str, tuple[str, int]], shown: str
) -> dict[str, Any]:
    """Return rate and memory of a variant, and its ratios.

    The ratios are to the original with batches of the same size (16 if that was not measured) and
    to jtrans in float32; None if the other variant was not measured.
    """
    by_name = {key: measured[shown] for shown, key in names.items()}
    name, batch = names[shown]
    rounds = measured[shown]

    def ratio(other: tuple[str, int]) -> dict[str, float] | None:
        if other not in by_name:
            return None
        return spread(
            [
                timed.rate("sentences") / base.rate("sentences")
                for timed, base in zip(rounds, by_name[other], strict=True)
            ]
        )

    rates = [done.rate("sentences") for done in rounds]
    return {
        "sentences_per_second": round(statistics.median(rates), 2),
        "ratio": ratio((REFERENCE, min(batch, 16))),
        "ratio_to_fp32": ratio(("jtrans fp32", batch)),
        "ratio_to_16": ratio((name, 16)),
        "product_share": round(
            statistics.median(done.rate("flops") / done.values["product_rate"] for done in rounds),
            3,
        ),
        "peak_mib": round(rounds[-1].peak_mib),
    }


def describe(row: Mapping[str, Any]) -> str:
    """Return a row as a line of text."""
    ratios = (row["ratio"], row["ratio_to_fp32"], row["ratio_to_16"])
    shown = [f"{each['median']:.2f} x" if each else "- x" for each in ratios]
    return (
        f"{row['system']:<14} {row['variant']:<21} batch {row['batch']:>2} "
        f"{row['sentences_per_second']:>7.2f} sentences/s  "
        "{} the original's, {} fp32, {} batches of 16".format(*shown)
        + f"  {100 * row['product_share']:.0f} % of products  peak {row['peak_mib']:,} MiB"
    )


def memory(data: Path) -> list[dict[str, Any]]:
    """Return the peak memory of translating files of different lengths."""
    variants = {
        f"{lines:,} lines": functools.partial(translate_file, data, lines) for lines in FILE_LINES
    }
    measured = in_turns(variants, rounds=1)
    return [
        {"variant": name, "peak_mib": round(rounds[-1].peak_mib)}
        for name, rounds in measured.items()
    ]


def agreement(folder: Path, data: Path, sentences: int) -> list[dict[str, Any]]:
    """Return how many translations by a trained model are the same in float32 and bfloat16."""
    import torch

    from jtrans.decoding.batched_search import translate_ids
    from jtrans.decoding.options import SearchOptions
    from jtrans.decoding.prepared.choose import prepared
    from jtrans.decoding.translator import load_model
    from jtrans.runs import Run

    sources, _ = read_sources(data, sentences)
    model = load_model(Run.open(folder), device=_cpu())
    options = SearchOptions(beam=BEAM, nbest=BEAM)
    with torch.inference_mode():
        exact, rounded = (
            translate_ids([prepared(model, precision)], sources, options)
            for precision in ("fp32", "bf16")
        )
    pairs = [*zip(exact, rounded, strict=True)]
    same = statistics.mean(ours[0].tokens == theirs[0].tokens for ours, theirs in pairs)
    lists = statistics.mean(
        len({tuple(each.tokens) for each in ours} & {tuple(each.tokens) for each in theirs})
        / len(ours)
        for ours, theirs in pairs
    )
    return [
        {
            "run": folder.name,
            "sentences": len(sources),
            "same_best": round(same, 4),
            "same_of_list": round(lists, 4),
        }
    ]


def main() -> None:
    """Measure, print, and write the result if requested."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--data", type=prepared_corpus, required=True, help="a prepared corpus")
    parser.add_argument("--memory", action="store_true", help="memory by length of a file, only")
    parser.add_argument("--agreement", type=Path, metavar="RUN", help="compare bf16, only")
    parser.add_argument("--quick", action="store_true", help="one round of fewer sentences")
    parser.add_argument("--system", choices=SYSTEMS, action="append", help="only this system")
    parser.add_argument(
        "--batch", type=int, choices=BATCHES, action="append", help="only batches of this size"
    )
    parser.add_argument(
        "--precision", choices=PRECISIONS, action="append", help="jtrans in this precision only"
    )
    parser.add_argument("--rounds", type=int, default=3, help="how often each variant is timed")
    parser.add_argument("--json", type=Path, help="write the result to this file")
    chosen = parser.parse_args()
    command = recorded_command("decode_joint")
    if chosen.memory:
        table = memory(chosen.data)
        for each in table:
            print(f"{each['variant']:<14} peak {each['peak_mib']:,} MiB")
    elif chosen.agreement:
        table = agreement(chosen.agreement, chosen.data, 100 if chosen.quick else 1000)
        for each in table:
            print(
                f"{each['run']}: {100 * each['same_best']:.1f} % of the best hypotheses are the "
                f"same, {100 * each['same_of_list']:.1f} % of all {BEAM}"
            )
    else:
        count, sentences = (1, 32) if chosen.quick else (chosen.rounds, SENTENCES)
        compare = functools.partial(
            measure,
            batches=chosen.batch or BATCHES,
            precisions=chosen.precision or timed_precisions(),
        )
        table = [
            each
            for system in chosen.system or SYSTEMS
            for each in compare(system, chosen.data, sentences, count, SIZES)
        ]
        for each in table:
            print(describe(each))
    write(chosen.json, command=command, beam=BEAM, steps=STEPS, rows=table)


if __name__ == "__main__":
    main()
