"""Reads a RocketMQ commit log folder with the standard library alone, to judge what ours wrote.

    python tests/plain_reader.py FOLDER/commitlog [TOPIC]     prints each record's body as one line

It shares no code with the project. Every record's CRC, own offset and place in its
queue are checked.
"""

import pathlib
import struct
import sys
import zlib


def bodies(folder, topic=None):
    queues = {}
    for file in sorted(pathlib.Path(folder).glob("[0-9]" * 20)):
        data, start, at = file.read_bytes(), int(file.name), 0
        while at + 8 <= len(data):
            size, magic = struct.unpack_from(">iI", data, at)
            if magic == 0xCBD43194:  # the file's unused rest
                break
            if size == 0 and magic == 0:  # never written: the end of the log
                return
            if magic != 0xDAA320A7:
                raise SystemExit(f"{file.name}: no record at {at}: magic {magic:08x}")
            crc, queue, _, number, offset = struct.unpack_from(">IiiqQ", data, at + 8)
            (flags,) = struct.unpack_from(">i", data, at + 36)
            where = at + 84 + (12 if flags & 0x10 else 0) + (12 if flags & 0x20 else 0)
            (length,) = struct.unpack_from(">i", data, where)
            body = data[where + 4 : where + 4 + length]
            name_size = data[where + 4 + length]
            name = data[where + 5 + length : where + 5 + length + name_size].decode()
            if zlib.crc32(body) & 0x7FFFFFFF != crc or offset != start + at:
                raise SystemExit(f"{file.name}: damaged record at {at}")
            if queues.get((name, queue), number) != number:
                raise SystemExit(f"{file.name}: {name}/{queue} skips to {number} at {at}")
            queues[name, queue] = number + 1
            if topic in (None, name):
                yield body
            at += size


if __name__ == "__main__":
    for body in bodies(*sys.argv[1:]):
        sys.stdout.buffer.write(body + b"\n")
