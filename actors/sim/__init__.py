"""Simulated worlds: our real actors and stores on virtual time, with faults drawn from one seed.

For your own suite: `plugin` (fixtures), `world` (machines, and what can be done to them), `cluster`
(real nodes on them), `disk/` and `network/`. `scheduler` steers Trio, and `machines` has what
clusters of any mode share.

For our own histories: `running` runs a mode's `Plan` (`plan`), which is drawn from a seed. Its
script (`actions/`) and its clients (`workload`) act, `history` keeps what was observed, `judges/`
check it, `marks` count it. `classic/` and `dledger/` have what belongs to one mode, `commands/` has
the command line.
"""
