"""Vectors without number that lie as real ones do: between neighbours of a real corpus, and a little beside them.

A drawn vector is a random mean of a real one and three of its sixteen neighbours, and noise of the shape (covariance)
of the differences between neighbours. How much noise is fitted: as many drawn as real ones have neighbours as near.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

NEIGHBOURS = 16
_MIXED = 4
_ROWS = 2_000  # at once
_SAMPLE = 1_000  # vectors whose neighbours are looked at
_NOISES = np.linspace(0.0, 1.5, 16)


@dataclass(frozen=True)
class Sharding:
    """`noise` is in standard deviations of the difference between a real vector and its neighbours."""

    real: np.ndarray  # (N, D), L2-normalised
    near: np.ndarray  # (N, 16), rows of the neighbours
    shape: np.ndarray  # (D, D), a root of the covariance
    noise: float

    def draw(self, count: int, *, seed: int) -> np.ndarray:
        """(count, D), float32, L2-normalised; the first vectors of a seed are the same whatever the count."""
        parts = [self._draw(start, seed) for start in range(0, count, _ROWS)]
        return np.concatenate(parts)[:count]

    def _draw(self, start: int, seed: int) -> np.ndarray:
        random = np.random.default_rng([seed, start])
        rows = random.integers(len(self.real), size=_ROWS)
        others = self.near[rows[:, None], random.integers(NEIGHBOURS, size=(_ROWS, _MIXED - 1))]
        weights = random.dirichlet(np.ones(_MIXED), size=_ROWS).astype(np.float32)
        means = np.einsum("nk,nkd->nd", weights, self.real[np.concatenate([rows[:, None], others], axis=1)])
        beside = random.standard_normal((_ROWS, len(self.shape)), dtype=np.float32) @ self.shape.T
        return unit_rows(means + np.float32(self.noise) * beside)


def fit_spread(real: np.ndarray) -> Sharding:
    """Of unit vectors of a corpus, each once."""
    real = unit_rows(np.unique(real, axis=0).astype(np.float32))
    near = nearest_rows(real, real, NEIGHBOURS + 1)[1][:, 1:]
    differences = real[near[:, : NEIGHBOURS // 4]].reshape(-1, real.shape[1]) - np.repeat(real, NEIGHBOURS // 4, axis=0)
    values, axes = np.linalg.eigh(np.cov(differences, rowvar=False))
    shape = (axes * np.sqrt(values.clip(0))).astype(np.float32)
    wanted = neighbour_cosines(real).mean(axis=0)

    def misses(noise: float) -> float:
        drawn = Sharding(real, near, shape, noise).draw(len(real), seed=0)
        return float(np.abs(neighbour_cosines(drawn).mean(axis=0) - wanted).mean())

    return Sharding(real, near, shape, min(map(float, _NOISES), key=misses))


def neighbour_cosines(rows: np.ndarray, others: np.ndarray | None = None) -> np.ndarray:
    """(a sample of the rows, 10): of its ten nearest among the others; without these, among the rows but itself."""
    sample = rows[np.random.default_rng(0).permutation(len(rows))[:_SAMPLE]]
    if others is None:
        return nearest_rows(sample, rows, 11)[0][:, 1:]
    return nearest_rows(sample, others, 10)[0]


def nearest_rows(queries: np.ndarray, rows: np.ndarray, count: int) -> tuple[np.ndarray, np.ndarray]:
    """Cosines and places of the nearest, best first."""
    cosines, places = [], []
    for start in range(0, len(queries), _ROWS):
        scores = queries[start : start + _ROWS] @ rows.T
        best = np.argpartition(-scores, count, axis=1)[:, :count]
        best = np.take_along_axis(best, np.argsort(-np.take_along_axis(scores, best, axis=1), axis=1), axis=1)
        places.append(best)
        cosines.append(np.take_along_axis(scores, best, axis=1))
    return np.concatenate(cosines), np.concatenate(places)


def unit_rows(rows: np.ndarray) -> np.ndarray:
    return (rows / np.linalg.norm(rows, axis=1, keepdims=True)).astype(np.float32)
