"""Which legs of a search are asked for again, because equal scores were cut off."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from qdrant_client import QdrantClient, models

from app.vectors.whole_ties import query_whole_ties

NORTH, EAST = [0.0, 1.0], [1.0, 0.0]
TIED, OTHER = 8, 4


class CountedClient(QdrantClient):
    """Notes how many legs each request has."""

    def __init__(self) -> None:
        super().__init__(":memory:")
        self.legs: list[int] = []

    def query_batch_points(self, collection_name: str, requests: Sequence[Any], **more: Any) -> Any:
        self.legs.append(len(requests))
        return super().query_batch_points(collection_name, requests, **more)


@pytest.fixture
def client() -> CountedClient:
    client = CountedClient()
    client.create_collection("ties", models.VectorParams(size=2, distance=models.Distance.COSINE))
    vectors = [NORTH] * TIED + [[1.0, 0.1 * number] for number in range(OTHER)]
    client.upsert("ties", [models.PointStruct(id=number, vector=each) for number, each in enumerate(vectors)])
    return client


def leg(vector: list[float]) -> models.QueryRequest:
    return models.QueryRequest(query=models.NearestQuery(nearest=vector))


def test_only_a_leg_that_a_tie_crosses_is_asked_again(client: CountedClient) -> None:
    north, east = query_whole_ties(client, index="ties", legs=[(leg(NORTH), 3), (leg(EAST), 2)], with_payload=False)
    assert [hit.id for hit in north] == ["0", "1", "2"]
    assert [hit.id for hit in east] == ["8", "9"]
    assert client.legs == [2, 1]


def test_no_leg_is_asked_again_where_the_server_orders_ties(client: CountedClient) -> None:
    [north] = query_whole_ties(client, index="ties", legs=[(leg(NORTH), 3)], with_payload=False, is_ordered=True)
    assert len(north) == 3
    assert client.legs == [1]
