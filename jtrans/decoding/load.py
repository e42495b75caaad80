"""From a run on disk to a model that is ready to translate."""

from __future__ import annotations

import torch

from jtrans.errors import CheckpointError
from jtrans.models.base import TranslationModel
from jtrans.models.zoo import build_model, load_weights, system_configs
from jtrans.nn.device import prepare_device, resolve_device
from jtrans.runs import Run


def load_model(
    run: Run, checkpoint: str = "best", device: torch.device | None = None
) -> TranslationModel:
    """Load the model of a run, in evaluation mode, without gradients.

    Args:
        run: an existing run.
        checkpoint: ``best``, ``last``, an update's number or the name of an average.
        device: where to put it; None for the machine's best.

    Raises:
        CheckpointError: there is no such checkpoint, or it is damaged.
    """
    opened = run.checkpoint(checkpoint)
    opened.verify("model.safetensors")
    weights = opened.weights
    pipeline = run.pipeline
    config = run.config(system_configs())
    device = device or resolve_device(None)
    prepare_device(device)
    model = build_model(
        config.model, len(pipeline.source.vocabulary), len(pipeline.target.vocabulary)
    )
    load_weights(model, weights)
    if not all(bool(weight.isfinite().all()) for weight in model.parameters()):
        raise CheckpointError(
            "the checkpoint holds numbers that are not finite",
            where=str(weights),
            hint="its training diverged or the file was changed: use another --checkpoint",
            kind="checkpoint.not-finite",
        )
    return model.to(device).eval().requires_grad_(False)
