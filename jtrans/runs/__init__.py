"""The run directory, whose layout is defined here alone.

config.toml          resolved: every default written out
pipeline.json        copied from the prepared corpus
target.words.gz      copied, too: how often each target word occurs in the training text
run.json             format version, data folder, fingerprints, parameters
checkpoints/step-00012000/{model.safetensors, state.safetensors, state.json, sha256.json}
checkpoints/pointers.json    names of the last and the best checkpoint, the window of the best
log.jsonl            one JSON object per logged event
translations/, analysis/     results computed from a checkpoint, cached
tensorboard/         curves for TensorBoard
reports/             figures, tables and pages
exports/             exported models, see jtrans.exports
"""

from jtrans.runs.checkpoint import OPTIMISER as OPTIMISER
from jtrans.runs.checkpoint import STATE as STATE
from jtrans.runs.checkpoint import WEIGHTS as WEIGHTS
from jtrans.runs.checkpoint import Checkpoint as Checkpoint
from jtrans.runs.checkpoint import damaged as damaged
from jtrans.runs.checkpoint import first_undamaged as first_undamaged
from jtrans.runs.checkpoint import step_name as step_name
from jtrans.runs.checkpoint_folder import WINDOW as WINDOW
from jtrans.runs.find import find_run as find_run
from jtrans.runs.find import list_runs as list_runs
from jtrans.runs.run import RUNS as RUNS
from jtrans.runs.run import Run as Run
