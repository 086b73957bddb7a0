"""Qdrant clusters: how many shards and copies an index gets, and which indexes one lost node takes away."""

from __future__ import annotations

import ipaddress
import logging
import socket
from collections import Counter
from collections.abc import Sequence
from urllib.parse import urlsplit

from qdrant_client import QdrantClient, models
from qdrant_client.http.exceptions import UnexpectedResponse

from app.vectors.tuning import Sharding

REPLICAS = 2  # of each shard, on a cluster: any one node may be lost

_log = logging.getLogger(__name__)


def node_count(client: QdrantClient) -> int:
    """Nodes of the cluster; 1 for a server that is none."""
    try:
        status = client.http.distributed_api.cluster_status().result
    except UnexpectedResponse as error:
        if error.status_code in (403, 404):  # a key for collections alone, or an engine without clusters
            return 1
        raise
    except NotImplementedError:  # the client's own memory
        return 1
    return len(status.peers) if isinstance(status, models.ClusterStatusOneOf1) else 1


def sharding_for(client: QdrantClient, wanted: Sharding) -> Sharding:
    """A shard for each node, each on two nodes, unless `wanted` says otherwise."""
    if wanted.shards is not None and wanted.replicas is not None:
        return wanted
    nodes = node_count(client)
    if nodes == 1:
        return wanted
    return Sharding(shards=wanted.shards or nodes, replicas=wanted.replicas or min(REPLICAS, nodes))


def has_lone_shard(client: QdrantClient, index: str) -> bool:
    """Whether a shard of this index has fewer than two copies that answer."""
    found = client.http.distributed_api.collection_cluster_info(index).result
    if found is None:
        return False
    here = [(shard.shard_id, shard.state) for shard in found.local_shards]
    there = [(shard.shard_id, shard.state) for shard in found.remote_shards]
    copies = Counter({shard_id: 0 for shard_id, _ in here + there})
    copies.update(shard_id for shard_id, state in here + there if state is models.ReplicaState.ACTIVE)
    return any(count < REPLICAS for count in copies.values())


def warn_of_open_keys(urls: Sequence[str]) -> None:
    """Logs each address that a key would be sent to unencrypted, over a network that is not private."""
    for url in urls:
        parts = urlsplit(url)
        if parts.scheme == "http" and parts.hostname and _is_public(parts.hostname):
            _log.warning(
                "GIRCSE_QDRANT_API_KEY goes to %s unencrypted, and that is a public address. Use https there.",
                parts.hostname,
            )


def _is_public(host: str) -> bool:
    try:
        found = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
    except OSError:  # it may get a name later; nothing was sent yet
        return False
    return any(ipaddress.ip_address(str(each[4][0]).partition("%")[0]).is_global for each in found)
