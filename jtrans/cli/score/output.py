"""Files written in addition to the scores: translations, and sentence scores."""

from __future__ import annotations

import json
import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from jtrans.cli import console
from jtrans.cli.translate.input import check_outputs
from jtrans.cli.translate.output import open_output
from jtrans.errors import JtransError, usage_error
from jtrans.evaluation.names import file_names
from jtrans.evaluation.systems import MULTI_BLEU, TITLES
from jtrans.files import disk_errors, write_bytes

if TYPE_CHECKING:
    from jtrans.analysis.study.members import Member
    from jtrans.cli.score.options import ScoreOptions
    from jtrans.cli.score.report import ScoreReport


def check_sentences(options: ScoreOptions) -> None:
    """Check that the sentence scores go to a file that is not also an input.

    Raises:
        JtransError: they do not.
    """
    if options.sentences == "-":
        raise usage_error(
            "--sentences writes to a file: the scores of systems are on stdout",
            "--sentences sentences.jsonl",
        )
    check_outputs(options.inputs(), {"--sentences": options.sentences})


def write_sentences(report: ScoreReport, name: str) -> None:
    """Write the scores of every line of every system as JSON lines, and say where."""
    metrics = [each for each in report.evaluation.metrics if each in TITLES and each != MULTI_BLEU]
    with open_output(name) as stream:
        for scores in report.text.sentences(metrics):
            stream.write(json.dumps(scores, ensure_ascii=False, allow_nan=False) + "\n")
    console.say("Written", name)


@dataclass(frozen=True)
class TranslationFolder:
    """The folder of `--output`."""

    folder: Path
    inputs: Sequence[tuple[str, str]]  # other files that the command uses, each with its option

    @classmethod
    def of(cls, options: ScoreOptions) -> TranslationFolder | None:
        """Return the folder that the options name, if any."""
        if options.output is None:
            return None
        if str(options.output) == "-":
            raise usage_error("--output names a folder", "jtrans translate RUN writes to stdout")
        sentences = [("--sentences", options.sentences)] if options.sentences else []
        return cls(options.output, [*options.inputs(), *sentences])

    def paths(self, members: Sequence[Member]) -> list[Path]:
        """Return the file for each system's translations.

        Raises:
            JtransError: the folder is named like a file, or a file that is read would be replaced.
        """
        language = members[0].run.pipeline.target.language
        if self.folder.suffix == f".{language}" and not self.folder.is_dir():
            raise usage_error(
                f"--output {self.folder} is named like a file, but must be a folder",
                f"--output {shlex.quote(str(self.folder.with_suffix('')))}",
            )
        names = file_names([member.name.replace(" ", "-") for member in members])
        paths = [self.folder / f"{name}.{language}" for name in names]
        corpora = [member.corpus.folder.resolve() for member in members]
        for path in paths:
            check_outputs(self.inputs, {"--output": str(path)})
            if any(path.resolve().is_relative_to(corpus) for corpus in corpora):
                raise _refusal(f"{path} would be in a prepared corpus")
        return paths

    def write(self, members: Sequence[Member]) -> None:
        """Write the translations of each system, and say where.

        Raises:
            JtransError: as for `paths`; or a file to replace has the source or a reference of the
                split: translations of a run ``test`` have the name that references often have.
        """
        paths = self.paths(members)
        text = members[0].text
        sides = [_content(lines) for lines in (text.source_lines, *text.references)]
        for path, member in zip(paths, members, strict=True):
            with disk_errors(path):
                old = path.read_bytes() if path.is_file() else b""
            if old in sides and old != _content(member.hypotheses):
                raise _refusal(f"{path} has text of the split {text.split}, not translations")
        for path, member in zip(paths, members, strict=True):
            write_bytes(path, _content(member.hypotheses))
            console.say("Written", str(path))


def _content(lines: Sequence[str]) -> bytes:
    return "".join(f"{line}\n" for line in lines).encode()


def _refusal(message: str) -> JtransError:
    hint = "choose another folder"
    return JtransError(message, where="--output", hint=hint, kind="command.same-file")
