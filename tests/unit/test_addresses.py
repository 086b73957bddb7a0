"""Which IP addresses count as the public internet, checked against the registries of IANA."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterator
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ingest.addresses import SPECIAL_4, SPECIAL_6, is_public

# Every row of IANA's special-purpose registries, whatever it says of reachability, and multicast.
REGISTRY_4 = """
    0.0.0.0/8 0.0.0.0/32 10.0.0.0/8 100.64.0.0/10 127.0.0.0/8 169.254.0.0/16 172.16.0.0/12 192.0.0.0/24 192.0.0.0/29
    192.0.0.8/32 192.0.0.9/32 192.0.0.10/32 192.0.0.170/32 192.0.0.171/32 192.0.2.0/24 192.31.196.0/24 192.52.193.0/24
    192.88.99.0/24 192.88.99.2/32 192.168.0.0/16 192.175.48.0/24 198.18.0.0/15 198.51.100.0/24 203.0.113.0/24
    240.0.0.0/4 255.255.255.255/32 224.0.0.0/4
"""
REGISTRY_6 = """
    ::1/128 ::/128 ::ffff:0:0/96 64:ff9b::/96 64:ff9b:1::/48 100::/64 100:0:0:1::/64 2001::/23 2001::/32 2001:1::1/128
    2001:1::2/128 2001:1::3/128 2001:2::/48 2001:3::/32 2001:4:112::/48 2001:10::/28 2001:20::/28 2001:30::/28
    2001:db8::/32 2002::/16 2620:4f:8000::/48 3fff::/20 5f00::/16 fc00::/7 fe80::/10 fec0::/10 ff00::/8
"""
NOT_PUBLIC_4 = list(map(IPv4Network, REGISTRY_4.split()))
NOT_PUBLIC_6 = list(map(IPv6Network, REGISTRY_6.split()))
METADATA = {
    "most clouds": "169.254.169.254",
    "Oracle": "192.0.0.192",
    "Alibaba": "100.100.100.200",
    "Azure": "168.63.129.16",
    "AWS, tasks": "169.254.170.2",
    "AWS, IPv6": "fd00:ec2::254",
    "Google, IPv6": "fd20:ce::254",
    "Scaleway": "169.254.42.42",
}
PUBLIC = ["8.8.8.8", "1.1.1.1", "93.184.216.34", "2606:4700:4700::1111", "2a00:1450:4001:80b::200e"]

ipv4 = st.integers(0, 2**32 - 1).map(IPv4Address)


def within(network: IPv4Network | IPv6Network) -> st.SearchStrategy[IPv4Address | IPv6Address]:
    kind = type(network.network_address)
    return st.integers(int(network.network_address), int(network.broadcast_address)).map(kind)


def ipv6_forms(address: IPv4Address) -> list[IPv6Address]:
    """All the ways to write an IPv4 address as an IPv6 one: mapped, compatible, NAT64, local NAT64, 6to4, Teredo."""
    number = int(address)
    return [
        IPv6Address(0xFFFF << 32 | number),
        IPv6Address(number),
        IPv6Address(int(IPv6Address("64:ff9b::")) | number),
        IPv6Address(int(IPv6Address("64:ff9b:1::")) | number),
        IPv6Address(0x2002 << 112 | number << 80 | 1),
        IPv6Address(0x20010000 << 96 | number ^ 0xFFFFFFFF),
    ]


def edges(network: IPv4Network | IPv6Network) -> Iterator[tuple[str, bool]]:
    """The first and last addresses in it, those beside them, and whether they are in it."""
    kind, first, last = type(network.network_address), int(network.network_address), int(network.broadcast_address)
    most = 2**network.max_prefixlen - 1
    for number in {first, min(first + 1, last), last}:
        yield str(kind(number)), True
    for number in {first - 1, last + 1} - {-1, most + 1}:
        yield str(kind(number)), False


@pytest.mark.parametrize("network", [*NOT_PUBLIC_4, *NOT_PUBLIC_6], ids=str)
def test_no_address_of_the_registries_is_public_and_those_beside_them_are(network: IPv4Network | IPv6Network) -> None:
    for address, is_in in edges(network):
        is_special = any(ipaddress.ip_address(address) in each for each in (*NOT_PUBLIC_4, *NOT_PUBLIC_6))
        if is_in or is_special:
            assert not is_public(address), address
        elif isinstance(network, IPv4Network) or IPv6Address(address) in IPv6Network("2000::/3"):
            assert is_public(address), address


@given(st.sampled_from([*NOT_PUBLIC_4, *NOT_PUBLIC_6]).flatmap(within), st.sampled_from(["", "%eth0", "%1"]))
def test_nothing_within_the_registries_is_public(address: IPv4Address | IPv6Address, zone: str) -> None:
    assert not is_public(f"{address}{zone}")
    assert not is_public(f"{address.exploded}{zone}")


def test_all_of_the_protocol_assignments_are_refused() -> None:
    assert not any(is_public(str(address)) for address in IPv4Network("192.0.0.0/24"))


@pytest.mark.parametrize("address", METADATA.values(), ids=METADATA.keys())
def test_no_cloud_tells_of_itself(address: str) -> None:
    assert not is_public(address)
    if "." in address:
        assert not any(is_public(str(form)) for form in ipv6_forms(IPv4Address(address)))


@given(ipv4)
def test_no_ipv6_address_stands_for_an_ipv4_one(address: IPv4Address) -> None:
    for form in ipv6_forms(address):
        assert not is_public(str(form)), form
        assert not is_public(form.exploded), form


@given(ipv4)
def test_other_ipv4_addresses_are_public(address: IPv4Address) -> None:
    is_reserved = any(address in network for network in [*NOT_PUBLIC_4, IPv4Network("168.63.129.16/32")])
    assert is_public(str(address)) is not is_reserved


@given(st.integers(0x2000 << 112, 0x3FFF << 112).map(IPv6Address))
def test_other_ipv6_addresses_are_public(address: IPv6Address) -> None:
    assert is_public(str(address)) is not any(address in network for network in NOT_PUBLIC_6)


@pytest.mark.parametrize("address", PUBLIC)
def test_addresses_of_the_internet_are_public(address: str) -> None:
    assert is_public(address)


def test_another_patch_release_of_python_says_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    """Numbers and networks are taken from Python, never what it thinks of them."""
    answers = ("is_global", "is_private", "is_reserved", "is_multicast", "is_loopback", "is_link_local", "teredo")
    for kind in (IPv4Address, IPv6Address):
        for name in {*answers, "sixtofour", "ipv4_mapped", "is_unspecified", "is_site_local"}:
            if hasattr(kind, name):
                monkeypatch.setattr(kind, name, property(lambda _: pytest.fail("Python was asked")))
    for network in (*SPECIAL_4, *SPECIAL_6):
        assert not is_public(str(network.network_address))
    assert all(map(is_public, PUBLIC))


@given(st.text(max_size=30))
def test_what_is_no_address_is_not_public(text: str) -> None:
    try:
        ipaddress.ip_address(text)
    except ValueError:
        assert not is_public(text)
