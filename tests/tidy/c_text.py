# SPDX-License-Identifier: Apache-2.0
"""Reads C as far as tidy needs it: which part is comment, which is code, where functions stand."""

import re

PIECES = re.compile(r'//[^\n]*|/\*.*?\*/|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'', re.S)


def blanked(piece):
    return "\n".join(" " * len(line) for line in piece.split("\n"))


def without_comments(text):
    """C with comments and the insides of strings blanked; lines stay where they are."""

    def blank(match):
        piece = match.group(0)
        return piece[0] * 2 if piece[0] in "\"'" else blanked(piece)

    return PIECES.sub(blank, text)


def only_comments(text):
    """The comments of C, everything else blanked; lines stay where they are."""
    parts = []
    end = 0
    for match in PIECES.finditer(text):
        parts.append(blanked(text[end:match.start()]))
        piece = match.group(0)
        parts.append(blanked(piece) if piece[0] in "\"'" else piece)
        end = match.end()
    parts.append(blanked(text[end:]))
    return "".join(parts)


def brace_functions(lines):
    """(first line, last line) of functions whose braces stand at the start of a line."""
    start = None
    for number, line in enumerate(lines, 1):
        if line.startswith("{") and start is None:
            start = number
        elif line.startswith("}") and start is not None:
            if line.rstrip() == "}":
                yield signature_start(lines, start), number
            start = None


def signature_start(lines, brace):
    """The line where the declaration in front of a brace begins."""
    number = brace
    while number > 1:
        above = lines[number - 2].strip()
        if above == "" or above.endswith((";", "}", "*/", "\\")) or above.startswith("#"):
            break
        number -= 1
    return number
