"""The controller: who is master of which broker set, and which replicas hold all of its log.

`core` decides; open `broker_sets` first. `machine` is what a DLedger group of controllers runs,
`controller` the actor that answers brokers, `session` what the controllers' port serves. A cluster
file's `[controllers]` puts them into nodes.
"""
