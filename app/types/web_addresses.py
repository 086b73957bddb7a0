"""Addresses of the web: which of them are of this machine, and to which secrets may be sent."""

from __future__ import annotations

from ipaddress import ip_address
from urllib.parse import urlsplit


def is_loopback_address(host: str) -> bool:
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False


def is_confidential(url: str) -> bool:
    """Whether nobody on the way reads what is sent there: https, or http within this machine."""
    try:
        parts = urlsplit(url)
        host, _ = parts.hostname, parts.port  # which refuses what is no port
    except ValueError:
        return False
    if not host or parts.username is not None or not url.isprintable() or " " in url:
        return False
    return parts.scheme == "https" or (parts.scheme == "http" and (host == "localhost" or is_loopback_address(host)))
