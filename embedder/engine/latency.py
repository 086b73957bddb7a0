"""Predicts how long a batch takes, from the batches computed so far."""

from __future__ import annotations

_MEMORY = 0.95  # weight of the past against the newest batch
_FIRST_RATE = 2_000.0  # cost per second, before the first batch


class LatencyEstimator:
    """Seconds = overhead + cost / rate, fitted by least squares with exponentially decaying weights."""

    def __init__(self) -> None:
        self._count = self._cost = self._seconds = self._cost2 = self._product = 0.0

    def learn(self, cost: float, seconds: float) -> None:
        self._count = self._count * _MEMORY + 1
        self._cost = self._cost * _MEMORY + cost
        self._seconds = self._seconds * _MEMORY + seconds
        self._cost2 = self._cost2 * _MEMORY + cost * cost
        self._product = self._product * _MEMORY + cost * seconds

    def seconds_for(self, cost: float) -> float:
        overhead, per_cost = self._fit()
        return overhead + per_cost * cost

    def cost_within(self, seconds: float) -> float:
        overhead, per_cost = self._fit()
        return max(0.0, seconds - overhead) / per_cost

    def _fit(self) -> tuple[float, float]:
        """Overhead and seconds per unit of cost; a line through the origin if all batches cost about the same."""
        if self._seconds <= 0 or self._cost <= 0:
            return 0.0, 1 / _FIRST_RATE
        proportional = self._seconds / self._cost
        spread = self._count * self._cost2 - self._cost**2
        if spread < 0.01 * self._cost**2:
            return 0.0, proportional
        slope = (self._count * self._product - self._cost * self._seconds) / spread
        slope = min(max(slope, proportional / 20), proportional)  # no negative overhead, no free text
        return (self._seconds - slope * self._cost) / self._count, slope
