"""Claims of an OpenID provider about a person, and rules over them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from app.types.access import matches

Claims = Mapping[str, object]
EVERYBODY = "*"
EMAIL, EMAIL_VERIFIED = "email", "email_verified"


@dataclass(frozen=True, slots=True)
class ClaimRule:
    """Holds if the claim is a text, or a list with a text, that matches `pattern`; `*` matches any characters."""

    claim: str
    pattern: str

    def holds_for(self, claims: Claims) -> bool:
        """Emails compare without case. An email that the provider has not verified never matches: anyone can claim
        it."""
        if self.claim == EMAIL and claims.get(EMAIL_VERIFIED) is not True:
            return False
        values, pattern = texts_of(claims.get(self.claim)), self.pattern
        if self.claim == EMAIL:
            values, pattern = [text.lower() for text in values], pattern.lower()
        return any(matches(text, [pattern]) for text in values)


def texts_of(value: object) -> list[str]:
    listed = value if isinstance(value, list) else [value]
    return [item for item in listed if isinstance(item, str)]


def claim_rules(text: str) -> tuple[ClaimRule, ...]:
    """Parses `claim=value, claim=value`; the rule `*` holds for everybody. Raises ValueError."""
    return tuple(_rule(part.strip()) for part in text.split(",") if part.strip())


def is_any_true(rules: Iterable[ClaimRule], claims: Claims) -> bool:
    return any(rule.holds_for(claims) for rule in rules)


def _rule(text: str) -> ClaimRule:
    if text == EVERYBODY:
        return ClaimRule("sub", "*")  # every ID token has this claim
    claim, _, pattern = (part.strip() for part in text.partition("="))
    if not claim or not pattern:
        raise ValueError(f"{text[:80]!r} is not a rule; write claim=value, for instance groups=search-users")
    return ClaimRule(claim, pattern)
