# SPDX-License-Identifier: Apache-2.0
"""The Python package: tables, beside a plain model of the same rows in this process."""

import asyncio
import collections
import json
import os
import threading
import unittest

import numpy as np
import pserver
import pserver.aio
from pserver.testing import Server

F4 = np.float32
WIDTH = 5


class Model:
    """Rows by key, as a table with SGD of rate 1 has them."""

    def __init__(self, width=WIDTH):
        self.rows = collections.defaultdict(lambda: np.zeros(width, F4))

    def add(self, keys, gradients):
        """Sums first, as the servers do, so that the bits are the same."""
        sums = {}
        for key, gradient in zip(keys.tolist(), gradients):
            sums[key] = sums[key] + gradient if key in sums else gradient
        for key, gradient in sums.items():
            self.rows[key] = self.rows[key] - gradient

    def get(self, keys):
        return np.array([self.rows[key] for key in keys.tolist()])


class TwoServers(unittest.TestCase):
    """Servers of all tests of a class, and after each test none of its tables."""

    FLAGS = ("--ack=memory",)

    @classmethod
    def setUpClass(cls):
        cls.servers = [cls.enterClassContext(Server(*cls.FLAGS)) for _ in range(2)]

    def setUp(self):
        self.ps = self.connect()
        self.ps.initialize({})
        self.addCleanup(lambda: self.ps.drop(self.ps.parameters()))
        self.random = np.random.default_rng(int(os.environ.get("PS_SEED", "1")))

    def connect(self, **options):
        return self.enterContext(pserver.connect(
            ",".join(server.address for server in self.servers), timeout=120, **options))

    def keys(self, count, most=2 ** 64):
        return self.random.integers(0, most, count, np.uint64)

    def gradients(self, count, width=WIDTH):
        """Small whole numbers: sums of them are exact in any order."""
        return self.random.integers(-9, 9, (count, width)).astype(F4)


