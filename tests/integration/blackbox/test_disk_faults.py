# SPDX-License-Identifier: Apache-2.0
"""Disks that fail or end while a real server saves: it says so, goes on, and loses no whole state.
Mostly without a journal, so that only checkpoints are at stake; tests/chaos/ fails the journal's
disk at any time, and here is the one case of it that needs a power loss as well.

Each call that a save makes on the data directory fails once, or from then on, or kills the
process. The parameter counts pushes, so that its value tells which state was loaded.
"""

import concurrent.futures
import glob
import os
import resource
import shutil
import signal
import tempfile
import unittest

import faults
import grpc
from blackbox import Server, patiently
from cluster import BIN, PATIENCE, wait_until

SHIM = os.path.join(BIN, "..", "tests", "fault_shim.so")  # tests/chaos/fault_shim.c
LOGGED = 2

SAVE = "/pserver.v1.Admin/SaveCheckpoint"
MESSAGES = {"EIO": "Input/output error", "ENOSPC": "No space left on device"}


def count(server):
    """What the parameter has counted to; a state that never was is an error."""
    values, version = patiently(lambda: server.calls.pull("w"))
    if values != [float(version)]:
        raise AssertionError(f"values {values} are not of version {version}")
    return version


def ask_to_save(server):
    return server.calls.channel.unary_unary(SAVE).future(b"", timeout=PATIENCE)


def saves(server):
    """How many are over, with what they sweep away: each is logged then."""
    log = server.process.log()
    return log.count("checkpoint saved") + log.count("nothing new since the newest checkpoint")


def save(server):
    """Saves, and waits until the saving thread has nothing to do: the reply comes before that."""
    before = saves(server)
    patiently(lambda: ask_to_save(server).result())
    wait_until(lambda: saves(server) > before and faults.sleeps(server.pid, "checkpointer"),
               "the save is over")


def push(server):
    return patiently(lambda: server.calls.push("w", [-1.0]))


def copy_of(server, folder):
    """The data directory as a kill -9 would leave it now."""
    server.process.signal(signal.SIGSTOP)
    try:
        shutil.copytree(server.data, folder)
    finally:
        server.process.signal(signal.SIGCONT)
    return folder


def loaded_from(folder):
    """What a server started on the folder has counted to; its log."""
    with Server("--no-journal", data=folder) as server:
        return count(server), server.process.log()


