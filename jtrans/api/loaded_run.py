"""A trained model to translate with, score and inspect."""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from jtrans.config.arguments import check_argument, check_strings, type_error
from jtrans.errors import how_many, name_hint, option_error
from jtrans.progress import Silent

if TYPE_CHECKING:
    import torch

    from jtrans.analysis.attention.explain import Explanation
    from jtrans.decoding.lines.translation import Translation
    from jtrans.decoding.options import Constraints
    from jtrans.decoding.translator import Translator
    from jtrans.evaluation.systems import SystemScores
    from jtrans.runs import Run


class LoadedRun:
    """A trained model to translate with, score and inspect.

    Attributes:
        run: the run on disk.
        translator: the translator, with further methods, such as `teacher_forced_scores`.
    """

    def __init__(self, run: Run, translator: Translator) -> None:
        self.run = run
        self.translator = translator

    def __repr__(self) -> str:
        """Return the folder of the run."""
        return f"LoadedRun({str(self.run.folder)!r})"

    def translate(
        self,
        sources: Iterable[str],
        *,
        beam: int | None = None,
        constraints: Iterable[Constraints] | None = None,
        **options: Any,
    ) -> list[str]:
        """Return the best translation of every sentence, in order; empty sentences stay empty.

        A sentence that is too long for the model is translated in parts, with a warning.

        Args:
            sources: sentences as raw text.
            beam: beam size; by default that of the run's configuration.
            constraints: one for each sentence.
            options: other fields of `jtrans.decoding.options.SearchOptions`, except `nbest`, and of
                `jtrans.decoding.options.TranslationExtras`.

        Raises:
            JtransError: options that cannot be used, or constraints that cannot be fulfilled.
        """
        return [best[0].text for best in self._search(sources, 1, beam, options, constraints)]

    def translate_nbest(
        self,
        sources: Iterable[str],
        n: int,
        *,
        beam: int | None = None,
        constraints: Iterable[Constraints] | None = None,
        **options: Any,
    ) -> list[list[Translation]]:
        """Return the n best translations of every sentence, best first, with their scores.

        Samples are in the order drawn, unless `mbr` merges equal ones and ranks them.

        Args:
            sources: sentences as raw text.
            n: the number of translations, at most the beam size.
            beam: see `translate`.
            constraints: see `translate`.
            options: see `translate`.

        Raises:
            JtransError: options that cannot be used, or constraints that cannot be fulfilled.
        """
        return self._search(sources, n, beam, options, constraints)

    def score(
        self,
        sources: Iterable[str],
        references: Iterable[str] | Iterable[Iterable[str]],
        *,
        metrics: Iterable[str] = ("bleu", "chrf"),
        beam: int | None = None,
        **options: Any,
    ) -> SystemScores:
        """Translate and score as `jtrans score` does.

        Args:
            sources: sentences as raw text.
            references: one reference per sentence, or several such sets.
            metrics: any of ``bleu``, ``chrf``, ``chrf++``, ``ter`` and ``multi-bleu``.
            beam: see `translate`.
            options: see `translate`.

        Returns:
            The scores: ``value("bleu")`` is the score, ``scores["bleu"].signature`` its signature.

        Raises:
            JtransError: metrics or options that cannot be used, or line counts that differ.
        """
        from jtrans.evaluation.systems import SystemOutput, check_metrics, evaluate

        side = self.run.pipeline.target
        names = check_metrics(check_strings("metrics", metrics))
        given: Any = references
        if isinstance(given, Iterable) and not isinstance(given, str):
            given = list(given)
        is_one_set = (
            not given
            or not isinstance(given, list)
            or not all(isinstance(each, Iterable) and not isinstance(each, str) for each in given)
        )
        sets = [check_strings("references", lines) for lines in ([given] if is_one_set else given)]
        best = [each[0] for each in self._search(sources, 1, beam, options, None)]
        output = SystemOutput(
            self.run.name,
            [translation.text for translation in best],
            [translation.words for translation in best],
            [[side.segment(line) for line in lines] for lines in sets],
        )
        evaluation = evaluate(
            [output], sets, metrics=names, target_language=side.language, lowercase=side.lowercase
        )
        return evaluation.systems[0]

    def explain(self, source: str, target: str | None = None) -> Explanation:
        """Return every attention map of one sentence, with the tokens on both sides.

        Args:
            source: a sentence as raw text.
            target: a translation to inspect; by default the model's own.

        Raises:
            DecodingError: the source is empty, or the pair is too long to keep all its weights.
        """
        from jtrans.analysis.attention.pairs import explain_pair
        from jtrans.analysis.attention.views import ViewSelection

        check_argument("source", source, str)
        if target is not None:
            check_argument("target", target, str)
        pair = explain_pair(
            self.translator, self.run.name, source, target, None, ViewSelection(), Silent()
        )
        return pair.explanation

    def _search(
        self,
        sources: Iterable[str],
        n: int,
        beam: int | None,
        options: Mapping[str, Any],
        constraints: Iterable[Constraints] | None,
    ) -> list[list[Translation]]:
        lines = check_strings("sources", sources)
        translator = self._with_options(n, options if beam is None else {**options, "beam": beam})
        return translator.translate_nbest(
            lines,
            progress=_PythonWarnings(),
            constraints=None if constraints is None else _one_each(lines, constraints),
        )

    def _with_options(self, n: int, options: Mapping[str, Any]) -> Translator:
        from jtrans.decoding.options import SamplingOptions

        search, extras = self.translator.options, self.translator.extras
        of_search, of_extras, of_sampling = (
            {option.name for option in fields(each)} for each in (search, extras, SamplingOptions)
        )
        usable = sorted({*of_search, *of_extras} - {"nbest"})
        for name in options:
            if name == "nbest":
                raise option_error("nbest is not an option here", "translate_nbest(sources, n)")
            if name in of_sampling:
                hint = f"sampling=jtrans.SamplingOptions({name}=…)"
                raise option_error(f"{name} is an option of sampling", hint)
            if name not in usable:
                raise option_error(f"unknown option {name}", name_hint(name, usable))
        chosen = {name: value for name, value in options.items() if name in of_search}
        search = replace(search, **chosen, nbest=n)
        others = {name: value for name, value in options.items() if name in of_extras}
        extras = replace(extras, **others)
        extras.check_beside(search)
        return self.translator.with_options(search, extras)


