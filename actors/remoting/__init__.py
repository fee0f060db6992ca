"""RocketMQ's remoting as actors use it, whatever the requests mean: frames of one connection
(`stream`), calls that wait for answers (`open_calls`), what the connections at a port may hold
together (`budget`), and where they wait while too many come (`lobby`).
"""
