"""A node of a classic group as a broker among others: it registers with name servers, and says how
it is.

Open `registrar` first; `core/registration` decides what a name server is told, and when.
`introspection` is what operators' tools are told.
"""
