"""The toolkits that are compared, and which of them are installed.

A toolkit is left out of a benchmark if its package is missing. Most of them ask for other versions
of torch than jtrans; the code that is compared runs with its version all the same:

    pip install transformers
    pip install --no-deps OpenNMT-py eole joeynmt sockeye      # and what their imports then lack

fairseq cannot be built with new versions of Python; its unpacked source on PYTHONPATH suffices,
with omegaconf 2.0.6, hydra-core 1.0.7 and antlr4-python3-runtime 4.8.
"""

from __future__ import annotations

import importlib.metadata
import importlib.util

from scripts.bench.peers.base import Peer
from scripts.bench.peers.eole import Eole
from scripts.bench.peers.fairseq import Fairseq
from scripts.bench.peers.joeynmt import JoeyNmt
from scripts.bench.peers.marian import Marian
from scripts.bench.peers.opennmt import OpenNmt
from scripts.bench.peers.sockeye import Sockeye

PEERS: tuple[type[Peer], ...] = (Marian, OpenNmt, Eole, JoeyNmt, Sockeye, Fairseq)


def installed() -> list[type[Peer]]:
    """Return the toolkits that are installed."""
    return [peer for peer in PEERS if importlib.util.find_spec(peer.package) is not None]


def versions() -> dict[str, str]:
    """Return the version of every toolkit that is installed, by its name."""
    return {peer.name: importlib.metadata.version(peer.distribution) for peer in installed()}
