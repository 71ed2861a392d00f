# SPDX-License-Identifier: Apache-2.0
"""The checker of the storm finds what it should and leaves good runs alone; the rest of the storm's
arithmetic, too."""

import os
import struct
import sys
import tempfile
import unittest
import xml.dom.minidom

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import storm_changes
import storm_checks
import storm_compare
import storm_journal
import storm_plan
import storm_plot
import storm_records
import storm_report
import storm_rows
import storm_world
from storm_changes import Entry, Step
from storm_records import Push, Read

SLOTS = 2


def pushed(slot, number, version, parameter=0, began=None):
    began = version * 10 if began is None else began
    return Push(slot, parameter, number, began, began + 5 if version else 0, version,
                position=version)


def state(applied, version=None):
    """What the servers hold after these (slot, number)."""
    values = [0.0] * (1 + 3 * SLOTS + 4)
    for slot, number in applied:
        values[0] += 1
        for i, part in enumerate(storm_checks.sums_of(number)):
            values[1 + 3 * slot + i] += part
    values[1 + 3 * SLOTS:] = [values[0]] * 4
    return {0: (len(applied) if version is None else version, values)}


def rules(violations):
    return sorted(storm_checks.counts(violations).items())


class Values(unittest.TestCase):
    PUSHES = [pushed(0, 1, 1), pushed(1, 1, 2), pushed(0, 2, 3), pushed(0, 3, 0)]
    ACKED = [(0, 1), (1, 1), (0, 2)]

    def check(self, applied, **more):
        return rules(storm_checks.check_values(self.PUSHES, state(applied, **more), SLOTS))

    def test_all_acknowledged_is_fine(self):
        self.assertEqual(self.check(self.ACKED), [])

    def test_a_push_in_doubt_may_be_applied(self):
        self.assertEqual(self.check(self.ACKED + [(0, 3)]), [])

    def test_a_lost_push_is_found(self):
        self.assertEqual(self.check(self.ACKED[1:]), [("lost", 1)])

    def test_a_push_applied_twice_is_found(self):
        self.assertEqual(self.check(self.ACKED + [(1, 1)]), [("duplicate", 1)])

    def test_a_push_in_doubt_applied_twice_is_found(self):
        self.assertEqual(self.check(self.ACKED + [(0, 3), (0, 3)]), [("duplicate", 1)])

    def test_a_lost_push_does_not_hide_behind_a_duplicate_of_another_trainer(self):
        self.assertEqual(self.check([(0, 1), (1, 1), (1, 1)]), [("duplicate", 1), ("lost", 1)])

    def test_a_lost_push_does_not_hide_behind_a_duplicate_of_its_own_trainer(self):
        self.assertEqual(self.check([(1, 1), (0, 2), (0, 2)]), [("swapped", 1)])

    def test_a_wrong_version_is_found(self):
        self.assertEqual(self.check(self.ACKED, version=4), [("torn", 1)])

    def test_half_a_gradient_is_found(self):
        dump = state(self.ACKED)
        dump[0][1][-1] -= 1
        self.assertEqual(rules(storm_checks.check_values(self.PUSHES, dump, SLOTS)), [("torn", 1)])

    def test_a_lost_parameter_is_found(self):
        self.assertEqual(rules(storm_checks.check_values(self.PUSHES, {}, SLOTS)), [("lost", 1)])


class Versions(unittest.TestCase):
    def check(self, pushes, last=9):
        return rules(storm_checks.check_versions(pushes, {0: (last, [])}))

    def test_rising_versions_are_fine(self):
        self.assertEqual(self.check([pushed(0, 1, 1), pushed(1, 1, 2), pushed(0, 2, 5)]), [])

    def test_a_version_given_twice_is_found(self):
        self.assertEqual(self.check([pushed(0, 1, 1), pushed(1, 1, 1)]), [("version_twice", 1)])

    def test_a_version_beyond_the_end_is_found(self):
        self.assertEqual(self.check([pushed(0, 1, 10)]), [("version_beyond", 1)])

    def test_a_version_that_goes_back_is_found(self):
        self.assertEqual(self.check([pushed(0, 1, 5), pushed(0, 2, 4)]), [("version_back", 1)])


