"""The fixtures of `actors.sim.plugin` for this folder, without its part in every other report."""

from actors.sim.plugin import cluster as cluster
from actors.sim.plugin import cluster_config as cluster_config
from actors.sim.plugin import pytest_collection_modifyitems as pytest_collection_modifyitems
from actors.sim.plugin import world as world
from actors.sim.plugin import world_seed as world_seed
