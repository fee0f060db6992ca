"""One page for people: what the audits say, and pictures of what the nodes did.

| Module | What it does |
|---|---|
| facts | what a page shows, as plain values |
| gather | asks Spark for them: never more than a named bound of rows |
| time_axis | which stretches of time are drawn, and how wide |
| drawing, svg | matplotlib, and its pictures made fit for a page: themes, both widths |
| pictures | the pictures, one function each |
| html, page | the page, in which all that comes from logs is escaped |
| summary | the same for programs |
| making | all of it in order |

Only `gather` and `making` know Spark; only `drawing` and `pictures` know matplotlib.
"""
