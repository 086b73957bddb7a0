"""Formulas of Office Math in one line: `E=mc^2`, `(a+b)/2`, `∑_(i=1)^n x`."""

from __future__ import annotations

from ingest.readers.opc import Element, attribute, children, first, local

_CHARACTERS = {"nary": "∫", "acc": "\u0302", "groupChr": "⏟"}  # defaults of the standard
_SCRIPTS = {"msup": "^", "msub": "_", "msubsup": "_^", "munder": "_", "mover": "^", "munderover": "_^"}  # MathML
_DEEPEST = 50


def linear_formula(element: Element) -> str:
    return "".join(map(_linear, children(element)))


def _linear(element: Element) -> str:
    tag = local(element)
    if tag == "t":
        return element.text or ""
    if tag.endswith("Pr") or tag in ("del", "moveFrom"):
        return ""
    base = _part(element, "e")
    sub, sup = _part(element, "sub"), _part(element, "sup")
    low, high = f"_{_grouped(sub)}" if sub else "", f"^{_grouped(sup)}" if sup else ""
    sign = _sign(element, "chr", _CHARACTERS.get(tag, ""))
    if tag == "f":
        return f"{_grouped(_part(element, 'num'))}/{_grouped(_part(element, 'den'))}"
    if tag in ("sSup", "sSub", "sSubSup"):
        return f"{base}{low}{high}"
    if tag == "sPre":
        return f"{low}{high}{base}"
    if tag == "rad":
        return f"{_part(element, 'deg')}√({base})"
    if tag == "nary":
        return f"{sign}{low}{high} {base}"
    if tag == "d":
        inner = _sign(element, "sepChr", "|").join(map(linear_formula, element.iterchildren("{*}e")))
        return f"{_sign(element, 'begChr', '(')}{inner}{_sign(element, 'endChr', ')')}"
    if tag in ("limLow", "limUpp"):
        return f"{base}{'_' if tag == 'limLow' else '^'}{_grouped(_part(element, 'lim'))} "
    if tag == "func":
        return f"{_part(element, 'fName')} {base}"
    if tag == "acc":
        return base + sign
    if tag in ("m", "eqArr"):
        rows = element.iterchildren("{*}mr" if tag == "m" else "{*}e")
        return "; ".join(
            ", ".join(map(linear_formula, row.iterchildren("{*}e"))) if tag == "m" else linear_formula(row)
            for row in rows
        )
    return linear_formula(element)


def linear_mathml(element: Element, depth: int = 0) -> str:
    """A formula of MathML in one line: `x^2/(a+b)`. Deeper parts than 50 levels become plain text."""
    tag = local(element)
    if tag.startswith("annotation"):
        return ""
    inner = [node for node in element.iterchildren("*") if not local(node).startswith("annotation")]
    if not inner or depth > _DEEPEST:
        return " ".join("".join(map(str, element.itertext())).split())
    parts = [linear_mathml(node, depth + 1) for node in inner]
    if tag == "mfrac" and len(parts) == 2:
        return f"{_grouped(parts[0])}/{_grouped(parts[1])}"
    if tag in _SCRIPTS and len(parts) == len(_SCRIPTS[tag]) + 1:
        scripts = (f"{sign}{_grouped(part)}" for sign, part in zip(_SCRIPTS[tag], parts[1:], strict=True) if part)
        return parts[0] + "".join(scripts)
    if tag == "msqrt":
        return f"√({''.join(parts)})"
    if tag == "mroot" and len(parts) == 2:
        return f"{parts[1]}√({parts[0]})"
    return {"mtable": "; ", "mtr": ", "}.get(tag, "").join(parts)


def _part(element: Element, name: str) -> str:
    part = first(element, name)
    return "" if part is None else linear_formula(part)


def _grouped(text: str) -> str:
    return text if len(text) < 2 or text.isalnum() else f"({text})"


def _sign(element: Element, name: str, default: str) -> str:
    """A character from the element's properties; an empty one is allowed there."""
    declared = first(element, f"{local(element)}Pr", name)
    return default if declared is None else attribute(declared, "val")
