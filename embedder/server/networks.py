"""Networks of clients: limits per client count by them."""

from __future__ import annotations

from functools import lru_cache
from ipaddress import IPv4Address, IPv6Address, ip_address


@lru_cache(4_096)
def network_of(address: str) -> str | None:
    """The IPv4 address, or the /64 network of the IPv6 address: a single machine may use all addresses of one. None if
    it is no address."""
    try:
        parsed = ip_address(address.partition("%")[0])
    except ValueError:
        return None
    if isinstance(parsed, IPv4Address):
        return str(parsed)
    return str(parsed.ipv4_mapped or IPv6Address(int(parsed) >> 64 << 64))
