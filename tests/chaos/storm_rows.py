# SPDX-License-Identifier: Apache-2.0
"""Tables during a storm: which rows must be there after the steps of their trainers. The steps are
those of storm_rows.h, written a second time.

A table belongs to one life of a trainer, which takes a step only after the former one was
acknowledged. So of each row there is what the acknowledged steps make, or, where the last one has
no answer, what that one makes besides: each shard has its rows of it or none of them.
"""

import dataclasses

import storm_records
from storm_checks import DIGIT, Violation

SPREAD = 0x9E3779B97F4A7C15
PREFIX = "rows/"


@dataclasses.dataclass
class Life:
    """Of one trainer: its steps."""
    begun: int = 0
    answered: int = 0
    failure: str = ""


def read_lives(path, lives):
    for words in storm_records.lines_of(path):
        if words[0] not in "TUV":
            continue
        life = lives.setdefault(int(words[2]), Life())
        if words[0] == "T":
            life.begun = int(words[3])
        elif words[0] == "U":
            life.answered = int(words[3])
        else:
            life.failure = " ".join(words[4:]).strip()
    return lives


def read_dump(text):
    """{slot: {key: values}}"""
    found = {}
    for line in text.splitlines():
        words = line.split()
        found.setdefault(int(words[0]), {})[int(words[1])] = tuple(map(float, words[2:]))
    return found


def keys_of(step):
    """The first step defines the table."""
    if step < 2:
        return []
    return [step % 32, 1000 + step % 7, step % 32, step * SPREAD % (1 << 64)]


def add_step(rows, step, keys):
    for key in keys:
        old = rows.get(key, (0, 0, 0, 0))
        rows[key] = old[0] + 1, old[1], old[2] + step // DIGIT, old[3] + step % DIGIT
    return rows


def check(lives, dump):
    """({slot: keys of the step without an answer that are there}, violations)"""
    doubts, found = {}, []
    for slot in sorted({*lives, *dump}):
        life, rows = lives.get(slot, Life()), dump.get(slot, {})
        least = {}
        for step in range(1, life.answered + 1):
            add_step(least, step, keys_of(step))
        maybe = keys_of(life.begun) if life.begun > life.answered else []
        most = add_step(dict(least), life.begun, maybe)
        doubts[slot] = [key for key in maybe if rows.get(key) == most[key]]
        for key in sorted({*rows, *least}):
            row = rows.get(key, (0, 0, 0, 0))
            if row in (least.get(key, (0, 0, 0, 0)), most.get(key)):
                continue
            count = most.get(key, (0,))[0]
            rule = "swapped" if row[0] == count else "lost" if row[0] < count else "duplicate"
            found.append(Violation(rule, f"{PREFIX}{slot}, key {key}: {row} after "
                                   f"{life.answered} steps of {life.begun}, not {most.get(key)}"))
    return doubts, found


def lines_of_replay(lives, doubts):
    """What storm_rows_replay reads: every step that is there, with its keys."""
    for slot, life in sorted(lives.items()):
        steps = [(step, keys_of(step)) for step in range(1, life.answered + 1)]
        for step, keys in steps + [(life.begun, doubts.get(slot, []))]:
            if keys:
                yield " ".join(map(str, [slot, step, len(keys), *keys])) + "\n"


def counts(lives):
    rows = lives.values()
    return {"tables": len(lives), "steps": sum(life.answered for life in rows),
            "in_doubt": sum(life.begun > life.answered for life in rows),
            "failed": sum(bool(life.failure) for life in rows)}
