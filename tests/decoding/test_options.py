from __future__ import annotations

import math
from typing import Any

import pytest
from plugins.random_runs import MakeRun

from jtrans.config.section import WIDEST_BEAM
from jtrans.decoding.options import DecodingChoices, SearchOptions
from jtrans.decoding.sweep import swept_searches
from jtrans.errors import CheckpointError, DecodingError
from jtrans.models.zoo import system_configs
from jtrans.runs import Run


@pytest.mark.parametrize(
    ("rule", "source", "limit"),
    [
        ("S+50", 7, 57),
        ("60", 7, 60),
        ("2S+10", 7, 24),
        ("2*S+10", 7, 24),
        ("1.5 * S + 3", 7, 13),
        ("S", 7, 7),
        ("0.1S", 3, 2),  # a token and </s>
        ("0.1S", 50, 5),
        ("1.4*S", 45, 63),  # 62.99999999999999 in binary numbers
        ("0.7*S", 90, 63),
    ],
)
def test_length_limits_are_numbers_or_formulas_of_the_source(
    rule: str, source: int, limit: int
) -> None:
    assert SearchOptions(max_length=rule).limit(source) == limit


def test_translations_that_may_be_empty_may_be_limited_to_their_end() -> None:
    assert SearchOptions(max_length="0.1S", min_length=0).limit(3) == 1
    assert SearchOptions(max_length="1", min_length=0).limit(3) == 1


@pytest.mark.parametrize("rule", ["", "many", "S-5", "T+5", "2S10", "0", "-3", "S+", "0*S"])
def test_other_length_limits_are_refused(rule: str) -> None:
    with pytest.raises(DecodingError, match="length limit"):
        SearchOptions(max_length=rule)


@pytest.mark.parametrize(
    "values",
    [
        {"beam": 0},
        {"beam": 201},
        {"beam": 200, "nbest": 201},
        {"nbest": 6},
        {"nbest": 0},
        {"length_penalty": math.nan},
        {"length_penalty": math.inf},
        {"length_penalty_form": "gnmd"},
        {"min_length": -1},
        {"min_length": 7, "max_length": "7"},
        {"max_length": "1"},  # only </s>
    ],
)
def test_impossible_options_are_refused_with_a_hint(values: dict[str, Any]) -> None:
    with pytest.raises(DecodingError) as caught:
        SearchOptions(**values)
    assert caught.value.hint


def test_the_widest_beam_is_named_and_can_be_used() -> None:
    assert SearchOptions(beam=WIDEST_BEAM, nbest=WIDEST_BEAM).beam == WIDEST_BEAM
    with pytest.raises(DecodingError, match="beam 50,000 is more than 200"):
        SearchOptions(beam=50_000)
    with pytest.raises(DecodingError) as caught:
        SearchOptions(nbest=500)
    assert str(caught.value.hint).endswith("--beam 200 is the widest")


def test_both_forms_of_the_length_penalty_count_the_end_symbol() -> None:
    assert SearchOptions(length_penalty=0.5).normalise(-6.0, 4) == pytest.approx(-3.0)
    gnmt = SearchOptions(length_penalty=0.5, length_penalty_form="gnmt")
    assert gnmt.normalise(-6.0, 19) == pytest.approx(-3.0)


def test_what_a_user_chooses_replaces_the_runs_own_settings(make_run: MakeRun) -> None:
    run = Run.open(make_run(config={"decoding": {"beam": 3, "max_length": "20"}}))
    assert DecodingChoices().search_options(run) == SearchOptions(beam=3, max_length="20")
    choices = DecodingChoices(search={"beam": 7, "max_length": None})
    assert choices.search_options(run) == SearchOptions(beam=7, max_length="20")
    assert SearchOptions.from_config(run.config(system_configs()), beam=1).beam == 1


def test_a_sweep_searches_with_every_combination_of_its_values() -> None:
    others = {"max_length": "9", "beam": None, "length_penalty": None}
    sweeps = ["beam=1, 5", "length-penalty=0.6,1"]
    searches = swept_searches(sweeps, DecodingChoices(device="cpu", search=others))
    assert {label: (each.device, each.search) for label, each in searches.items()} == {
        f"beam={beam} length-penalty={penalty}": (
            "cpu",
            {"max_length": "9", "beam": beam, "length_penalty": float(penalty)},
        )
        for beam in (1, 5)
        for penalty in ("0.6", "1")
    }


def test_impossible_choices_are_refused_before_a_model_is_loaded(make_run: MakeRun) -> None:
    run = Run.open(make_run())
    DecodingChoices().check([run])
    with pytest.raises(DecodingError, match="beam 0"):
        DecodingChoices(search={"beam": 0}).check([run])
    with pytest.raises(CheckpointError, match="no checkpoint 7"):
        DecodingChoices("7").check([run])
