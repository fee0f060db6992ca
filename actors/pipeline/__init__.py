"""Spark over what nodes write: their event logs, and the files of their replicated logs.

| Step | Reads | Writes |
|---|---|---|
| bronze | event logs, each file once | their lines as they are, with what is known of each |
| silver | bronze | one typed table per kind of event, each event once; holes in the logs |
| gold | silver | lag, latency, elections, outages, restarts, pressure, bytes sent again |
| audit | silver, logs | for each claim whether it held, and what was looked at (`verdicts`) |
| report | gold, verdicts | one page with pictures (`report`), and all the above |

`python -m actors.pipeline` runs a step. Everything between reading and writing is a plain function
DataFrame -> DataFrame, one subject a file. `session` alone knows where Spark runs.

Importing the package imports nothing: PySpark is an extra, `pip install 'triolog[pipeline]'`.
"""