class Reads(unittest.TestCase):
    def check(self, reads, pushes=()):
        return rules(storm_checks.check_reads([Read(at, at + 1, 0, 0, epoch, version)
                                               for at, epoch, version in reads], [], pushes))

    def test_rising_reads_are_fine(self):
        self.assertEqual(self.check([(10, 1, 1), (20, 1, 1), (30, 2, 2)]), [])

    def test_a_read_that_goes_back_within_an_epoch_is_found(self):
        self.assertEqual(self.check([(10, 1, 2), (20, 1, 1)]), [("read_back", 1)])

    def test_a_read_may_go_back_to_what_is_durable_in_a_new_epoch(self):
        self.assertEqual(self.check([(10, 1, 2), (20, 2, 1)]), [])

    def test_a_read_without_an_acknowledged_push_is_found(self):
        self.assertEqual(self.check([(100, 2, 1)], [pushed(0, 1, 2)]), [("stale_read", 1)])

    def test_a_read_before_the_acknowledgement_may_miss_it(self):
        self.assertEqual(self.check([(24, 2, 1)], [pushed(0, 1, 2)]), [])

    def test_a_torn_read_is_found(self):
        self.assertEqual(rules(storm_checks.check_reads([], ["X 1 0 3"], [])), [("torn", 1)])


class Journal(unittest.TestCase):
    PUSHES = [pushed(0, 1, 1), pushed(1, 1, 2), pushed(0, 2, 0)]

    def check(self, entries):
        return rules(storm_checks.check_journal(self.PUSHES, entries))

    def test_every_push_once_is_fine(self):
        self.assertEqual(self.check([(0, 0, 1, 1, 1), (0, 1, 1, 2, 2), (0, 0, 2, 3, 3)]), [])

    def test_what_a_checkpoint_covers_may_be_missing(self):
        self.assertEqual(self.check([(0, 1, 1, 2, 2)]), [])

    def test_a_push_that_stands_there_twice_is_found(self):
        self.assertEqual(self.check([(0, 0, 1, 1, 1), (0, 1, 1, 2, 2), (0, 1, 1, 3, 3)]),
                         [("duplicate", 1), ("version_differs", 1)])

    def test_a_push_whose_version_another_has_is_lost(self):
        self.assertEqual(self.check([(0, 0, 2, 1, 1), (0, 1, 1, 2, 2)]), [("lost", 1)])

    def test_a_push_that_nobody_made_is_found(self):
        self.assertEqual(self.check([(0, 0, 9, 3, 3)]), [("unknown_push", 1)])

    def test_a_position_other_than_was_told_is_found(self):
        self.assertEqual(self.check([(0, 0, 1, 1, 1), (0, 1, 1, 2, 7)]), [("version_differs", 1)])

    def test_a_position_told_twice_is_found(self):
        pushes = [pushed(0, 1, 1), pushed(0, 1, 1, parameter=1)]
        self.assertEqual(rules(storm_checks.check_positions(pushes, {0: 0, 1: 0})),
                         [("position_twice", 1)])
        self.assertEqual(rules(storm_checks.check_positions(pushes, {0: 0, 1: 1})), [])

    def test_versions_that_go_back_are_found(self):
        self.assertEqual(self.check([(0, 1, 1, 2, 2), (0, 0, 1, 1, 1)]), [("journal_order", 1)])

    def test_pushes_in_doubt_that_the_journal_lacks_are_known_by_the_values(self):
        rows, holes = storm_compare.complete([(0, 0, 1, 1, 1)], self.PUSHES,
                                             state([(0, 1), (1, 1), (0, 2)]))
        self.assertEqual([row[:3] for row in rows], [(0, 0, 1), (0, 1, 1), (0, 0, 2)])
        self.assertEqual(holes, 2)


