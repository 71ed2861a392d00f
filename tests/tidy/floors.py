# SPDX-License-Identifier: Apache-2.0
"""Raises the floors in tidy_rules.py to what the rooms have (tidy.py --raise). Never lowers one."""

import math
import re

import laws
import tidy_rules as rules


def raised(text, rooms):
    """The text of tidy_rules.py with every floor that a room has left below."""
    for room, figures in rooms.items():
        text = raised_share(text, "COMMENT_FLOORS", room, figures.comment_share(),
                            rules.COMMENT_FLOORS, rules.COMMENTS_MIN)
        if laws.assertions_min(room) > 0:
            text = raised_share(text, "ASSERTION_FLOORS", room, figures.assertion_share(),
                                rules.ASSERTION_FLOORS, rules.ASSERTIONS_MIN)
        silent = len(figures.silent)
        if silent < rules.SILENT_FUNCTIONS.get(room, 0):
            text = with_row(text, "SILENT_FUNCTIONS", room, str(silent) if silent else None)
    return text


def raised_share(text, table, room, share, floors, end):
    """A room that has reached the end needs no row of its own."""
    floor = math.floor(share * 100) / 100
    if room not in floors or floor <= floors[room]:
        return text
    return with_row(text, table, room, f"{floor:.2f}" if floor < end else None)


def with_row(text, table, room, value):
    begin = text.index(table + " = {")
    end = text.index("}", begin)
    row = f'    "{room}": {value},\n' if value is not None else ""
    rows = re.sub(rf'    "{re.escape(room)}": .*\n', row, text[begin:end])
    return text[:begin] + rows + text[end:]
