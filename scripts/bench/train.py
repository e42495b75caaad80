r"""Compare training rates in turns.

    jtrans prepare --train m30k/train --valid m30k/valid --languages de-en --lowercase \
        --bpe-merges 4000 --vocabulary joint --out data/prepared/multi30k-joint
    python -m scripts.bench.train --data data/prepared/multi30k-joint
    python -m scripts.bench.train --data data/prepared/multi30k-joint --device cuda
    python -m scripts.bench.train --suite joint --data data/prepared/multi30k-joint
    python -m scripts.bench.train --suite scaling

Suites:
    transformer  jtrans against Transformers of the same size in other toolkits, in a bare loop
                 without their trainers (scripts/bench/peers/installed.py)
    joint        the joint models against the method of the original code (suite_joint.py)
    scaling      time of a joint position by sentence length and width (suite_scaling.py)
"""

from __future__ import annotations

import argparse
import functools
from pathlib import Path
from typing import TYPE_CHECKING, Any

from scripts.bench.interleave import (
    Amounts,
    Task,
    in_turns,
    leave_waiting_alone,
    prepared_corpus,
    recorded_command,
    report,
    rows,
    timed_precisions,
)
from scripts.bench.peers.base import SIZES, SMOOTHING, Peer
from scripts.bench.peers.installed import installed, versions
from scripts.bench.peers.ours import jtrans_transformer
from scripts.bench.suite_joint import joint_suite
from scripts.bench.suite_scaling import scaling_suite

if TYPE_CHECKING:
    from jtrans.data.batch import Batch
    from jtrans.data.ids import ParallelIds
    from jtrans.training.updates import MicroBatch

CLIP_NORM = 25.0


def micro_batches(
    data: Path, batch_tokens: int, *, count: int, number: int
) -> tuple[ParallelIds, list[MicroBatch]]:
    """Return the text and the batches of a round as indices, the same for every variant."""
    from jtrans.data.bucketing import BatchSampler
    from jtrans.data.prepared import PreparedCorpus

    pairs = PreparedCorpus.open(data).pairs("train")
    sampler = BatchSampler(
        pairs.source.lengths,
        pairs.target.lengths,
        max_tokens=batch_tokens,
        max_joint=None,
        seed=1,
    )
    return pairs, sampler.batches(0)[number * count : (number + 1) * count]


def batches(data: Path, batch_tokens: int, *, count: int, number: int) -> list[Batch]:
    """Return the batches of a round, the same for every variant."""
    from jtrans.data.batch import collate

    pairs, chosen = micro_batches(data, batch_tokens, count=count, number=number)
    return [collate(pairs, indices) for indices in chosen]


def vocabulary(data: Path) -> int:
    """Return the size of the joint vocabulary."""
    from jtrans.data.prepared import PreparedCorpus

    return len(PreparedCorpus.open(data).pipeline.target.vocabulary)


def train_jtrans(data: Path, batch_tokens: int, count: int, precision: str) -> Task:
    """Return updates of a jtrans Transformer, done as the trainer does them."""
    import torch

    from jtrans.config import TrainingConfig
    from jtrans.nn.device import autocast, prepare_device
    from jtrans.training.objective import Objective, batch_loss
    from jtrans.training.optimisation.optimiser import make_optimiser

    prepare_device(torch.device("cpu"), for_training=True)
    model = jtrans_transformer(vocabulary(data)).train()
    optimiser = make_optimiser(model, TrainingConfig())
    objective = Objective(SMOOTHING)

    def work(number: int) -> Amounts:
        chosen = batches(data, batch_tokens, count=count, number=number)
        for batch in chosen:
            with autocast(torch.device("cpu"), precision):
                loss, _ = batch_loss(model, batch, objective)
            (loss / batch.target_tokens).backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), CLIP_NORM)
            optimiser.step()
            optimiser.zero_grad(set_to_none=True)
        return {"tokens": sum(batch.target_tokens for batch in chosen)}

    return Task(work)