class Rows(unittest.TestCase):
    """Ten steps, the last of them without an answer, and the checker when rows differ."""

    LIVES = {3: storm_rows.Life(begun=10, answered=9)}

    def rows(self, steps, keys=()):
        found = {}
        for step in range(1, steps + 1):
            storm_rows.add_step(found, 3, step, storm_rows.own_keys_of(step))
        return storm_rows.add_step(found, 3, 10, keys)

    def shared(self, *taken):
        """The shared rows after these steps, each of a slot."""
        found = {}
        for slot, step in taken:
            storm_rows.add_step(found, slot, step, storm_rows.keys_of(step))
        return found

    def check(self, rows):
        doubts, found = storm_rows.check(
            self.LIVES, {3: rows, "shared": self.shared((3, 4), (3, 8))})
        return doubts[3], rules(found)

    def check_shared(self, rows):
        """Two trainers have taken steps 4 and 8; of the second nobody has heard of step 8."""
        lives = {0: storm_rows.Life(begun=8, answered=8), 1: storm_rows.Life(begun=8, answered=7)}
        doubts = {0: [], 1: []}
        found = storm_rows.check_shared(lives, rows, doubts)
        self.assertEqual(doubts[0], [])
        return doubts[1], rules(found)

    def test_both_trainers_of_a_shared_table_are_seen(self):
        both = [(0, 4), (1, 4), (0, 8)]
        self.assertEqual(self.check_shared(self.shared(*both)), ([], []))
        self.assertEqual(sorted(self.check_shared(self.shared(*both, (1, 8)))[0]),
                         sorted(storm_rows.keys_of(8)))
        some = self.shared(*both)
        some[8] = self.shared(*both, (1, 8))[8]
        self.assertEqual(self.check_shared(some), ([8, 8], []))

    def test_a_shared_step_that_is_lost_or_there_twice_or_of_another_is_found(self):
        both = [(0, 4), (1, 4), (0, 8)]
        self.assertEqual(self.check_shared(self.shared(*both[1:]))[1], [("lost", 3)])
        self.assertEqual(self.check_shared(self.shared(*both, (1, 4)))[1], [("duplicate", 3)])
        self.assertEqual(self.check_shared(self.shared((0, 4), (0, 4), (0, 8)))[1],
                         [("swapped", 3)])

    def test_a_key_that_is_added_twice_counts_twice(self):
        self.assertEqual(self.rows(2)[2], (2, 8, 0, 4))
        self.assertEqual(self.rows(1), {})

    def test_what_was_acknowledged_is_fine(self):
        self.assertEqual(self.check(self.rows(9)), ([], []))

    def test_a_step_in_doubt_may_be_there_on_some_shards(self):
        new, far = storm_rows.keys_of(10)[3], storm_rows.keys_of(10)[1]
        self.assertEqual(self.check(self.rows(9, [new, far])), ([far, new], []))

    def test_a_lost_and_a_double_step_are_found(self):
        self.assertEqual(self.check(self.rows(8))[1], [("lost", 3)])
        self.assertEqual(self.check(self.rows(9, storm_rows.keys_of(9)))[1][0][0], "duplicate")

    def test_a_gradient_of_a_repeated_key_that_is_lost_is_found(self):
        rows = self.rows(9)
        rows[5] = (1, 4, 0, 5)
        self.assertEqual(self.check(rows)[1], [("lost", 1)])

    def test_the_replay_has_the_keys_that_are_there(self):
        new = storm_rows.keys_of(10)[3]
        lines = list(storm_rows.lines_of_replay(self.LIVES, {3: [new]}))
        self.assertEqual(len(lines), 9)
        self.assertEqual(lines[0], f"3 2 4 2 1002 2 {2 * storm_rows.SPREAD % (1 << 64)}\n")
        self.assertEqual(lines[-1], f"3 10 1 {new}\n")


