# SPDX-License-Identifier: Apache-2.0
"""Tables during a storm: which rows must be there after the steps of their trainers. The steps are
those of storm_rows.h, written a second time.

A life of a trainer takes a step only after the former one was acknowledged. So of each row of its
own table there is what the acknowledged steps make, or, where the last one has no answer, what that
one makes besides: each shard has its rows of it or none of them. Of the table that all share there
is what all acknowledged steps make, and what some of those without an answer do.
"""

import dataclasses
import itertools

import storm_records
from storm_checks import DIGIT, Violation

SPREAD = 0x9E3779B97F4A7C15
PREFIX = "rows/"
SHARED, SHARED_EVERY = "shared", 4
NONE = (0, 0, 0, 0)


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
    """{slot: {key: values}}, and of what all share, under its word"""
    found = {}
    for line in text.splitlines():
        words = line.split()
        slot = words[0] if words[0] == SHARED else int(words[0])
        found.setdefault(slot, {})[int(words[1])] = tuple(map(float, words[2:]))
    return found


def keys_of(step):
    """The first step defines the table."""
    if step < 2:
        return []
    return [step % 32, 1000 + step % 7, step % 32, step * SPREAD % (1 << 64)]


def is_shared(step):
    return step % SHARED_EVERY == 0


def own_keys_of(step):
    return [] if is_shared(step) else keys_of(step)


def shared_keys_of(step):
    return keys_of(step) if is_shared(step) else []


def add_step(rows, slot, step, keys):
    for key in keys:
        old = rows.get(key, NONE)
        rows[key] = (old[0] + 1, old[1] + slot + 1, old[2] + step // DIGIT, old[3] + step % DIGIT)
    return rows


def check(lives, dump):
    """({slot: keys of the step without an answer that are there}, violations)"""
    doubts, found = {}, []
    for slot in sorted({*lives, *dump} - {SHARED}):
        life, rows = lives.get(slot, Life()), dump.get(slot, {})
        least = {}
        for step in range(1, life.answered + 1):
            add_step(least, slot, step, own_keys_of(step))
        maybe = own_keys_of(life.begun) if life.begun > life.answered else []
        most = add_step(dict(least), slot, life.begun, maybe)
        doubts[slot] = [key for key in maybe if rows.get(key) == most[key]]
        for key in sorted({*rows, *least}):
            row = rows.get(key, NONE)
            if row in (least.get(key, NONE), most.get(key)):
                continue
            count = most.get(key, (0,))[0]
            rule = "swapped" if row[0] == count else "lost" if row[0] < count else "duplicate"
            found.append(Violation(rule, f"{PREFIX}{slot}, key {key}: {row} after "
                                   f"{life.answered} steps of {life.begun}, not {most.get(key)}"))
    return doubts, found + check_shared(lives, dump.get(SHARED, {}), doubts)


def check_shared(lives, rows, doubts):
    """Violations; to `doubts` goes what is there of steps without an answer."""
    least, maybe, found = {}, {}, []
    for slot, life in lives.items():
        for step in range(1, life.answered + 1):
            add_step(least, slot, step, shared_keys_of(step))
        keys = shared_keys_of(life.begun) if life.begun > life.answered else []
        for key in set(keys):
            maybe.setdefault(key, []).append((slot, life.begun, [key] * keys.count(key)))
    for key in sorted({*rows, *least}):
        row = rows.get(key, NONE)
        taken = taken_of(row, key, least, maybe.get(key, []))
        if taken is None:
            few = least.get(key, NONE)[0]
            most = few + sum(len(keys) for _, _, keys in maybe.get(key, []))
            rule = "lost" if row[0] < few else "duplicate" if row[0] > most else "swapped"
            found.append(Violation(rule, f"{PREFIX}{SHARED}, key {key}: {row}, of acknowledged "
                                   f"steps {least.get(key, NONE)}"))
        for slot, _, keys in taken or []:
            doubts[slot] += keys
    return found


def taken_of(row, key, least, maybe):
    """Those steps without an answer with which the row is what it is; None: it is not so."""
    for count in range(len(maybe) + 1):
        for taken in itertools.combinations(maybe, count):
            made = {key: least.get(key, NONE)}
            for slot, step, keys in taken:
                add_step(made, slot, step, keys)
            if made[key] == row:
                return taken
    return None


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