def train_jtrans_on_gpu(data: Path, batch_tokens: int, count: int, *, has_graphs: bool) -> Task:
    """Return updates of a jtrans Transformer on a GPU, by the trainer's own parts.

    Every round has the same batches: as in later epochs of a training, all sizes are captured.
    """
    import torch

    from jtrans.config import TrainingConfig
    from jtrans.nn.device import prepare_device
    from jtrans.training.micro_batches import GradientAccumulator, UpdateLoss
    from jtrans.training.objective import Objective
    from jtrans.training.optimisation.optimiser import make_optimiser
    from jtrans.training.optimisation.step import Step

    prepare_device(torch.device("cuda"), for_training=True)
    model = jtrans_transformer(vocabulary(data)).to("cuda").train()
    gradient = GradientAccumulator(
        model, Objective(SMOOTHING), precision="bf16", has_graphs=has_graphs
    )
    training = TrainingConfig(clip_norm=CLIP_NORM)
    step = Step(list(model.parameters()), make_optimiser(model, training), training, None)
    pairs, chosen = micro_batches(data, batch_tokens, count=count, number=0)
    sizes = [int(pairs.target.lengths[indices].sum()) for indices in chosen]

    def update_all() -> None:
        for indices, tokens in zip(chosen, sizes, strict=True):
            gradient.accumulate(UpdateLoss(pairs, tokens), [indices])
            step(1e-4)

    def work(number: int) -> Amounts:
        for _ in range(1 if number else 1 + gradient.warm_ups):
            update_all()
        torch.cuda.synchronize()
        return {"tokens": sum(sizes)}

    return Task(work)


def train_peer(
    peer: type[Peer], data: Path, batch_tokens: int, count: int, device: str = "cpu"
) -> Task:
    """Return updates of another toolkit's Transformer; on a GPU in bfloat16, by autocast."""
    leave_waiting_alone()
    import torch

    torch.manual_seed(1)
    toolkit = peer(vocabulary(data))
    is_gpu = device == "cuda"
    if is_gpu:
        to_gpu(toolkit)
    model = toolkit.model.train()
    optimiser = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)
    # on a GPU every round has the same ones; there the planning of an epoch would take long
    same = batches(data, batch_tokens, count=count, number=0) if is_gpu else None

    def work(number: int) -> Amounts:
        chosen = same or batches(data, batch_tokens, count=count, number=number)
        for batch in chosen:
            with torch.autocast(device, dtype=torch.bfloat16, enabled=is_gpu):
                loss = toolkit.loss(batch.to(device))
            loss.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), CLIP_NORM)
            optimiser.step()
            optimiser.zero_grad(set_to_none=True)
        if is_gpu:
            torch.cuda.synchronize()
        return {"tokens": sum(batch.target_tokens for batch in chosen)}

    return Task(work)


def to_gpu(toolkit: Peer) -> None:
    """Move the model of a toolkit, and what else it computes with."""
    import torch

    for name, part in list(vars(toolkit).items()):
        if isinstance(part, (torch.Tensor, torch.nn.Module)):
            setattr(toolkit, name, part.to("cuda"))


def transformer_suite(chosen: argparse.Namespace) -> None:
    """Compare Transformers of jtrans with those of other toolkits."""
    rounds, count = (2, 3) if chosen.quick else (7, 12)
    is_gpu = chosen.device == "cuda"
    if is_gpu:
        count *= 4  # an update takes milliseconds
        on_gpu = functools.partial(train_jtrans_on_gpu, chosen.data, chosen.batch_tokens, count)
        variants = {
            "jtrans Transformer bf16": functools.partial(on_gpu, has_graphs=True),
            "the same without graphs": functools.partial(on_gpu, has_graphs=False),
        }
    else:
        make = functools.partial(train_jtrans, chosen.data, chosen.batch_tokens, count)
        variants = {
            f"jtrans Transformer {precision}": functools.partial(make, precision)
            for precision in timed_precisions()
        }
    for peer in installed():
        variants[f"{peer.name} {'bf16' if is_gpu else 'fp32'}"] = functools.partial(
            train_peer, peer, chosen.data, chosen.batch_tokens, count, chosen.device
        )
    table = rows(in_turns(variants, rounds=rounds, drops_failing=True), "tokens")
    command = recorded_command("train")
    settings: dict[str, Any] = {"sizes": SIZES, "toolkits": versions()}
    if is_gpu:
        import torch

        settings["device"] = torch.cuda.get_device_name()
    report(table, "tokens", path=chosen.json, command=command, **settings)


SUITES = {"transformer": transformer_suite, "joint": joint_suite, "scaling": scaling_suite}


def main() -> None:
    """Measure, print, and write the result if requested."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--suite", choices=SUITES, default="transformer")
    parser.add_argument(
        "--data", type=prepared_corpus, help="prepared, joint vocabulary; not for scaling"
    )
    parser.add_argument("--batch-tokens", type=int, default=1000, help="of suite transformer")
    parser.add_argument(
        "--device", choices=("cpu", "cuda"), default="cpu", help="of suite transformer"
    )
    parser.add_argument("--set", action="append", default=[], help="a setting, of suite joint")
    parser.add_argument("--quick", action="store_true", help="two short rounds")
    parser.add_argument("--json", type=Path, help="write the result to this file")
    chosen = parser.parse_args()
    if chosen.data is None and chosen.suite != "scaling":
        parser.error(f"suite {chosen.suite} needs --data")
    SUITES[chosen.suite](chosen)


if __name__ == "__main__":
    main()
