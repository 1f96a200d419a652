"""Fitted regressors as numbers: they predict without the library that fitted them.

A file of one is plain JSON. Nothing in it can run, and no version of a library has to be kept for
it. Predictions equal scikit-learn's; who fits is xlbench/judgement/fitting.py.
"""

from typing import Annotated, Literal

import msgspec
import numpy as np

from xlbench.errors import UserError

_Index = Annotated[int, msgspec.Meta(ge=-2, lt=2**31)]


class Linear(msgspec.Struct, tag='linear'):
    """A weighted sum of the features."""

    weights: list[float]
    intercept: float

    def check(self, count: int) -> bool:
        """Returns whether the model takes `count` features."""
        return len(self.weights) == count

    def predict(self, x: np.ndarray) -> np.ndarray:
        """Predictions [n] for features [n, feature]."""
        return x @ np.array(self.weights) + self.intercept


class Neighbors(msgspec.Struct, tag='neighbors'):
    """The mean of the nearest points; of equally near ones the first counts."""

    points: list[list[float]]
    values: list[float]
    count: Annotated[int, msgspec.Meta(ge=1)]

    def check(self, count: int) -> bool:
        """Returns whether the model takes `count` features."""
        return len(self.values) == len(self.points) >= self.count and _are_wide(self.points, count)

    def predict(self, x: np.ndarray) -> np.ndarray:
        """Predictions [n] for features [n, feature]."""
        nearest = np.argsort(_distances(x, self.points), axis=1, kind='stable')[:, : self.count]
        return np.array(self.values)[nearest].mean(axis=1)


class SupportVectors(msgspec.Struct, tag='support_vectors'):
    """A weighted sum of radial kernels exp(-gamma d²)."""

    points: list[list[float]]
    weights: list[float]
    intercept: float
    gamma: float

    def check(self, count: int) -> bool:
        """Returns whether the model takes `count` features."""
        return len(self.weights) == len(self.points) and _are_wide(self.points, count)

    def predict(self, x: np.ndarray) -> np.ndarray:
        """Predictions [n] for features [n, feature]."""
        kernel = np.exp(-self.gamma * _distances(x, self.points))
        return kernel @ np.array(self.weights) + self.intercept


class Tree(msgspec.Struct):
    """A binary tree, node by node: left if the feature is at most the threshold.

    Attributes:
        features: Of each node; below 0 in a leaf.
        thresholds: Of each node.
        left: Number of a node behind this one; below 0 in a leaf.
        right: The same.
        values: What a leaf predicts.
    """

    features: list[_Index]
    thresholds: list[float]
    left: list[_Index]
    right: list[_Index]
    values: list[float]

    def check(self, count: int) -> bool:
        """Returns whether the trees take `count` features, and every path through them ends."""
        size = len(self.values)
        columns = (self.features, self.thresholds, self.left, self.right)
        if not size or any(len(column) != size for column in columns):
            return False
        return all(
            (left < 0 and right < 0) or (node < left < size and node < right < size)
            for node, (left, right) in enumerate(zip(self.left, self.right, strict=True))
        ) and all(
            left < 0 or 0 <= feature < count
            for feature, left in zip(self.features, self.left, strict=True)
        )

    def predict(self, x: np.ndarray) -> np.ndarray:
        """Predictions [n] for features [n, feature] of 32 bits."""
        nodes, rows = np.zeros(len(x), int), np.arange(len(x))
        features, thresholds = np.array(self.features), np.array(self.thresholds)
        left, right = np.array(self.left), np.array(self.right)
        while (inner := left[nodes] >= 0).any():
            goes_left = x[rows, features[nodes]] <= thresholds[nodes]
            nodes = np.where(inner, np.where(goes_left, left[nodes], right[nodes]), nodes)
        return np.array(self.values)[nodes]


class Trees(msgspec.Struct, tag='trees'):
    """Several trees together.

    Attributes:
        trees: One or more.
        combined: 'mean', 'sum' or 'median' of their predictions.
        weights: Of each tree, for 'sum' and 'median'.
        start: What a sum begins with.
    """

    trees: Annotated[list[Tree], msgspec.Meta(min_length=1)]
    combined: Literal['mean', 'sum', 'median']
    weights: list[float] = []
    start: float = 0.0

    def check(self, count: int) -> bool:
        """Returns whether the model takes `count` features."""
        is_weighted = self.combined == 'mean' or len(self.weights) == len(self.trees)
        return is_weighted and all(tree.check(count) for tree in self.trees)

    def predict(self, x: np.ndarray) -> np.ndarray:
        """Predictions [n] for features [n, feature]."""
        x = np.asarray(x, np.float32)  # As scikit-learn compares them.
        of_trees = np.stack([tree.predict(x) for tree in self.trees], axis=1)
        if self.combined == 'mean':
            return of_trees.mean(axis=1)
        weights = np.array(self.weights)
        if self.combined == 'sum':
            return self.start + of_trees @ weights
        order = np.argsort(of_trees, axis=1)
        passed = np.cumsum(weights[order], axis=1)
        middle = np.argmax(passed >= 0.5 * passed[:, -1:], axis=1)
        rows = np.arange(len(x))
        return of_trees[rows, order[rows, middle]]


Regressor = Linear | Neighbors | SupportVectors | Trees


def check(regressor: Regressor, count: int, name: str) -> None:
    """Raises UserError unless a regressor of a file fits so many features."""
    if not regressor.check(count):
        raise UserError(f'{name}: the numbers of its regressor do not fit its {count} features')


def _are_wide(points: list[list[float]], count: int) -> bool:
    return bool(points) and all(len(point) == count for point in points)


def _distances(x: np.ndarray, points: list[list[float]]) -> np.ndarray:
    """Squared distances [n, point]."""
    return np.square(x[:, None, :] - np.array(points)[None, :, :]).sum(axis=2)
