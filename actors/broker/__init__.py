"""A node of a classic group as a broker among others: it registers with name servers, and answers
operators' tools.

Read `registrar` first. `core/registration` decides what is sent to a name server and when,
`introspection` answers the tools, and `changed_settings` is what they change. `followed` compares a
broker with the log that a copy has.
"""
