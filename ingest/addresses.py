"""Tells public internet addresses from local and special-purpose ones. Works on IP addresses only, never on names.

The ranges are listed here because Python's `is_global` differs between its patch releases.
"""

from __future__ import annotations

from ipaddress import IPv4Network, IPv6Address, IPv6Network, ip_address

# https://www.iana.org/assignments/iana-ipv4-special-registry, including the ranges that IANA marks as globally
# reachable: they host no documents. Then multicast, and Azure's platform address, which looks public.
SPECIAL_4 = tuple(
    IPv4Network(text)
    for text in (
        "0.0.0.0/8",  # this network
        "10.0.0.0/8",  # private use
        "100.64.0.0/10",  # shared, of carriers and of clouds
        "127.0.0.0/8",  # loopback
        "169.254.0.0/16",  # link-local; metadata of clouds
        "172.16.0.0/12",  # private use
        "192.0.0.0/24",  # IETF protocol assignments; metadata of clouds
        "192.0.2.0/24",  # documentation
        "192.31.196.0/24",  # AS112
        "192.52.193.0/24",  # AMT
        "192.88.99.0/24",  # 6to4 relays, deprecated
        "192.168.0.0/16",  # private use
        "192.175.48.0/24",  # AS112
        "198.18.0.0/15",  # benchmarking
        "198.51.100.0/24",  # documentation
        "203.0.113.0/24",  # documentation
        "240.0.0.0/4",  # reserved, and limited broadcast
        "224.0.0.0/4",  # multicast
        "168.63.129.16/32",  # the host of a machine in Azure
    )
)
# All addresses that IANA has allocated. The rest is local, or embeds an IPv4 address: ::ffff:0:0/96 (mapped),
# ::/96 (compatible) and 64:ff9b::/96 (NAT64).
_GLOBAL_UNICAST = IPv6Network("2000::/3")
# https://www.iana.org/assignments/iana-ipv6-special-registry, up to RFC 9780.
SPECIAL_6 = tuple(
    IPv6Network(text)
    for text in (
        "::1/128",  # loopback
        "::/128",  # unspecified
        "::ffff:0:0/96",  # IPv4-mapped
        "64:ff9b::/96",  # NAT64
        "64:ff9b:1::/48",  # NAT64, local
        "100::/64",  # discard only
        "100:0:0:1::/64",  # dummy prefix
        "2001::/23",  # IETF protocol assignments: Teredo, benchmarking, AMT, AS112, ORCHID, drone ids
        "2001:db8::/32",  # documentation
        "2002::/16",  # 6to4
        "2620:4f:8000::/48",  # AS112
        "3fff::/20",  # documentation
        "5f00::/16",  # segment routing
        "fc00::/7",  # unique local; metadata of clouds
        "fe80::/10",  # link-local
        "fec0::/10",  # site-local, deprecated
        "ff00::/8",  # multicast
    )
)


def is_public(address: str) -> bool:
    """Whether this IP address is certainly on the public internet. False for text that is no IP address.

    Special-purpose ranges of IANA are not public, nor is any IPv6 address that embeds an IPv4 address.
    """
    try:
        parsed = ip_address(address)
    except ValueError:
        return False
    if isinstance(parsed, IPv6Address):
        return parsed in _GLOBAL_UNICAST and not any(parsed in network for network in SPECIAL_6)
    return not any(parsed in network for network in SPECIAL_4)
