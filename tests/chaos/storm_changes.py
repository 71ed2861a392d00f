# SPDX-License-Identifier: Apache-2.0
"""Parameters that come, change and go during a storm: what their trainers were told, what may be
there, and what the journal has of it. The steps are those of storm_change.h, written a second time.

A name belongs to one life of a trainer, which takes a step only after the former one was
acknowledged. So what is there is the state after all steps that were acknowledged, or, where the
last one has no answer, the state after that.
"""

import dataclasses
import struct

import storm_records
from storm_checks import DIGIT, Violation

CYCLE = ("define", "push", "push", "set", "push", "push", "pull", "drop")
JOURNAL_KINDS = {2: "push", 3: "define", 4: "drop", 5: "set"}
RATE = b"\x62\x09\x09"  # OptimizerConfig.const_lr.learning_rate; 8 bytes follow


@dataclasses.dataclass
class Step:
    slot: int
    number: int
    answered: bool = False
    version: int = 0
    position: int = 0  # in the life of its shard; 0: not told
    duplicate: bool = False  # an attempt before the last had been done
    values: tuple = ()
    failure: str = ""

    @property
    def kind(self):
        return CYCLE[(self.number - 1) % len(CYCLE)]


@dataclasses.dataclass
class Entry:
    """A record of the journal."""
    shard: int
    slot: int
    kind: str
    version: int
    position: int
    cycle: int = -1  # -1: a drop, whose record does not say
    push: int = 0  # the number of a push's step


def read_steps(path):
    steps = []
    for words in storm_records.lines_of(path):
        if words[0] == "O":
            steps.append(Step(int(words[2]), int(words[3])))
        elif words[0] == "K":
            rest = words[6].split()
            steps[-1].answered = True
            steps[-1].version, steps[-1].position = int(words[4]), int(words[5])
            steps[-1].duplicate = rest[0] == "1"
            steps[-1].values = tuple(float(word) for word in rest[1:])
        elif words[0] == "N":
            steps[-1].failure = " ".join(words[4:]).strip()
    return steps


def by_slot(steps):
    rows = {}
    for step in steps:
        rows.setdefault(step.slot, []).append(step)
    return rows


def state_after(number):
    """(version, values) after these first steps; None: the parameter is not there."""
    state, rate = None, 1
    cycle = (number - 1) // len(CYCLE)
    for at in range(cycle * len(CYCLE) + 1, number + 1):
        kind = CYCLE[(at - 1) % len(CYCLE)]
        if kind == "define":
            state = 0, (0.0, float(cycle), 0.0, 0.0)
        elif kind == "set":
            rate = cycle + 1
        elif kind == "drop":
            state = None
        elif kind == "push":
            gradient = 1, 0, at // DIGIT, at % DIGIT
            state = state[0] + 1, tuple(a + rate * b for a, b in zip(state[1], gradient))
    return state


def check_answers(steps):
    """What was told of each step, and read between them, is what its number says."""
    found = []
    for step in steps:
        if not step.answered:
            continue
        state = state_after(step.number - 1 if step.kind == "drop" else step.number)
        where = f"own/{step.slot}, step {step.number}, {step.kind}"
        if step.version != state[0]:
            found.append(Violation("lost" if step.version < state[0] else "duplicate",
                                   f"{where}: told version {step.version}, not {state[0]}"))
        elif step.kind == "pull" and step.values != state[1]:
            found.append(Violation("swapped", f"{where}: read {step.values}, not {state[1]}"))
    return found


def final_steps(steps, dump):
    """({slot: the step after which the final state is}, violations)"""
    ends, found = {}, []
    rows = by_slot(steps)
    for slot in sorted({*rows, *dump}):
        count = sum(step.answered for step in rows.get(slot, ()))
        last = max((step.number for step in rows.get(slot, ())), default=0)
        state = dump.get(slot)
        state = state and (state[0], tuple(state[1]))
        ends[slot] = next((end for end in (count, last) if state_after(end) == state), count)
        if state_after(ends[slot]) != state:
            found.append(Violation(
                "duplicate" if state and state[0] > (state_after(last) or (0,))[0] else "lost",
                f"own/{slot}: {count} steps acknowledged, {last} begun: {state} instead of "
                f"{state_after(count)}"))
    return ends, found


