"""`jtrans scale`."""

from __future__ import annotations

import json

import pytest
from plugins.command_line import Jtrans

PUBLISHED = ("--from-losses", 1.6, 1.58937, 1.58931, "--layers", 5, "--width-ratio", 4)


def test_the_published_losses_give_the_published_sizes(jtrans: Jtrans) -> None:
    result = jtrans("scale", *PUBLISHED, "--ratio", 2, "--json")
    value = json.loads(result.out)
    assert value["rounded"] == {"layers": 2, "width": 2}
    assert value["exact"]["layers"] == pytest.approx(2.25613, abs=1e-4)
    assert value["ratio"]["realised"] == pytest.approx(1.8667, abs=1e-4)


def test_the_table_names_sizes_and_the_realised_ratio(jtrans: Jtrans) -> None:
    result = jtrans("scale", *PUBLISHED)
    rows = {line.split("  ")[0]: line.split() for line in result.out.splitlines()}
    assert rows["layers"][1:] == ["5", "7.256", "7", "+2"]
    assert rows["F / E"][3:] == ["4", "6.269", "6", "+50", "%", "of", "F"]
    assert rows["parameters of the layers"][-1] == "1.867"


@pytest.mark.parametrize(
    "arguments",
    [
        ("--from-losses", 1.6, 1.6, 1.6, "--layers", 5, "--width-ratio", 4),
        ("--from-losses", 1.6, 1.7, 1.8, "--layers", 5, "--width-ratio", 4),
        ("--from-losses", "nan", 1.5, 1.5, "--layers", 5, "--width-ratio", 4),
        (*PUBLISHED, "--ratio", 0.5),
        (*PUBLISHED, "--step", 0),
        ("--from-losses", 1.6, 1.5, 1.5, "--layers", 5, "--width-ratio", 0),
        ("--from-losses", 1.6, 1.5, 1.5, "--layers", 5),
        ("--from-losses", 1.6, 1.5),
        (),
    ],
)
def test_losses_that_cannot_be_used_are_refused_in_one_paragraph(
    jtrans: Jtrans, arguments: tuple[object, ...]
) -> None:
    result = jtrans("scale", *arguments)
    assert result.code == 2
    assert result.out == ""
    assert [line.split(":")[0] for line in result.err.splitlines()] == ["error", "hint"]


def test_a_ratio_too_small_for_a_layer_says_so(jtrans: Jtrans) -> None:
    result = jtrans("scale", *PUBLISHED, "--ratio", 1.01)
    assert result.code == 0
    assert "stays as it is" in result.err
