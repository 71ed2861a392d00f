# SPDX-License-Identifier: Apache-2.0
"""The rules of the optimizer as Python sees them: the rows of optimizer/rules.h."""
import os
import re

TABLE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "optimizer", "rules.h")
ROW = re.compile(r"X\(PS_RULE_\w+, (\w+), (\d), (\w+), (\w+),")


def read_rules(path=TABLE):
    """(name, states, how its loops on floats are made, and on whole numbers) of each rule."""
    with open(path, encoding="utf-8") as file:
        rows = [(name, int(states), floats, wholes)
                for name, states, floats, wholes in ROW.findall(file.read())]
    if not rows:
        raise ValueError(f"{path}: no row of PS_RULE_TABLE")
    return rows
