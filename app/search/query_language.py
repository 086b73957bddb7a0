"""Detects the language of a query that is clearly not English, to warn users of models that read only English.

Detection is by script, or by function words that are not English words. False alarms are worse than misses, so short
and mixed queries count as English.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from app.search.soft_tokens import STOP_WORDS

_LETTERS = re.compile(r"[^\W\d_]+")
_SCRIPTS = (
    ("Japanese", re.compile(r"[\u3041-\u30ff]")),
    ("Chinese", re.compile(r"[\u3400-\u9fff]")),
    ("Korean", re.compile(r"[\uac00-\ud7af]")),
    ("Russian or another language in Cyrillic", re.compile(r"[\u0400-\u04ff]")),
    ("Arabic", re.compile(r"[\u0600-\u06ff]")),
    ("Greek", re.compile(r"[\u0370-\u03ff]")),
    ("Hebrew", re.compile(r"[\u0590-\u05ff]")),
    ("Hindi or another language in Devanagari", re.compile(r"[\u0900-\u097f]")),
)


class _Words(NamedTuple):
    """Function words of a language. A question that begins with one of `asking` needs no second word."""

    asking: str
    others: str


# Words that English also has are left out: die, war, was, des, on, me, pour, son.
_WORDS = {
    "German": _Words(
        "wer wem wessen wie wann warum welche welcher welchem welchen welches wohin woher wovon wodurch womit wozu "
        "wofür worin wieso weshalb wieviel wieviele",
        "der das und ist nicht wenn ein eine einen einem einer für mit auf dem den zu von wird werden wurde habe hat "
        "haben ich wir sie mein meine meinen sich auch aus bei nach über oder wo kann können muss soll sind im zum zur "
        "als durch gibt noch schon mehr keine kein vom bis unter zwischen wen viele vielen hatte hatten waren wurden "
        "gegen seit ohne ab heißt diese dieser dieses",
    ),
    "French": _Words(
        "quelle quels quelles combien pourquoi lequel laquelle lesquels lesquelles",
        "à quoi pour moi le la les un une du de et est que qui dans pas ne sont avec sur au aux ce cette ces je nous "
        "vous il elle ont mon ma mes comment quand quel où par été être faire d l qu",
    ),
    "Spanish": _Words(
        "qué quién quiénes cuál cuándo cuánto cuánta cuántos cuántas cuáles adónde dónde cómo",
        "el la los las un una de y es que en por para con no se mi mis su sus lo al del está están son fue como más "
        "pero sobre",
    ),
    "Italian": _Words(
        "perché quanti quante",
        "il lo la gli le un una di e è che in per con non si come quando dove mio mia del della dei delle sono nel "
        "nella più anche quale quali quanto quanta questo questa",
    ),
    "Portuguese": _Words(
        "quem quantos quantas",
        "o os um uma de e é que em por para com não se como quando onde meu minha do da dos das no na mais foi está ao "
        "qual quais quanto quanta isso",
    ),
    "Dutch": _Words(
        "waarom wanneer hoeveel waarmee waarheen",
        "de het een en is niet hoe wat waar voor met op van te zijn wordt ik wij mijn deze dit maar ook naar bij of "
        "als aan welke heeft",
    ),
}
_FUNCTION_WORDS = {
    name: frozenset(f"{words.asking} {words.others}".split()) - STOP_WORDS for name, words in _WORDS.items()
}
_ASKING = frozenset(word for words in _WORDS.values() for word in words.asking.split())
LANGUAGES = (*(name for name, _ in _SCRIPTS), *_WORDS)
_LEAST_WORDS, _LEAST_SHARE = 2, 0.15  # function words of a language that identify it: number, share of all words

ENGLISH = "English"


def unread_language(query: str, read: str | None) -> str | None:
    """The language of a query that is clearly not in `read`, the only language of the model; None: any."""
    return other_language(query) if read == ENGLISH else None


def other_language(text: str) -> str | None:
    """Name of the text's language; None if it may be English."""
    letters = sum(map(len, _LETTERS.findall(text)))
    for name, script in _SCRIPTS:
        if 2 * len(script.findall(text)) > letters:
            return name
    written = _LETTERS.findall(text)
    if not written:
        return None
    words = [word.lower() for word in written]
    english = sum(word in STOP_WORDS for word in words)
    accented = any(not word.isascii() for word in words)
    count, name = max((sum(word in own for word in words), name) for name, own in _FUNCTION_WORDS.items())
    is_sure = accented or (words[0] in _ASKING and not written[0].isupper())  # WER is a rate of errors
    least = _LEAST_WORDS - 1 if is_sure and not english else _LEAST_WORDS
    return name if count >= least and count > english and count >= _LEAST_SHARE * len(words) else None
