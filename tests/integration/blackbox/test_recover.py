#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""docs/recover.md, followed literally: each damage of its table is done to a server alone and to a
job of two shards with etcd; the words that the page names must be in the log, the blocks of the
page are typed into a shell as they stand, and what is served then must be a state that there was:
by digest, the very last one wherever the page says that nothing is lost.
"""

import functools
import glob
import os
import re
import resource
import shutil
import subprocess
import types
import unittest

import grpc
from recover_world import ELEMENTS, LAST, PUSHES, Page, World, digest, flip, offset_of
from cluster import BIN, wait_until
from journal_files import records_end
from test_define_param import Trainer
from test_rounds import Worker, rounds
from test_tables import WIDTH, Rows, configuration

def in_each_world(test):
    """A server alone, and two with etcd."""
    @functools.wraps(test)
    def both(self):
        for shards in (1, 2):
            with self.subTest("alone" if shards == 1 else "two shards, etcd"), \
                    World(shards) as world:
                test(self, world)
    return both


class Recovery(unittest.TestCase):
    """What the classes below share; ctest runs each of them by itself."""
    page = Page()

    def keep(self, world):
        """A copy of what was there, to compare with."""
        self.before = os.path.join(world.cluster.folder, "before")
        shutil.copytree(world.data, self.before)

    def refuse(self, world, damage, heading, index=0):
        """The damaged shard is refused with the words of table and section, and changes nothing."""
        status, words = self.page.table()[damage]
        self.assertEqual(status, "65")
        process = world.start(index)
        self.assertEqual(process.wait_exit(), 65, process.log()[-3000:])
        self.see(process, words, heading)
        self.assertIn("docs/recover.md", process.log())

    def see(self, process, words, heading):
        """The log has one of `words`, and one of the section's; maybe a moment after a reply."""
        for any_of in (words, self.page.words(heading)):
            wait_until(lambda: any(word in process.log() for word in any_of),
                       f"{any_of} in {process.log()[-3000:]}")

    def check(self, world, lost=None, unknown=0):
        """What is served now is the state of before at the position that it has; `lost` pushes of
        shard 0 are missing (None: some), and counted, but for those that nobody knew of."""
        world.start_all()
        world.wait_ready()
        rows = world.status()
        for index in range(world.shards):
            whole = LAST
            missing = whole - rows[index]["position"]
            wanted = (lost if lost is not None else missing) if index == 0 else 0
            self.assertEqual(missing, wanted)
            self.assertEqual(rows[index]["lost_push_count"], missing - (unknown if wanted else 0))
        world.stop()
        for index in range(world.shards):
            now, position = digest(world.shard(index))
            then, _ = digest(os.path.join(self.before, f"shard-{index}"), "--to", str(position))
            self.assertEqual(now, then)
        world.start_all()
        world.wait_ready()
        for index in range(world.shards):
            self.assertEqual(world.status()[index]["lost_push_count"], 0)
        return rows[0]["position"]

    def served(self, world, damage, heading):
        status, words = self.page.table()[damage]
        self.assertEqual(status, "serves")
        process = world.start(0)
        process.wait_event("listening")
        self.see(process, words, heading)
        world.cluster.kill_server(process)


