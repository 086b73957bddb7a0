"""Checks of web addresses: whether a URL has a host, whether that is this machine, and whether secrets may be sent to
it.
"""

from __future__ import annotations

from ipaddress import ip_address
from urllib.parse import SplitResult, urlsplit


def is_loopback_address(host: str) -> bool:
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False


def web_address(url: str) -> SplitResult | None:
    """The parts of a URL to which a request can be sent: http or https, with a host; None for any other text."""
    try:
        parts = urlsplit(url)
        host, port = parts.hostname, parts.port  # raises ValueError for an invalid port
    except ValueError:
        return None
    is_whole = parts.scheme in ("http", "https") and bool(host) and port != 0
    return parts if is_whole and url.isprintable() and not any(map(str.isspace, url)) else None


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
