# SPDX-License-Identifier: Apache-2.0
"""The checker: from outside, with arithmetic of its own, it says whether what the trainers were
told is what the servers hold. Nothing here starts a process or reads a file.

Every rule that is broken becomes a Violation; none means that the promises held.
"""

import bisect
import collections
import dataclasses

DIGIT = 64
SETS_MAX = 200000


@dataclasses.dataclass
class Violation:
    rule: str
    text: str
    count: int = 1


def slot_sums(values, slot):
    at = 1 + 3 * slot
    return tuple(int(value) for value in values[at:at + 3])


def sums_of(number):
    return 1, number // DIGIT, number % DIGIT


def add(left, right):
    return tuple(a + b for a, b in zip(left, right))


def reachable(doubts, rest):
    """Can some of the pushes in doubt add up to `rest`? None: too many to try."""
    sets = {(0, 0, 0)}
    for number in doubts:
        more = {add(one, sums_of(number)) for one in sets}
        sets |= {one for one in more if all(a <= b for a, b in zip(one, rest))}
        if len(sets) > SETS_MAX:
            return None
    return rest in sets


def by_place(pushes):
    """{(parameter, slot): (acknowledged numbers, numbers in doubt)}"""
    places = collections.defaultdict(lambda: ([], []))
    for push in pushes:
        places[push.parameter, push.slot][0 if push.version else 1].append(push.number)
    return places


def check_values(pushes, dump, slots):
    """acknowledged <= applied <= acknowledged + in doubt, for every parameter and every life of a
    trainer, and the applied ones are those numbers."""
    found = []
    places = by_place(pushes)
    for parameter, (version, values) in sorted(dump.items()):
        total = 0
        for slot in range(slots):
            applied = slot_sums(values, slot)
            total += applied[0]
            acked, doubts = places.get((parameter, slot), ([], []))
            found += check_place(parameter, slot, applied, acked, doubts)
        if int(values[0]) != total or version != total:
            found.append(Violation("torn", f"parameter {parameter}: value {values[0]:.0f}, version "
                                   f"{version}, its slots add up to {total}"))
        if any(value != values[0] for value in values[1 + 3 * slots:]):
            found.append(Violation("torn", f"parameter {parameter}: its padding is not even"))
    missing = {push.parameter for push in pushes} - set(dump)
    found += [Violation("lost", f"parameter {one} is gone") for one in sorted(missing)]
    return found


def check_place(parameter, slot, applied, acked, doubts):
    where = f"parameter {parameter}, slot {slot}"
    sums = (0, 0, 0)
    for number in acked:
        sums = add(sums, sums_of(number))
    rest = tuple(a - b for a, b in zip(applied, sums))
    if rest[0] < 0:
        return [Violation("lost", f"{where}: {len(acked)} acknowledged, {applied[0]} applied",
                          -rest[0])]
    if rest[0] > len(doubts):
        return [Violation("duplicate", f"{where}: {applied[0]} applied, {len(acked)} acknowledged "
                          f"and {len(doubts)} in doubt", rest[0] - len(doubts))]
    if min(rest) < 0 or reachable(doubts, rest) is False:
        return [Violation("swapped", f"{where}: as many as there should be, but not those")]
    return []


def check_positions(pushes, shard_of_parameter):
    """No position of a shard is told to two pushes."""
    found, owners = [], {}
    for push in pushes:
        if not push.version:
            continue
        key = shard_of_parameter[push.parameter], push.position
        if key in owners:
            found.append(Violation("position_twice", f"shard {key[0]}, position {key[1]}: for "
                                   f"{owners[key]} and for slot {push.slot} parameter "
                                   f"{push.parameter} number {push.number}"))
        owners[key] = f"slot {push.slot} parameter {push.parameter} number {push.number}"
    return found