class _PythonWarnings(Silent):
    """A `Progress` that shows nothing but issues warnings as Python's."""

    def warn(self, text: str) -> None:
        """Issue a Python warning."""
        warnings.warn(text, stacklevel=2)


def _one_each(lines: Sequence[str], given: Iterable[Constraints]) -> list[Constraints]:
    """Check that there is a `Constraints` for each line, and return them as a list."""
    from jtrans.decoding.options import Constraints

    if not isinstance(given, Iterable):
        raise type_error("constraints", given, "a list with jtrans.Constraints for each line")
    constraints = list(given)
    for place, each in enumerate(constraints):
        if not isinstance(each, Constraints):
            raise type_error(f"constraints[{place}]", each, "jtrans.Constraints")
    if len(constraints) != len(lines):
        raise option_error(
            f"constraints for {how_many(len(constraints), 'line')}, but the text has "
            f"{len(lines):,}",
            "give one for each line; jtrans.Constraints() for none",
        )
    return constraints


def load(
    run: str | Path | Run,
    checkpoint: str | int = "best",
    device: str | torch.device | None = None,
    precision: str = "auto",
) -> LoadedRun:
    """Load a trained model.

    Args:
        run: a run's folder, its name under runs/, or ``@last``; ``RUN@CHECKPOINT`` for one of its
            checkpoints, whatever `checkpoint` is.
        checkpoint: ``best``, ``last``, the number of an update or the name of an average.
        device: "cpu", "cuda" or "mps"; by default the best one of the machine.
        precision: "fp32", "bf16", or on a CPU "int8"; "auto": bf16 on GPUs that have it, else fp32.

    Raises:
        JtransError: the run, checkpoint or device does not exist or cannot be used.
    """
    from jtrans.decoding.options import DecodingChoices
    from jtrans.decoding.translator import Translator
    from jtrans.runs import Run, find_run

    if not isinstance(run, Run):
        run = find_run(os.fspath(check_argument("run", run, os.PathLike)), with_checkpoint=True)
    name = None if device is None else str(device)  # of torch.device, too
    choices = DecodingChoices(str(checkpoint), name, precision)
    return LoadedRun(run, Translator.load([run], choices))