class Changes(unittest.TestCase):
    """One cycle of steps, and the checker when servers tell or hold something else."""

    PUSHES = [0, 1, 2, 2, 3, 4, 4, 4]  # after each step of a cycle

    def steps(self, count, answered=None):
        rows = []
        for number in range(1, count + 1):
            state = storm_changes.state_after(number)
            rows.append(Step(0, number, number <= (count if answered is None else answered),
                             self.PUSHES[(number - 1) % 8], 10 + number,
                             values=state[1] if state else ()))
        return rows

    def entries(self, steps):
        return [Entry(0, 0, step.kind, step.version, step.position,
                      -1 if step.kind == "drop" else (step.number - 1) // 8,
                      step.number if step.kind == "push" else 0)
                for step in steps if step.kind != "pull"]

    def test_the_rate_counts_from_its_step_on(self):
        self.assertEqual(storm_changes.state_after(9), (0, (0.0, 1.0, 0.0, 0.0)))
        self.assertEqual(storm_changes.state_after(14),
                         (4, (6.0, 1.0, 0.0, 10 + 11 + 2 * (13 + 14))))
        self.assertIsNone(storm_changes.state_after(16))
        self.assertIsNone(storm_changes.state_after(0))

    def test_good_answers_are_fine(self):
        self.assertEqual(storm_changes.check_answers(self.steps(24)), [])

    def test_answers_tell_of_a_lost_and_of_a_double_push(self):
        for version, rule in ((1, "lost"), (3, "duplicate")):
            steps = self.steps(4)
            steps[2].version = version
            self.assertEqual(rules(storm_changes.check_answers(steps)), [(rule, 1)])

    def test_values_with_another_rate_are_found(self):
        steps = self.steps(15)
        steps[14].values = (4.0, 1.0, 0.0, 48.0)
        self.assertEqual(rules(storm_changes.check_answers(steps)), [("swapped", 1)])

    def final(self, steps, number):
        state = storm_changes.state_after(number)
        ends, found = storm_changes.final_steps(steps, {0: state} if state else {})
        return ends[0], rules(found)

    def test_the_last_step_may_be_done_when_its_answer_is_missing(self):
        self.assertEqual(self.final(self.steps(5), 5), (5, []))
        self.assertEqual(self.final(self.steps(5, 4), 4), (4, []))
        self.assertEqual(self.final(self.steps(5, 4), 5), (5, []))
        self.assertEqual(self.final(self.steps(8, 7), 8), (8, []))

    def test_the_journal_tells_of_a_configuration_whose_answer_is_missing(self):
        steps = self.steps(4, 3)
        for entries, end in ((self.entries(steps)[:3], 3), (self.entries(steps), 4)):
            ends = {0: 3}
            storm_changes.add_configurations(ends, steps, entries)
            self.assertEqual(ends, {0: end})

    def test_what_was_acknowledged_is_there(self):
        self.assertEqual(self.final(self.steps(6), 4)[1], [("lost", 1)])
        self.assertEqual(self.final(self.steps(6), 8)[1], [("lost", 1)])
        self.assertEqual(self.final(self.steps(16), 15)[1], [("duplicate", 1)])

    def test_a_whole_journal_and_one_with_holes_are_fine(self):
        steps = self.steps(24)
        entries = self.entries(steps)
        self.assertEqual(storm_changes.check_journal(steps, entries), [])
        self.assertEqual(storm_changes.check_journal(steps, entries[8:12] + entries[14:]), [])

    def test_steps_of_the_journal_stand_there_once_in_order_and_as_told(self):
        steps = self.steps(8)
        good = self.entries(steps)
        for entries, rule in ((good[:2] + good[1:], "duplicate"),
                              (good[:2] + good[3:5] + good[2:3], "journal_order"),
                              (good + self.entries(self.steps(9))[-1:], "unknown_step")):
            self.assertIn((rule, 1), rules(storm_changes.check_journal(steps, entries)))
        good[1].version = 7
        self.assertEqual(rules(storm_changes.check_journal(steps, good)), [("version_differs", 1)])

    def test_a_position_that_another_step_has_is_lost(self):
        steps = self.steps(5)
        entries = self.entries(steps)[:-1]
        entries.append(Entry(0, 1, "define", 0, steps[4].position, 0))
        found = storm_changes.check_journal(steps + [Step(1, 1)], entries)
        self.assertEqual(rules(found), [("lost", 1)])

    def test_records_tell_their_steps(self):
        def entry(kind, content):
            return storm_changes.entry_of(1, storm_journal.Record(
                kind, 5, 1, "own/3", 2, b"id", 1, 1, memoryview(content)))
        define = entry(storm_journal.DEFINE,
                       struct.pack("<IIIIQ4f", 24, 0, 1, 0, 4, 0.0, 6.0, 0.0, 0.0))
        rate = entry(storm_journal.CONFIGURE, b"\x08\x01" + storm_changes.RATE +
                     struct.pack("<d", 7.0))
        push = entry(storm_journal.PUSH, struct.pack("<4f", -1, 0, -1, -5))
        drop = entry(storm_journal.DROP, b"")
        self.assertEqual([storm_changes.step_of(one, 52) for one in (define, rate, push, drop)],
                         [49, 52, 69, 56])
        self.assertEqual((drop.shard, drop.slot, drop.position, drop.version), (1, 3, 5, 2))

    def test_half_a_line_leaves_a_step_in_doubt(self):
        with tempfile.NamedTemporaryFile("w") as file:
            file.write("O 1 0 1\nK 2 0 1 0 9 1 0 0 0 0\nO 3 0 2\nK 4 0 2")
            file.flush()
            steps = storm_changes.read_steps(file.name)
        self.assertEqual([(step.answered, step.duplicate) for step in steps],
                         [(True, True), (False, False)])
        table = storm_changes.counts(steps, {0: 2})
        self.assertEqual((table["define"], table["in_doubt"], table["in_doubt_done"]), (1, 1, 1))


