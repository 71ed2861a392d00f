# SPDX-License-Identifier: Apache-2.0
"""What test_python_table_model.py compares tables with: the rows of one table as plain Python has
them, with the arithmetic of the rules that are exact in any order of evaluation."""

import numpy as np
import pserver

# Keys of which a table of 2^64 has the first and the last, and those beside them.
EDGES = [0, 1, 2 ** 63 - 1, 2 ** 63, 2 ** 64 - 2, 2 ** 64 - 1]

# By name: the rule, and whether this module can say what a push makes of a row.
RULES = {
    "sgd": (lambda **more: pserver.SGD(0.5, **more), True),
    "add": (pserver.Add, True),
    "assign": (pserver.Assign, True),
    "max": (pserver.Max, True),
    "min": (pserver.Min, True),
    "momentum": (lambda **more: pserver.SGD(0.25, momentum=0.9, **more), False),
    "clipped": (lambda **more: pserver.SGD(0.25, clip_norm=3.0, l2=0.01, **more), False),
    "adagrad": (lambda **more: pserver.Adagrad(0.1, **more), False),
    "row_wise": (lambda **more: pserver.Adagrad(0.1, row_wise=True, **more), False),
    "ftrl": (lambda **more: pserver.Ftrl(0.1, l1=0.01, **more), False),
    "adam": (lambda **more: pserver.Adam(0.1, **more), False)}

WIDTHS = [1, 1, 3, 3, 16, 16, 65, 4096]


class Spec:
    """A table as it is defined, drawn by a seed."""

    def __init__(self, name, dice, *, clocks=None, is_large=False):
        self.name = name
        self.rule = dice.choice(list(RULES))
        self.width = dice.choice(WIDTHS)
        wholes = self.rule in ("add", "assign", "max", "min")
        kinds = ["float32", "float32", "float64"] + (["int64"] * 2 if wholes else [])
        self.dtype = np.dtype(dice.choice(kinds))
        first = [pserver.Initializer()]  # all that whole numbers may begin with
        if self.dtype.kind == "f":
            first += [pserver.Constant(3), pserver.Normal(0, 1, seed=4),
                      pserver.Uniform(-8, 8, seed=dice.randrange(9))]
        self.init = dice.choice(first)
        self.keys = dice.choice([12, 60, 60, 400])  # that are pushed to, beside EDGES
        if self.width == 4096:
            self.keys = dice.choice([40, 40, 400])
        self.counts = [0, 1, 2, 7, 20, 30 if self.width == 4096 else 100]  # of keys in a push
        if is_large:  # so that pushes come beside a checkpoint, and as much as goes in one message
            self.width = dice.choice([1, 3, 16])
            self.keys, self.counts = 100_000, [20, 5_000, 7_000]
        self.rows_max = dice.choice([0, 0, self.keys // 2, self.keys])
        self.full = dice.choice(["refuse", "oldest"]) if self.rows_max else "refuse"
        self.admission = dice.choice([1, 1, 2, 3])
        self.candidates_max = dice.choice([0, 0, 8]) if self.admission > 1 else 0
        self.expire_clocks = None
        if clocks is not None and dice.random() < 0.5:
            self.expire_clocks = (clocks, dice.choice([1, 2, 5]))
        self.keys_max = dice.choice([0, 0, 0, self.keys - 2])  # of a partition by ranges
        self.skips = self.dtype.kind == "f" and dice.random() < 0.3  # what is not finite
        self.rounds = self.dtype.kind == "f" and dice.random() < 0.15
        if self.rounds:  # which of two contributions a limit refuses is their order
            self.rows_max, self.full = 0, "refuse"
        self.rate = 0.5

    @property
    def loses_rows(self):
        """Whether rows go by a push, of which this module does not know which."""
        return self.rows_max > 0 and self.full == "oldest"

    @property
    def loses_counts(self):
        """The same of keys that are counted."""
        return self.candidates_max > 0 or (self.expire_clocks is not None and self.admission > 1)

    def define(self, client):
        """The table, made or found."""
        more = {"nonfinite": "skip"} if self.skips else {}
        if self.rounds:
            more["rounds"] = pserver.Rounds(2, combine="sum")
        ranges = pserver.KeyRanges(keys_max=self.keys_max) if self.keys_max else None
        return client.table(self.name, self.width, RULES[self.rule][0](**more), dtype=self.dtype,
                            ranges=ranges, init=self.init, rows_max=self.rows_max, full=self.full,
                            admission=self.admission, candidates_max=self.candidates_max,
                            expire_clocks=self.expire_clocks)

    def __repr__(self):
        return (f"{self.name}: {self.rule} {self.width} x {self.dtype}, {self.init}, "
                f"{self.keys} keys, rows_max {self.rows_max} {self.full}, admission "
                f"{self.admission} of {self.candidates_max}, expires {self.expire_clocks}, "
                f"keys_max {self.keys_max}, skips {self.skips}, rounds {self.rounds}")


class Model:
    """The rows, and what is counted of keys without one."""

    def __init__(self, spec):
        self.spec = spec
        self.rows = {}
        self.counts = {}
        self.pushed_at = {}  # the minimum of the clocks with a row's last push
        self.in_any_order = False  # some pushes, so that it is not known which row is older
        self.loose = set()  # keys whose row may have gone before it was pushed to again
        self.exact = RULES[spec.rule][1]
        # As long as it is known which rows there are.
        self.certain = not spec.loses_rows and not spec.loses_counts

    def joined(self, keys, gradients):
        """One gradient for each key, as the servers make it of several."""
        out = {}
        for key, gradient in zip(keys.tolist(), gradients):
            if key not in out:
                out[key] = gradient.copy()
            elif self.spec.rule == "assign":
                out[key] = gradient.copy()
            elif self.spec.rule == "max":
                out[key] = np.maximum(out[key], gradient)
            elif self.spec.rule == "min":
                out[key] = np.minimum(out[key], gradient)
            else:
                out[key] = out[key] + gradient
        return out

    def admitted(self, joined):
        """Keys that get their row with this push, and the counts behind it."""
        counts, made = dict(self.counts), []
        for key in joined:
            if key in self.rows:
                continue
            counts[key] = counts.get(key, 0) + 1
            if counts[key] >= self.spec.admission:
                del counts[key]
                made.append(key)
        return made, counts

    def is_refused(self, joined):
        made, _ = self.admitted(joined)
        most = self.spec.rows_max
        return bool(most and made and len(self.rows) + len(made) > most)

    def push(self, joined, first, minimum):
        """`first`: first values by key."""
        made, self.counts = self.admitted(joined)
        for key in made:
            self.rows[key] = first(key)
        for key, gradient in joined.items():
            if key in self.rows:
                if self.is_due(key, minimum):
                    self.loose.add(key)
                self.rows[key] = self.stepped(self.rows[key], gradient)
                self.pushed_at[key] = minimum

    def is_due(self, key, minimum):
        """Whether the row may go, by the clocks."""
        expires = self.spec.expire_clocks
        return expires is not None and minimum - self.pushed_at.get(key, minimum) >= expires[1]

    def stepped(self, row, gradient):
        rule = self.spec.rule
        if rule == "sgd":
            return row - row.dtype.type(self.spec.rate) * gradient
        if rule == "add":
            return row + gradient
        if rule == "max":
            return np.maximum(row, gradient)
        if rule == "min":
            return np.minimum(row, gradient)
        return gradient.copy()
