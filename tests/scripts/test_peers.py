"""The toolkits compared with jtrans, each where it is installed: do they do the same work?"""

import importlib.util

import pytest
import torch

from jtrans.data.batch import Batch, padded
from jtrans.text.vocabulary import EOS
from scripts.bench.peers.base import SIZES, STEPS, Peer
from scripts.bench.peers.installed import PEERS

V = 40
SOURCES = [[5, 6, 7, EOS], [20, 30, EOS]]
TARGETS = [[8, EOS], [9, 10, 11, 12, EOS]]


@pytest.fixture(params=PEERS, ids=lambda peer: peer.name)
def peer(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Peer:
    if importlib.util.find_spec(request.param.package) is None:
        pytest.skip(f"{request.param.name} is not installed")
    for name, value in {"width": 16, "ffn_width": 32, "heads": 2, "layers": 1}.items():
        monkeypatch.setitem(SIZES, name, value)
    toolkit: Peer = request.param(V)
    return toolkit


def test_every_translation_has_all_steps_and_is_its_own_in_a_batch(peer: Peer) -> None:
    peer.model.eval()
    with torch.inference_mode():
        together = peer.search(SOURCES)
        alone = [peer.search([source])[0] for source in SOURCES]
    assert together == alone
    for translation in together:
        assert len(translation) == STEPS
        assert EOS not in translation[:-1]


def test_the_loss_is_a_mean_over_real_tokens_that_reaches_the_weights(peer: Peer) -> None:
    loss = peer.loss(batch_of(SOURCES, TARGETS))
    loss.backward()
    assert loss.shape == ()
    assert 1.0 < float(loss) < 10.0  # log V is 3.7
    trained = [weight for weight in peer.model.parameters() if weight.grad is not None]
    assert sum(weight.numel() for weight in trained) > V * 16


def batch_of(sources: list[list[int]], targets: list[list[int]]) -> Batch:
    (source, source_mask), (target, target_mask) = padded(sources), padded(targets)
    target_in = torch.cat([torch.full_like(target[:, :1], EOS), target[:, :-1]], 1) * target_mask
    return Batch(source, source_mask, target_in, target, target_mask, torch.arange(len(sources)))
