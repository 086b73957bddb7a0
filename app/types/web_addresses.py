"""Checks of web addresses: whether a host is this machine, and whether secrets may be sent to a URL."""

from __future__ import annotations

from ipaddress import ip_address
from urllib.parse import urlsplit


def is_loopback_address(host: str) -> bool:
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False


def is_confidential(url: str) -> bool:
    """Whether secrets can be sent to the URL without being read on the way: https, or http to this machine."""
    try:
        parts = urlsplit(url)
        host, _ = parts.hostname, parts.port  # raises ValueError for an invalid port
    except ValueError:
        return False
    if not host or parts.username is not None or not url.isprintable() or " " in url:
        return False
    return parts.scheme == "https" or (parts.scheme == "http" and (host == "localhost" or is_loopback_address(host)))
