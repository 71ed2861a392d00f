# SPDX-License-Identifier: Apache-2.0
"""A dense network of one hidden layer in plain numpy, and LIBSVM files to train it on."""

from typing import Iterator

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float32]
COLUMNS = 123
HIDDEN = 32
BATCH = 256


def load(path: str, columns: int = COLUMNS) -> tuple[Array, Array]:
    """Rows of features, and labels 0 and 1, of a file with lines "+1 3:1 11:0.5"."""
    with open(path, encoding="ascii") as file:
        lines = [line.split() for line in file]
    x = np.zeros((len(lines), columns), np.float32)
    for row, words in enumerate(lines):
        for word in words[1:]:
            column, value = word.split(":")
            x[row, int(column) - 1] = float(value)
    return x, np.array([float(words[0]) > 0 for words in lines], np.float32)


def first_values(columns: int) -> dict[str, Array]:
    """The same for everybody who asks: small random weights."""
    random = np.random.default_rng(1)
    weights = random.normal(0, columns ** -0.5, (columns, HIDDEN)).astype(np.float32)
    return {"hidden/weight": weights, "hidden/bias": np.zeros(HIDDEN, np.float32),
            "output/weight": random.normal(0, HIDDEN ** -0.5, HIDDEN).astype(np.float32),
            "output/bias": np.zeros(1, np.float32)}


def predict(values: dict[str, Array], x: Array) -> tuple[Array, Array]:
    """The hidden layer, and the probability of label 1 for each row."""
    hidden = np.tanh(x @ values["hidden/weight"] + values["hidden/bias"])
    score = hidden @ values["output/weight"] + values["output/bias"]
    return hidden, (1 / (1 + np.exp(-score))).astype(np.float32)


def gradients(values: dict[str, Array], x: Array, y: Array) -> tuple[dict[str, Array], float]:
    """Of the mean logistic loss of these rows, and that loss."""
    hidden, probability = predict(values, x)
    error = (probability - y) / np.float32(len(y))
    back = np.outer(error, values["output/weight"]) * (1 - hidden * hidden)
    loss = -np.mean(np.log(np.where(y > 0.5, probability, 1 - probability) + 1e-7))
    return {"hidden/weight": x.T @ back, "hidden/bias": back.sum(0), "output/weight":
            hidden.T @ error, "output/bias": error.sum(keepdims=True)}, float(loss)


class Adam:
    """Adam in numpy: what a trainer keeps that steps by itself."""

    def __init__(self, lr: float = 1e-3) -> None:
        self.lr, self.count = lr, 0
        self.first: dict[str, Array] = {}
        self.second: dict[str, Array] = {}

    def step(self, values: dict[str, Array], gradients: dict[str, Array]) -> None:
        """Changes the values in place."""
        self.count += 1
        for name, gradient in gradients.items():
            first = self.first.setdefault(name, np.zeros_like(gradient))
            second = self.second.setdefault(name, np.zeros_like(gradient))
            first += 0.1 * (gradient - first)
            second += 0.001 * (gradient * gradient - second)
            root = np.sqrt(second / (1 - 0.999 ** self.count)) + 1e-8
            values[name] -= self.lr / (1 - 0.9 ** self.count) * first / root


def accuracy(values: dict[str, Array], x: Array, y: Array) -> float:
    """The share of rows whose label is predicted right."""
    return float(np.mean((predict(values, x)[1] > 0.5) == (y > 0.5)))


def batches(count: int, epochs: int, member: int, of: int) -> Iterator[npt.NDArray[np.int64]]:
    """Row numbers for each step: in every epoch each of the `of` trainers has its own share."""
    for epoch in range(epochs):
        order = np.random.default_rng(epoch).permutation(count)[member::of]
        yield from np.array_split(order, max(1, len(order) // BATCH))
