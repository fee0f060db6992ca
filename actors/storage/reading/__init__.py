"""Reading a group's log up to what is acknowledged.

`pull_service` answers the readers of a classic group and holds those who wait; `pull_messages` are
what readers ask in either mode, and `records` makes of a log's bytes what they get. Who may read,
and up to where, is not decided here.
"""
