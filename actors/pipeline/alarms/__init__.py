"""Live alarms: a stream over growing event logs that reports what is wrong while it lasts.

| File | What |
|---|---|
| event_logs | which files a node has published, and how each ends |
| reading | what a batch reads of each log, and the time that all have reached |
| facts | events -> the few facts that a rule wants, thinned |
| source | the three above as a streaming data source |
| leaders, failovers, followers | the rules, without Spark |
| doubts | what may explain an alarm instead: missing events, clocks that were set |
| processor | the rules as one stateful operator for each group, with timers |
| findings | what a rule finds |
| sink | where findings are kept, each once |
| watch | the query, and printing what it finds |

An alarm wakes somebody, the audits judge. It may compare nodes' clocks, where it says so.
"""
