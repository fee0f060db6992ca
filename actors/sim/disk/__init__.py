"""The simulated disk of one machine, as a process sees it and as a power loss leaves it.

`disk` has the files, `pages` their content, `namespace` their names, `faults` what goes wrong, and
`fence` ends a killed process's access to it.
"""

from actors.sim.disk.disk import EPOCH_MS, DiskOptions, SimDisk, SimFile

__all__ = ["EPOCH_MS", "DiskOptions", "SimDisk", "SimFile"]
