"""What a node keeps beside its groups' stores.

`identity` is `identity.json`: whose directory it is, how often it was started, and what it must not
forget. `event_log` is the actor that keeps events,
`event_files` are its files, and `event_reader` reads them back. Open `identity` first.
"""
