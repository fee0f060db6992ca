"""RocketMQ's remoting as actors use it, whatever the requests mean.

Open `requests` first: what a port does with a request. `server` listens and has a `connection`
serve each stream; `client` calls, over one connection of `calling` for each address. Below them:
frames of one connection (`stream`), calls that wait for answers (`open_calls`), what the
connections at a port may hold together (`budget`), and where they wait while too many come
(`lobby`).
"""