SALT = b"salt"


def record(position, epoch, salt=b""):
    name, version, content = b"w", 1, b"\0" * 12
    head = bytearray(storm_journal.HEAD.pack(storm_journal.MAGIC, 0, 2 if salt else 1,
                                             storm_journal.PUSH, 4, 2, len(name), 0, len(content),
                                             position, epoch, 0, version, 1, position))
    head += b"id" + name
    head += b"\0" * (storm_journal.padded(len(head)) - len(head))
    struct.pack_into("<I", head, 4, storm_journal.crc32c(salt + head[8:]))
    return bytes(head) + content + b"\0" * (storm_journal.padded(len(content)) - len(content))


def block(*records):
    data = b"".join(records)
    return data + b"\0" * (-len(data) % storm_journal.BLOCK)


def beginning(first, epoch, previous, salt=b""):
    """A segment's first record: the epoch begins at `first` and goes on from `previous`."""
    content = storm_journal.FACTS.pack(0, 1, first - 1, previous) + (salt and salt + b"\0" * 4)
    head = bytearray(storm_journal.HEAD.pack(storm_journal.MAGIC, 0, 2 if salt else 1,
                                             storm_journal.SEGMENT, 0, 0, 0,
                                             storm_journal.crc32c(content), len(content), first,
                                             epoch, first - 1, 0, 0, 0))
    struct.pack_into("<I", head, 4, storm_journal.crc32c(head[8:]))
    return bytes(head) + content


class JournalFiles(unittest.TestCase):
    def positions(self, files):
        with tempfile.TemporaryDirectory() as folder:
            for (epoch, first), data in files.items():
                with open(os.path.join(folder, f"{epoch:016x}-{first:016x}.journal"), "wb") as file:
                    file.write(data)
            return [(one.epoch, one.position) for one in storm_journal.read_journal(folder)]

    def test_checksum_is_crc32c(self):
        self.assertEqual(storm_journal.crc32c(b"123456789"), 0xE3069283)

    def test_a_torn_end_is_left_out(self):
        self.assertEqual(self.positions({(1, 1): record(1, 1) + record(2, 1)[:-8]}), [(1, 1)])

    def test_a_damaged_head_is_no_record(self):
        bad = bytearray(record(1, 1))
        bad[40] ^= 1
        self.assertEqual(self.positions({(1, 1): bytes(bad)}), [])

    def test_what_an_old_owner_wrote_behind_a_takeover_does_not_count(self):
        self.assertEqual(self.positions({(1, 1): record(1, 1) + record(2, 1),
                                         (5, 2): record(2, 5)}), [(1, 1), (5, 2)])

    def test_an_epoch_that_nobody_went_on_from_is_void(self):
        self.assertEqual(self.positions({(1, 1): beginning(1, 1, 0) + record(1, 1) + record(2, 1),
                                         (3, 2): beginning(2, 3, 1),
                                         (5, 3): beginning(3, 5, 1) + record(3, 5)}),
                         [(1, 1), (1, 2), (5, 3)])

    def test_writes_of_blocks_end_where_a_former_life_of_the_file_goes_on(self):
        segment = (block(beginning(1, 1, 0, SALT)) +
                   block(record(1, 1, SALT), record(2, 1, SALT)) + block(record(3, 1, SALT)))
        self.assertEqual(self.positions({(1, 1): segment}), [(1, 1), (1, 2), (1, 3)])
        former = block(record(4, 1, b"tlas")) + block(record(5, 1))
        self.assertEqual(self.positions({(1, 1): segment + former}), [(1, 1), (1, 2), (1, 3)])

    def test_an_epoch_of_blocks_voids_another_one(self):
        self.assertEqual(self.positions({(1, 1): block(beginning(1, 1, 0, SALT), record(1, 1, SALT),
                                                       record(2, 1, SALT)),
                                         (3, 2): block(beginning(2, 3, 1, SALT)),
                                         (5, 3): block(beginning(3, 5, 1, SALT),
                                                       record(3, 5, SALT))}),
                         [(1, 1), (1, 2), (5, 3)])

    def test_an_epoch_that_cannot_be_read_voids_nothing(self):
        torn = beginning(3, 5, 1)[:-1]
        self.assertEqual(self.positions({(1, 1): beginning(1, 1, 0) + record(1, 1) + record(2, 1),
                                         (3, 2): beginning(2, 3, 1) + record(2, 3),
                                         (5, 3): torn}),
                         [(1, 1), (3, 2)])

    def test_records_that_the_next_epoch_repeats_count_once(self):
        self.assertEqual(self.positions({(1, 1): beginning(1, 1, 0) + record(1, 1) + record(2, 1),
                                         (4, 2): beginning(2, 4, 1) + record(2, 4) + record(3, 4)}),
                         [(1, 1), (4, 2), (4, 3)])

    def test_a_gradient_tells_who_pushed_it(self):
        values = [-1.0] + [0.0] * 3 + [-1.0, -2.0, -5.0]
        content = memoryview(struct.pack("<7f", *values))
        self.assertEqual(storm_journal.decode(content, 2), (1, 2 * 64 + 5))


