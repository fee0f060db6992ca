"""Gold: what a person asks of a day. One subject a file, each a function of silver's events.

None of these tables is a verdict. Those that set the events of several nodes side by side say so:
then they compare the nodes' clocks, which the audits never do.
"""