@unittest.skipIf(faults.why_not(), faults.why_not())
class Faults(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="pserver-test-")
        self.addCleanup(folder.cleanup)
        self.folder = folder.name

    def healthy_points(self, server):
        """Every call of a save on the data directory, in the order of one that works. Now and then
        the C library makes a call of its own, after which all the others have another number: the
        shortest of three saves has none of them."""
        push(server)
        save(server)  # from now on there is something to sweep away
        return min((self.points_of_a_save(server) for _ in range(3)),
                   key=lambda points: sum(n for _, n in points))

    def points_of_a_save(self, server):
        push(server)
        with faults.Trace(server) as trace:
            save(server)
            wait_until(lambda: any("pserver-1.log>" in line for line in trace.lines()),
                       "the save and its sweep are over, and logged")
            found = faults.points(trace.lines(), server.data)
        # Of the checkpoint, whose writes say where they go, and of the pointer to it.
        least = {"pwrite64": 2, "write": 1, "fdatasync": 2, "fsync": 2, "rename": 2}
        for call, times in least.items():
            self.assertGreaterEqual([point[0] for point in found].count(call), times, found)
        return found

    def counting_server(self, **options):
        server = Server("--no-journal", **options)
        self.addCleanup(server.__exit__)
        server.make_ready(values=[0.0])
        return server

    def test_each_call_of_a_save_fails(self):
        server = self.counting_server()
        copies = []
        for call, n in self.healthy_points(server):
            for error, when in (("EIO", f"{n}+"), ("ENOSPC", n)):
                copies.append(self.fail_at(server, call, error, when))
        self.assertTrue(server.process.alive())
        left = glob.glob(os.path.join(server.data, "shard-0", "*"))
        self.assertFalse([path for path in left if path.endswith(".tmp")], left)
        self.assertLessEqual(len(left), 3, left)
        print(f"{len(copies)} faults", end=" ")
        with concurrent.futures.ThreadPoolExecutor(8) as pool:
            for (folder, low, high), (found, _) in zip(
                    copies, pool.map(lambda copy: loaded_from(copy[0]), copies)):
                self.assertTrue(low <= found <= high, (folder, low, found, high))

    def fail_at(self, server, call, error, when):
        """The directory right after the fault, with the oldest and newest state it may hold."""
        for _ in range(5):
            copy = self.try_to_fail_at(server, call, error, when)
            if copy is not None:
                return copy
        raise AssertionError(f"{call} {error} {when}: no call on the data directory failed")

    def try_to_fail_at(self, server, call, error, when):
        """None if it was a call of the C library's own that failed, or the save had fewer calls."""
        save(server)
        low = count(server)
        push(server)
        folder = os.path.join(self.folder, f"{call}-{error}-{when}-{low}")
        logged = len(server.process.log())
        before = saves(server)
        with faults.Trace(server, "-e", f"inject={call}:error={error}:when={when}") as trace:
            saving = ask_to_save(server)
            wait_until(lambda: trace.hit() or saves(server) > before,
                       f"{folder} or the end of the save")
            found = server.data in (trace.hit() or "nothing")
            copy_of(server, folder)
            high = push(server)
        saving.result(PATIENCE)
        self.assertEqual(count(server), high)
        if not found:
            return None
        # What a save does not need may fail without a word: it is swept next time.
        if call in ("write", "pwrite64", "fdatasync", "fsync", "rename"):
            self.assertIn(MESSAGES[error], server.process.log()[logged:], folder)
        return folder, low, high

    def test_a_kill_at_each_call_leaves_a_whole_state(self):
        server = self.counting_server()
        where = [point for point in self.healthy_points(server) if point[0] != "mkdir"]
        save(server)
        low = count(server)
        base = copy_of(server, os.path.join(self.folder, "base"))
        print(f"{len(where)} kills", end=" ")

        def kill_and_load(point):
            folder = os.path.join(self.folder, f"{point[0]}-{point[1]}")
            shutil.copytree(base, folder)
            self.kill_at(folder, *point)
            return point, *loaded_from(folder)

        with concurrent.futures.ThreadPoolExecutor(10) as pool:
            results = list(pool.map(kill_and_load, where))
        for point, found, log in results:
            self.assertIn(found, (low, low + 1), (point, log))
        self.assertEqual({found for _, found, _ in results}, {low, low + 1})

    def kill_at(self, folder, call, n):
        with Server("--no-journal", data=folder) as server:
            # A loaded state is saved again at once; the calls to be counted are of the next save.
            save(server)
            push(server)
            with faults.Trace(server, "-e", f"inject={call}:signal=KILL:when={n}"):
                wait_until(lambda: ask_to_save(server).exception() and not server.process.alive(),
                           f"the {n}. {call} of a save")
                self.assertEqual(server.process.wait_exit(), -signal.SIGKILL)

    def test_a_last_checkpoint_that_fails_is_no_clean_end(self):
        server = self.counting_server()
        push(server)
        save(server)
        push(server)
        with faults.Trace(server, "-e", "inject=fdatasync:error=ENOSPC:when=1+"):
            server.process.signal(signal.SIGTERM)
            self.assertEqual(server.process.wait_exit(), 69, server.process.log())
        ended = [row for row in server.process.events() if row["msg"] == "ended"][-1]
        self.assertIn(MESSAGES["ENOSPC"], ended["error"])
        server.start()
        self.assertEqual(count(server), 1)

    def test_a_file_that_cannot_be_read_is_no_damage(self):
        server = self.counting_server()
        for _ in range(2):
            push(server)
            save(server)
        server.process.kill()
        for paths in (self.files(server)[-1:], self.files(server)):
            refused = self.start_without(server, paths)
            self.assertEqual(refused.wait_exit(), 69, refused.log())
            self.assertIsNone(refused.event("listening"), refused.log())
            self.assertIn(MESSAGES["EIO"], refused.log())
            self.assertRegex(refused.log(), r"shard-0/[0-9a-f-]+\.safetensors")
        server.start()
        self.assertEqual(count(server), 2)

    def test_a_file_that_cannot_be_read_at_first_is_read_later(self):
        server = self.counting_server()
        push(server)
        save(server)
        server.process.kill()
        path = self.files(server)[-1]
        os.rename(path, path + ".aside")
        os.symlink(path, path)  # to itself: opening it is an error of its own
        server.start(wait=False)
        wait_until(lambda: "trying again" in server.process.log(), "a second try")
        os.unlink(path)
        os.rename(path + ".aside", path)
        server.process.wait_event("listening")
        self.assertEqual(glob.glob(os.path.join(server.data, "shard-0", "*.damaged")), [])

    def files(self, server):
        return sorted(glob.glob(os.path.join(server.data, "shard-0", "*.safetensors")))

    def start_without(self, server, paths):
        """Another process on the same directory, which cannot read these files."""
        command = ["strace", "-D", "-f", "-qq", "-o", "/dev/null", "-e", "trace=pread64,read", "-e",
                   "inject=pread64,read:error=EIO:when=1+"]
        for path in paths:
            command += ["-P", path]
        return server.cluster.run(f"without-{len(paths)}", command + server.process.child.args)


