# SPDX-License-Identifier: Apache-2.0
"""The Python package: what is easily got wrong is refused in words that say what, where, and what
goes there instead; and nothing of it reaches a server as another number."""

import unittest

import numpy as np
import pserver
from pserver.testing import Server

F4 = np.float32


class Mistakes(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.server = cls.enterClassContext(Server("--ack=memory", data=False))

    def setUp(self):
        self.ps = self.enterContext(pserver.connect([self.server.address], timeout=30))
        self.ps.initialize({})
        self.addCleanup(lambda: self.ps.drop(self.ps.parameters()))
        self.table = self.ps.table("t", 4, pserver.Adagrad(0.05))

    def refuses(self, kind, words, call):
        with self.assertRaisesRegex(kind, words) as caught:
            call()
        return caught.exception

    def test_keys_that_are_none(self):
        table = self.table
        self.refuses(ValueError, "t: 18446744073709551616 has more than the 64 bits",
                     lambda: table.get([1, 2 ** 64]))
        self.refuses(ValueError, "t: -9223372036854775809 has more",
                     lambda: table.get([-2 ** 63 - 1]))
        self.refuses(TypeError, "t: .* not texts such as 'cat': pserver.text_keys",
                     lambda: table.get(["cat"]))
        self.refuses(TypeError, "t: .* not a set", lambda: table.get({1, 2}))
        self.refuses(TypeError, "t: .* not a float", lambda: table.get([1.0]))
        self.refuses(TypeError, "t: .* not float64", lambda: table.get(np.array([1.0])))
        self.refuses(ValueError, "t: rows of keys are of different lengths",
                     lambda: table.get([[1, 2], [3]]))
        self.assertEqual(self.ps.parameters()["t"].shape, (0, 4))

    def test_keys_that_are_some(self):
        self.table.add([2 ** 64 - 1, 2 ** 63], np.ones((2, 4)))
        for keys in ([-1], np.array([-1], np.int32), np.array([2 ** 64 - 1], object)):
            np.testing.assert_array_equal(self.table.get(keys), self.table.get([2 ** 64 - 1]))
        self.assertEqual(self.table.get(np.array([])).shape, (0, 4))

    def test_keys_of_texts_are_the_same_everywhere(self):
        keys = pserver.text_keys(["cat", "city=Ulm", "cat", "Zürich"])
        self.assertEqual(keys.dtype, np.uint64)
        self.assertEqual(keys.tolist(), [3429664268601861939, 9230716434901107732,
                                         3429664268601861939, 636548684707296368])
        self.assertEqual(pserver.text_keys([]).shape, (0,))
        self.assertEqual(self.table.get(keys).shape, (4, 4))
        self.refuses(TypeError, r"texts in a list, and not one: \['cat'\]",
                     lambda: pserver.text_keys("cat"))

    def test_settings_are_named_with_what_goes_there(self):
        for words, make in (
                ("Adam: lr is 'x': it is a number", lambda: pserver.Adam(lr="x")),
                (r"Adam: betas is \(0.9,\): it is 2 numbers", lambda: pserver.Adam(betas=(0.9,))),
                ("SGD: nonfinite is 'x': it is one of 'reject', 'skip', 'allow'",
                 lambda: pserver.SGD(0.1, nonfinite="x")),
                ("Schedule: policy is 'cosine': it is one of 'linear'",
                 lambda: pserver.Schedule("cosine")),
                ("SGD: rounds is 3: it is a Rounds", lambda: pserver.SGD(0.1, rounds=3)),
                ("Rounds: workers is -1: it is from 0", lambda: pserver.Rounds(-1)),
                ("Uniform: seed is -1: it is from 0", lambda: pserver.Uniform(0, 1, seed=-1)),
                ("KeyRanges: bounds is 1.5: it is a whole",
                 lambda: pserver.KeyRanges(bounds=[1.5])),
                ("n: width is 0: it is from 1 to 4096", lambda: self.ps.table("n", 0)),
                ("n: width is 4.5: it is a whole number", lambda: self.ps.table("n", 4.5)),
                ("n: rows_max is -1: it is from 0", lambda: self.ps.table("n", 4, rows_max=-1)),
                ("n: full is 'lru': it is one of 'refuse', 'oldest'",
                 lambda: self.ps.table("n", 4, full="lru")),
                ("n: expire is -1: it is seconds", lambda: self.ps.table("n", 4, expire=-1)),
                ("n: expire_clocks is 'train': .* as .\"train\", 100.",
                 lambda: self.ps.table("n", 4, expire_clocks="train")),
                ("n: init is 'uniform': give one, such as pserver.Uniform",
                 lambda: self.ps.table("n", 4, init="uniform")),
                ("n: the optimizer is 'adam': give one", lambda: self.ps.table("n", 4, "adam")),
                ("n: the optimizer is <class .*Adam'>: give one",
                 lambda: self.ps.define({"n": np.zeros(3)}, pserver.Adam)),
                ("by the names of their parameters, .* not in a list",
                 lambda: self.ps.push([np.zeros(3)])),
                ("t: rows_max is -5: it is from 0", lambda: self.table.configure(rows_max=-5)),
                ("timeout is '5': it is a number", lambda: self.table.get([1], timeout="5")),
                ("ack is 'always': it is one of 'default', 'memory', 'logged'",
                 lambda: pserver.connect(self.server.address, ack="always"))):
            self.refuses((TypeError, ValueError), words, make)
        self.assertEqual(list(self.ps.parameters()), ["t"])
        self.assertEqual(pserver.SGD(np.float32(0.5)).config(), pserver.SGD(0.5).config())

    def test_gradients_that_are_not_finite_are_named_by_their_keys(self):
        gradients = np.ones((4, 4), F4)
        gradients[1, 2] = np.nan
        for call in (self.table.add, self.table.add_get):
            self.refuses(pserver.InvalidError,
                         "element 2 of the gradient of key 8 is not finite",
                         lambda: call([7, 8, 9, 10], gradients))
        self.assertEqual(self.ps.parameters()["t"].shape, (0, 4))

    def test_another_table_of_the_name_is_told_what_differs(self):
        for words, width, optimizer in (("table.width=4 and not 8", 8, pserver.Adagrad(0.05)),
                                        ("lr=0.05 and not 0.5", 4, pserver.Adagrad(0.5)),
                                        ("rule=adagrad and not ftrl", 4, pserver.Ftrl(0.05))):
            error = self.refuses(pserver.AlreadyInitializedError, words,
                                 lambda: self.ps.table("t", width, optimizer))
            self.assertIn("without a width, table() takes it as it is", str(error))
        self.refuses(pserver.NotFoundError, "no table 'u' .with a width, table.. makes it",
                     lambda: self.ps.table("u"))
        self.ps.define({"d": np.zeros(3, F4)})
        self.refuses(pserver.AlreadyInitializedError, "d exists, and is no table",
                     lambda: self.ps.table("d", 4))

    def test_a_clock_is_never_another_one_than_was_said(self):
        clocks = self.ps.clocks("mistakes", workers=2, staleness=1)
        for call in (lambda: clocks.clock(0, -1), lambda: clocks.clock(-1, 1),
                     lambda: clocks.at(0, -1), lambda: clocks.clock(0, 2 ** 63),
                     lambda: self.ps.clocks("mistakes", workers=-1),
                     lambda: self.ps.clocks("mistakes", workers=2, staleness=-1),
                     lambda: self.ps.clocks("mistakes", workers=2, ranks=[-1])):
            self.refuses(ValueError, " is -?[0-9]+: it is from ", call)
        self.refuses(ValueError, "consistency is 'no': it is one of 'asp', 'ssp', 'bsp'",
                     lambda: self.ps.clocks("mistakes", workers=2, consistency="no"))
        self.refuses(TypeError, r"t: at takes clocks.at\(worker, clock\)",
                     lambda: self.table.at(3))
        self.assertEqual([worker.clock for worker in clocks.progress().workers], [0, 0])

    def test_what_may_be_called_again_says_so(self):
        error = self.refuses(pserver.UnknownOutcomeError, "1 of 2 members are there; missing: 1",
                             lambda: self.ps.barrier("mistakes", 1, 0, 2, timeout=0.2))
        self.assertIn("call it again with the same name and round", str(error))
        rounds = self.ps.table("r", 4, pserver.SGD(1.0, rounds=pserver.Rounds(2)))
        with self.assertRaises((pserver.UnknownOutcomeError, pserver.UnavailableError)) as caught:
            rounds.push_pull([1], np.ones((1, 4)), worker=0, timeout=0.3)
        self.assertNotIn("do not push it again", str(caught.exception))

    def test_a_client_is_one_worker(self):
        me = self.ps.worker(name="a", size=2)
        self.addCleanup(me.leave)
        self.assertEqual(self.ps.worker(name="a", size=2).rank, me.rank)
        self.assertEqual(self.ps.worker().rank, me.rank)
        for other in (dict(name="b"), dict(rank=1)):
            self.refuses(pserver.FailedError, "is worker 0 .* already: every worker has a client",
                         lambda: self.ps.worker(**other))


class BeforeTheJob(unittest.TestCase):
    def test_names_are_waited_for_until_the_job_is_initialised(self):
        with Server("--ack=memory", data=False) as server, \
                pserver.connect(server.address) as ps:
            with self.assertRaises(pserver.NotInitializedError):
                ps.pull(["w"], timeout=0.2)
            with self.assertRaisesRegex(pserver.UnavailableError, "nobody has initialised the job"):
                ps.table("t", 4).get([1], timeout=0.2)


if __name__ == "__main__":
    unittest.main()
