"""The control plane: promotions, and the connections over which members ask each other.

`promotion` carries out an operator's promotion. `member_link` is a node's one connection to another
node's API, and `member_session` opens it. `members` has the questions that are asked over it, and
makes the members of a classic group the `RoleAuthority` of its role keepers. `durability_watch`
asks over it whether another member counts what is not on its disk. What a node decides about its
own role is in `actors.ha`.
"""
