"""Every system by its name: the systems of this package and of other installed distributions.

To add one here: write its file, add one line to `SYSTEMS`, add a recipe. Another distribution
declares its systems as entry points of the group `jtrans.systems`, ``mine = "package.file:Mine"``.
`docs/adding-a-system.md` shows both.
"""

from __future__ import annotations

import functools
import importlib
import logging
import sys
import traceback
from collections.abc import Iterator, Mapping
from contextlib import nullcontext, suppress
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, get_args

from jtrans.config import SystemConfig, fault_in_file
from jtrans.errors import CheckpointError, ConfigError, InternalError, JtransError, name_hint

if TYPE_CHECKING:
    from jtrans.models.base import TranslationModel

ENTRY_POINTS = "jtrans.systems"
FLOATS = ("F16", "BF16", "F32", "F64")  # the types of weights, as safetensors names them
_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class SystemEntry:
    """One system of this package: its classes and a description."""

    model: str  # the `TranslationModel`, as ``module:Class``
    summary: str  # a description in a few words
    paper: str  # its publication
    config: str  # its configuration class, without torch: a wrong key is reported at once
    distribution: ClassVar[str] = "jtrans"

    def model_class(self) -> type[TranslationModel]:
        """Return the model's class."""
        return _load(self.model)  # type: ignore[no-any-return]

    def config_class(self) -> type[SystemConfig]:
        """Return the configuration class."""
        return _load(self.config)  # type: ignore[no-any-return]


@dataclass(frozen=True)
class InstalledSystem:
    """One system of another distribution; its class describes it."""

    point: metadata.EntryPoint  # its declaration

    @property
    def distribution(self) -> str:
        """The name and version of the distribution."""
        dist = self.point.dist
        return f"{dist.name} {dist.version}" if dist else "an unknown distribution"

    @property
    def summary(self) -> str:
        """The first line of the class's docstring."""
        return (self.model_class().__doc__ or "").strip().partition("\n")[0].rstrip(".")

    @property
    def paper(self) -> str:
        """The class's publication, or else its distribution."""
        return self.model_class().paper or self.distribution

    def model_class(self) -> type[TranslationModel]:
        """Import the model's class and check that it fulfils the contract.

        Raises:
            ConfigError: it cannot be imported, or is no system of this name.
        """
        from jtrans.models.base import TranslationModel

        try:
            model = self.point.load()
        except (Exception, SystemExit) as error:  # code of others may fail in any way
            raise self._refusal(f"cannot be loaded: {type(error).__name__}: {error}") from error
        if not (isinstance(model, type) and issubclass(model, TranslationModel)):
            raise self._refusal(f"{self.point.value} is not a subclass of TranslationModel")
        config = getattr(model, "Config", None)
        if not (isinstance(config, type) and issubclass(config, SystemConfig)):
            raise self._refusal(f"{self.point.value} has no class attribute Config, a SystemConfig")
        default = config.model_fields["system"].default
        if default != self.point.name:
            says = f"system = {default!r}" if isinstance(default, str) else "no name"
            raise self._refusal(f"its Config says {says}, not {self.point.name!r}")
        lost = [
            name
            for name, field in config.model_fields.items()
            if type(None) in get_args(field.annotation) and field.default is not None
        ]
        if lost:
            raise self._refusal(
                f"its Config has a default for {', '.join(lost)}, which may be None: "
                "a run's file could not hold None"
            )
        missing = sorted(getattr(model, "__abstractmethods__", ()))
        if missing:
            raise self._refusal(f"{self.point.value} lacks {', '.join(missing)}")
        return model

    def build(
        self, config: SystemConfig, source_vocabulary: int, target_vocabulary: int
    ) -> TranslationModel:
        """Build a model and check it.

        Raises:
            ConfigError: it cannot be built, or breaks the contract.
        """
        from jtrans.nn.memory import is_too_large

        model_class: Any = self.model_class()
        self._check_config(config)
        try:
            model: TranslationModel = model_class(config, source_vocabulary, target_vocabulary)
        except Exception as error:  # code of others may fail in any way
            if isinstance(error, JtransError) or is_too_large(error):
                raise
            raise self._refusal(f"cannot be built: {self._failure(error)}") from error
        self._check_built(model, target_vocabulary)
        return model

    def _check_config(self, config: SystemConfig) -> None:
        """Check that a run's file can hold the settings, without which it could not be read."""
        try:
            fault = fault_in_file(config)
        except Exception as error:  # code of others may fail in any way
            fault = f"without an error: {self._failure(error)}"
        if fault:
            raise self._refusal(f"a run's file could not hold the setting {fault}")

    def _check_built(self, model: TranslationModel, target_vocabulary: int) -> None:
        """Check what would pass unnoticed in training, see `jtrans.models.contract`."""
        from jtrans.models.contract import fault_of

        try:
            fault = fault_of(model, target_vocabulary)
        except Exception as error:  # code of others may fail in any way
            fault = f"a new model fails on two short sentences: {self._failure(error)}"
            raise self._refusal(fault) from error
        if fault:
            raise self._refusal(fault)

    def config_class(self) -> type[SystemConfig]:
        """Return the configuration class, see `model_class`."""
        return self.model_class().Config

    @property
    def is_imported(self) -> bool:
        """Whether this process runs its code."""
        return self.point.module in sys.modules

    def place_of(self, error: BaseException) -> str | None:
        """Return where an error left this system's module, None if it did not pass through it."""
        file = getattr(sys.modules.get(self.point.module), "__file__", None)
        calls = reversed(traceback.extract_tb(error.__traceback__))
        return next((f"{file}:{call.lineno}" for call in calls if call.filename == file), None)

    def _failure(self, error: Exception) -> str:
        """Return what failed in its code, and where."""
        place = self.place_of(error)
        message = next(iter(str(error).splitlines()), "")  # some messages hold whole tensors
        return f"{type(error).__name__}: {message}" + (f" ({place})" if place else "")

    def _refusal(self, fault: str) -> ConfigError:
        return ConfigError(
            f"the system {self.point.name} of {self.distribution} is broken: {fault}",
            where=f"entry point {self.point.name} = {self.point.value}",
            hint="fix or uninstall that distribution; see docs/adding-a-system.md",
            kind="config.broken-system",
        )


