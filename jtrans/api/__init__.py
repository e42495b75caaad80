"""The Python API: prepare a corpus, train, and load a run to translate, score and inspect.

Heavy modules are imported on first use.
"""

from jtrans.api.corpus import prepare as prepare
from jtrans.api.corpus import read_source as read_source
from jtrans.api.loaded_run import LoadedRun as LoadedRun
from jtrans.api.loaded_run import load as load
from jtrans.api.training import default_run as default_run
from jtrans.api.training import find_data as find_data
from jtrans.api.training import load_recipe as load_recipe
from jtrans.api.training import run_of_config as run_of_config
from jtrans.api.training import train as train
from jtrans.decoding.options import Constraints as Constraints
from jtrans.decoding.options import SamplingOptions as SamplingOptions
