"""The files of an analysis, written anew or left alone."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from jtrans.analysis.figures.results import Figure, Series
from jtrans.analysis.output import files

FIGURE = Figure(
    "length", "title", "question", "x", "y", ["1", "2"], [3, 4],
    [Series("a", [0.5, 0.25], [0.4, 0.2], [0.6, 0.3])],
)  # fmt: skip


@pytest.mark.usefixtures("placeholder_pictures")
def test_numbers_of_a_figure_that_was_not_drawn_do_not_count_as_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files.write_results([FIGURE], tmp_path)
    assert files.is_written(FIGURE, tmp_path)
    other = replace(FIGURE, series=[replace(FIGURE.series[0], values=[0.45, 0.25])])

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(files, "draw", interrupt)
        files.write_results([other], tmp_path)
    assert not files.is_written(other, tmp_path)
    files.write_results([other], tmp_path)
    assert files.is_written(other, tmp_path)
