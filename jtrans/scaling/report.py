"""The files of a scaling: the scaled recipe, a page, a picture, and all numbers as JSON."""

from __future__ import annotations

import contextlib
import re
from pathlib import Path
from typing import Any

from markupsafe import Markup

from jtrans.analysis.report.pages import render
from jtrans.config import Config
from jtrans.errors import JtransError, usage_error
from jtrans.files import file_digest, read_json, text_digest, write_json, write_text
from jtrans.scaling.drawing import draw
from jtrans.scaling.experiment import ModelRuns
from jtrans.scaling.result import ScalingResult
from jtrans.scaling.sizes import ffn_width, layer_counts, width_ratio

PAGE, NUMBERS, RECIPE, PICTURE = "scale.html", "scale.json", "scaled.toml", "scale"
DIGEST = "recipe_sha256"  # the key in NUMBERS of the recipe's digest, to recognise it later
# parts of an SVG file that have no place within a page
_SURPLUS = re.compile(r"^.*?(?=<svg)|<metadata>.*?</metadata>", re.DOTALL)


def write_recipe(folder: Path, name: str, base: Config, scaled: Config, ratio: float) -> Path:
    """Write the scaled recipe of `name` for `jtrans train`; return the file."""
    write_text(folder / RECIPE, recipe_text(name, base, scaled, ratio))
    return folder / RECIPE


def recipe_text(name: str, base: Config, scaled: Config, ratio: float) -> str:
    """Return the scaled recipe of `name`."""
    note = f"{ratio:.3f} times the parameters of its layers: {summary(base, scaled)}"
    return f"# {name} scaled to {note}.\n\n{scaled.to_toml()}"


def check_recipe(folder: Path) -> None:
    """Refuse to replace a recipe that `jtrans scale` did not write, or that was edited since.

    Earlier versions kept no digest: their recipes count as unchanged.

    Raises:
        JtransError: naming the recipe.
    """
    path, numbers = folder / RECIPE, None
    if not path.is_file():
        return
    with contextlib.suppress(JtransError):
        numbers = read_json(folder / NUMBERS)
    own = file_digest(path)
    if not isinstance(numbers, dict) or numbers.get(DIGEST, own) != own:
        raise another_recipe(path, "rename it, or delete it")


def another_recipe(path: Path, hint: str, where: str | None = None) -> JtransError:
    """Return the error for a recipe that is not the one to be replaced."""
    return usage_error(f"{path} is another recipe, which would be overwritten", hint, where=where)


def write_report(result: ScalingResult) -> Path:
    """Write page, picture and numbers into the folder of the plan; return the page's path."""
    out, plan = result.plan.out, result.plan
    picture = draw(result, out / PICTURE)[0]
    recipe = recipe_text(plan.recipe, plan.config, result.scaled_config, result.scaling.realised)
    write_json(out / NUMBERS, result.to_json() | {DIGEST: text_digest(recipe)})
    write_text(out / PAGE, page(result, picture.read_text(encoding="utf-8")))
    return out / PAGE


def summary(base: Config, scaled: Config) -> str:
    """Return the sizes before and after in a few words."""
    before, after = ({**layer_counts(config), "F": ffn_width(config)} for config in (base, scaled))
    return ", ".join(
        f"{key} {old:,}" + ("" if after[key] == old else f" → {after[key]:,}")
        for key, old in before.items()
    )


def page(result: ScalingResult, picture: str) -> str:
    """Return the page as HTML."""
    plan, scaled = result.plan, result.scaled_config
    return render(
        "scaling.html",
        result=result,
        plan=plan,
        scaling=result.scaling,
        summary=summary(plan.config, scaled),
        stacks=list(layer_counts(plan.config)),
        width_ratio=width_ratio(plan.config),
        models=[_model(model) for model in result.runs],
        scaled_sizes=[*layer_counts(scaled).values(), ffn_width(scaled)],
        spreads=[("depth", result.depth), ("width F/E", result.width)],
        estimates=list(result.estimates.items()),
        picture=Markup(_SURPLUS.sub("", picture)),
        duration=duration,
    )


def _model(model: ModelRuns) -> dict[str, Any]:
    losses, minutes = list(model.losses.values()), list(model.minutes.values())
    return {
        "name": model.name,
        "sizes": [*model.layers.values(), model.ffn_width],
        "ratio": model.ratio,
        "parameters": model.parameters,
        "loss": model.loss,
        "losses": losses,
        "updates": sum(model.updates.values()) // len(model.updates),
        "minutes": sum(minutes) / len(minutes),
    }


def duration(seconds: float | None) -> str:
    """Return a time in words: 40 s, 12 min, 3.5 h."""
    if seconds is None:
        return "–"
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"
