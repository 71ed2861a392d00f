"""Segments of a journal as files, for tests that damage them."""


def records_end(path):
    """Where the last record ends: behind it are zeros up to the next block. For segments that were
    no other ones before, and whose last content does not end in eight zeros."""
    with open(path, "rb") as file:
        return (len(file.read().rstrip(b"\0")) + 7) // 8 * 8
