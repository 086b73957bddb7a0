"""Paired bootstrap: resamples items and computes a statistic for the sample and for every resample.

All functions return (1 + resamples,) arrays; the first entry is the statistic of the original sample. So means,
harmonic means and differences of statistics are array arithmetic and stay paired.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

_LEVEL = 95.0


@dataclass(frozen=True, slots=True)
class BootstrapEstimate:
    """A score with its 95 % interval."""

    value: float
    low: float
    high: float

    @property
    def excludes_zero(self) -> bool:
        return self.low > 0 or self.high < 0


def draw_weights(items: str, size: int, *, resamples: int, seed: int) -> np.ndarray:
    """How often each item is drawn: (1 + resamples, size), the first row all ones. The same `items` give the same
    draws."""
    rng = np.random.default_rng([seed, *items.encode()])
    weights = np.ones((1 + resamples, size), dtype=np.float32)
    for row in range(1, 1 + resamples):
        weights[row] = np.bincount(rng.integers(size, size=size), minlength=size)
    return weights


def means(weights: np.ndarray, values: np.ndarray) -> np.ndarray:
    """Weighted mean of values, (n,) or (n, seeds)."""
    per_item = values if values.ndim == 1 else values.mean(axis=1)
    return weights @ per_item.astype(np.float64) / weights.sum(axis=1)


def spearman(weights: np.ndarray, values: np.ndarray, gold: np.ndarray) -> np.ndarray:
    """Rank correlation, ties at their mean rank; equals scipy's on the resampled items."""
    first, second = _middle_ranks(weights, values), _middle_ranks(weights, gold)
    total = weights.sum(axis=1, keepdims=True)
    first -= (weights * first).sum(axis=1, keepdims=True) / total
    second -= (weights * second).sum(axis=1, keepdims=True) / total
    spread = np.sqrt((weights * first**2).sum(axis=1) * (weights * second**2).sum(axis=1))
    return (weights * first * second).sum(axis=1) / np.maximum(spread, 1e-12)


def _middle_ranks(weights: np.ndarray, values: np.ndarray) -> np.ndarray:
    """The mean rank of every item among the drawn items (resamples, n)."""
    distinct, which = np.unique(values, return_inverse=True)
    order = np.argsort(which, kind="stable")
    starts = np.searchsorted(which[order], np.arange(len(distinct)))
    drawn = np.add.reduceat(weights[:, order].astype(np.float64), starts, axis=1)
    return (np.cumsum(drawn, axis=1) - drawn / 2)[:, which]


def v_measures(weights: np.ndarray, clusters: np.ndarray, gold: np.ndarray) -> np.ndarray:
    """V-measure (beta 1) of cluster numbers (n, seeds) against class numbers (n,), mean over seeds.

    Resamples only the items that are scored; the clusters stay as fitted on all items.
    """
    classes = np.unique(gold, return_inverse=True)[1]
    measures = []
    for seed in range(clusters.shape[1]):
        groups = np.unique(clusters[:, seed], return_inverse=True)[1]
        cells = np.unique(np.stack([classes, groups]), axis=1, return_inverse=True)[1].ravel()
        joint, of_class, of_group = (_entropy(weights, each) for each in (cells, classes, groups))
        total = of_class + of_group
        measures.append(np.where(total > 0, 2 * (total - joint) / np.where(total > 0, total, 1), 1.0))
    return np.mean(measures, axis=0)


def _entropy(weights: np.ndarray, numbers: np.ndarray) -> np.ndarray:
    """Entropy of the distribution of items over `numbers`, for every resample."""
    order = np.argsort(numbers, kind="stable")
    starts = np.searchsorted(numbers[order], np.arange(numbers.max() + 1))
    counts = np.add.reduceat(weights[:, order].astype(np.float64), starts, axis=1)
    shares = counts / counts.sum(axis=1, keepdims=True)
    return -(shares * np.log(np.where(shares > 0, shares, 1))).sum(axis=1)


def harmonic_mean(parts: Sequence[np.ndarray]) -> np.ndarray:
    """Elementwise harmonic mean; 0 if any part is 0. A single part is returned unchanged."""
    if len(parts) == 1:
        return parts[0]
    stacked = np.stack(parts)
    usable = np.all(stacked > 0, axis=0)
    return np.where(usable, len(parts) / np.sum(1 / np.where(stacked > 0, stacked, 1), axis=0), 0.0)


def estimate(replicates: np.ndarray) -> BootstrapEstimate:
    tail = (100 - _LEVEL) / 2
    resampled = replicates[1:] if len(replicates) > 1 else replicates
    low, high = np.percentile(resampled, [tail, 100 - tail])
    return BootstrapEstimate(float(replicates[0]), float(low), float(high))
