"""Export a run as ONNX graphs: trace its model, and compare them on batches of other sizes."""

from __future__ import annotations

import contextlib
import io
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from jtrans.decoding.options import SearchOptions
from jtrans.decoding.translator import load_model
from jtrans.errors import ConfigError, JtransError, first_line
from jtrans.exchange.export_card import onnx_card
from jtrans.exchange.graphs.modules import (
    StartGraph,
    StateTensor,
    StepGraph,
    describe_state,
    example_source,
    prepare_tables,
)
from jtrans.exchange.graphs.sessions import Graphs
from jtrans.exchange.graphs.state import tensors
from jtrans.exports import Export, import_extra, new_export
from jtrans.files import write_text
from jtrans.models.base import TranslationModel
from jtrans.models.zoo import system_configs
from jtrans.nn.recurrent.lstm import NormedLstm
from jtrans.runs import Run
from jtrans.text.vocabulary import EOS

PROGRAM = "onnx"
OPSET = 17
POSITIONS = 4096  # rows of position tables: the longest sentence
TOLERANCE = 1e-4  # largest difference of log-probabilities
EXAMPLE = Path(__file__).with_name("translate_onnx.py")  # copied into exports, never imported


def export_to_onnx(run: Run, folder: Path, *, checkpoint: str = "best") -> Export:
    """Export a run as ONNX graphs, and return the export.

    Args:
        run: a run of a system without recurrent layers.
        folder: the folder to write; an earlier export there is replaced.
        checkpoint: the checkpoint of the run.

    Raises:
        ConfigError: the system cannot be traced, or a package is not installed.
        CheckpointError: the checkpoint cannot be used, or `folder` holds something else.
    """
    for package in ("onnx", "onnxruntime"):
        import_extra(package, PROGRAM)
    model = load_model(run, checkpoint, torch.device("cpu"))
    check_traceable(model)
    longest = min(model.longest or POSITIONS, POSITIONS)
    prepare_tables(model, longest)
    config = run.config(system_configs())
    with new_export(folder, PROGRAM, run, checkpoint, system_configs()) as (temporary, facts):
        state = trace(model, len(run.pipeline.source.vocabulary), temporary)
        facts |= {
            "system": model.config.system,
            "weights": "float32",
            "opset": OPSET,
            "longest": longest,
            "limit": SearchOptions.from_config(config).length_rule,
            "state": [
                {"name": each.name, "hypotheses_axis": each.rows, "changes": not each.is_fixed}
                for each in state
            ],
        }
        compare(model, _load(model, temporary, facts), len(run.pipeline.source.vocabulary))
        write_text(temporary / EXAMPLE.name, EXAMPLE.read_text(encoding="utf-8"))
        write_text(temporary / "README.md", onnx_card(run, facts))
    return Export.open(folder, PROGRAM)


def check_traceable(model: TranslationModel) -> None:
    """Refuse a model with recurrent layers, ours or torch's.

    Raises:
        ConfigError: it has recurrent layers.
    """
    recurrent = (NormedLstm, nn.RNNBase)
    if any(isinstance(module, recurrent) for module in model.modules()):
        raise ConfigError(
            f"{model.config.system} cannot be exported to ONNX: its recurrent layers loop over the "
            "positions of a sentence, and a graph would have a fixed number of positions, or with "
            "torch's layers of sentences",
            hint="systems without recurrent layers can be exported: jtrans models",
            kind="export.system",
        )


@torch.no_grad()
def trace(model: TranslationModel, vocabulary: int, folder: Path) -> list[StateTensor]:
    """Write ``start.onnx`` and ``step.onnx``, and return the tensors of their state.

    `vocabulary` is the size of the source vocabulary.

    Raises:
        ConfigError: the model cannot be traced.
    """
    try:
        with (
            warnings.catch_warnings(),  # the tracer's about branches, which `compare` checks
            contextlib.redirect_stdout(io.StringIO()),  # an export that fails prints the graph
        ):
            warnings.simplefilter("ignore")
            return _trace(model, vocabulary, folder)
    except OSError:
        raise
    except Exception as error:  # third-party systems may fail in any way
        raise _refusal(model, str(error).strip().partition("\n")[0]) from error


