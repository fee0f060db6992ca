"""The requests between brokers and name servers, and the files that they keep in config/.

Open `topics` first; `java_json` is how all of their documents are read and written.
"""