class Checkpoints(Recovery):
    @in_each_world
    def test_a_bit_flipped_in_the_newest_checkpoint(self, world):
        world.work()
        self.keep(world)
        newest = world.checkpoints(0)[-1]
        flip(newest, offset_of(newest, "w"))
        self.assertIn("w", world.type(self.page.blocks("What is damaged?")[0]))

        self.served(world, "a bit of the newest checkpoint flipped",
                    "The newest checkpoint is damaged")

        self.check(world, lost=0)

    @in_each_world
    def test_a_bit_flipped_in_every_checkpoint(self, world):
        world.work()
        self.keep(world)
        for path, name in zip(world.checkpoints(0)[-2:], ("w", "a")):
            flip(path, offset_of(path, name))

        self.refuse(world, "a bit of every checkpoint flipped", "No checkpoint is whole")
        said = world.type(self.page.blocks("No checkpoint is whole")[0])

        self.assertIn("2 of 2 parameters", said)
        self.assertEqual(world.data, world.new)
        self.check(world, lost=0)

    def test_a_tensor_that_is_whole_nowhere_is_listed(self):
        with World(1) as world:
            world.work()
            for path in world.checkpoints(0)[-2:]:
                flip(path, offset_of(path, "w"))

            self.refuse(world, "a bit of every checkpoint flipped", "No checkpoint is whole")
            said = world.type(self.page.blocks("No checkpoint is whole")[0])

            self.assertIn("w: left out: it is whole nowhere", said)
            self.assertIn("1 of 2 parameters", said)
            world.start_all()
            world.wait_ready()
            self.assertEqual(world.status()[0]["parameter_count"], 1)
            self.assertEqual(world.status()[0]["position"], LAST)

    @in_each_world
    def test_damaged_sessions_in_the_newest_checkpoint(self, world):
        world.work()
        self.keep(world)
        newest = world.checkpoints(0)[-1]
        flip(newest, offset_of(newest, "ps.sessions"))

        self.served(world, "a bit of `ps.sessions` flipped, in the newest",
                    "The newest checkpoint is damaged")

        self.check(world, lost=0)

    def test_damaged_rounds_in_the_newest_checkpoint(self):
        with World(1) as world:
            world.start_all()
            world.calls[0].init("w", [0.0])
            world.calls[0].finish()
            server = types.SimpleNamespace(calls=world.calls[0])
            Trainer(server, b"owner").define("m", [10.0], rounds(2))
            workers = [Worker(server, rank) for rank in range(2)]
            self.assertTrue(workers[0].contribute([1.0]).held)
            world.save()
            world.kill()
            newest = world.checkpoints(0)[-1]
            flip(newest, offset_of(newest, "ps.rounds"))

            self.served(world, "a bit of `ps.rounds` or `ps.clocks` flipped, in the newest",
                        "The newest checkpoint is damaged")

            world.start_all()
            server.calls = world.calls[0]
            self.assertFalse(workers[1].contribute([3.0]).held)
            self.assertEqual(server.calls.pull("m"), ([8.0], 1))

    def test_damaged_keys_of_a_table_in_the_newest_checkpoint(self):
        with World(1) as world:
            world.start_all()
            world.calls[0].init("w", [0.0])
            world.calls[0].finish()
            server = types.SimpleNamespace(calls=world.calls[0])
            table = Rows(server, "t")
            table.define(configuration())
            for sequence in range(2):
                table.push([(key, [float(sequence)] * WIDTH) for key in range(sequence, 50)])
                world.save()
            values = table.values(range(60))
            world.kill()
            newest = world.checkpoints(0)[-1]
            flip(newest, offset_of(newest, "ps.keys/t"))

            self.served(world, "a bit of a table's keys (`ps.keys/NAME`) flipped, in the newest",
                        "The newest checkpoint is damaged")

            world.start_all()
            server.calls = world.calls[0]
            self.assertEqual(table.values(range(60)), values)

    def with_increments(self, world, values, saves):
        """Pushes to "w", which increments have, and none to "still", which they leave to a base."""
        world.start_all()
        world.calls[0].init("w", [0.0] * ELEMENTS)
        world.calls[0].init("still", [0.0] * ELEMENTS * 8)
        world.calls[0].finish()
        for value in range(values):
            world.push(0, "w", -1.0 - value)
            if value < saves:
                world.save()
        wait_until(lambda: glob.glob(os.path.join(world.shard(0), f"*-{values:016x}.durable")),
                   "the last push is noted")
        world.kill()
        return world.checkpoints(0)

    def test_the_base_of_the_newest_checkpoint_is_gone(self):
        """The newest adds to a whole one, and so does the one before, to another."""
        with World(1, ("--increments", "1")) as world:
            files = self.with_increments(world, 4, 3)
            self.assertEqual(["-on-" in path for path in files[-3:]], [True, False, True], files)
            os.remove(files[-2])

            self.served(world, "the base of the newest checkpoint deleted",
                        "The newest checkpoint is damaged")

            world.start_all()
            self.assertEqual(world.calls[0].pull("w")[0][0], 10.0)

    def test_what_is_in_no_increment_is_listed(self):
        with World(1, ("--increments", "4")) as world:
            for path in self.with_increments(world, 4, 3):
                if "-on-" not in path:
                    os.remove(path)

            self.refuse(world, "every whole checkpoint gone, increments left",
                        "No checkpoint is whole")
            said = world.type(self.page.blocks("No checkpoint is whole")[0])

            self.assertIn("is not in the folder", said)
            self.assertIn("still: left out: it is whole nowhere", said)
            self.assertIn("1 of 2 parameters", said)
            world.start_all()
            self.assertEqual(world.calls[0].pull("w")[0][0], 10.0)

    @in_each_world
    def test_damaged_sessions_in_every_checkpoint(self, world):
        world.work()
        self.keep(world)
        for path in world.checkpoints(0)[-2:]:
            flip(path, offset_of(path, "ps.sessions"))

        self.refuse(world, "the same in every checkpoint", "No checkpoint is whole")
        world.type(self.page.blocks("No checkpoint is whole")[0])

        self.check(world, lost=0)


