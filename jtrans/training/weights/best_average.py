"""Choose by validation how many of a run's newest checkpoints to average."""

from __future__ import annotations

import math
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import safetensors.torch

from jtrans.config import Config
from jtrans.data.prepared import PreparedCorpus
from jtrans.errors import CheckpointError
from jtrans.files import disk_errors
from jtrans.models.zoo import build_model, load_weights, system_configs
from jtrans.nn.device import prepare_device, resolve_device, resolve_precision
from jtrans.progress import Progress
from jtrans.runs import WEIGHTS, Checkpoint, Run
from jtrans.training.stopping import METRICS, as_loss
from jtrans.training.validation import Validator
from jtrans.training.weights.averaging import average_weights, undamaged_hint
from jtrans.training.weights.initial import check_vocabularies


@dataclass(frozen=True)
class Candidate:
    """The average of some checkpoints, and how good it is."""

    checkpoints: tuple[Checkpoint, ...]  # oldest first
    value: float  # of the metric, on the valid split


def validate_averages(
    run: Run,
    checkpoints: Sequence[Checkpoint],
    corpus: PreparedCorpus,
    metric: str,
    *,
    device: str | None,
    progress: Progress,
) -> list[Candidate]:
    """Validate the newest checkpoint, the average of the two newest, and so on: best first.

    Args:
        run: the run of the checkpoints.
        checkpoints: oldest first, at least one.
        corpus: its prepared corpus.
        metric: a key of `METRICS`.
        device: "auto", "cpu", "cuda" or "mps".
        progress: receives the number of averages done.

    Raises:
        CheckpointError: a checkpoint is damaged, or of a different model; the corpus has other
            vocabularies; or no average has a finite loss.
    """
    check_vocabularies(run, corpus, "--data")
    config = _measuring(run.config(system_configs()), metric)
    place = resolve_device(device)
    prepare_device(place)
    model = build_model(config.model, *corpus.pipeline.vocabulary_sizes).to(place)
    precision = resolve_precision(place, config.training.precision, for_training=True)
    validator = Validator(corpus, config, is_joint=model.is_joint, precision=precision)
    candidates: list[Candidate] = []
    with tempfile.TemporaryDirectory() as folder:
        for count in range(1, len(checkpoints) + 1):
            chosen = tuple(checkpoints[-count:])
            path = chosen[0].weights
            with undamaged_hint(run):
                means, metadata = average_weights([each.verify(WEIGHTS).weights for each in chosen])
            if count > 1:
                path = Path(folder) / WEIGHTS
                with disk_errors(Path(tempfile.gettempdir())):
                    safetensors.torch.save_file(means, path, metadata=metadata)
            load_weights(model, path)
            # without a finite loss nothing is translated
            value = validator(model).get(METRICS[metric], math.nan)
            candidates.append(Candidate(chosen, value))
            progress.advance("Validating", count, len(checkpoints))
    finite = [each for each in candidates if math.isfinite(each.value)]
    if not finite:
        raise CheckpointError(
            "no average of these checkpoints has a finite loss",
            where=str(run.folder),
            hint="name others: --steps N,N,...",
            kind="checkpoint.not-finite",
        )
    # of equal ones, the average of the fewest checkpoints comes first
    return sorted(finite, key=lambda each: as_loss(metric, each.value))


def _measuring(config: Config, metric: str) -> Config:
    """Return the settings with which a validation measures a metric, and little else."""
    training = config.training
    needed: dict[str, object] = {"best_metric": metric, "stop": None}
    if metric == "valid-loss":
        needed["validate_sentences"] = 0
    elif not training.validate_sentences:
        needed["validate_sentences"] = type(training)().validate_sentences
    return config.with_training(**needed)
