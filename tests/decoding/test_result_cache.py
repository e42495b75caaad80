"""The result cache: what counts as the same result, and that older files are still found."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from plugins.random_runs import MakeRun

from jtrans.decoding.options import SearchOptions
from jtrans.decoding.result_cache import CachedResult, cached_measurement, cached_translations
from jtrans.files import file_digest
from jtrans.progress import Silent
from jtrans.runs import Run

SOURCE = ["ein mann liest .", "größe"]


class Heard(Silent):
    def __init__(self) -> None:
        self.warnings: list[str] = []

    def warn(self, text: str) -> None:
        self.warnings.append(text)


@pytest.fixture
def run(make_run: MakeRun) -> Run:
    return Run.open(make_run())


def _translations(run: Run, **options: Any) -> CachedResult:
    search = SearchOptions(**options)
    return cached_translations(run, run.checkpoint(), "test", SOURCE, search, "auto")


def _measurement(run: Run, **options: Any) -> CachedResult:
    text = [SOURCE, SOURCE]
    return cached_measurement(run, run.checkpoint(), "test", "forced", text, **options)


def test_files_have_these_names_and_identities(run: Run) -> None:
    # written out as earlier versions made them: whoever changes one of these loses all caches
    translations = _translations(run)
    assert translations.path == run.folder / "translations/test.step-00000010.5cfb3e93.json"
    assert translations.identity == {
        "format": 2,
        "split": "test",
        "checkpoint": "step-00000010",
        "weights_sha256": file_digest(run.checkpoint().weights),
        "source_sha256": "b47c52be6cd653a8336ad29c9612a21642d779af5f12fba4af50222093943625",
        "options": {
            "beam": 5,
            "length_penalty": 1.0,
            "length_penalty_form": "power",
            "max_length": "S+50",
            "nbest": 1,
            "min_length": 1,
        },
        "precision": "auto",
    }
    measurement = _measurement(run, precision="auto")
    assert measurement.path == run.folder / "analysis/test.step-00000010.forced.272f65a0.npz"
    assert measurement.identity == {
        "format": 1,
        "what": "forced",
        "split": "test",
        "checkpoint": "step-00000010",
        "weights_sha256": file_digest(run.checkpoint().weights),
        "pipeline": run.pipeline.fingerprint(),
        "text_sha256": "0d3f6cf5200224bec444f7198b7bac432cbc18946d30be668ce5721ae9ce9ea8",
        "options": {"precision": "auto"},
    }


def test_content_is_read_as_it_was_written(run: Run) -> None:
    translations, measurement = _translations(run), _measurement(run)
    assert translations.read() is None
    assert measurement.read() is None
    translations.write({"lines": ["a", "ß"], "seconds": 0.1}, Silent())
    measurement.write({"hits": np.array([True, False])}, Silent())
    assert _translations(run).read() == {"lines": ["a", "ß"], "seconds": 0.1}
    arrays = _measurement(run).read()
    assert arrays is not None
    assert arrays["hits"].tolist() == [True, False]
    assert list(arrays) == ["hits"]


def test_translations_of_another_text_have_a_file_of_their_own(run: Run) -> None:
    other = cached_translations(run, run.checkpoint(), "test", ["another"], SearchOptions(), "auto")
    assert other.path != _translations(run).path


def test_other_options_have_a_file_of_their_own(run: Run) -> None:
    options: list[dict[str, Any]] = [{}, {"beam": 2}, {"length_penalty": 0.6}, {"max_repeats": 3}]
    options += [{"stopping": "bound"}, {"no_repeat_ngram": 3}, {"diverse_groups": 5}]
    options += [{"diverse_groups": 5, "diversity": 0.2}]
    assert len({_translations(run, **each).path for each in options}) == len(options)
    assert _translations(run, beam=5, nbest=3).path == _translations(run).path
    assert _measurement(run, layer=1).path != _measurement(run).path


@pytest.mark.parametrize("content", ["", "[1]", "{", '{"format": 1}', "\xff"])
def test_a_damaged_file_is_a_missing_one(run: Run, content: str) -> None:
    for result in (_translations(run), _measurement(run)):
        result.path.parent.mkdir(exist_ok=True)
        result.path.write_bytes(content.encode("latin-1"))
        assert result.read() is None


def test_a_result_of_another_identity_is_not_read(run: Run) -> None:
    for result in (_translations(run), _measurement(run)):
        result.write({"values": np.zeros(2).tolist()}, Silent())
        other = CachedResult(result.path, {**result.identity, "format": 99})
        assert result.read() is not None
        assert other.read() is None


def test_a_run_that_cannot_be_written_is_only_warned_about(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("", encoding="utf-8")
    heard = Heard()
    for name in ("a.json", "a.npz"):
        CachedResult(tmp_path / "file" / name, {}).write({}, heard)
    assert len(heard.warnings) == 2
    assert all("could not be cached" in text for text in heard.warnings)
