"""DLedger's bytes: requests and answers of members and clients (`rpc`), log entries (`entry`,
`scan`), and its other files (`files`, `snapshot`).
"""
