"""Train a tiny RNMT+ through the whole published schedule and look for non-finite values.

    python -m scripts.bench.rnmt_endurance --updates 4000

The updates are spread evenly over the schedule's 200,000: each has the learning rate of its place
there, with the published optimiser, sentence loss, L2 penalty and gradient guard. Every hundredth
gradient is made abnormal, a thousand times as large or nan, and the guard must drop it. Loss,
parameters and moments are checked after every update.
"""

from __future__ import annotations

import argparse
import math
from pathlib import Path
from typing import TYPE_CHECKING

from scripts.bench.interleave import recorded_command, write

if TYPE_CHECKING:
    import torch

    from jtrans.data.batch import Batch

UPDATES = 200_000
RECIPE = "wmt14-en-de/rnmt-plus"
VOCABULARY = 24
TINY = {"width": 16, "heads": 2, "encoder_layers": 3, "decoder_layers": 3, "initial_range": 0.3}
SENTENCES, LONGEST = 4, 6


def draw_batch(generator: torch.Generator) -> Batch:
    """Return sentences of random lengths; the target is the source backwards."""
    import torch

    from jtrans.data.batch import Batch

    lengths = torch.randint(1, LONGEST, (SENTENCES,), generator=generator).tolist()
    source = torch.zeros(SENTENCES, max(lengths) + 1, dtype=torch.int64)
    target, target_in = source.clone(), source.clone()
    for row, length in enumerate(lengths):
        letters = torch.randint(4, VOCABULARY, (length,), generator=generator)
        source[row, :length], target[row, :length] = letters, letters.flip(0)
        source[row, length] = target[row, length] = target_in[row, 0] = 1  # </s>
        target_in[row, 1 : length + 1] = letters.flip(0)
    indices = torch.arange(SENTENCES)
    return Batch(source, source != 0, target_in, target, target != 0, indices)


def train(updates: int) -> dict[str, float]:
    """Do the updates, and return the counts of dropped and faulty ones and the last losses."""
    import torch

    from jtrans.config import load_config
    from jtrans.models.zoo import build_model, system_configs
    from jtrans.training.objective import Objective, batch_loss
    from jtrans.training.optimisation.guard import GradientGuard
    from jtrans.training.optimisation.optimiser import add_l2, make_optimiser, step_unless
    from jtrans.training.optimisation.schedule import Schedule

    config = load_config(
        RECIPE, system_configs(), options={f"model.{k}": v for k, v in TINY.items()}
    )
    settings = config.training
    torch.manual_seed(1)
    generator = torch.Generator().manual_seed(1)
    model = build_model(config.model, VOCABULARY, VOCABULARY).train()
    parameters = list(model.parameters())
    optimiser = make_optimiser(model, settings)
    schedule = Schedule(settings.schedule, settings.learning_rate, config.model.width)
    guard = GradientGuard(model.device)
    objective = Objective(settings.label_smoothing, settings.smoothing_form)
    counts = dict.fromkeys(("abnormal", "dropped", "not_finite"), 0)
    losses: list[float] = []
    largest_rate = 0.0
    for done in range(updates):
        rate = schedule.rate(1 + done * UPDATES // updates)
        largest_rate = max(largest_rate, rate)
        for group in optimiser.param_groups:
            group["lr"] = rate
        batch = draw_batch(generator)
        loss, nll = batch_loss(model, batch, objective)
        optimiser.zero_grad()
        (loss / SENTENCES).backward()
        add_l2(parameters, settings.l2)
        if done % 100 == 99 and done > 400:  # the guard judges sizes after 277 updates
            counts["abnormal"] += 1
            factor = math.nan if done % 200 == 99 else 1e3
            for parameter in parameters:
                if parameter.grad is not None:
                    parameter.grad *= factor
        norm = torch.nn.utils.get_total_norm([p.grad for p in parameters if p.grad is not None])
        dropped = guard.judge(norm)
        step_unless(dropped, optimiser)
        counts["dropped"] += int(dropped)
        losses.append(float(nll.detach() / batch.target_mask.sum()))
        moments = [m for state in optimiser.state.values() for m in state.values()]
        values = [*parameters, *moments, nll.detach()]
        counts["not_finite"] += not all(bool(value.isfinite().all()) for value in values)
    tail = losses[-len(losses) // 10 :]
    return counts | {
        "updates": updates,
        "of": UPDATES,
        "largest_rate": largest_rate,
        "first_loss": losses[0],
        "last_loss": sum(tail) / len(tail),
        "largest_parameter": max(float(p.detach().abs().max()) for p in parameters),
    }


def main() -> None:
    """Train, print, write the result if requested; exit 1 if a value was not finite."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--updates", type=int, default=4000, help="done of the 200,000")
    parser.add_argument("--json", type=Path, help="write the result to this file")
    chosen = parser.parse_args()
    result = train(chosen.updates)
    print(", ".join(f"{key} {value:,.6g}" for key, value in result.items()))
    write(chosen.json, command=recorded_command("rnmt_endurance"), rows=[result])
    raise SystemExit(1 if result["not_finite"] else 0)


if __name__ == "__main__":
    main()
