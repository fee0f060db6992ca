"""What has to hold in a classic group. `checkers`, `survival` and `expiry` judge each observation;
`validations`, with `derived` and `operations`, judge once the nodes have stopped.
"""
