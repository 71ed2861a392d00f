# SPDX-License-Identifier: Apache-2.0
"""What the processes of a storm wrote down (the format stands in storm_trainer.c)."""

import dataclasses


@dataclasses.dataclass
class Push:
    slot: int
    parameter: int
    number: int
    began: int  # ns
    ended: int = 0  # ns; 0: no answer
    version: int = 0  # 0: not acknowledged
    position: int = 0  # in the life of its shard
    duplicate: bool = False  # an attempt before the last had been applied
    failure: str = ""


@dataclasses.dataclass
class Read:
    began: int
    ended: int
    parameter: int
    shard: int
    epoch: int  # 0: it changed during the read
    version: int


def lines_of(path):
    """Whole lines, in words. A process that was killed may have left half a line."""
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            for line in file:
                if line.endswith("\n"):
                    yield line.split(maxsplit=6)
    except FileNotFoundError:
        return


def read_pushes(path, slot):
    pushes = {}
    for words in lines_of(path):
        key = (int(words[2]), int(words[3]))
        if words[0] == "I":
            pushes[key] = Push(slot, key[0], key[1], int(words[1]))
        elif words[0] == "A":
            pushes[key].ended = int(words[1])
            pushes[key].version, pushes[key].position = int(words[4]), int(words[5])
            pushes[key].duplicate = words[6].strip() == "1"
        elif words[0] == "F":
            pushes[key].ended = int(words[1])
            pushes[key].failure = " ".join(words[4:]).strip()
    return list(pushes.values())


def read_reads(path):
    """(reads, lines about values that no whole pushes make)"""
    reads, torn = [], []
    for words in lines_of(path):
        if words[0] == "R":
            words = " ".join(words).split()
            reads.append(Read(int(words[1]), int(words[2]), int(words[3]), int(words[4]),
                              int(words[5]), int(words[6])))
        elif words[0] == "X":
            torn.append(" ".join(words))
    return reads, torn


def read_dump(text):
    """{parameter: (version, values)}"""
    found = {}
    for line in text.splitlines():
        words = line.split()
        found[int(words[0])] = (int(words[1]), [float(word) for word in words[2:]])
    return found
