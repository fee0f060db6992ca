"""The decisions of a broker's registration, without Trio, clock or I/O: see `registration`."""