@unittest.skipUnless(os.path.exists(SHIM), "the fault shim is not built")
class FailedSync(unittest.TestCase):
    """A sync fails, the process ends, the machine goes on: the record can be read, and no later
    sync will put it on the disk."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="pserver-test-")
        self.addCleanup(folder.cleanup)
        self.control = os.path.join(folder.name, "fault")
        self.disk("0")

    def disk(self, letter):
        # Servers have the file mapped: one that is cut to nothing before it is written, as by mode
        # "w", ends whichever server looks at that moment with a bus error.
        descriptor = os.open(self.control, os.O_WRONLY | os.O_CREAT, 0o600)
        os.pwrite(descriptor, letter.encode("ascii"), 0)
        os.close(descriptor)

    def segments(self, server):
        return sorted(glob.glob(os.path.join(server.data, "shard-0", "*.journal")))

    def test_what_the_next_owner_read_of_it_survives_a_power_loss(self):
        environment = {"LD_PRELOAD": SHIM, "PS_FAULT_SHIM": self.control,
                       "ASAN_OPTIONS": "verify_asan_link_order=0"}
        with Server(environment=environment) as server:
            server.make_ready(values=[0.0])
            self.assertEqual(patiently(lambda: server.calls.push("w", [-1.0], LOGGED)), 1)
            first, = self.segments(server)
            with open(first, "rb") as file:
                synced = file.read()
            self.disk("s")
            with self.assertRaises(grpc.RpcError):
                server.calls.push("w", [-1.0], LOGGED, timeout=1)
            server.process.kill()
            # No checkpoint comes to help.
            self.disk("c")
            server.start()
            self.assertEqual(count(server), 2)
            self.assertEqual(patiently(lambda: server.calls.push("w", [-1.0], LOGGED)), 3)
            server.process.kill()
            # What the power loss would have left of the file whose sync failed: in its place, over
            # bytes that may have been there before, and not only behind them.
            with open(first, "r+b") as file:
                self.assertNotEqual(file.read(), synced)
                file.seek(0)
                file.write(synced)
                file.truncate()
            self.disk("0")
            server.start()
            self.assertEqual(count(server), 3)


class Limits(unittest.TestCase):
    def test_a_file_size_limit_fails_saves_and_nothing_else(self):
        with Server("--no-journal", http=True) as server:
            server.make_ready(values=[0.0])
            push(server)
            _, most = resource.prlimit(server.pid, resource.RLIMIT_FSIZE)
            resource.prlimit(server.pid, resource.RLIMIT_FSIZE, (100, most))
            waiting = ask_to_save(server)
            failed = "\nps_checkpoint_failures_total 0\n"
            wait_until(lambda: failed not in server.get("/metrics")[1], "the save fails")
            self.assertEqual(push(server), 2)
            resource.prlimit(server.pid, resource.RLIMIT_FSIZE, (most, most))
            waiting.result(PATIENCE)
            server.process.kill()
            server.start()
            self.assertEqual(count(server), 2)

    def test_a7_finish_answers_though_no_checkpoint_can_be_written(self):
        with Server(http=True) as server:
            server.calls.init("w", [0.0])
            _, most = resource.prlimit(server.pid, resource.RLIMIT_FSIZE)
            resource.prlimit(server.pid, resource.RLIMIT_FSIZE, (0, most))
            with self.assertRaises(grpc.RpcError) as refused:
                server.calls.finish()
            self.assertEqual(refused.exception.code(), grpc.StatusCode.UNAVAILABLE)
            self.assertIn("File too large", refused.exception.details())
            resource.prlimit(server.pid, resource.RLIMIT_FSIZE, (most, most))

            def finished():
                try:
                    server.calls.finish()
                except grpc.RpcError as error:
                    return error.code() == grpc.StatusCode.ALREADY_EXISTS
                return True
            wait_until(finished, "the first checkpoint is written")
            self.assertEqual(push(server), 1)

    def test_without_room_for_its_lease_a_server_answers_nothing_and_comes_back(self):
        with Server(http=True, ttl="5s") as server:
            server.make_ready(values=[0.0])
            self.assertEqual(push(server), 1)
            _, most = resource.prlimit(server.pid, resource.RLIMIT_FSIZE)
            resource.prlimit(server.pid, resource.RLIMIT_FSIZE, (0, most))
            wait_until(lambda: server.get("/readyz")[0] == 503, "the lease cannot be kept")
            with self.assertRaises(grpc.RpcError) as refused:
                server.calls.pull("w")
            self.assertEqual(refused.exception.code(), grpc.StatusCode.UNAVAILABLE)
            self.assertIn("File too large", refused.exception.details())  # ENOSPC of this limit
            resource.prlimit(server.pid, resource.RLIMIT_FSIZE, (most, most))
            wait_until(lambda: server.get("/readyz")[0] == 200, "there is room again")
            self.assertEqual(count(server), 1)
            self.assertEqual(push(server), 2)


@unittest.skipUnless(os.path.isdir("/dev/shm"), "no file system in memory")
class NoDisk(unittest.TestCase):
    """A file system that takes O_DIRECT and goes through its cache all the same."""

    def setUp(self):
        self.folder = tempfile.mkdtemp(prefix="pserver-test-", dir="/dev/shm")
        self.addCleanup(shutil.rmtree, self.folder, ignore_errors=True)

    def test_the_journal_goes_through_the_cache_and_says_so(self):
        with Server(data=self.folder) as server:
            server.make_ready()
            server.calls.push("w", [1.0] * 4)
            self.assertEqual(server.process.wait_event("journal begins")["way"], "buffered")
            server.process.kill()
            server.start()
            self.assertEqual(server.calls.pull("w")[1], 1)

    def test_direct_is_refused_with_what_to_do(self):
        with Server("--journal-sync", "direct", data=self.folder, wait=False) as server:
            self.assertEqual(server.process.wait_exit(), 69)
            error = server.process.wait_event("ended")
            self.assertEqual(error["status"], "unsupported")
            self.assertIn("leave --journal-sync at auto", server.process.log())

    def test_both_ways_read_each_other(self):
        with Server("--journal-sync", "buffered") as server:
            server.make_ready()
            for version, way in enumerate(("buffered", "auto", "buffered"), 1):
                server.calls.push("w", [1.0] * 4)
                server.process.kill()
                server.flags = ("--journal-sync", way)
                server.start()
                self.assertEqual(server.calls.pull("w")[1], version)


if __name__ == "__main__":
    unittest.main(verbosity=2)
