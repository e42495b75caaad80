"""The check whether a folder already holds the prepared corpus that is requested."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

from jtrans.data.prepared import PreparedCorpus, read_info
from jtrans.errors import CorpusError, JtransError
from jtrans.files import foreign_file, read_json
from jtrans.preparation.options import PIPELINE_OPTIONS
from jtrans.preparation.work_folder import check_place
from jtrans.progress import Progress

# the names of files in a prepared corpus, for versions that did not list them in corpus.json
_OURS = re.compile(r"(corpus|pipeline)\.json|[^/]+\.(source|target)\.([^/]+\.)?(npy|gz)|text/[^/]+")


def is_up_to_date(
    folder: Path,
    record: Mapping[str, Any],
    progress: Progress,
    *,
    force: bool,
    unchosen: Collection[str] = (),
) -> bool:
    """Return whether `folder` holds the requested corpus (see `Request`), whole and readable.

    With `force` another prepared corpus there may be replaced, without it the same one if it is
    damaged and nothing else is in the folder.

    Args:
        folder: the output folder.
        record: the request.
        progress: receives notes on differences that do not make it another corpus.
        force: whether another prepared corpus may be replaced.
        unchosen: options that the user did not set; a corpus of a version without them matches.

    Raises:
        CorpusError: the folder holds something else, or text that was edited.
    """
    if not folder.exists() or (folder.is_dir() and not any(folder.iterdir())):
        check_place(folder)
        return False
    if not PreparedCorpus.exists(folder):
        # not even --force replaces a folder that is not a prepared corpus
        raise CorpusError(
            f"{folder} exists and is not a prepared corpus",
            hint="choose another --out",
            kind="corpus.not-ours",
        )
    info = _corpus_info(folder)
    if force:
        _check_nothing_is_lost(folder, info)
        check_place(folder)
        return False
    info = read_info(folder)
    unknown = frozenset(unchosen) - info["options"].keys()
    changes = _changes(info, record, unknown)
    if changes:
        raise CorpusError(
            f"{folder} holds another prepared corpus: different {' and '.join(changes)}",
            hint="jtrans train can use it as it is; choose another --out, or replace it with "
            "--force: runs that began with it then cannot continue",
            kind="corpus.exists",
        )
    try:
        PreparedCorpus.open(folder).check_files()
    except CorpusError as error:
        if error.kind == "corpus.edited" or not info.get("files") or _foreign(folder, info):
            raise
        progress.warn(f"{error.message}; preparing it again")
        return False
    if info["options"].get("drop_leaked") is True:
        progress.say(
            "Note",
            "when it was prepared, only exact copies of valid and test pairs were dropped; --force "
            "prepares the corpus by today's rules, which ignore case, punctuation and spaces",
        )
    if "narrow" in unknown and record["options"].get("narrow"):
        progress.say(
            "Note",
            "when it was prepared, full-width letters and digits were kept; --force prepares the "
            "corpus by today's rules, which make them ASCII (--narrow)",
        )
    return True


def _corpus_info(folder: Path) -> dict[str, Any]:
    """Return the contents of corpus.json, empty if it is damaged.

    Raises:
        CorpusError: it is not that of a prepared corpus.
    """
    try:
        info = read_json(folder / "corpus.json")
    except JtransError:
        return {}
    if not isinstance(info, dict) or "pipeline_sha256" not in info:
        raise CorpusError(
            f"{folder} exists and is not a prepared corpus: "
            "jtrans prepare did not write its corpus.json",
            hint="choose another --out",
            kind="corpus.not-ours",
        )
    return info


def _check_nothing_is_lost(folder: Path, info: Mapping[str, Any]) -> None:
    """Refuse to replace a folder with files that no preparation has written.

    Raises:
        CorpusError: naming such a file.
    """
    if (name := _foreign(folder, info)) is not None:
        raise CorpusError(
            f"{folder} holds {name}, which is not part of the prepared corpus and would be lost",
            hint="move it elsewhere, or choose another --out",
            kind="corpus.not-ours",
        )


def _foreign(folder: Path, info: Mapping[str, Any]) -> str | None:
    """Return a file in a folder that its preparation did not write, or None."""
    files = info.get("files")
    if files and isinstance(files, dict):
        return foreign_file(folder, {"corpus.json", *files}.__contains__)
    return foreign_file(folder, _OURS.fullmatch)


def _changes(
    info: Mapping[str, Any], record: Mapping[str, Any], unknown: Collection[str]
) -> list[str]:
    """Name the differences of a prepared corpus from a request, ignoring `unknown` options."""
    changes = [] if info["languages"] == record["languages"] else ["languages"]
    if _given_digests(info) != _given_digests(record):
        changes.append("text")
    elif _has_other_annotation(info["splits"], record["splits"]):
        changes.append("gold annotation")
    if any(info.get(key) != record.get(key) for key in ("valid_every", "valid_size")):
        changes.append("share of train for valid")
    before, now = _today(info["options"]), _today(record["options"])
    is_merged = any("parts_digest" in each for each in (info, record))  # records no pipeline
    is_other = not is_merged and info.get("pipeline_digest") != record.get("pipeline_digest")
    if is_other:
        changes.append("text pipeline")
    changes += [
        f"--{name.replace('_', '-')} ({_show(before.get(name, False))}, now {_show(value)})"
        for name, value in now.items()
        # an option that a version did not have was off
        if (before.get(name) or False) != (value or False)
        and name not in unknown
        and not (is_other and name in PIPELINE_OPTIONS)
    ]
    for key in ("labels_digest", "dictionary_digest", "codes_digest", "parts_digest"):
        if info.get(key) != record.get(key) and not changes:
            changes.append(f"contents of the {key.removesuffix('_digest')}")
    return changes


def _today(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return options as they are recorded today."""
    today = dict(options)
    if options.get("drop_leaked") is True:
        today["drop_leaked"] = "pair"
    if isinstance(options.get("labels"), str):  # earlier versions allowed only one source
        today["labels"] = [options["labels"]] if options["labels"] else []
    return today


def _show(value: Any) -> str:
    if isinstance(value, bool):
        return "on" if value else "off"
    text = " ".join(value) if isinstance(value, list) else str(value)
    return text or "none"


def _has_other_annotation(before: Mapping[str, Any], now: Mapping[str, Any]) -> bool:
    """Return whether gold annotation changed; splits without a recorded digest are skipped."""
    known = {name: split["gold_digest"] for name, split in before.items() if "gold_digest" in split}
    return any(now.get(name, {}).get("gold_digest") != digest for name, digest in known.items())


def _given_digests(version: Mapping[str, Any]) -> dict[str, Any]:
    """Return the digests by split, without a valid split that is taken from train."""
    splits = version["splits"].items()
    is_taken = version.get("valid_every") or version.get("valid_size")
    return {name: split["sha256"] for name, split in splits if not is_taken or name != "valid"}