class Rows(TwoServers):
    def test_rows_are_those_of_a_plain_model(self):
        table, model = self.ps.table("t", WIDTH), Model()
        for most in (2 ** 64, 50, 2 ** 20):
            for count in (1, 300, 5000):
                keys, gradients = self.keys(count, most), self.gradients(count)
                table.add(keys, gradients)
                model.add(keys, gradients)
                asked = np.concatenate([keys, self.keys(100), keys[:7]])
                np.testing.assert_array_equal(table.get(asked), model.get(asked))

    def test_a_batch_may_be_larger_than_a_message(self):
        table = self.ps.table("t", 64)
        keys = np.arange(100_000, dtype=np.uint64)  # 26 MB of rows
        rows = np.repeat(keys.astype(F4)[:, None], 64, axis=1)
        table.add(keys, -rows)
        np.testing.assert_array_equal(table.get(keys), rows)
        np.testing.assert_array_equal(table.get(keys[::-1].copy()), rows[::-1])

    def test_keys_that_come_again_in_a_batch_larger_than_a_message_are_what_the_rule_says(self):
        """A sum of what was assigned is what nobody has assigned."""
        keys = np.arange(300, dtype=np.uint64) % 40
        rows = np.repeat(np.arange(300, dtype=F4)[:, None], 4096, axis=1)  # 32 go in a message
        last = np.array([299 - (299 - key) % 40 for key in range(40)])
        for rule, sign in ((pserver.Assign(), 1), (pserver.Max(), 1), (pserver.Min(), -1)):
            table = self.ps.table(type(rule).__name__, 4096, rule)
            table.add(keys, sign * rows)
            np.testing.assert_array_equal(table.get(np.arange(40))[:, 0], sign * last)

    def test_adding_and_getting_is_one_call(self):
        table, model = self.ps.table("t", WIDTH), Model()
        keys, following = self.keys(100, 40), self.keys(100, 40)
        gradients = self.gradients(100)
        model.add(keys, gradients)
        np.testing.assert_array_equal(table.add_get(keys, gradients), model.get(keys))
        model.add(keys, gradients)
        out = np.empty((100, WIDTH), F4)
        self.assertIs(table.add_get(keys, gradients, following, out=out), out)
        np.testing.assert_array_equal(out, model.get(following))
        with self.assertRaisesRegex(ValueError, "share memory"):
            table.add_get(keys, out, out=out)

    def test_no_keys_are_an_empty_answer(self):
        table = self.ps.table("t", WIDTH)
        for none in ([], np.empty(0, np.uint64), np.empty((0, 3), np.int64)):
            rows = table.get(none)
            self.assertEqual(rows.shape, (*np.shape(none), WIDTH))
            table.add(none, rows)

    def test_keys_and_rows_of_any_kind(self):
        table = self.ps.table("t", 2)
        table.add([[7, 8], [9, 9]], np.full((2, 2, 2), -1.0))  # float64, and a bag of two keys
        self.assertEqual(table.get([[7], [9]]).tolist(), [[[1.0, 1.0]], [[2.0, 2.0]]])
        self.assertEqual(table.get(7).tolist(), [1.0, 1.0])
        for keys in (np.array([1, 2 ** 16 - 1], np.uint16), np.array([2, 9, 3], ">i8")[1:],
                     np.arange(20)[::7], np.array([-1], np.int8)):
            table.add(keys, -np.ones((len(keys), 2), np.float16))
        far = np.array([2 ** 16 - 1, 2 ** 64 - 1, 14], np.uint64)
        self.assertEqual(table.get(far)[:, 0].tolist(),
                         [1.0, 1.0, 1.0])
        self.assertEqual(table.get([9, 3])[:, 0].tolist(), [3.0, 1.0])

    def test_a_table_of_width_1_takes_numbers(self):
        table = self.ps.table("t", 1)
        table.add([5, 6, 5], [-1.0, -2.0, -3.0])
        self.assertEqual(table.get([6, 5]).tolist(), [[2.0], [4.0]])

    def test_what_does_not_fit_is_refused_here(self):
        table = self.ps.table("t", WIDTH)
        for keys, gradients, kind in (
                ([1.5], np.zeros((1, WIDTH)), TypeError), (["x"], np.zeros((1, WIDTH)), TypeError),
                ([1], np.zeros((1, WIDTH), complex), TypeError),
                ([1], np.zeros((1, WIDTH + 1)), ValueError), ([1, 2], np.zeros(WIDTH), ValueError),
                ([1, 2], np.zeros((1, WIDTH)), ValueError)):
            with self.assertRaises(kind):
                table.add(keys, gradients)
        for out, kind in ((np.empty((2, WIDTH)), ValueError), ([1], TypeError),
                          (np.empty((WIDTH, 2), F4).T, TypeError),
                          (np.empty((1, WIDTH), F4), ValueError)):
            with self.assertRaises(kind):
                table.get([1, 2], out=out)

    def test_whole_numbers_that_do_not_fit_are_refused(self):
        table = self.ps.table("t", 2, dtype=np.int64, optimizer=pserver.Add())
        small = self.ps.table("s", 2, dtype=np.int32, optimizer=pserver.Add())
        for its, wrong in ((table, [[2 ** 63, 2 ** 63]]), (small, [[2 ** 31, 0]]),
                           (small, np.array([[1, -2 ** 31 - 1]]))):
            with self.assertRaisesRegex(ValueError, "is no int"):
                its.add([7], wrong)
        table.add([7], np.array([[2 ** 63 - 1, 3]], np.uint64))
        small.add([7], np.array([[-2 ** 31, 2 ** 31 - 1]]))
        self.assertEqual(table.get([7]).tolist(), [[2 ** 63 - 1, 3]])
        self.assertEqual(small.get([7]).tolist(), [[-2 ** 31, 2 ** 31 - 1]])

    def test_threads_share_a_table(self):
        table = self.ps.table("t", 1, dtype=np.int64, optimizer=pserver.Add())
        keys = np.arange(100)

        def count():
            for _ in range(50):
                table.add(keys, np.ones((100, 1), np.int64))

        threads = [threading.Thread(target=count) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(table.get(keys).tolist(), [[200]] * 100)


class Settings(TwoServers):
    def refused_as_full(self, table, keys):
        """Whoever is refused is told so, and does not come again by himself: that would go on for
        longer than this test may take."""
        with self.assertRaises(pserver.TableFullError) as caught:
            table.add(keys, np.ones(len(keys)), timeout=3600)
        self.assertIn("rows_max", str(caught.exception))
        self.assertIsInstance(caught.exception, pserver.ExhaustedError)
        self.assertFalse(caught.exception.retryable)

    def test_a_key_without_a_row_has_its_first_value_and_reading_makes_none(self):
        keys = self.keys(2000)
        even = self.ps.table("even", WIDTH, init=pserver.Uniform(-0.5, 0.25, seed=3), rows_max=1)
        rows = even.get(keys)
        self.assertTrue(np.all((rows >= -0.5) & (rows < 0.25)))
        self.assertAlmostEqual(float(rows.mean()), -0.125, delta=0.02)
        np.testing.assert_array_equal(even.get(keys[::-1].copy()), rows[::-1])
        normal = self.ps.table("normal", WIDTH, init=pserver.Normal(1.0, 0.1, seed=3)).get(keys)
        self.assertAlmostEqual(float(normal.mean()), 1.0, delta=0.01)
        self.assertAlmostEqual(float(normal.std()), 0.1, delta=0.01)
        same = self.ps.table("same", WIDTH, init=pserver.Constant(2.5)).get(keys)
        self.assertEqual(set(same.ravel().tolist()), {2.5})

    def test_the_first_gradient_is_added_to_the_first_value(self):
        table = self.ps.table("t", WIDTH, init=pserver.Uniform(-1, 1, seed=9))
        before = table.get([42])
        table.add([42], np.full((1, WIDTH), 0.5))
        np.testing.assert_array_equal(table.get([42]), before - F4(0.5))

    def test_a_table_is_opened_by_its_name(self):
        self.ps.table("t", WIDTH, dtype=np.float64).add([1], -np.ones((1, WIDTH)))
        other = self.connect().table("t")
        self.assertEqual((other.width, other.dtype), (WIDTH, np.float64))
        self.assertEqual(other.get([1]).tolist(), [[1.0] * WIDTH])
        with self.assertRaises(pserver.NotFoundError):
            self.ps.table("nobody")
        self.ps.define({"dense": np.zeros(3, F4)})
        with self.assertRaises(pserver.InvalidError):
            self.ps.table("dense")

    def test_an_equal_definition_is_fine_and_another_is_refused(self):
        first = dict(init=pserver.Uniform(0, 1), rows_max=7, optimizer=pserver.Adagrad(0.1))
        self.ps.table("t", WIDTH, **first)
        self.connect().table("t", WIDTH, **first)
        for other in (dict(width=WIDTH + 1), dict(init=pserver.Uniform(0, 2)),
                      dict(optimizer=pserver.SGD(0.1)), dict(dtype=np.float64)):
            with self.assertRaises((pserver.InvalidError, pserver.AlreadyInitializedError)):
                self.ps.table("t", **{"width": WIDTH, **first, **other})

    def test_a_row_too_many_is_refused_and_nothing_is_applied(self):
        table = self.ps.table("t", 1, rows_max=10)
        keys = np.arange(30)
        self.refused_as_full(table, keys)
        self.assertEqual(set(table.get(keys).ravel().tolist()), {0.0})

    def test_limits_may_be_changed(self):
        table = self.ps.table("t", 1, rows_max=1)
        table.configure(rows_max=100)
        table.add(np.arange(30), np.ones(30))
        table.configure(rows_max=5, full="refuse")
        table.add(np.arange(30), np.ones(30))  # these have their rows
        self.refused_as_full(table, np.arange(100, 140))
        with self.assertRaises(pserver.InvalidError):
            table.configure(rows_max=0, full="oldest")
        with self.assertRaises(ValueError):
            table.configure()

    def test_a_key_gets_its_row_with_its_nth_add(self):
        table = self.ps.table("t", 1, admission=3, candidates_max=1000)
        for sent in (range(30), range(30), range(20)):
            table.add(np.array(sent), -np.ones(len(sent)))
        table.configure(candidates_max=500)
        self.assertEqual(table.get(range(30)).ravel().tolist(), [1.0] * 20 + [0.0] * 10)
        with self.assertRaises(pserver.InvalidError):
            self.ps.table("u", 1, candidates_max=5)  # of no use without admission

    def test_keys_outside_their_ranges_are_refused(self):
        table = self.ps.table("t", 1, ranges=pserver.KeyRanges(keys_max=100))
        table.add([0, 49, 50, 99], [-1.0, -2.0, -3.0, -4.0])
        self.assertEqual(table.get([99, 50, 49, 0]).ravel().tolist(), [4.0, 3.0, 2.0, 1.0])
        for call in (lambda: table.get([3, 100]), lambda: table.add([100], [1.0])):
            with self.assertRaisesRegex(pserver.InvalidError, "100"):
                call()
        given = self.ps.table("given", 1, ranges=pserver.KeyRanges(bounds=[1000]))
        given.add([0, 999, 1000, 2 ** 63], np.full(4, -1.0))
        self.assertEqual(given.get([999, 1000]).ravel().tolist(), [1.0, 1.0])
        for ranges in (pserver.KeyRanges(), pserver.KeyRanges(keys_max=5, bounds=[3])):
            with self.assertRaises(ValueError):
                self.ps.table("x", 1, ranges=ranges)

    def test_the_rules_work_row_by_row(self):
        """Adagrad by hand, of a row and of single elements; others have tests of their own."""
        gradient = np.array([[3.0, 4.0]], F4)
        whole = self.ps.table("whole", 2, pserver.Adagrad(1.0, row_wise=True))
        whole.add([1], gradient)
        np.testing.assert_allclose(whole.get([1]), -gradient / np.sqrt(12.5), rtol=1e-6)
        each = self.ps.table("each", 2, pserver.Adagrad(1.0))
        each.add([1], gradient)
        np.testing.assert_allclose(each.get([1]), [[-1.0, -1.0]], rtol=1e-6)
        self.assertEqual(each.get([2]).tolist(), [[0.0, 0.0]])

    def test_gradients_that_are_not_finite_change_nothing(self):
        table = self.ps.table("t", 1, ranges=pserver.KeyRanges(bounds=[1000]))
        with self.assertRaises(pserver.InvalidError):
            table.add([1, 2], [1.0, np.nan])  # both are the first server's
        self.assertEqual(table.get([1, 2]).ravel().tolist(), [0.0, 0.0])

    def test_reads_wait_for_clocks(self):
        table = self.ps.table("t", 1)
        clocks = self.ps.clocks("train", workers=2, consistency="bsp")
        table.at(clocks.at(0, 0))
        table.get([1])
        clocks.clock(0, 1)
        table.at(clocks.at(0, 1))
        with self.assertRaises(pserver.Error):  # worker 1 has not ended its first iteration
            table.get([1], timeout=0.2)
        clocks.clock(1, 1)
        self.assertEqual(table.get([1]).tolist(), [[0.0]])
        table.at(None)
        table.get([1])


class Clocks(TwoServers):
    def test_rows_that_nobody_slower_updates_are_read_early(self):
        """Staleness 0: what is read has every update of the other worker that it must have."""
        clocks = self.ps.clocks("sparse", 2, "sparse-ssp", staleness=0, speculation=1)
        fast, slow = self.ps.table("t", 1), self.ps.table("t", 1)
        fast.at(clocks.at(0, 0))
        slow.at(clocks.at(1, 0))
        mine = [fast.get_ahead([1], clock) for clock in (0, 1)]
        theirs = [slow.get_ahead([2], clock) for clock in (0, 1)]
        self.assertEqual(mine[0].wait().tolist(), [[0.0]])
        fast.add([1], [-3.0])
        clocks.clock(0, 1)
        self.assertEqual(mine[1].wait().tolist(), [[3.0]])  # the other has announced key 2 alone
        late = fast.get_ahead([2], 2)
        clocks.clock(0, 2)
        for clock in (0, 1):
            theirs[clock].wait()
            slow.add([2], [-5.0])
            theirs.append(slow.get_ahead([2], clock + 2))
            clocks.clock(1, clock + 1)
        self.assertEqual(late.wait().tolist(), [[10.0]])
        with self.assertRaises(RuntimeError):
            late.wait()
        theirs[2].cancel()
        theirs[2].cancel()

    def test_a_read_under_way_ends_with_its_table(self):
        clocks = self.ps.clocks("ended", 2, "sparse-ssp", staleness=0, speculation=1)
        with self.ps.table("t", 1) as table:
            table.at(clocks.at(0, 0))
            reads = [table.get_ahead([1], clock) for clock in (0, 1)]
            with self.assertRaises(pserver.FailedError):
                table.get_ahead([1], 50).wait()  # that is too far
        for read in reads:
            with self.assertRaises(pserver.ClosedError):
                read.wait()

    def test_rows_that_are_kept_are_not_those_of_another_task(self):
        table, other = self.ps.table("t", 1), self.connect().table("t", 1)
        table.cache(100)
        for name, task in (("stages", 1), ("stages", 2), ("others", 1)):
            before = -table.get([7])[0, 0]
            for clock in range(3):
                clocks = self.ps.clocks(name, 1, "ssp", task=task)
                table.at(clocks.at(0, clock))
                self.assertEqual(-table.get([7])[0, 0], before + clock)
                other.add([7], [[1.0]])
                clocks.clock(0, clock + 1)
            table.at(None)

    def test_rows_may_be_kept_while_clocks_allow_it(self):
        clocks = self.ps.clocks("kept", 1, "ssp", staleness=2)
        table, beside = self.ps.table("t", 1), self.ps.table("t", 1)
        table.cache(100, staleness=2)
        table.at(clocks.at(0, 0))
        table.get([1, 2])
        beside.add([1], [-1.0])
        for clock in range(1, 3):
            clocks.clock(0, clock)
            table.at(clocks.at(0, clock))
            self.assertEqual(table.get([1]).tolist(), [[0.0]])
        self.assertEqual((table.cached.found, table.cached.missed), (2, 2))
        clocks.clock(0, 3)
        table.at(clocks.at(0, 3))
        self.assertEqual(table.get([1]).tolist(), [[1.0]])
        table.cache(0)
        self.assertEqual(table.cached.rows, 0)


class Coroutines(TwoServers):
    def test_calls_of_coroutines_go_beside_each_other(self):
        async def work():
            address = ",".join(server.address for server in self.servers)
            async with pserver.aio.connect(address) as ps:
                table = await ps.table("t", 1, pserver.Add(), dtype=np.int64)
                await asyncio.gather(*(table.add([key, 7], [1, 1]) for key in range(20)))
                table.at(None)
                return await table.get([3, 7]), await table.add_get([5], [9])

        rows, after = asyncio.run(work())
        self.assertEqual((rows.tolist(), after.tolist()), ([[1], [21]], [[10]]))


class Life(TwoServers):
    def test_a_table_ends_with_its_client(self):
        ps = self.connect()
        table, closed = ps.table("t", WIDTH), ps.table("t", WIDTH)
        closed.close()
        closed.close()
        with self.assertRaisesRegex(pserver.ClosedError, "table"):
            closed.get([1])
        self.assertEqual(repr(table), "<pserver.Table 't', rows of 5 float32>")
        ps.close()
        with self.assertRaises(pserver.ClosedError):
            table.get([1])
        table.close()
        with self.assertRaises(pserver.ClosedError):
            ps.table("t")

    def test_tables_are_parameters(self):
        with self.ps.table("t", WIDTH) as table:
            table.add([1], np.ones((1, WIDTH)))
        self.ps.define({"dense": np.zeros(3, F4)})
        infos = self.ps.parameters()
        self.assertEqual({name: (info.is_table, info.shape) for name, info in infos.items()},
                         {"t": (True, (1, WIDTH)), "dense": (False, (3,))})
        with self.assertRaisesRegex(pserver.InvalidError, "table"):
            self.ps.pull(["t"])
        self.assertEqual(set(self.ps.pull()), {"dense"})
        self.ps.drop(["t"])
        with self.assertRaises(pserver.NotFoundError):
            self.ps.table("t")

    def test_a_table_that_was_defined_anew_with_another_width_takes_no_rows_of_the_old_one(self):
        """Two keys with a number each are as many bytes as a key with a row of the new table:
        without a word about the width they would be pushed, to a key that nobody meant."""
        # A name as long as they may be leaves what is wrong with the push in the text.
        name = "t" * 512
        stale = self.ps.table(name, 1, pserver.Add())
        self.ps.drop([name])
        table = self.ps.table(name, 4, pserver.Add())
        keys = self.keys(6)
        for push in (stale.add, lambda *rows: stale.add_get(*rows, get=keys)):
            with self.assertRaisesRegex(pserver.InvalidError,
                                        "rows of 1 elements were pushed, and the table has "
                                        "rows of 4: open the table again"):
                push(keys, np.ones((6, 1), F4))
        with self.assertRaisesRegex(pserver.InvalidError, "bytes, asked for"):
            stale.get(keys)
        self.assertEqual(self.ps.parameters()[name].shape, (0, 4))
        table.add(keys, np.ones((6, 4)))
        self.assertEqual(self.ps.parameters()[name].shape, (6, 4))


def read_safetensors(path):
    """A length, a header of JSON, the bytes: enough for keys and rows of float32."""
    types = {"F32": F4, "U32": np.uint32, "U64": np.uint64}
    with open(path, "rb") as file:
        header = json.loads(file.read(int.from_bytes(file.read(8), "little")))
        content = file.read()
    header.pop("__metadata__")
    return {name: np.frombuffer(content[slice(*tensor["data_offsets"])],
                                types[tensor["dtype"]]).reshape(tensor["shape"])
            for name, tensor in header.items() if tensor["dtype"] in types}


class Checkpoints(TwoServers):
    def test_keys_and_rows_stand_side_by_side(self):
        table = self.ps.table("t", WIDTH, pserver.Adagrad(0.1, row_wise=True),
                              init=pserver.Uniform(-1, 1))
        keys = self.keys(500)
        table.add(keys, self.gradients(500))
        files = [read_safetensors(saved.path) for saved in self.ps.save()]
        found = np.concatenate([tensors["ps.keys/t"] for tensors in files])
        self.assertEqual(sorted(found.tolist()), sorted(keys.tolist()))
        rows = np.concatenate([tensors["t"] for tensors in files])
        np.testing.assert_array_equal(table.get(found), rows)
        for tensors in files:
            shapes = {tensors[name].shape for name in tensors if name.endswith("/t")}
            self.assertIn(tensors["ps.keys/t"].shape, shapes)
            self.assertEqual(set(tensors["ps.clock/t"].tolist()), {1})
            states = [name for name in tensors
                      if name not in ("t", "ps.keys/t", "ps.clock/t") and "t" in name.split("/")]
            self.assertEqual([tensors[name].shape for name in states], [(len(tensors["t"]), 1)])


if __name__ == "__main__":
    unittest.main(verbosity=2)
