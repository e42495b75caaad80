"""Options that several commands share: groups of them as one parameter."""

from __future__ import annotations

import inspect
from typing import Any

from jtrans.cli.options import argument, grouped, option, option_group


@option_group
class Fruit:
    """A group of options."""

    name: str = argument("NAME", "Which.")
    weight: int = option("In grams.", default=3)
    colour: str = option("Of the skin.", default="red")


def _command(without: tuple[str, ...] = ()) -> tuple[Any, list[Any]]:
    calls: list[Any] = []

    @grouped(without=without)
    def eat(fruit: Fruit, *, slowly: bool = False) -> None:
        """Eat something."""
        calls.append((fruit, slowly))

    return eat, calls


def test_a_group_becomes_one_option_a_field() -> None:
    eat, calls = _command()
    assert (eat.__name__, eat.__doc__) == ("eat", "Eat something.")
    assert [*inspect.signature(eat).parameters] == ["name", "weight", "colour", "slowly"]
    eat(name="apple", weight=5, colour="green", slowly=True)
    assert calls == [(Fruit("apple", 5, "green"), True)]


def test_options_left_out_have_their_default() -> None:
    eat, calls = _command(without=("weight", "colour"))
    assert [*inspect.signature(eat).parameters] == ["name", "slowly"]
    eat(name="apple", slowly=False)
    assert calls == [(Fruit("apple", 3, "red"), False)]
