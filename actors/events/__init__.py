"""What nodes say about themselves: one catalogue of event classes, and their form on disk.

Each room has a module with its events; `catalogue` finds them, `codec` writes and reads them as
lines of JSON with what stands around each, `sink` takes them as they are emitted.
`actors.storage.node.event_log` keeps them on disk.

Importing the package imports none of them: a room's own events need no codec.
"""
