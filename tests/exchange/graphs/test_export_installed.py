"""What docs/adding-a-system.md says about graphs: sizes from shapes, and a counter by its name."""

from __future__ import annotations

import pytest
from plugins.installed_systems import BringSystem, changed, documented_system
from plugins.random_runs import MakeRun

from jtrans.errors import ConfigError
from jtrans.exchange.graphs.export import export_to_onnx
from jtrans.runs import Run

pytest.importorskip("onnxruntime")
pytest.importorskip("onnx")

# What a GRU returns, without a loop: graphs have none.
SUMS = """
class Sums(nn.Module):
    def forward(self, x, hidden=None):
        states = x.cumsum(1) + (0 if hidden is None else hidden[0][:, None])
        return states, states[:, -1][None]


class MineConfig(
"""
# Positions, which a state counts under a name.
STEP = "hidden, _, state.hidden = self.read(token[:, None], state.memory, state.hidden"
READ = "memory, hidden=None"
COUNTING = {
    "hidden: torch.Tensor | None": "hidden: torch.Tensor | None\n    length: int = 0",
    "self.hidden[:, rows])": "self.hidden[:, rows], self.length)",
    f"        {STEP})": f"        state.length = state.length + 1\n        {STEP}, state.length)",
    f"{READ}):": f"{READ}, start=1):\n        places = torch.arange(target.shape[1]) + start",
    "self.dropout(self.target(target))": "self.target(target) + places.float().sin()[:, None]",
}


def without_loops() -> str:
    """Return the system of the page with sums in place of its recurrent layers."""
    source = documented_system().replace("nn.GRU(E, E, batch_first=True)", "Sums()")
    return source.replace("class MineConfig(", SUMS.strip(), 1)


def counting() -> str:
    """Return the same, with a counter of the tokens read in its state."""
    return changed(without_loops(), *COUNTING.items())


def export(source: str, bring_system: BringSystem, make_run: MakeRun) -> None:
    """Export a run of a system; the graphs are compared with it."""
    bring_system(source)
    run = Run.open(make_run("mine", config={"model": {"system": "mine", "width": 8}}))
    export_to_onnx(run, run.folder / "out")


@pytest.mark.parametrize("source", [without_loops(), counting()], ids=["page", "counter"])
def test_the_methods_of_the_page_can_be_exported(
    source: str, bring_system: BringSystem, make_run: MakeRun
) -> None:
    export(source, bring_system, make_run)


@pytest.mark.parametrize(
    ("source", "fault"),
    [
        (changed(without_loops(), ("memory.mask.shape[0]", "len(memory.mask)")), "are wrong"),
        (counting().replace("length", "count"), ""),
        (changed(counting(), ("places.float().sin()", "places.sin()")), "cannot be loaded"),
    ],
    ids=["size by len", "counter of another name", "sine of integers"],
)
def test_graphs_that_differ_from_the_system_are_refused(
    source: str, fault: str, bring_system: BringSystem, make_run: MakeRun
) -> None:
    with pytest.raises(ConfigError, match=f"mine cannot be exported to ONNX: its graphs {fault}"):
        export(source, bring_system, make_run)
