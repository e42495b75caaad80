"""fairseq's dictionary files as vocabularies."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from jtrans.errors import CheckpointError
from jtrans.exchange.fairseq_dictionary import read_dictionary, reorder_rows

SYMBOLS = st.text(
    st.characters(blacklist_categories=["Cs"], blacklist_characters="\r\n\ufeff"), min_size=1
)


@given(entries=st.lists(st.tuples(SYMBOLS, st.integers(0, 10**9)), min_size=1, max_size=20))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_ids_follow_the_file_after_four_specials(
    entries: list[tuple[str, int]], tmp_path: Path
) -> None:
    path = tmp_path / "dict.txt"
    lines = "".join(f"{symbol} {count}\n" for symbol, count in entries)
    path.write_text(lines, encoding="utf-8", newline="\n")
    vocabulary = read_dictionary(path)
    assert vocabulary.tokens == ["<pad>", "</s>", "<unk>", "<s>", *(s for s, _ in entries)]
    assert vocabulary.counts == [0, 0, 0, 0, *(count for _, count in entries)]


@pytest.mark.parametrize("ending", ["\n", "\r\n", ""], ids=["unix", "windows", "none at the end"])
@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig"])
def test_line_ends_of_any_system_are_read(ending: str, encoding: str, tmp_path: Path) -> None:
    path = tmp_path / "dict.txt"
    path.write_bytes(("a 2" + (ending or "\n") + "b 1" + ending).encode(encoding))
    assert read_dictionary(path).tokens[4:] == ["a", "b"]


@pytest.mark.parametrize(
    "line",
    [
        "word",
        "word ",
        " 3",
        "",
        "word -1",
        "word x",
        "word 1.5",
        "word ٣",
        "a #fairseq:overwrite",
    ],
)
def test_a_malformed_line_is_named_by_its_number(line: str, tmp_path: Path) -> None:
    path = tmp_path / "dict.txt"
    path.write_text(f"a 2\n{line}\nb 1\n", encoding="utf-8")
    with pytest.raises(CheckpointError) as caught:
        read_dictionary(path)
    assert caught.value.where == f"{path}:2"
    assert caught.value.exit_code == 2


@pytest.mark.parametrize("content", [b"", b"\xff\xfea\x00 \x001\x00"], ids=["empty", "utf-16"])
def test_an_empty_or_binary_dictionary_is_refused(content: bytes, tmp_path: Path) -> None:
    path = tmp_path / "dict.txt"
    path.write_bytes(content)
    with pytest.raises(CheckpointError):
        read_dictionary(path)


def test_a_missing_dictionary_is_refused(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match="cannot read"):
        read_dictionary(tmp_path / "absent")


def test_a_symbol_that_occurs_again_may_be_marked(tmp_path: Path) -> None:
    path = tmp_path / "dict.txt"
    path.write_text("a 2\n<s> 1 #fairseq:overwrite\na 1 #fairseq:overwrite\n", encoding="utf-8")
    vocabulary = read_dictionary(path)
    assert vocabulary.tokens[4:] == ["a", "<s>", "a"]
    assert vocabulary.ids(["a"]) == [6]


def test_rows_move_with_their_symbols() -> None:
    theirs = ["unused", "<pad>", "</s>", "<unk>", "first", "second"]
    rows = torch.arange(6.0)[:, None]
    ours = [theirs[int(row)] for row in reorder_rows(rows)[:, 0]]
    assert ours == ["<pad>", "</s>", "<unk>", "unused", "first", "second"]
