"""Who takes appends, as the members of a group settle it among themselves, and how they ask.

`promotion` carries an operator's promotion out; `members` asks the members of one group single
questions. `member_link` and `durability_watch` are a node's standing connections to another one's
API; `member_session` opens one. What a node decides about its own role is in `actors.ha`.
"""
