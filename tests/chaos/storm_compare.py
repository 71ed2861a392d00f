# SPDX-License-Identifier: Apache-2.0
"""After a storm: its journals are read, the same pushes are made again without faults, and the two
states are compared: value by value, and by the state hash of psckpt digest."""

import copy
import json
import os
import subprocess

import storm_changes
import storm_checks
import storm_journal
import storm_records
import storm_rows
from storm_checks import Violation


def complete(entries, pushes, dump):
    """All pushes that the final state holds, in journal order, and how many of them the journal
    does not have: those that a checkpoint covers after a segment failed or was swept. They are
    known by the versions that their trainers were told, and those in doubt by the values."""
    known = {entry[:3] for entry in entries}
    rows = list(entries)
    for push in pushes:
        if push.version and (push.parameter, push.slot, push.number) not in known:
            rows.append((push.parameter, push.slot, push.number, push.version, push.position))
    taken = {}
    for parameter, slot, number, *_ in rows:
        taken.setdefault((parameter, slot), set()).add(number)
    rows += chosen_doubts(taken, pushes, dump)
    rows.sort(key=lambda row: (row[3], row[0]))
    return rows, len(rows) - len(entries)


def chosen_doubts(taken, pushes, dump):
    doubts = {}
    for push in pushes:
        key = push.parameter, push.slot
        if not push.version and push.number not in taken.get(key, ()):
            doubts.setdefault(key, []).append(push.number)
    rows = []
    for (parameter, slot), numbers in sorted(doubts.items()):
        rest = storm_checks.slot_sums(dump[parameter][1], slot)
        for number in taken.get((parameter, slot), ()):
            rest = tuple(a - b for a, b in zip(rest, storm_checks.sums_of(number)))
        for number in subset(numbers, rest) or ():
            rows.append((parameter, slot, number, 1 << 62, 0))
    return rows


def subset(numbers, rest):
    """Some of the numbers that add up to `rest`; None when there are none."""
    ways = {(0, 0, 0): ()}
    for number in numbers:
        for sums, way in list(ways.items()):
            more = storm_checks.add(sums, storm_checks.sums_of(number))
            if all(a <= b for a, b in zip(more, rest)):
                ways.setdefault(more, (*way, number))
        if rest in ways or len(ways) > storm_checks.SETS_MAX:
            break
    return ways.get(rest)


def undisturbed(world, make_world, rows, steps, row_lines):
    """Runs the same in a world without faults: (its folder of data, its values)."""
    options = copy.copy(world.options)
    options.network, options.disk, options.spares = "loopback", "folder", 0
    folder = os.path.join(world.folder, "undisturbed")
    os.makedirs(folder)
    calm = make_world(folder, options, world.slots, lambda kind, text: None)
    lines = os.path.join(folder, "pushes")
    with open(lines, "w", encoding="ascii") as file:
        file.writelines(f"{row[0]} {row[1]} {row[2]}\n" for row in rows)
    step_lines = os.path.join(folder, "steps")
    with open(step_lines, "w", encoding="ascii") as file:
        file.writelines(f"{slot} {number}\n" for slot, end in sorted(steps.items())
                        for number in range(1, end + 1))
    row_steps = os.path.join(folder, "rows")
    with open(row_steps, "w", encoding="ascii") as file:
        file.writelines(row_lines)
    try:
        calm.start_etcd()
        for index in range(options.shards):
            calm.start_server(f"server-{index}")
        calm.call_trainer("init")
        with open(lines, "rb") as file:
            calm.call_trainer("replay", "--batch", "64", seconds=600, stdin=file)
        with open(step_lines, "rb") as file:
            calm.call_trainer("replay-changes", seconds=600, stdin=file)
        if options.changes:
            with open(row_steps, "rb") as file:
                calm.call_trainer("replay-rows", seconds=600, stdin=file)
        dump = storm_records.read_dump(calm.call_trainer("dump"))
        for server in calm.servers.values():
            server.child.terminate()
        for server in calm.servers.values():
            server.child.wait(timeout=60)
    finally:
        calm.close()
    return calm.data, dump


def digest(build, folder):
    """The state hashes that psckpt prints, of everything and of each shard; None where it has
    none."""
    tool = os.path.join(build, "bin", "psckpt")
    if not os.path.exists(tool):
        return None
    text = subprocess.run([tool, "--help"], capture_output=True, text=True, check=False).stdout
    if "digest" not in text:
        return None
    done = subprocess.run([tool, "digest", folder, "--output", "json"], capture_output=True,
                          text=True, check=False, timeout=300)
    if done.returncode != 0:
        return f"exit {done.returncode}: {done.stderr.strip()[-300:]}"
    found = json.loads(done.stdout)
    return [found["digest"]] + [shard["digest"] for shard in found["shards"]]


def check_journals(world, pushes, steps):
    """(the pushes that the journals have, their changes, violations)"""
    entries, others, twice = storm_journal.read_shards(
        world.shard_folders(world.kept), world.parameters, world.slots)
    if not entries:
        return entries, [], []
    found = storm_checks.check_journal(pushes, entries)
    changes = [storm_changes.entry_of(shard, record) for shard, record in others
               if not record.name.startswith(storm_rows.PREFIX)]
    found += storm_changes.check_journal(steps, changes)
    found += [Violation("duplicate", f"journal of shard {shard}: the request of position "
                        f"{record.position} ({record.name}) stands there before")
              for shard, record in twice]
    return entries, changes, found


def compare(world, make_world, build, pushes, dump, steps, ends, row_lines):
    """`ends`: of storm_changes.final_steps, completed here; `row_lines`: steps of tables, which are
    taken again. (words about the journal, words about the digest, violations)"""
    world.keep_journals()
    words = "none: these servers keep no journal"
    entries, changes, found = check_journals(world, pushes, steps)
    storm_changes.add_configurations(ends, steps, changes)
    rows, holes = complete(entries, pushes, dump)
    if entries:
        words = f"{len(entries)} pushes, {holes} more known only by a checkpoint"
    hashes = digest(build, world.data)
    calm_data, calm_dump = undisturbed(world, make_world, rows, ends, row_lines)
    for parameter, row in sorted(dump.items()):
        if calm_dump.get(parameter) != row:
            found.append(Violation("differs", f"parameter {parameter}: version {row[0]} against "
                                   f"{calm_dump[parameter][0]} of the undisturbed run"))
    if hashes is None:
        return words, "no psckpt digest here; values compared one by one", found
    calm_hashes = digest(build, calm_data)
    if hashes != calm_hashes:
        found.append(Violation("digest", f"{hashes} against {calm_hashes}"))
    return words, f"equal ({hashes[0]})" if hashes == calm_hashes else "DIFFERS", found
