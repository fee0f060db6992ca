"""What has to hold in a classic group: `checkers`, `survival` and `expiry` at each observation,
`validations`, with `derived` and `operations`, once the nodes have stopped.
"""
