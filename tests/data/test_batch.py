"""Collation: padding on the right, masks True on real tokens, target shifted right."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from jtrans.data.batch import collate, padded
from jtrans.data.ids import IGNORE, IdStore, ParallelIds
from jtrans.text.vocabulary import EOS, PAD


def store(sentences: list[list[int]]) -> IdStore:
    ids = np.array([token for sentence in sentences for token in sentence], dtype=np.int32)
    offsets = np.cumsum([0, *map(len, sentences)]).astype(np.int64)
    return IdStore(ids, offsets)


@pytest.fixture
def pairs() -> ParallelIds:
    source = store([[5, 6, EOS], [7, EOS], [EOS]])
    target = store([[8, EOS], [9, 10, 11, EOS], [12, EOS]])
    return ParallelIds(source, target)


def test_sentences_are_padded_on_the_right(pairs: ParallelIds) -> None:
    batch = collate(pairs, [1, 0])
    assert batch.source.tolist() == [[7, EOS, PAD], [5, 6, EOS]]
    assert batch.source_mask.tolist() == [[True, True, False], [True, True, True]]
    assert batch.target_out.tolist() == [[9, 10, 11, EOS], [8, EOS, PAD, PAD]]
    assert batch.target_mask.tolist() == [[True] * 4, [True, True, False, False]]


def test_padding_stands_on_the_right() -> None:
    ids, mask = padded([[5, 1], [7, 8, 1]])
    assert ids.tolist() == [[5, 1, 0], [7, 8, 1]]
    assert mask.tolist() == [[True, True, False], [True, True, True]]


def test_target_input_is_the_output_shifted_with_the_end_symbol_in_front(
    pairs: ParallelIds,
) -> None:
    batch = collate(pairs, [1, 0])
    assert batch.target_in.tolist() == [[EOS, 9, 10, 11], [EOS, 8, PAD, PAD]]


def test_indices_keep_the_order_asked_for(pairs: ParallelIds) -> None:
    batch = collate(pairs, np.array([2, 0, 1]))
    assert batch.indices.tolist() == [2, 0, 1]
    assert batch.source[:, 0].tolist() == [EOS, 5, 7]


def test_target_tokens_counts_real_ones_with_the_end_symbol(pairs: ParallelIds) -> None:
    assert collate(pairs, [0, 1, 2]).target_tokens == 8


def test_dtypes_are_int64_and_bool(pairs: ParallelIds) -> None:
    batch = collate(pairs, [0, 1])
    kinds = [batch.source.dtype, batch.target_in.dtype, batch.target_out.dtype]
    assert kinds == [torch.int64] * 3
    assert batch.source_mask.dtype == batch.target_mask.dtype == torch.bool
    assert batch.indices.dtype == torch.int64


def test_to_moves_every_tensor_but_the_indices(pairs: ParallelIds) -> None:
    moved = dict(vars(collate(pairs, [0, 1]).to("meta")))
    assert moved.pop("indices").tolist() == [0, 1]
    assert moved.pop("labels") == {}
    assert len(moved) == 6
    assert {tensor.device.type for tensor in moved.values()} == {"meta"}


def labelled(pairs: ParallelIds) -> ParallelIds:
    """Label the sources of `pairs`; the second sentence has no labels."""
    flat = np.array([3, 0, IGNORE, IGNORE, IGNORE, IGNORE], dtype=np.int8)
    return replace(pairs, labels={"pos": IdStore(flat, pairs.source.flat[1])})


def test_labels_stand_beside_the_source_and_ignore_the_padding(pairs: ParallelIds) -> None:
    batch = collate(labelled(pairs), [1, 0])
    assert batch.labels["pos"].tolist() == [[IGNORE] * 3, [3, 0, IGNORE]]
    assert batch.labels["pos"].shape == batch.source.shape
    assert batch.labels["pos"].dtype == torch.int64


@pytest.mark.parametrize("at_once", [1, 2, 100])
def test_labels_are_counted_by_sentence_however_many_at_once(
    monkeypatch: pytest.MonkeyPatch, at_once: int
) -> None:
    monkeypatch.setattr("jtrans.data.ids.SENTENCES_AT_ONCE", at_once)
    labels = store([[3, 0, IGNORE], [IGNORE], [1, 1, 1, IGNORE], [2, IGNORE], [IGNORE, 0]])
    assert labels.labelled.tolist() == [2, 0, 3, 1, 1]


def test_labels_move_with_the_batch(pairs: ParallelIds) -> None:
    assert collate(labelled(pairs), [0]).to("meta").labels["pos"].device.type == "meta"


@given(
    sentences=st.lists(st.lists(st.integers(4, 99), min_size=1, max_size=6), min_size=1),
    data=st.data(),
)
def test_sentences_of_a_split_are_padded_like_any_others(
    sentences: list[list[int]], data: st.DataObject
) -> None:
    chosen = data.draw(st.lists(st.integers(0, len(sentences) - 1), min_size=1))
    batch = collate(ParallelIds(store(sentences), store(sentences)), chosen)
    ids, mask = padded([sentences[index] for index in chosen])
    assert torch.equal(batch.source, ids)
    assert torch.equal(batch.source_mask, mask)