class Journal(Recovery):
    def repair(self, world, damage, block, lost=None, index=0):
        self.refuse(world, damage, "The journal is damaged, has a hole, or ends too early", index)
        world.type(self.page.blocks("The journal is damaged, has a hole, or ends too early")[block])
        return self.check(world, lost)

    def cut_and_repair(self, world, block):
        world.work()
        self.keep(world)
        last = world.segments(0)[-1]
        os.truncate(last, records_end(last) - 1000)

        self.repair(world, "the journal's end cut off", block, lost=1)

    @in_each_world
    def test_a_journal_cut_by_1000_bytes(self, world):
        self.cut_and_repair(world, 0)

    @in_each_world
    def test_a_journal_cut_by_1000_bytes_and_repaired_elsewhere(self, world):
        self.cut_and_repair(world, 1)

    def delete_and_repair(self, world, block):
        world.work()
        self.keep(world)
        os.remove(world.segments(0)[-2])

        position = self.repair(world, "a segment of the journal deleted", block)

        self.assertLess(position, LAST)

    @in_each_world
    def test_a_segment_deleted(self, world):
        self.delete_and_repair(world, 0)

    @in_each_world
    def test_a_segment_deleted_and_repaired_elsewhere(self, world):
        self.delete_and_repair(world, 1)

    @in_each_world
    def test_every_segment_deleted(self, world):
        world.work()
        self.keep(world)
        for path in world.segments(0):
            os.remove(path)

        self.repair(world, "a segment of the journal deleted", 0, lost=PUSHES * 2)

    def test_a_segment_swapped_with_another_shards(self):
        with World(2) as world:
            world.work()
            self.keep(world)
            mine, other = world.segments(0)[-1], world.segments(1)[-1]
            os.rename(mine, mine + ".x")
            os.rename(other, mine)
            os.rename(mine + ".x", other)

            self.refuse(world, "a segment swapped with another shard's",
                        "The journal is damaged, has a hole, or ends too early")
            os.rename(mine, other + ".x")
            os.rename(other, mine)
            os.rename(other + ".x", other)

            self.check(world, lost=0)

    def test_a_segment_of_another_shard_in_the_place_of_ones_own(self):
        with World(2) as world:
            world.work()
            self.keep(world)
            shutil.copy(world.segments(1)[-1], world.segments(0)[-1])

            self.repair(world, "a segment swapped with another shard's", 0)


class Published(Recovery):
    @in_each_world
    def test_the_published_file_deleted_and_the_journal_whole(self, world):
        world.work()
        self.keep(world)
        os.remove(world.checkpoints(0)[-1])

        self.served(world, "the published file deleted, the journal whole",
                    "The newest checkpoint is damaged")

        self.check(world, lost=0)

    @in_each_world
    def test_a_folder_older_than_the_pointer(self, world):
        snapshot = os.path.join(world.cluster.folder, "snapshot")
        world.work(lambda: shutil.copytree(world.shard(0), snapshot))
        self.keep(world)
        shutil.rmtree(world.shard(0))
        shutil.move(snapshot, world.shard(0))

        self.refuse(world, "the folder is older than the pointer",
                    "What is here is older than what was published")
        said = world.type(self.page.blocks("What is here is older than what was published")[0])

        # The store knew of the newest checkpoint, and of what came after it if the servers ran for
        # more than 30 seconds.
        given_up = int(re.search(r"shard 0: given up: (\d+) pushes", said)[1])
        self.assertIn(given_up, range(12, 25))
        self.check(world, lost=24, unknown=24 - given_up)