class Rest(unittest.TestCase):
    def test_equal_seeds_give_equal_plans(self):
        plans = [storm_plan.make_plan(seed, 60, 2, 2, ["network"]) for seed in (7, 7, 8)]
        self.assertEqual(plans[0], plans[1])
        self.assertNotEqual(plans[0], plans[2])

    def test_a_plan_without_network_cuts_nothing(self):
        self.assertFalse([fault for fault in storm_plan.make_plan(1, 300, 1, 2, [])
                          if fault.kind.startswith("cut")])

    def test_a_plan_has_the_kills_that_were_asked_for(self):
        plan = storm_plan.make_plan(3, 300, 4, 2, ["network"])
        storm_plan.raise_kills(plan, 3, 60)
        self.assertGreaterEqual(storm_plan.kills_in(plan, 3), 60)

    def test_parameters_live_where_placement_says(self):
        self.assertEqual([storm_world.shard_of("param_a", 4), storm_world.shard_of("param_b", 4),
                          storm_world.shard_of("p_1", 10)], [2, 3, 9])

    def test_half_a_line_of_a_record_is_left_out(self):
        with tempfile.NamedTemporaryFile("w") as file:
            file.write("I 1 0 1\nA 2 0 1 7 9 0\nI 3 0 2\nF 4 0 2 unknown no answer\nI 5 0 3\n"
                       "A 6 0 3")
            file.flush()
            pushes = storm_records.read_pushes(file.name, 0)
        self.assertEqual([(push.version, push.failure) for push in pushes],
                         [(7, ""), (0, "unknown no answer"), (0, "")])

    def test_a_recovery_is_counted_from_the_fault(self):
        events = [(1.0, "server-0", {"msg": "index claimed", "index": 0, "epoch": 3}),
                  (1.1, "server-0", {"msg": "serving", "index": 0}),
                  (7.0, "server-1", {"msg": "index claimed", "index": 0, "epoch": 9}),
                  (7.5, "server-1", {"msg": "checkpoint loaded", "duration_ms": 400}),
                  (8.9, "server-1", {"msg": "journal replayed", "duration_ms": 1300,
                                     "records": 7}),
                  (9.0, "server-1", {"msg": "serving", "index": 0})]
        rows = storm_report.recoveries_of(events, [(4.0, {"server-0"}), (5.0, {"server-1"})])
        self.assertEqual([(row["detect_s"], row["load_s"], row["replay_s"], row["serve_s"],
                           row["records"]) for row in rows], [(3.0, 0.4, 1.3, 2.0, 7)])

    def test_the_plot_is_xml(self):
        text = storm_plot.draw("a & b", 10, [1, 2, 2.1], [(3, "kill_etcd"), (4, "cut_server_all")],
                               [(0, 3, 5)], 8)
        self.assertEqual(xml.dom.minidom.parseString(text).documentElement.tagName, "svg")


if __name__ == "__main__":
    unittest.main()
