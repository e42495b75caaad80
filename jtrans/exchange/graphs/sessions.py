"""Exported graphs, run by onnxruntime."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from jtrans.data.batch import Ids
from jtrans.decoding.options import SearchOptions
from jtrans.decoding.search.trace import Hypothesis
from jtrans.exports import import_extra
from jtrans.text.vocabulary import EOS, PAD, SPARE

Array = NDArray[Any]
State = dict[str, Array]


@dataclass(frozen=True, eq=False)
class Graphs:
    """The two graphs of an export."""

    sessions: Mapping[str, Any]  # onnxruntime's, by the names of the graphs
    state: Sequence[Mapping[str, Any]]  # the tensors of the state, as in export.json
    longest: int  # the most tokens of a sentence

    @classmethod
    def load(cls, folder: Path, facts: Mapping[str, Any], *, threads: int = 1) -> Graphs:
        """Load the graphs in a folder.

        Args:
            folder: the folder of the export.
            facts: the contents of its export.json.
            threads: number of threads.

        Raises:
            ConfigError: onnxruntime is not installed.
        """
        onnxruntime = import_extra("onnxruntime", "onnx")
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = threads
        options.log_severity_level = 4  # errors are raised and need not be logged, too
        sessions = {
            name: onnxruntime.InferenceSession(
                str(folder / f"{name}.onnx"), options, providers=["CPUExecutionProvider"]
            )
            for name in ("start", "step")
        }
        return cls(sessions, facts["state"], facts["longest"])

    def start(self, source: Array) -> tuple[Array, State]:
        """Return log-probabilities of the first token, [N, V], and the state, from ids [N, S]."""
        log_probs, *state = self.sessions["start"].run(None, {"source": source})
        return log_probs, dict(zip((each["name"] for each in self.state), state, strict=True))

    def step(self, token: Array, position: int, state: State) -> tuple[Array, State]:
        """Read `token` of each hypothesis, [N], after `position` others; return as `start` does."""
        inputs = {"token": token, "position": np.array(position), **state}
        log_probs, *changed = self.sessions["step"].run(None, inputs)
        names = (each["name"] for each in self.state if each["changes"])
        return log_probs, state | dict(zip(names, changed, strict=True))

    def select(self, state: State, rows: Array) -> State:
        """Return the state of some hypotheses, `rows`."""
        return {
            each["name"]: np.take(state[each["name"]], rows, axis=each["hypotheses_axis"])
            for each in self.state
        }

    def greedy(self, sources: Sequence[Ids], options: SearchOptions) -> list[Hypothesis]:
        """Translate a batch of sentences, always choosing the most probable token."""
        limits = np.array([options.limit(len(source), [self]) for source in sources])
        longest = max(map(len, sources))
        padded = [[*source, *[PAD] * (longest - len(source))] for source in sources]
        tokens: list[list[int]] = [[] for _ in sources]
        log_probs: list[list[float]] = [[] for _ in sources]
        active = np.arange(len(sources))
        scores, state = self.start(np.array(padded, dtype=np.int64))
        for position in range(1, int(limits.max()) + 1):
            scores[:, [PAD, SPARE]] = -np.inf
            scores[:, EOS] = np.where(position <= options.min_length, -np.inf, scores[:, EOS])
            best = np.where(position >= limits[active], EOS, scores.argmax(axis=1))
            for row, token, score in zip(active, best, scores, strict=True):
                tokens[row].append(int(token))
                log_probs[row].append(float(score[token]))
            going = np.flatnonzero(best != EOS)
            if not len(going):
                break
            if len(going) < len(active):
                active, state = active[going], self.select(state, going)
            scores, state = self.step(best[going], position, state)
        return [Hypothesis.of(*each, options) for each in zip(tokens, log_probs, strict=True)]