def _trace(model: TranslationModel, vocabulary: int, folder: Path) -> list[StateTensor]:
    state = describe_state(model, vocabulary)
    start = StartGraph(model).eval()
    source = example_source(2, 5, vocabulary)
    _, after = start.begin(source)
    token = torch.full((2,), EOS)
    model.step(token, after)
    values = [tensor for _, tensor in tensors(after)]
    step = StepGraph(model, after, [each.is_fixed for each in state]).eval()
    inputs: dict[str, Tensor] = {"token": token, "position": torch.tensor(2)}
    inputs |= {each.name: value for each, value in zip(state, values, strict=True)}
    axes = {each.name: each.axes for each in state} | {"token": {0: "sentences"}}
    changing = [each.name for each in state if not each.is_fixed]
    _write(step, inputs, [f"{name}.next" for name in changing], axes, folder / "step.onnx")
    read = _inputs(folder / "step.onnx")
    state = [each for each in state if each.name in read]
    start.kept = [each.name for each in state]
    axes |= {"source": {0: "sentences", 1: "source"}}
    _write(start, {"source": source}, start.kept, axes, folder / "start.onnx")
    return state


def _write(
    module: nn.Module,
    inputs: Mapping[str, Tensor],
    outputs: Sequence[str],
    axes: Mapping[str, Mapping[int, str]],
    path: Path,
) -> None:
    names = [*inputs, "log_probs", *outputs]
    dynamic = {name: dict(axes.get(name.removesuffix(".next"), {0: "sentences"})) for name in names}
    dynamic.pop("position", None)
    # The classic exporter takes a second where the newer one takes half a minute.
    torch.onnx.export(
        module,
        tuple(inputs.values()),
        str(path),
        dynamo=False,
        input_names=[*inputs],
        output_names=["log_probs", *outputs],
        dynamic_axes=dynamic,
        opset_version=OPSET,
    )


def _inputs(path: Path) -> set[str]:
    import onnx

    return {each.name for each in onnx.load(str(path)).graph.input}


def _load(model: TranslationModel, folder: Path, facts: Mapping[str, Any]) -> Graphs:
    try:
        return Graphs.load(folder, facts)
    except JtransError:
        raise
    except Exception as error:  # onnxruntime has no common class of errors
        fault = str(error).strip().partition("\n")[0]
        raise _refusal(model, f"its graphs cannot be loaded ({fault})") from error


def compare(model: TranslationModel, graphs: Graphs, vocabulary: int) -> None:
    """Compare graphs with their model on another number of sentences and length than traced.

    Raises:
        ConfigError: the graphs fail, or log-probabilities differ by more than `TOLERANCE`.
    """
    try:
        worst = _largest_difference(model, graphs, vocabulary)
    except Exception as error:  # onnxruntime has no common class of errors
        fault = f"they fail on sentences of other sizes ({first_line(error)})"
        raise _refusal(model, f"its graphs are wrong: {fault}") from error
    if not worst <= TOLERANCE:
        raise _refusal(
            model, f"its graphs compute something else (log-probabilities differ by {worst:.1g})"
        )


@torch.no_grad()
def _largest_difference(model: TranslationModel, graphs: Graphs, vocabulary: int) -> float:
    source = example_source(3, 8, vocabulary)
    log_probs, state = StartGraph(model).eval().begin(source)
    scores, running = graphs.start(source.numpy())
    differences = [_difference(log_probs, scores)]
    for position in range(1, 5):
        token = source[:, position].clamp(max=log_probs.shape[1] - 1)
        hidden = model.step(token, state)
        log_probs = torch.log_softmax(model.project(hidden).float(), dim=-1)
        scores, running = graphs.step(token.numpy(), position, running)
        differences.append(_difference(log_probs, scores))
    return float(np.max(differences))  # nan if one of them is


def _refusal(model: TranslationModel, fault: str) -> ConfigError:
    return ConfigError(
        f"{model.config.system} cannot be exported to ONNX: {fault}",
        hint="jtrans export --debug shows where",
        kind="export.system",
    )


def _difference(expected: Tensor, scores: Any) -> float:
    return float(np.abs(expected.numpy() - scores).max())
