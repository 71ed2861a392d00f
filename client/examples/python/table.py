# SPDX-License-Identifier: Apache-2.0
"""A table of word counts over any number of servers with plain grpcio, beside trainer.py:

    ./run_table.sh HOST:PORT[,HOST:PORT...] < TEXT

docs/wire.md, "Tables", says what is sent: keys of 8 bytes, then rows.
"""
from __future__ import annotations

import hashlib
import struct
import sys

from pserver.v1 import optimizer_config_pb2 as rules
from pserver.v1 import pserver_pb2 as ps
from trainer import Job

MASK = 2 ** 64 - 1


def key_of(word: str) -> int:
    """Any 64 bits will do."""
    return int.from_bytes(hashlib.blake2b(word.encode(), digest_size=8).digest(), "little")


def shard_of(key: int, shards: int) -> int:
    """Where the key's row lives; every client of the job must come to the same."""
    x = (key ^ key >> 30) * 0xbf58476d1ce4e5b9 & MASK
    x = (x ^ x >> 27) * 0x94d049bb133111eb & MASK
    return (x ^ x >> 31) * shards >> 64


class Table:
    """Rows of one int64 each, to which numbers are added."""

    def __init__(self, job: Job, name: str) -> None:
        self.name, self.servers = name, job.servers
        config = rules.OptimizerConfig(optimizer=rules.OptimizerConfig.Add,
                                       table=rules.TableConfig(width=1))
        for server in self.servers:  # every one of them; for those who come later it is there
            server.call("DefineParam", ps.InitParamRequest(
                name=name, element_type=ps.INT64, config=config.SerializeToString(),
                request=server.request()))

    def split(self, keys: list[int]) -> list[list[int]]:
        """For each server the places of its keys."""
        places: list[list[int]] = [[] for _ in self.servers]
        for place, key in enumerate(keys):
            places[shard_of(key, len(self.servers))].append(place)
        return places

    def add(self, keys: list[int], numbers: list[int]) -> None:
        for server, places in zip(self.servers, self.split(keys)):
            rows = struct.pack(f"<{len(places)}Q", *(keys[place] for place in places))
            rows += struct.pack(f"<{len(places)}q", *(numbers[place] for place in places))
            server.call("SendGrad", ps.SendGradRequest(
                name=self.name, element_type=ps.INT64, encoding=ps.ENCODING_ROWS, content=rows,
                row_width=1, request=server.request()))

    def get(self, keys: list[int]) -> list[int]:
        found = [0] * len(keys)
        for server, places in zip(self.servers, self.split(keys)):
            reply = server.call("GetParam", ps.GetParamRequest(
                name=self.name, keys=struct.pack(f"<{len(places)}Q", *(keys[i] for i in places))))
            numbers = struct.iter_unpack("<q", reply.content)
            for place, (number,) in zip(places, numbers, strict=True):
                found[place] = number
        return found


def main() -> None:
    job = Job(sys.argv[1].split(","))
    job.initialise({})
    table = Table(job, "words")
    words: list[str] = sys.stdin.read().split()
    table.add([key_of(word) for word in words], [1] * len(words))
    for word, count in zip(words, table.get([key_of(word) for word in words])):
        print(count, word)


if __name__ == "__main__":
    main()
