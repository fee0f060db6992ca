"""The files of a store and the actors that own them: commit log, consume queues, index, identity.

Plain classes work on the `Disk` protocol and never yield; `store`, `syncer` and `dispatcher` are
their only owners.
"""
