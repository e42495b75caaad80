"""The weights that a new run copies from other runs, and those that it does not train.

`training.init_from` copies the best weights of other runs: all that the system has a place for, or
those whose names match a pattern. `training.freeze` names weights by patterns: they get no gradient
and no optimiser state, and a part all of whose weights are frozen stays in evaluation mode. In a
pattern ``*`` stands for any text.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from jtrans.config import Config, InitialWeights, SystemConfig, recipe_names
from jtrans.data.prepared import PreparedCorpus
from jtrans.errors import CheckpointError, ConfigError, JtransError, did_you_mean, how_many
from jtrans.models.base import TranslationModel, check_agreement
from jtrans.models.zoo import build_model, load_weights, system_configs
from jtrans.runs import RUNS, WEIGHTS, Checkpoint, Run, find_run
from jtrans.training.checkpoint import load_optimiser
from jtrans.training.setup.continuing import different_settings, shown_value
from jtrans.training.weights.shards import assign, whole

INIT_FROM, FREEZE = "training.init_from", "training.freeze"


@dataclass(frozen=True)
class CopiedWeights:
    """Weights copied from another run."""

    run: str
    checkpoint: str
    weights: str  # the pattern of their names in that run
    into: str  # the pattern of their names in the new run
    tensors: int  # how many match

    def describe(self) -> str:
        """Describe them in a line."""
        names = self.weights if self.weights == self.into else f"{self.weights} -> {self.into}"
        return f"{names} of {self.run} ({self.checkpoint}), {how_many(self.tensors, 'tensor')}"


def initialise(
    model: TranslationModel, config: Config, corpus: PreparedCorpus
) -> tuple[CopiedWeights, ...]:
    """Copy the weights that `training.init_from` names into `model`; all or none.

    Raises:
        JtransError: a run that is missing, or has other vocabularies or sizes, or a pattern that
            matches nothing.
    """
    ours = model.state_dict()
    others: dict[str, _SourceRun] = {}
    sources: dict[str, tuple[str, Tensor]] = {}  # for each name here: its run and its value
    copied = []
    for entry in config.training.init_from:
        if entry.run not in others:
            others[entry.run] = _SourceRun(entry.run, corpus)
        other = others[entry.run]
        for pattern, into in _patterns(entry, model, other).items():
            pairs = _pair(pattern, into, other, ours, model.config)
            for name, theirs in pairs.items():
                if name in sources:
                    raise _refusal(f"{name} is taken from {sources[name][0]} and from {entry.run}")
                sources[name] = entry.run, other.weights[theirs]
            copied.append(CopiedWeights(entry.run, other.checkpoint, pattern, into, len(pairs)))
    with torch.no_grad():
        for name, (_, value) in sources.items():
            assign(ours[name], value)
    for name, (run, value) in sources.items():
        if not torch.equal(whole(ours[name]).cpu(), value.to(ours[name].dtype)):
            raise _refusal(
                f"{name} shares its matrix with another weight here, but not in {run}",
                "set model.tie as in that run",
            )
    return tuple(copied)


def freeze(model: TranslationModel, patterns: Sequence[str]) -> None:
    """Exclude the weights whose names match one of `patterns` from training.

    Raises:
        ConfigError: a pattern matches nothing, or nothing is left to train.
    """
    parameters = dict(model.named_parameters(remove_duplicate=False))
    for pattern in patterns:
        names = [name for name in parameters if _regex(pattern).fullmatch(name)]
        if not names:
            raise ConfigError(
                f"no weight of this model matches {pattern!r}",
                where=FREEZE,
                hint=_nearest(pattern, parameters),
                kind="config.freeze",
            )
        for name in names:
            parameters[name].requires_grad_(False)
    if not model.parameter_count():
        raise ConfigError(
            f"all {model.frozen_count():,} weights are frozen: there is nothing to train",
            where=FREEZE,
            hint="freeze a part of the model, or translate with the run that the weights are from",
            kind="config.freeze",
        )
    model.frozen = tuple(_frozen_parts(model))


def _frozen_parts(module: nn.Module) -> list[nn.Module]:
    """Return the outermost modules all of whose parameters are frozen."""
    trained = [parameter.requires_grad for parameter in module.parameters()]
    if trained and not any(trained):
        return [module]
    return [part for child in module.children() for part in _frozen_parts(child)]


class _SourceRun:
    """A run to copy weights from.

    Args:
        name: its folder, or its name under runs/.
        corpus: the prepared corpus of the new run.

    Raises:
        JtransError: it cannot be read, or has other vocabularies.
    """

    def __init__(self, name: str, corpus: PreparedCorpus) -> None:
        self.name = name
        try:
            run = find_run(name)
            self.config = run.config(system_configs())
            check_vocabularies(run, corpus, INIT_FROM)
            checkpoint = run.checkpoint("best").verify(WEIGHTS)
        except JtransError as error:
            error.where = error.where or INIT_FROM
            recipe = name.removeprefix(f"{RUNS}/")
            if error.kind == "run.missing" and recipe in recipe_names():
                error.hint = f"train it first: jtrans train {recipe}"
            raise
        model = build_model(self.config.model, *run.pipeline.vocabulary_sizes)
        load_weights(model, checkpoint.weights)
        self.checkpoint = checkpoint.name
        self.weights: dict[str, Tensor] = model.state_dict()


def load_initial(
    model: TranslationModel, initial: Run, config: Config, corpus: PreparedCorpus
) -> Checkpoint:
    """Load the best weights of another run of the same system, and return their checkpoint.

    Raises:
        ConfigError: `training.init_from` names weights, too, or the model is another one.
        CheckpointError: the run has other vocabularies, or is damaged.
    """
    if config.training.init_from:
        raise ConfigError(
            f"--from takes all weights from {initial.folder}, but {INIT_FROM} names weights, too",
            where="--from",
            hint=f"leave out --from, or add --set {INIT_FROM}=[]",
            kind="config.init-from",
        )
    check_vocabularies(initial, corpus, "--from")
    checkpoint = initial.checkpoint("best")
    checkpoint.verify(WEIGHTS)
    theirs = initial.config(system_configs()).model
    try:
        load_weights(model, checkpoint.weights)
    except CheckpointError as error:
        sizes = [
            f"{key} is {shown_value(old)} there, {shown_value(new)} here"
            for key, (old, new) in different_settings(initial, config).items()
            if key.startswith("model.") and not key.endswith("dropout")
        ]
        if theirs.system != config.model.system:
            raise ConfigError(
                f"{initial.folder} is a run of the system {theirs.system}, and its weights do not "
                f"fit {config.model.system}",
                where="--from",
                hint=f"name a run of {config.model.system}, or the weights that both have in "
                f"{INIT_FROM}",
                kind="run.other-system",
            ) from error
        if error.kind != "checkpoint.shape" or not sizes:
            raise
        raise ConfigError(
            f"the weights of {initial.folder} are of another model: {'; '.join(sizes)}",
            where="--from",
            hint=f"make the sizes equal, or name the weights that both have in {INIT_FROM}",
            kind="run.other-size",
        ) from error
    if theirs.system == config.model.system:  # weights of equal sizes may mean something else
        try:
            check_agreement(theirs, config.model)
        except ConfigError as error:
            error.hint = f"set it as in [model] of {initial.folder / 'config.toml'}"
            raise
    return checkpoint


def take_optimiser(
    initial: Run,
    checkpoint: Checkpoint,
    config: Config,
    model: TranslationModel,
    optimiser: Optimizer,
) -> None:
    """Load the optimiser's moments from the checkpoint that the weights are from.

    Raises:
        ConfigError: they are those of another optimiser, or an imported run has none.
        CheckpointError: they are damaged.
    """
    if initial.info.get("imported") or checkpoint.update is None:
        origin = "was imported" if initial.info.get("imported") else "is an average"
        raise ConfigError(
            f"{initial.with_chosen(str(initial.folder))} {origin}, without the state of an "
            "optimiser",
            where="--keep-optimiser",
            hint="leave out --keep-optimiser: the moments then begin at zero",
            kind="config.optimiser",
        )
    names = [each.training.optimiser.name for each in (initial.config(system_configs()), config)]
    if names[0] != names[1]:
        raise ConfigError(
            f"{initial.folder} was trained with {names[0]}, and this run has {names[1]}",
            where="--keep-optimiser",
            hint="leave out --keep-optimiser: the moments then begin at zero",
            kind="config.optimiser",
        )
    load_optimiser(checkpoint, model, optimiser)


def check_vocabularies(run: Run, corpus: PreparedCorpus, where: str) -> None:
    """Check that another run has the vocabularies of `corpus`.

    Raises:
        CheckpointError: it has others.
    """
    if run.pipeline.fingerprint() != corpus.pipeline.fingerprint():
        theirs, ours = _describe_vocabularies(run), _describe_vocabularies(corpus)
        raise CheckpointError(
            f"{run.folder} was not trained with the vocabularies of {corpus.folder}: "
            f"it has those of {run.info.get('data', 'another corpus')}, {theirs}, not {ours}",
            where=where,
            hint="start from a run on the same prepared corpus, or prepare the data with the "
            f"vocabularies of that run: jtrans prepare ... --pipeline {run.folder}",
            kind="run.other-vocabulary",
        )


def _describe_vocabularies(owner: Run | PreparedCorpus) -> str:
    source, target = owner.pipeline.vocabulary_sizes
    return f"{source:,} source and {target:,} target tokens"


def _patterns(
    entry: InitialWeights, model: TranslationModel, other: _SourceRun
) -> Mapping[str, str]:
    if entry.weights is not None:
        return {entry.weights: entry.into or entry.weights}
    try:
        return model.initial_weights(other.config.model)
    except ConfigError as error:
        raise ConfigError(
            f"{entry.run}: {error.message}",
            where=f"{INIT_FROM}, {error.where}" if error.where else INIT_FROM,
            hint=error.hint
            or "make the sizes equal, or name the weights to take: "
            f'init_from = [{{ run = "{entry.run}", weights = "PATTERN", into = "PATTERN" }}]',
            kind=error.kind,
        ) from error


def _pair(
    pattern: str, into: str, other: _SourceRun, ours: Mapping[str, Tensor], config: SystemConfig
) -> dict[str, str]:
    """Return for each weight of this model that matches `into` its counterpart in the other run.

    Raises:
        ConfigError: a pattern matches nothing, or a weight has no counterpart of the same shape.
    """
    matches = {name: _regex(pattern).fullmatch(name) for name in other.weights}
    pairs = {_fill(into, match.groups()): name for name, match in matches.items() if match}
    if not pairs:
        hint = _nearest(pattern, other.weights)
        raise _refusal(f"no weight of {other.name} matches {pattern!r}", hint)
    places = [name for name in ours if _regex(into).fullmatch(name)]
    if not places:
        raise _refusal(f"no weight of this model matches {into!r}", _nearest(into, ours))
    if pairs.keys() != set(places):
        raise _unpaired(pairs, places, other.name)
    for name, theirs in pairs.items():
        shapes = [list(each.shape) for each in (other.weights[theirs], ours[name])]
        if shapes[0] != shapes[1]:
            message = f"{name} is {shapes[0]} in {other.name}, and {shapes[1]} here"
            widths = other.config.model.width, config.width
            if widths[0] != widths[1]:
                message = f"{other.name} has width {widths[0]}, this model {widths[1]}: {message}"
            raise _refusal(message, "make the sizes equal", kind="run.other-size")
    return pairs


def _unpaired(pairs: Mapping[str, str], places: Sequence[str], run: str) -> ConfigError:
    """Return the error for weights without a counterpart: other layers, or other systems."""
    absent = [name for name in pairs if name not in places]
    empty = [name for name in places if name not in pairs]
    for name in [*absent, *empty]:
        numbered = re.match(r"(.*?)\.\d+\.", name)
        if numbered:
            stack = numbered[1]
            theirs, ours = _depth(stack, pairs), _depth(stack, places)
            if theirs and ours and theirs != ours:
                message = f"{run} has {how_many(theirs, 'layer')} in {stack}, this model {ours}"
                return _refusal(message, "make the sizes equal", kind="run.other-size")
    if absent:
        return _refusal(
            f"no place here for {how_many(len(absent), 'weight')} of {run}, such as "
            f"{pairs[absent[0]]} as {absent[0]}",
            _nearest(absent[0], places),
        )
    return _refusal(
        f"no counterpart in {run} of {how_many(len(empty), 'weight')} here, such as {empty[0]}",
        "name only the weights that both have, for example "
        f'[{{ run = "{run}", weights = "encoder.*" }}]',
    )


def _depth(stack: str, names: Collection[str]) -> int:
    """Return how many numbered children of `stack` there are."""
    numbers = (re.match(rf"{re.escape(stack)}\.(\d+)\.", name) for name in names)
    return len({match[1] for match in numbers if match})


def _regex(pattern: str) -> re.Pattern[str]:
    return re.compile("(.*)".join(re.escape(part) for part in pattern.split("*")))


def _fill(pattern: str, texts: Sequence[str]) -> str:
    """Return `pattern` with its wildcards replaced by `texts`."""
    first, *rest = pattern.split("*")
    return first + "".join(text + part for text, part in zip(texts, rest, strict=True))


def _nearest(pattern: str, names: Collection[str]) -> str:
    """Return the hint for a pattern that matches nothing."""
    parts = {f"{name[: dot.start()]}.*" for name in names for dot in re.finditer(r"\.", name)}
    near = did_you_mean(pattern, [*sorted(parts), *names])
    if near:
        return f"did you mean {near}?"
    groups = sorted({name.partition(".")[0] for name in names})
    return f"the weights are {', '.join(f'{group}.*' for group in groups)}"


def _refusal(
    message: str, hint: str | None = None, *, kind: str = "config.init-from"
) -> ConfigError:
    return ConfigError(message, where=INIT_FROM, hint=hint, kind=kind)
