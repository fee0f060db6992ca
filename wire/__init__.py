"""Bytes <-> frozen frames of every protocol and file format. No trio, clock, randomness or I/O.

| Room       | Protocol or format                            | Open first       |
|------------|-----------------------------------------------|------------------|
| `remoting` | RocketMQ's remoting: the frame around requests | `frame`          |
| `ha`       | frames and reports, classic and with epochs   | `frames`         |
| `dledger`  | DLedger's requests, entries and files         | `rpc`, `entry`   |
| `files`    | RocketMQ's store: log, queues, index          | `commit_log`     |
| `broker`   | what brokers and name servers tell each other | `topics`         |
| `api`      | a node's API socket, which has no upstream    | `frames`         |
| `spec`     | what upstream does, as documents              | `README.md`      |

What all of them share is here: `buffer` and `crc`, and the errors, which say whose fault it is.
"""
