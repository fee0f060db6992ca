"""The simulated network: `network` has hosts, what breaks between them, and what a process on one
sees; `connection` is one TCP connection, `links` what its packets travel on.
"""

from actors.sim.network.links import NetworkOptions
from actors.sim.network.network import SimNetwork

__all__ = ["NetworkOptions", "SimNetwork"]
