"""Simulated worlds: our real actors and stores on virtual time, with faults drawn from one seed.

For your own suite: `plugin` (fixtures), `world` (machines, and what is done to them), `cluster`
(real nodes on them), `disk/` and `network/`. `scheduler` steers Trio, `machines` is what clusters
of any mode share.

Our own histories: a mode's `Plan` (`plan`) is drawn from a seed and run by `running`. Its script
(`actions/`) and its clients (`workload`) act, `history` keeps what was seen, `judges/` object to
it, `marks` count it. `classic/` and `dledger/` have what belongs to one mode, `commands/` the
command line.
"""