class Around(Recovery):
    def test_etcds_keys_gone(self):
        with World(2) as world:
            world.work()
            self.keep(world)
            world.cluster.etcd.kill()
            shutil.rmtree(os.path.join(world.cluster.folder, "etcd"))
            world.cluster.start_etcd()

            self.check(world, lost=0)

            log = "".join(process.log() for process in world.cluster.processes)
            for word in self.page.words("etcd's keys are gone"):
                self.assertIn(word, log)

    def test_the_wrong_data_directory(self):
        with World(2) as world:
            world.work()
            self.keep(world)
            right = world.data
            world.cluster.data = os.path.join(world.cluster.folder, "wrong")

            for name in (right, right + "-not-mounted"):
                os.rename(right, name)
                self.refuse(world, "wrong `--data-dir`", "The data directory is the wrong one")
                log = world.cluster.processes[-1].log()
                self.assertNotIn("repair", log)
                self.assertIn(os.path.join(right, "shard-0"), log)
                os.rename(name, right)
            world.cluster.data = right
            self.check(world, lost=0)

    @in_each_world
    def test_files_of_another_job_in_the_folder(self, world):
        world.work()
        self.keep(world)
        copies = []
        with World(world.shards) as other:
            other.work()
            for path in other.segments(0) + other.checkpoints(0):
                copy = os.path.join(world.shard(0), os.path.basename(path))
                if not os.path.exists(copy):
                    shutil.copy(path, copy)
                    copies.append(copy)
        self.assertGreater(len(copies), 1)
        heading = "Files of another shard, job or run are in the folder"

        self.refuse(world, "files of another job, shard or run copied into the folder", heading)
        said = world.type(self.page.blocks(heading)[0])

        named = re.findall(r"^mixed +(.*): of history", said, re.M)
        self.assertEqual(sorted(named), sorted(copies))
        for copy in copies:
            os.remove(copy)
        self.check(world, lost=0)

    def test_the_wrong_data_directory_of_a_server_alone(self):
        with World(1) as world:
            world.work()
            self.keep(world)
            right = world.data
            world.cluster.data = os.path.join(world.cluster.folder, "wrong")
            world.start_all()
            self.assertEqual(world.status()[0]["state"], "uninitialized")
            self.assertEqual(world.status()[0]["position"], 0)
            world.stop()

            world.cluster.data = right
            self.check(world, lost=0)

    def test_the_store_of_a_server_alone_is_damaged(self):
        heading = "The store of a server without etcd is damaged"
        for damage in (lambda text: bytes(len(text)), lambda text: text[:-40]):
            with World(1) as world:
                world.work()
                self.keep(world)
                store = os.path.join(world.data, "store", "store")
                with open(store, "r+b") as file:
                    text = file.read()
                    file.seek(0)
                    file.truncate()
                    file.write(damage(text))

                self.refuse(world, "the store of a server without etcd damaged", heading)
                for command in ("verify", "list", "publish"):
                    found = subprocess.run([os.path.join(BIN, "psckpt"), command, world.data],
                                           capture_output=True, text=True, check=False)
                    self.assertEqual(found.returncode, 65, found)
                    self.assertRegex(found.stdout + found.stderr,
                                     store + ": not a whole store file: .*; move it away")
                world.type(self.page.blocks(heading)[0])

                self.check(world, lost=0)

    @in_each_world
    def test_the_disk_is_full(self, world):
        world.work()
        self.keep(world)
        world.start_all()
        world.wait_ready()
        pid = world.servers[0].child.pid
        _, most = resource.prlimit(pid, resource.RLIMIT_FSIZE)
        resource.prlimit(pid, resource.RLIMIT_FSIZE, (64 * 1024, most))

        with self.assertRaises(grpc.RpcError) as refused:
            world.push(0, "w", -1.0)

        self.assertEqual(refused.exception.code(), grpc.StatusCode.UNAVAILABLE)
        world.sequence[0] -= 1
        self.see(world.servers[0], self.page.table()["disk full"][1], "The disk is full")
        world.type(self.page.blocks("The disk is full")[0])
        resource.prlimit(pid, resource.RLIMIT_FSIZE, (most, most))
        wait_until(lambda: world.status()[0]["state"] == "ready", "it goes on by itself")
        wait_until(lambda: world.servers[0].event("journal goes on in another file"),
                   "the journal goes on")
        self.assertEqual(world.status()[0]["position"], LAST + 1)

    def test_every_exit_status_and_every_row_is_on_the_page(self):
        shown = subprocess.run([os.path.join(BIN, "pserver"), "--help"], capture_output=True,
                               text=True, check=True).stdout
        statuses = re.findall(r"^  (\d+)\s+\w", shown, re.M)
        self.assertIn("65", statuses)
        for status in statuses:
            self.assertRegex(self.page.text, rf"(?m)^\| {status} \|")
        with open(__file__, encoding="utf-8") as file:
            tests = file.read()
        for damage in self.page.table():
            self.assertIn(f'"{damage}"', tests.replace("etcds_keys_gone", '"etcd\'s keys gone"'))


if __name__ == "__main__":
    unittest.main(verbosity=2)
