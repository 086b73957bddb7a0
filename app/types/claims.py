"""What an OpenID provider says of a person (claims), and rules over it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from app.types.access import matches

Claims = Mapping[str, object]
EVERYBODY = "*"
EMAIL, EMAIL_VERIFIED = "email", "email_verified"


@dataclass(frozen=True, slots=True)
class ClaimRule:
    """`claim` is, or lists, what `pattern` matches; its `*` stands for any characters."""

    claim: str
    pattern: str

    def holds_for(self, claims: Claims) -> bool:
        """An email that the provider has not verified is anybody's word."""
        if self.claim == EMAIL and claims.get(EMAIL_VERIFIED) is not True:
            return False
        values, pattern = texts_of(claims.get(self.claim)), self.pattern
        if self.claim == EMAIL:
            values, pattern = [each.lower() for each in values], pattern.lower()
        return any(matches(each, [pattern]) for each in values)


def texts_of(value: object) -> list[str]:
    listed = value if isinstance(value, list) else [value]
    return [each for each in listed if isinstance(each, str)]


def claim_rules(text: str) -> tuple[ClaimRule, ...]:
    """Of `claim=value, claim=value`; `*` is a rule that holds for everybody. Raises ValueError."""
    return tuple(_rule(each.strip()) for each in text.split(",") if each.strip())


def is_any_true(rules: Iterable[ClaimRule], claims: Claims) -> bool:
    return any(rule.holds_for(claims) for rule in rules)


def _rule(text: str) -> ClaimRule:
    if text == EVERYBODY:
        return ClaimRule("sub", "*")  # which every ID token has
    claim, _, pattern = (part.strip() for part in text.partition("="))
    if not claim or not pattern:
        raise ValueError(f"{text[:80]!r} is no rule; write claim=value, as groups=search-users")
    return ClaimRule(claim, pattern)
