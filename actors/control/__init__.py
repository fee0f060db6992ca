"""Who takes appends, as the members of a group settle it among themselves, and how they ask.

`promotion` carries an operator's promotion out. `member_link` is a node's one connection to another
one's API, whose opening is in `member_session`; `members` is what is asked over it, and makes the
members of a classic group the `RoleAuthority` of its role keepers; `durability_watch` looks over it
at what another member counts. What a node decides about its own role is in `actors.ha`.
"""
