"""Options of `jtrans translate` alone: constraints of the search, sampling, word alignments."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from jtrans.cli.options import SEARCH, flag, option, option_group
from jtrans.errors import DecodingError

if TYPE_CHECKING:
    from jtrans.decoding.options import SamplingOptions, TranslationExtras

SAMPLING, ALIGNMENTS = "Sampling", "Word alignments"


@option_group
class ConstraintOptions:
    """What may come next in a translation, and when the search ends."""

    min_length: int | None = option("Fewest target tokens before </s>.", None, "1", SEARCH, min=0)
    no_repeat_ngram: int | None = option(
        "No N-gram of tokens twice in a translation.", "N", "0: any", SEARCH, min=0
    )
    stopping: str | None = option(
        "count: with as many finished hypotheses as the beam; "
        "bound: when no other can score higher than those returned.",
        "count|bound",
        "count",
        SEARCH,
    )
    mbr: str | None = option(
        "Of all hypotheses of the beam, or samples, the one most like the others "
        "(minimum Bayes risk); its score is the expected utility.",
        "chrf|bleu",
        "off",
        SEARCH,
    )

    def search(self) -> dict[str, Any]:
        """Return them as search options by name."""
        return {
            "min_length": self.min_length,
            "no_repeat_ngram": self.no_repeat_ngram,
            "stopping": self.stopping,
        }


@option_group
class SampledOptions:
    """Drawing translations instead of searching for them."""

    sample: bool = flag(
        "--sample",
        "Draw translations at random, as many as --beam, instead of searching.",
        SAMPLING,
    )
    temperature: float | None = option("Below 1 favours probable tokens.", None, "1.0", SAMPLING)
    top_k: int | None = option("Only the K most probable tokens.", "K", "0: all", SAMPLING)
    top_p: float | None = option(
        "Only the fewest tokens with a share of P together.", "P", "1.0", SAMPLING
    )
    epsilon: float | None = option(
        "Only tokens at least as probable as this.", None, "0.0", SAMPLING
    )
    seed: int | None = option(
        "A line gets the same samples in any file.", None, "1", SAMPLING, min=0
    )

    def sampling(self) -> SamplingOptions | None:
        """Return the distribution to draw from; None to search.

        Raises:
            DecodingError: a value that cannot be used, or one without ``--sample``.
        """
        from jtrans.decoding.options import SamplingOptions

        values = {
            name: value
            for name, value in vars(self).items()
            if name != "sample" and value is not None
        }
        if not self.sample:
            if values:
                name = "--" + next(iter(values)).replace("_", "-")
                raise DecodingError(
                    f"{name} has no effect without --sample",
                    where=name,
                    hint=f"add --sample, or leave {name} out",
                    kind="decoding.option",
                )
            return None
        return SamplingOptions(**values)


@option_group
class AlignmentOptions:
    """Word alignments from the attention to the source."""

    alignments: bool = flag("--alignments", "Add word alignments to --format jsonl.", ALIGNMENTS)
    alignments_file: str | None = option(
        "Write word alignments, a line per translation: 0-0 1-2.", "FILE", panel=ALIGNMENTS
    )
    unk_replace: bool = flag(
        "--unk-replace", "Replace unknown words by the aligned source words.", ALIGNMENTS
    )
    alignment_layer: str | None = option(
        "The attention to use, such as decoder.3.cross.", "LAYER", "by system", ALIGNMENTS
    )

    def extras(
        self, *, sampling: SamplingOptions | None, mbr: str | None, as_json: bool
    ) -> TranslationExtras:
        """Return everything beyond a search.

        Raises:
            DecodingError: options that cannot be used together.
        """
        from jtrans.decoding.options import TranslationExtras

        if self.alignments and not (as_json or self.alignments_file):
            raise DecodingError(
                "plain text has no place for word alignments",
                where="--alignments",
                hint="add --format jsonl, or write them with --alignments-file FILE",
                kind="decoding.option",
            )
        if self.alignments_file == "-":
            raise DecodingError(
                "word alignments go to a file, not to standard output",
                where="--alignments-file",
                hint="--alignments-file FILE, or --alignments with --format jsonl",
                kind="decoding.option",
            )
        needs = self.alignments or self.alignments_file is not None
        if self.alignment_layer and not (needs or self.unk_replace):
            raise DecodingError(
                "--alignment-layer has no effect without word alignments",
                where="--alignment-layer",
                hint="add --alignments, --alignments-file FILE or --unk-replace",
                kind="decoding.option",
            )
        return TranslationExtras(
            sampling=sampling,
            mbr=mbr,
            alignments=needs,
            unk_replace=self.unk_replace,
            alignment_layer=self.alignment_layer,
        )