_CONFIGS = "jtrans.models.systems"

SYSTEMS: dict[str, SystemEntry] = {
    "transformer": SystemEntry(
        "jtrans.models.transformer:Transformer",
        "encoder-decoder with self- and cross-attention",
        "Vaswani et al. 2017, Attention Is All You Need",
        config=f"{_CONFIGS}:TransformerConfig",
    ),
    "dlcl": SystemEntry(
        "jtrans.models.deep:Dlcl",
        "deep Transformer, each layer reads all earlier ones",
        "Wang et al. 2019, Learning Deep Transformer Models for Machine Translation",
        config=f"{_CONFIGS}:DlclConfig",
    ),
    "transformer-pp": SystemEntry(
        "jtrans.models.transformer_pp:TransformerPlusPlus",
        "Transformer++: convolution beside attention, tagging heads",
        "Thapak & Hore 2020, Transformer++",
        config=f"{_CONFIGS}:TransformerPlusPlusConfig",
    ),
    "hybrid": SystemEntry(
        "jtrans.models.hybrid:Hybrid",
        "any encoder with any decoder of Transformer and RNMT+",
        "Chen et al. 2018, The Best of Both Worlds",
        config=f"{_CONFIGS}:HybridConfig",
    ),
    "reformer-base": SystemEntry(
        "jtrans.models.reformer:Reformer",
        "joint source-target grid, separable attention, no encoder",
        "Li et al. 2020, Neural Machine Translation with Joint Representation",
        config=f"{_CONFIGS}:ReformerConfig",
    ),
    "reformer-fast": SystemEntry(
        "jtrans.models.reformer:ReformerFast",
        "a source encoder before fewer joint layers",
        "Li et al. 2020, Neural Machine Translation with Joint Representation",
        config=f"{_CONFIGS}:ReformerFastConfig",
    ),
    "pervasive": SystemEntry(
        "jtrans.models.pervasive:Pervasive",
        "joint source-target grid, masked 2-D convolutions, no encoder",
        "Elbayad et al. 2018, Pervasive Attention: 2D Convolutional Neural Networks for "
        "Sequence-to-Sequence Prediction; the residual network: Elbayad et al. 2020",
        config=f"{_CONFIGS}:PervasiveConfig",
    ),
    "convs2s": SystemEntry(
        "jtrans.models.convs2s:ConvS2S",
        "gated convolutions, attention in every decoder layer",
        "Gehring et al. 2017, Convolutional Sequence to Sequence Learning",
        config=f"{_CONFIGS}:Convs2sConfig",
    ),
    "rnmt-plus": SystemEntry(
        "jtrans.models.rnmt:RnmtPlus",
        "recurrent: layer-normalised LSTMs, additive attention",
        "Chen et al. 2018, The Best of Both Worlds",
        config=f"{_CONFIGS}:RnmtPlusConfig",
    ),
}


