"""Sends the matches of saved searches to webhooks, signed as in https://www.standardwebhooks.com.

Connects only to the public internet, unless allowed: to the address that it has checked, and without redirects."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import hmac
import json
import ssl
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from functools import cached_property

import httpx

from app.errors import DeliveryError, DocumentError
from app.types.documents import utc_now
from app.types.standing import Delivery, News, StandingSearch
from ingest.addresses import is_public
from ingest.urls import PinnedTransport, Resolver, resolve_name

TOTAL_S = 30.0
_STEP_S = 10.0
_GONE = 410
_SECRET_PREFIX = "whsec_"  # noqa: S105 - how such secrets begin
_SHOWN = 2_000  # characters of a passage


class WebhookSender:
    def __init__(
        self,
        *,
        is_allowed: Callable[[str], bool] = is_public,
        resolve: Resolver = resolve_name,
        tls: ssl.SSLContext | None = None,
        clock: Callable[[], datetime] = utc_now,
    ) -> None:
        self._is_allowed = is_allowed
        self._resolve = resolve
        self._given_tls = tls
        self._clock = clock

    @cached_property
    def _tls(self) -> ssl.SSLContext:
        return self._given_tls or httpx.create_ssl_context(trust_env=False)

    def __call__(self, delivery: Delivery, search: StandingSearch, news: Sequence[News]) -> None:
        """Posts one delivery. Raises DeliveryError; `is_final` where a retry cannot help."""
        if search.watch.webhook is None:
            raise DeliveryError("The webhook was removed.", is_final=True)
        body = json.dumps(message(delivery, search, news), ensure_ascii=False).encode("utf-8", "replace")
        headers = {
            "content-type": "application/json",
            "user-agent": "gircse-search",
            **signed(delivery.id, body, secret=search.webhook_secret, at=self._clock()),
        }
        try:
            status = asyncio.run(self._post_in_time(search.watch.webhook, body, headers))
        except (httpx.InvalidURL, DocumentError) as error:
            raise DeliveryError(str(error), is_final=True) from None
        except TimeoutError:
            raise DeliveryError(f"The webhook did not answer within {TOTAL_S:g} s.") from None
        except (httpx.HTTPError, httpx.StreamError) as error:
            raise DeliveryError(f"The webhook could not be reached ({type(error).__name__}).") from None
        if not 200 <= status < 300:
            raise DeliveryError(f"The webhook answered with status {status}.", is_final=status == _GONE)

    async def _post_in_time(self, url: str, body: bytes, headers: Mapping[str, str]) -> int:
        transport = PinnedTransport(resolve=self._resolve, is_allowed=self._is_allowed, tls=self._tls)
        async with (
            asyncio.timeout(TOTAL_S),
            httpx.AsyncClient(transport=transport, trust_env=False, timeout=_STEP_S) as client,
            # The body of the response is not read.
            client.stream("POST", url, content=body, headers=headers) as response,
        ):
            return response.status_code


def message(delivery: Delivery, search: StandingSearch, news: Sequence[News]) -> dict[str, object]:
    """The JSON body of a delivery. Passages are cut to 2,000 characters."""
    return {
        "type": "standing_search.matched",
        "timestamp": delivery.created_at.isoformat(),
        "data": {
            "delivery_id": delivery.id,
            "search": {
                "id": search.id,
                "name": search.name,
                "collection": search.collection,
                "query": search.request.get("query", ""),
                "strength": search.watch.strength.value,
            },
            "matches": [
                {
                    "chunk_id": match.chunk_id,
                    "document_id": match.document_id,
                    "title": match.title,
                    "uri": match.uri,
                    "text": match.text[:_SHOWN],
                    "page": match.page,
                    "score": round(match.score, 4),
                    "match": match.match.value,
                    "matched_at": match.matched_at.isoformat(),
                }
                for match in news
            ],
        },
    }


def signed(delivery_id: str, body: bytes, *, secret: str, at: datetime) -> dict[str, str]:
    """The headers that prove sender and time: id, timestamp in seconds, and an HMAC-SHA256 over both and the body."""
    seconds = int(at.timestamp())
    key = base64.b64decode(secret.removeprefix(_SECRET_PREFIX))
    digest = hmac.new(key, f"{delivery_id}.{seconds}.".encode() + body, hashlib.sha256).digest()
    return {
        "webhook-id": delivery_id,
        "webhook-timestamp": str(seconds),
        "webhook-signature": f"v1,{base64.b64encode(digest).decode()}",
    }
