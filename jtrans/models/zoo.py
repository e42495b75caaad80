"""Every system by its name. To add one: write its file, add one line here, add a recipe."""

from __future__ import annotations

import importlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from jtrans.config import SystemConfig
from jtrans.errors import CheckpointError, InternalError

if TYPE_CHECKING:
    from pathlib import Path

    from jtrans.models.base import TranslationModel


@dataclass(frozen=True)
class System:
    """One system: where its configuration and its model live, and what to read about it."""

    config: str  # "module:Class"
    model: str
    summary: str
    paper: str

    def config_class(self) -> type[SystemConfig]:
        """Return the configuration class."""
        return _load(self.config)  # type: ignore[no-any-return]


_CONFIGS = "jtrans.models.systems"

SYSTEMS: dict[str, System] = {
    "transformer": System(
        f"{_CONFIGS}:TransformerConfig",
        "jtrans.models.transformer:Transformer",
        "encoder-decoder with self- and cross-attention",
        "Vaswani et al. 2017, Attention Is All You Need",
    ),
    "reformer-base": System(
        f"{_CONFIGS}:ReformerConfig",
        "jtrans.models.reformer:Reformer",
        "joint source-target grid, separable attention, no encoder",
        "Li et al. 2020, Neural Machine Translation with Joint Representation",
    ),
    "reformer-fast": System(
        f"{_CONFIGS}:ReformerFastConfig",
        "jtrans.models.reformer:Reformer",
        "a source encoder before fewer joint layers",
        "Li et al. 2020, Neural Machine Translation with Joint Representation",
    ),
}


def system_configs() -> dict[str, type[SystemConfig]]:
    """Return the configuration class of every system."""
    return {name: system.config_class() for name, system in SYSTEMS.items()}


def build_model(
    config: SystemConfig, source_vocabulary: int, target_vocabulary: int
) -> TranslationModel:
    """Build a freshly initialised model.

    Args:
        config: the system's configuration.
        source_vocabulary: number of source tokens, V_s.
        target_vocabulary: number of target tokens, V_t.

    Raises:
        ConfigError: `tie = "all"` with different vocabularies.
    """
    model: TranslationModel = _load(SYSTEMS[config.system].model)(
        config, source_vocabulary, target_vocabulary
    )
    return model


def load_weights(model: TranslationModel, path: Path) -> None:
    """Load a checkpoint's weights (safetensors) into `model`.

    Raises:
        CheckpointError: the file is missing, damaged, or of another model.
    """
    import safetensors
    import safetensors.torch

    try:
        missing, unexpected = safetensors.torch.load_model(model, path, strict=False)
    except FileNotFoundError as error:
        raise CheckpointError(f"no such checkpoint: {path}", kind="checkpoint.missing") from error
    except (safetensors.SafetensorError, OSError) as error:
        raise CheckpointError(
            f"the checkpoint is damaged: {error}",
            where=str(path),
            hint="use another checkpoint (--checkpoint last), or train again",
            kind="checkpoint.damaged",
        ) from error
    except RuntimeError as error:
        detail = str(error).strip().splitlines()[-1].strip()
        raise CheckpointError(
            f"the checkpoint does not fit its configuration: {detail}",
            where=str(path),
            kind="checkpoint.shape",
        ) from error
    if missing or unexpected:
        name = sorted([*missing, *unexpected])[0]
        raise CheckpointError(
            f"the checkpoint does not fit its configuration: "
            f"{len(missing)} tensors missing, {len(unexpected)} unknown, such as {name}",
            where=str(path),
            kind="checkpoint.shape",
        )


def _load(path: str) -> Any:
    module, _, name = path.partition(":")
    try:
        return getattr(importlib.import_module(module), name)
    except AttributeError as error:
        raise InternalError(f"the zoo names {path}, which does not exist") from error