class SystemConfigs(Mapping[str, type[SystemConfig]]):
    """The configuration class of every system, imported on demand."""

    def __init__(self) -> None:
        self._installed = _entry_points()

    def __iter__(self) -> Iterator[str]:
        """Iterate over the names, those of this package first."""
        return iter(dict.fromkeys([*SYSTEMS, *sorted(self._installed.names)]))

    def __len__(self) -> int:
        """Return the number of names."""
        return len(list(iter(self)))

    def __contains__(self, name: object) -> bool:
        """Return whether there is a system of that name; nothing is imported."""
        return name in list(self)

    def __getitem__(self, name: str) -> type[SystemConfig]:
        """Return the class of a system, see `entry`."""
        return self.entry(name).config_class()

    def entry(self, name: str) -> SystemEntry | InstalledSystem:
        """Return a system by its name.

        Raises:
            ConfigError: there is none of that name, or there are several.
        """
        declared: list[SystemEntry | InstalledSystem] = [
            InstalledSystem(point) for point in self._installed.select(name=name)
        ]
        if name in SYSTEMS:
            declared.insert(0, SYSTEMS[name])
        if not declared:
            raise ConfigError(
                f"unknown system: {name}", hint=name_hint(name, self), kind="config.unknown-system"
            )
        if len(declared) > 1:
            owners = [system.distribution for system in declared]
            raise ConfigError(
                f"several distributions provide a system named {name}: {', '.join(owners)}",
                where=f"entry points of the group {ENTRY_POINTS}",
                hint=f"uninstall all but one, or rename the system of {owners[-1]}",
                kind="config.broken-system",
            )
        return declared[0]


def installed_systems() -> list[InstalledSystem]:
    """Return all systems of other distributions, usable or not."""
    return [InstalledSystem(point) for point in _entry_points()]


def _entry_points() -> metadata.EntryPoints:
    """Return the declared systems, read again if a folder of the import path has changed."""
    folders = []
    for path in sys.path:
        with suppress(OSError):
            folder = Path(path).stat()
            folders.append((path, folder.st_dev, folder.st_ino, folder.st_mtime_ns))
    return _read_entry_points(tuple(folders))


@functools.lru_cache(maxsize=1)
def _read_entry_points(_folders: tuple[tuple[str, int, int, int], ...]) -> metadata.EntryPoints:
    return metadata.entry_points(group=ENTRY_POINTS)  # reads a file of every distribution


def system_configs() -> SystemConfigs:
    """Return the configuration class of every system, installed ones included."""
    return SystemConfigs()


def build_model(
    config: SystemConfig, source_vocabulary: int, target_vocabulary: int
) -> TranslationModel:
    """Build a freshly initialised model for V_s source and V_t target tokens.

    Raises:
        ConfigError: `tie = "all"` with different vocabularies, or an installed system breaks
            the contract.
    """
    system = system_configs().entry(config.system)
    if isinstance(system, InstalledSystem):
        return system.build(config, source_vocabulary, target_vocabulary)
    model_class: Any = system.model_class()
    return model_class(config, source_vocabulary, target_vocabulary)  # type: ignore[no-any-return]


def build_undrawn(
    config: SystemConfig, source_vocabulary: int, target_vocabulary: int
) -> TranslationModel:
    """Build a model whose weights are about to be loaded, without drawing initial ones.

    The state of torch's random generator is kept. Systems of other distributions do draw: they are
    checked when they are built, and may not work with numbers that are not finite.

    Raises:
        ConfigError: as `build_model` does.
    """
    import torch

    from jtrans.models.undrawn import UndrawnParameters

    is_installed = isinstance(system_configs().entry(config.system), InstalledSystem)
    undrawn = nullcontext() if is_installed else UndrawnParameters()
    with undrawn, torch.random.fork_rng(devices=[]):
        return build_model(config, source_vocabulary, target_vocabulary)


def load_weights(model: TranslationModel, path: Path) -> None:
    """Load a checkpoint's weights (safetensors) into `model`.

    Raises:
        CheckpointError: the file is missing, damaged, or of another model.
    """
    import safetensors
    import safetensors.torch

    try:
        parameters = dict(model.named_parameters())
        with safetensors.safe_open(path, framework="pt") as stream:
            for name in parameters.keys() & set(stream.keys()):
                kind = stream.get_slice(name).get_dtype()
                if kind not in FLOATS:  # torch would convert it silently
                    raise RuntimeError(f"{name} has the type {kind}")
        missing, unexpected = safetensors.torch.load_model(model, path, strict=False)
        _log.info("read %s", path)
        if missing or unexpected:
            name = sorted([*missing, *unexpected])[0]
            raise RuntimeError(
                f"{len(missing)} tensors missing, {len(unexpected)} unknown, such as {name}"
            )
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


def _load(path: str) -> Any:
    module, _, name = path.partition(":")
    try:
        return getattr(importlib.import_module(module), name)
    except AttributeError as error:
        raise InternalError(f"the zoo names {path}, which does not exist") from error
