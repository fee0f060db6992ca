"""The simulated network: `network` has hosts, the faults between them, and the view of a process on
one; `connection` is one TCP connection, and `links` what its packets travel on.
"""

from actors.sim.network.links import NetworkOptions
from actors.sim.network.network import SimNetwork

__all__ = ["NetworkOptions", "SimNetwork"]
