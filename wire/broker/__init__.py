"""What brokers and name servers ask each other, and keep in config/.

Open `topics` first; `java_json` is how all of their documents are read and written.
"""
