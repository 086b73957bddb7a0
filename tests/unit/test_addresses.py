"""Which IP addresses count as the public internet, checked against the registries of IANA."""

from __future__ import annotations

from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ingest.addresses import is_public

# IANA's special-purpose registries, RFC 6890 and its successors, and multicast. Not taken from Python's own lists.
NOT_PUBLIC_4 = [
    IPv4Network(text)
    for text in (
        "0.0.0.0/8",
        "10.0.0.0/8",
        "100.64.0.0/10",
        "127.0.0.0/8",
        "169.254.0.0/16",
        "172.16.0.0/12",
        "192.0.0.0/29",
        "192.0.2.0/24",
        "192.88.99.0/24",
        "192.168.0.0/16",
        "198.18.0.0/15",
        "198.51.100.0/24",
        "203.0.113.0/24",
        "224.0.0.0/4",
        "240.0.0.0/4",
    )
]
NOT_PUBLIC_6 = [
    IPv6Network(text)
    for text in (
        "::/128",
        "::1/128",
        "64:ff9b:1::/48",
        "100::/64",
        "2001:db8::/32",
        "3fff::/20",
        "5f00::/16",
        "fc00::/7",
        "fe80::/10",
        "fec0::/10",
        "ff00::/8",
    )
]
PUBLIC = ["8.8.8.8", "1.1.1.1", "93.184.216.34", "2606:4700:4700::1111", "2a00:1450:4001:80b::200e"]

ipv4 = st.integers(0, 2**32 - 1).map(IPv4Address)
private_ipv4 = st.sampled_from(NOT_PUBLIC_4).flatmap(
    lambda network: st.integers(int(network.network_address), int(network.broadcast_address)).map(IPv4Address)
)
private_ipv6 = st.sampled_from(NOT_PUBLIC_6).flatmap(
    lambda network: st.integers(int(network.network_address), int(network.broadcast_address)).map(IPv6Address)
)


def ipv6_forms(address: IPv4Address) -> list[IPv6Address]:
    """All the ways to write an IPv4 address as an IPv6 one: mapped, compatible, NAT64, 6to4, Teredo."""
    number = int(address)
    return [
        IPv6Address(0xFFFF << 32 | number),
        IPv6Address(int(IPv6Address("64:ff9b::")) | number),
        IPv6Address(0x2002 << 112 | number << 80 | 1),
        IPv6Address(0x20010000 << 96 | number ^ 0xFFFFFFFF),
        *([IPv6Address(number)] if number > 1 else []),  # :: and ::1 are themselves
    ]


@given(private_ipv4)
def test_reserved_ipv4_address_is_not_public_in_any_form(address: IPv4Address) -> None:
    assert not is_public(str(address))
    for form in ipv6_forms(address):
        assert not is_public(str(form)), form
        assert not is_public(form.exploded), form


@given(private_ipv6, st.sampled_from(["", "%eth0", "%1"]))
def test_reserved_ipv6_address_is_not_public(address: IPv6Address, zone: str) -> None:
    assert not is_public(f"{address}{zone}")


@given(ipv4)
def test_ipv6_form_is_judged_as_the_address_that_it_leads_to(address: IPv4Address) -> None:
    mapped, nat64, six_to_four, *_ = ipv6_forms(address)
    assert {is_public(str(form)) for form in (mapped, nat64, six_to_four)} == {is_public(str(address))}


@given(ipv4)
def test_other_ipv4_addresses_are_public(address: IPv4Address) -> None:
    # 192.0.0.0/24 is left to the standards: some of its few addresses are global.
    is_reserved = any(address in network for network in [*NOT_PUBLIC_4, IPv4Network("192.0.0.0/24")])
    assert is_reserved or is_public(str(address))


@pytest.mark.parametrize("address", PUBLIC)
def test_addresses_of_the_internet_are_public(address: str) -> None:
    assert is_public(address)


@given(st.text(max_size=30))
def test_what_is_no_address_is_not_public(text: str) -> None:
    try:
        IPv4Address(text)
    except ValueError:
        try:
            IPv6Address(text)
        except ValueError:
            assert not is_public(text)
