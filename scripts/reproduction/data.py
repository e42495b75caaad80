"""The prepared corpus of a task: its preparation, its origin, its digests."""

from __future__ import annotations

import shlex
from pathlib import Path

from jtrans.data.prepared import PreparedCorpus
from jtrans.errors import usage_error
from jtrans.progress import Progress
from scripts.reproduction.catalogue import task_pairs
from scripts.reproduction.results import DataFacts

COMPLETE = 0.95  # share of the complete training text: fewer pairs count as a subset


def open_data(
    task: str, folder: Path, *, originals: Path | None, progress: Progress
) -> PreparedCorpus:
    """Open the prepared corpus of a task; prepare it first if the folder has none.

    Raises:
        ConfigError: it is another corpus.
        JtransError: it is damaged, or cannot be prepared.
    """
    if not PreparedCorpus.exists(folder):
        from jtrans import api

        if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
            raise usage_error(
                f"{folder} exists and is not a prepared corpus",
                f"--data data/prepared/{task}, which is prepared where it is missing",
                where="--data",
            )

        api.prepare(task, out=folder, originals=originals, progress=progress)
    corpus = PreparedCorpus.open(folder)
    languages = "-".join(corpus.languages)
    name = catalogue_name(corpus)
    if not task.endswith(languages) or name not in (None, task):
        raise usage_error(
            f"{folder} is {name or languages}, the task is {task}",
            f"--data data/prepared/{task}, which is prepared where it is missing",
            where="--data",
        )
    return corpus


def catalogue_name(corpus: PreparedCorpus) -> str | None:
    """Return the name of the corpus of the catalogue that was prepared, None for a user's files.

    Files of a user are named after their folder, which may have the name of a corpus of the
    catalogue. The command or their paths tell them apart: of original files only the names are
    recorded.
    """
    from jtrans.corpora.catalogue.load import is_in_catalogue

    provenance = corpus.info.get("provenance", {})
    words = shlex.split(str(provenance.get("command", "")))
    paths = [str(each["path"]) for each in provenance.get("inputs", ())]
    is_own = any(word.startswith("--train") for word in words)
    is_own = is_own or any(Path(path).name != path for path in paths)
    return corpus.name if not is_own and is_in_catalogue(corpus.name) else None


def describe_data(corpus: PreparedCorpus, task: str) -> DataFacts:
    """Return the facts about the data for a result of a task."""
    pairs = int(corpus.info["splits"]["train"]["pairs"])
    complete = task_pairs().get(task)
    return {
        "name": corpus.name,
        "catalogue": catalogue_name(corpus),
        "pairs": pairs,
        "complete_pairs": complete,
        "is_subset": complete is not None and pairs < COMPLETE * complete,
        "digests": corpus.digests(),
    }
