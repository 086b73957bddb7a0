"""Tells addresses of the public internet from those of this machine and its networks. Knows numbers, no names."""

from __future__ import annotations

from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address

_GLOBAL_UNICAST = IPv6Network("2000::/3")  # all that IANA has given out; whatever lies outside has a local meaning
# Not public either, though `is_global` does not know it: examples of documents, and anycast to the nearest 6to4 relay.
_DOCUMENTATION, _RELAYS = IPv6Network("3fff::/20"), IPv4Network("192.88.99.0/24")
# Prefixes whose last 32 bits are an IPv4 address: mapped, compatible, and NAT64, by which a gateway reaches it.
_ENDING_IN_IPV4 = (IPv6Network("::ffff:0:0/96"), IPv6Network("::/96"), IPv6Network("64:ff9b::/96"))


def is_public(address: str) -> bool:
    """Whether this IP address is on the public internet. An IPv6 form of an IPv4 address counts as that address.

    Not public: private, shared, loopback, link-local, multicast, reserved, documentation and unspecified addresses.
    """
    try:
        parsed = ip_address(address)
    except ValueError:
        return False
    if isinstance(parsed, IPv6Address):
        embedded = _embedded_ipv4(parsed)
        if embedded is None:
            return parsed in _GLOBAL_UNICAST and parsed.is_global and parsed not in _DOCUMENTATION
        parsed = embedded
    return parsed.is_global and not parsed.is_multicast and parsed not in _RELAYS


def _embedded_ipv4(address: IPv6Address) -> IPv4Address | None:
    if any(address in network for network in _ENDING_IN_IPV4):
        return IPv4Address(int(address) & 0xFFFFFFFF)
    if address.teredo is not None:
        return address.teredo[1]
    return address.sixtofour
