"""Qdrant clusters: chooses shards and replicas of an index, and detects indexes that the loss of one node breaks."""

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

REPLICAS = 2  # per shard on a cluster, so that the loss of any one node is harmless
# Much longer than a search takes, and much shorter than a request may take.
OTHER_REPLICA_AFTER_MS = 1_000

_log = logging.getLogger(__name__)


def node_count(client: QdrantClient) -> int:
    """Number of nodes of the cluster; 1 for a single server."""
    try:
        status = client.http.distributed_api.cluster_status().result
    except UnexpectedResponse as error:
        if error.status_code in (403, 404):  # a key without cluster rights, or an engine without clusters
            return 1
        raise
    except NotImplementedError:  # the client's own memory
        return 1
    return len(status.peers) if isinstance(status, models.ClusterStatusOneOf1) else 1


def sharding_for(client: QdrantClient, wanted: Sharding) -> Sharding:
    """Fills in what `wanted` leaves open: on a cluster one shard per node, each with two replicas."""
    if wanted.shards is not None and wanted.replicas is not None:
        return wanted
    nodes = node_count(client)
    if nodes == 1:
        return wanted
    return Sharding(shards=wanted.shards or nodes, replicas=wanted.replicas or min(REPLICAS, nodes))


def read_past_hung_nodes(client: QdrantClient, index: str) -> None:
    """Lets a node read from another replica if the first one has not answered within OTHER_REPLICA_AFTER_MS. Otherwise
    a healthy node waits for a hung one. Does nothing for an index without replicas; Qdrant before 1.17 ignores it."""
    params = client.get_collection(index).config.params
    if (params.replication_factor or 1) > 1 and params.read_fan_out_delay_ms != OTHER_REPLICA_AFTER_MS:
        changed = models.CollectionParamsDiff(read_fan_out_delay_ms=OTHER_REPLICA_AFTER_MS)
        client.update_collection(index, collection_params=changed)


def has_lone_shard(client: QdrantClient, index: str) -> bool:
    """Whether a shard of this index has fewer than two active replicas."""
    info = client.http.distributed_api.collection_cluster_info(index).result
    if info is None:
        return False
    local = [(shard.shard_id, shard.state) for shard in info.local_shards]
    remote = [(shard.shard_id, shard.state) for shard in info.remote_shards]
    copies = Counter({shard_id: 0 for shard_id, _ in local + remote})
    copies.update(shard_id for shard_id, state in local + remote if state is models.ReplicaState.ACTIVE)
    return any(count < REPLICAS for count in copies.values())


def warn_of_open_keys(urls: Sequence[str]) -> None:
    """Logs a warning for each public address to which the API key would go unencrypted (plain http)."""
    for url in urls:
        parts = urlsplit(url)
        if parts.scheme == "http" and parts.hostname and _is_public(parts.hostname):
            _log.warning(
                "GIRCSE_QDRANT_API_KEY goes to %s unencrypted, and that is a public address. Use https there.",
                parts.hostname,
            )


def _is_public(host: str) -> bool:
    try:
        addresses = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
    except OSError:  # the name does not resolve yet, so nothing can be sent
        return False
    return any(ipaddress.ip_address(str(info[4][0]).partition("%")[0]).is_global for info in addresses)
