"""A node of a classic group as a broker among others: it registers with name servers.

Open `registrar` first; `core/registration` decides what a name server is told, and when.
"""
