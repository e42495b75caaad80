"""The typed configuration: its schema, loading, and error messages."""

from jtrans.config.faults import explain_fault as explain_fault
from jtrans.config.faults import fault_in_file as fault_in_file
from jtrans.config.load import RECIPES as RECIPES
from jtrans.config.load import build_config as build_config
from jtrans.config.load import find_config as find_config
from jtrans.config.load import key_lines as key_lines
from jtrans.config.load import load_config as load_config
from jtrans.config.load import recipe_names as recipe_names
from jtrans.config.load import set_values as set_values
from jtrans.config.scalable import LayerStack as LayerStack
from jtrans.config.scalable import ScalableSizes as ScalableSizes
from jtrans.config.schema import Config as Config
from jtrans.config.schema import SystemConfig as SystemConfig
from jtrans.config.section import ConfigSection as ConfigSection
from jtrans.config.section import Count as Count
from jtrans.config.section import CountOrZero as CountOrZero
from jtrans.config.section import Rate as Rate
from jtrans.config.training import InitialWeights as InitialWeights
from jtrans.config.training import KeepConfig as KeepConfig
from jtrans.config.training import ScheduleConfig as ScheduleConfig
from jtrans.config.training import TrainingConfig as TrainingConfig
