"""The choice of what the search uses in place of a model."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from jtrans.decoding.prepared.base import Searchable
from jtrans.decoding.prepared.captured.joint import GraphReformer
from jtrans.decoding.prepared.captured.transformer import GraphTransformer
from jtrans.decoding.prepared.converted import HalfPrecision, with_int8_weights
from jtrans.decoding.prepared.convs2s import PreparedConvS2S
from jtrans.decoding.prepared.grid.pervasive import PreparedPervasive
from jtrans.decoding.prepared.joint import PreparedReformer
from jtrans.decoding.prepared.rnmt import prepare_rnmt
from jtrans.decoding.prepared.transformer import (
    PreparedTransformer,
    prepare_transformer,
    prepare_transformer_pp,
)
from jtrans.models.base import TranslationModel
from jtrans.models.convs2s import ConvS2S
from jtrans.models.deep import Dlcl
from jtrans.models.hybrid import Hybrid
from jtrans.models.pervasive import Pervasive
from jtrans.models.reformer import Reformer, ReformerFast
from jtrans.models.rnmt import RnmtPlus
from jtrans.models.transformer import Transformer
from jtrans.models.transformer_pp import TransformerPlusPlus
from jtrans.nn.cpu.matmul_backend import mkl_for_tiny_products

Prepare = Callable[[Any, str], Searchable | None]


def on_cpu(form: Callable[[Any, str], Searchable]) -> Prepare:
    """Return a function that prepares a form on a CPU, and returns None elsewhere."""

    def prepare(model: TranslationModel, precision: str) -> Searchable | None:
        return form(model, precision) if model.device.type == "cpu" else None

    return prepare


# By exact class, as a subclass of another package may compute something else: functions that
# prepare a model for a precision, or return None for settings without a prepared form.
FORMS: dict[type[TranslationModel], Prepare] = {
    Reformer: on_cpu(PreparedReformer),
    ReformerFast: on_cpu(PreparedReformer),
    Transformer: prepare_transformer,
    Dlcl: prepare_transformer,
    Hybrid: prepare_rnmt,
    RnmtPlus: prepare_rnmt,
    TransformerPlusPlus: prepare_transformer_pp,
    ConvS2S: on_cpu(PreparedConvS2S),
    Pervasive: on_cpu(PreparedPervasive),
}


def prepared(
    model: TranslationModel, precision: str = "fp32", *, with_graphs: bool = True
) -> Searchable:
    """Return what to search with: the prepared form of a model, or else the model itself.

    Args:
        model: in evaluation mode; later changes of its weights may have no effect on the form.
        precision: ``fp32``, that of the model's weights; ``bf16``; or ``int8``, weights only.
        with_graphs: on a GPU, whether steps may be captured as CUDA graphs.

    Raises:
        ConfigError: ``int8`` for a model without linear maps that can be int8.
    """
    prepare = FORMS.get(type(model))
    # not by the library that was faster when this process started: each rounds differently, and a
    # command must write the same scores in every process and whenever it is continued
    with mkl_for_tiny_products():
        form = prepare(model, precision) if prepare else None
    if with_graphs and prepare is not None and model.device.type == "cuda":
        if isinstance(form, PreparedTransformer):
            return GraphTransformer(form)
        if isinstance(model, Reformer) and precision != "int8":
            return GraphReformer(model, precision)
    if form is not None:
        return form
    if precision == "int8":
        return with_int8_weights(model)
    return HalfPrecision(model) if precision == "bf16" else model