def check_versions(pushes, dump):
    """No version is given to two pushes, none is beyond the last, and a trainer's versions rise."""
    found = []
    owners = {}
    for push in pushes:
        if not push.version:
            continue
        key = push.parameter, push.version
        if key in owners:
            other = owners[key]
            found.append(Violation("version_twice", f"parameter {push.parameter}: version "
                                   f"{push.version} for slot {other.slot} number {other.number} "
                                   f"and slot {push.slot} number {push.number}"))
        owners[key] = push
        last = dump.get(push.parameter, (0,))[0]
        if push.version > last:
            found.append(Violation("version_beyond", f"parameter {push.parameter}: acknowledged "
                                   f"version {push.version}, the last is {last}"))
    found += check_order(pushes)
    return found


def check_order(pushes):
    newest, found = {}, []
    for push in sorted(pushes, key=lambda one: (one.slot, one.parameter, one.number)):
        if not push.version:
            continue
        key = push.slot, push.parameter
        if push.version <= newest.get(key, 0):
            found.append(Violation("version_back", f"parameter {push.parameter}, slot {push.slot}: "
                                   f"number {push.number} got version {push.version} after "
                                   f"{newest[key]}"))
        newest[key] = push.version
    return found


def check_reads(reads, torn, pushes):
    """Reads never go back within an epoch, and see every push acknowledged before they began."""
    found = [Violation("torn", f"read: {line}") for line in torn]
    newest = {}
    for read in reads:
        if read.epoch == 0:
            continue
        key = read.parameter, read.epoch
        if read.version < newest.get(key, 0):
            found.append(Violation("read_back", f"parameter {read.parameter}, epoch {read.epoch}: "
                                   f"version {read.version} after {newest[key]}"))
        newest[key] = max(read.version, newest.get(key, 0))
    return found + check_stale(reads, pushes)


def check_stale(reads, pushes):
    acks = collections.defaultdict(list)
    for push in pushes:
        if push.version:
            acks[push.parameter].append((push.ended, push.version))
    times, highest = {}, {}
    for parameter, rows in acks.items():
        rows.sort()
        times[parameter] = [row[0] for row in rows]
        highest[parameter] = running_maximum(row[1] for row in rows)
    found = []
    for read in reads:
        before = bisect.bisect_left(times.get(read.parameter, []), read.began)
        if before and highest[read.parameter][before - 1] > read.version:
            found.append(Violation("stale_read", f"parameter {read.parameter}: read version "
                                   f"{read.version} after {highest[read.parameter][before - 1]} "
                                   "was acknowledged"))
    return found


def running_maximum(numbers):
    highest, rows = 0, []
    for number in numbers:
        highest = max(highest, number)
        rows.append(highest)
    return rows


def check_journal(pushes, entries):
    """`entries`: (parameter, slot, number, version, position) in journal order, of all shards. No
    push stands there twice, versions rise, nothing is there that nobody pushed, and what was
    acknowledged has the version and the position that it was told. A version may be missing: a
    checkpoint covers it."""
    found, where, holders, last = [], {}, {}, {}
    for parameter, slot, number, version, position in entries:
        key = parameter, slot, number
        if key in where:
            found.append(Violation("duplicate", f"journal: parameter {parameter}, slot {slot}, "
                                   f"number {number} stands there twice"))
        if version <= last.get(parameter, 0):
            found.append(Violation("journal_order", f"journal: parameter {parameter}: version "
                                   f"{version} after {last[parameter]}"))
        where[key] = version, position
        holders[parameter, version], last[parameter] = key, version
    for push in pushes:
        key = push.parameter, push.slot, push.number
        if push.version and key not in where and (push.parameter, push.version) in holders:
            found.append(Violation("lost", f"journal: parameter, slot, number {key} was told "
                                   f"version {push.version}; another push has it"))
        told = push.version, push.position
        if push.version and where.get(key, told) != told:
            found.append(Violation("version_differs", f"journal: parameter, slot, number {key} has "
                                   f"version and position {where[key]}, was told {told}"))
    known = {(push.parameter, push.slot, push.number) for push in pushes}
    found += [Violation("unknown_push", f"journal: nobody pushed {key}") for key in
              sorted(set(where) - known)]
    return found


def counts(violations):
    table = collections.Counter()
    for violation in violations:
        table[violation.rule] += violation.count
    return dict(table)
