"""The labels that a system with tagging heads learns from its prepared corpus."""

from __future__ import annotations

from jtrans.data.prepared import PreparedCorpus
from jtrans.errors import CorpusError
from jtrans.models.base import TranslationModel


def learned_labels(model: TranslationModel, corpus: PreparedCorpus) -> dict[str, list[str]]:
    """Return the names of the labels that a model learns, by kind; empty without tagging heads.

    Kinds that the corpus lacks, such as entities, are left out.

    Raises:
        CorpusError: the corpus has no label to learn.
    """
    weights = model.auxiliary_weights
    names = {kind: own for kind, own in corpus.label_names.items() if kind in weights}
    train = corpus.info["splits"]["train"]["pairs"]
    if weights and (not names or corpus.info.get("unlabelled", {}).get("train", 0) >= train):
        off = " ".join(f"--set model.{kind}_weight=0" for kind in weights)
        raise CorpusError(
            f"{model.config.system} learns tags ({', '.join(weights)}), but no training sentence "
            f"of {corpus.folder} has labels",
            where="--data",
            hint=f"prepare it with --labels, or switch the tags off: {off}",
            kind="corpus.no-labels",
        )
    return names
