"""A node as a broker among others: it registers with name servers, answers operators' tools, and
in an auto-switch group is a replica before its controllers.

Read `registrar` first. `core/registration` decides what is sent to a name server and when,
`introspection` answers the tools, and `changed_settings` is what they change. `followed` compares a
broker with the log that a copy has.

Of replicas: `core/replica` decides what controllers are asked and when, `replicas_manager` does it,
`replica_wishes` has what a master and operators want of them, and `replica_port` what a replica
answers at its broker's port.
"""