def add_configurations(ends, steps, entries):
    """Adds to `ends` the last steps that no value tells of and the journal has: configurations."""
    known = {(entry.slot, entry.cycle) for entry in entries if entry.kind == "set"}
    for step in steps:
        cycle = (step.number - 1) // len(CYCLE)
        if step.kind == "set" and not step.answered and (step.slot, cycle) in known:
            ends[step.slot] = max(ends[step.slot], step.number)


def entry_of(shard, record):
    content = bytes(record.content)
    kind = JOURNAL_KINDS[record.kind]
    entry = Entry(shard, int(record.name.rpartition("/")[2]), kind, record.version, record.position)
    if kind == "define":
        head, = struct.unpack_from("<I", content)
        entry.cycle = int(struct.unpack_from("<4f", content, head)[1])
    elif kind == "push":
        high, low = struct.unpack_from("<2f", content, 8)
        entry.push = int(-high) * DIGIT + int(-low)
        entry.cycle = (entry.push - 1) // len(CYCLE)
    elif kind == "set":
        at = content.index(RATE) + len(RATE)
        entry.cycle = int(struct.unpack_from("<d", content, at)[0]) - 1
    return entry


def step_of(entry, last):
    """The number of an entry's step. A drop ends the cycle that its name is in."""
    cycle = entry.cycle if entry.cycle >= 0 else (last - 1) // len(CYCLE)
    return entry.push or cycle * len(CYCLE) + CYCLE.index(entry.kind) + 1


def check_journal(steps, entries):
    """`entries` in journal order. Each step stands there once at most, in the order of its numbers,
    with the version and the position that was told, and nobody else has that position. Steps may be
    missing at places that a checkpoint covers."""
    found, last, places = [], {}, {}
    told = {(step.slot, step.number): step for step in steps}
    for entry in entries:
        number = step_of(entry, last.get(entry.slot, 1))
        where = f"journal: own/{entry.slot}, step {number}, {entry.kind}"
        step = told.get((entry.slot, number))
        if step is None or step.kind != entry.kind:
            found.append(Violation("unknown_step", f"{where}: nobody took it"))
        elif number == last.get(entry.slot):
            found.append(Violation("duplicate", f"{where}: stands there twice"))
        elif number < last.get(entry.slot, 0):
            found.append(Violation("journal_order", f"{where}: after {last[entry.slot]}"))
        elif step.answered and (step.version != entry.version or
                                step.position not in (0, entry.position)):
            found.append(Violation("version_differs", f"{where}: has {entry.version}, "
                                   f"{entry.position}; told {step.version}, {step.position}"))
        last[entry.slot] = number
        places[entry.shard, entry.position] = entry.slot, number
    shards = {entry.slot: entry.shard for entry in entries}
    for step in steps:
        mine = step.slot, step.number
        owner = places.get((shards.get(step.slot), step.position), mine)
        if step.position and owner != mine:
            found.append(Violation("lost", f"journal: own/{step.slot}, step {step.number} was told "
                                   f"position {step.position}; own/{owner[0]}, step {owner[1]} has "
                                   "it"))
    return found


def counts(steps, ends):
    """How many of each kind were acknowledged, how many of them were known as repeats, and what
    became of those without an answer. `ends`: of final_steps."""
    table = dict.fromkeys(CYCLE, 0)
    for step in steps:
        table[step.kind] += step.answered
    table["repeats"] = sum(step.duplicate for step in steps)
    table["in_doubt"] = sum(not step.answered for step in steps)
    table["in_doubt_done"] = sum(not step.answered and step.number == ends[step.slot] and
                                 step.kind != "pull" for step in steps)
    table["failed"] = sum(bool(step.failure) for step in steps)
    return table
