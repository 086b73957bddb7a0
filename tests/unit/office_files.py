"""Word files and slides from XML as programs write it, for what python-docx and python-pptx cannot write."""

from __future__ import annotations

import io
from collections.abc import Mapping

import pptx
from sample_files import unzipped, zip_of

OFFICE = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
_NAMES = {
    "w": "http://schemas.openxmlformats.org/wordprocessingml/2006/main",
    "r": OFFICE,
    "m": "http://schemas.openxmlformats.org/officeDocument/2006/math",
    "mc": "http://schemas.openxmlformats.org/markup-compatibility/2006",
    "wp": "http://schemas.openxmlformats.org/drawingml/2006/wordprocessingDrawing",
    "wps": "http://schemas.microsoft.com/office/word/2010/wordprocessingShape",
    "a": "http://schemas.openxmlformats.org/drawingml/2006/main",
    "c": "http://schemas.openxmlformats.org/drawingml/2006/chart",
    "dgm": "http://schemas.openxmlformats.org/drawingml/2006/diagram",
    "v": "urn:schemas-microsoft-com:vml",
    "p": "http://schemas.openxmlformats.org/presentationml/2006/main",
}
NAMES = " ".join(f'xmlns:{prefix}="{name}"' for prefix, name in _NAMES.items())
CHART = f"""<c:chartSpace {NAMES}><c:chart><c:title><c:tx><c:rich><a:p><a:r><a:t>Harvest</a:t></a:r></a:p></c:rich></c:tx>
    </c:title><c:plotArea><c:barChart>{{}}</c:barChart><c:valAx><c:title><c:tx><c:rich><a:p><a:r><a:t>in tonnes</a:t></a:r>
    </a:p></c:rich></c:tx></c:title></c:valAx></c:plotArea></c:chart></c:chartSpace>"""
DIAGRAM = f"""<dgm:dataModel {NAMES}><dgm:ptLst><dgm:pt modelId="1" type="doc"/>
    <dgm:pt modelId="2"><dgm:t><a:p><a:r><a:t>Plan</a:t></a:r></a:p></dgm:t></dgm:pt>
    <dgm:pt modelId="3"><dgm:t><a:p><a:r><a:t>Build</a:t></a:r></a:p></dgm:t></dgm:pt></dgm:ptLst></dgm:dataModel>"""


def series(name: str, points: Mapping[str, str]) -> str:
    def cache(kind: str, values: list[str]) -> str:
        return "".join(f'<c:pt idx="{n}"><c:v>{value}</c:v></c:pt>' for n, value in enumerate(values))

    return (
        f"<c:ser><c:tx><c:strRef><c:strCache>{cache('str', [name])}</c:strCache></c:strRef></c:tx>"
        f"<c:cat><c:strRef><c:strCache>{cache('str', list(points))}</c:strCache></c:strRef></c:cat>"
        f"<c:val><c:numRef><c:numCache>{cache('num', list(points.values()))}</c:numCache></c:numRef></c:val></c:ser>"
    )


def paragraph(text: str, properties: str = "") -> str:
    return f'<w:p>{properties}<w:r><w:t xml:space="preserve">{text}</w:t></w:r></w:p>'


def run(text: str) -> str:
    return f'<w:r><w:t xml:space="preserve">{text}</w:t></w:r>'


def cell(text: str, properties: str = "") -> str:
    return f"<w:tc><w:tcPr>{properties}</w:tcPr>{paragraph(text) if text else '<w:p/>'}</w:tc>"


def table(*rows: str) -> str:
    return f"<w:tbl>{''.join(f'<w:tr>{row}</w:tr>' for row in rows)}</w:tbl>"


def drawing(inner: str, *, description: str = "") -> str:
    return (
        f'<w:r><w:drawing><wp:inline><wp:docPr id="1" name="n" descr="{description}"/><a:graphic><a:graphicData>{inner}'
        "</a:graphicData></a:graphic></wp:inline></w:drawing></w:r>"
    )


def text_box(inner: str) -> str:
    return f"<wps:wsp><wps:txbx><w:txbxContent>{inner}</w:txbxContent></wps:txbx></wps:wsp>"


def word(body: str, parts: Mapping[str, tuple[str, str]] | None = None, *, strict: bool = False) -> bytes:
    """`parts`: the kind of relation and the XML of each, by its id, which its name has, too."""
    parts = parts or {}
    links = "".join(
        f'<Relationship Id="{name}" Type="{OFFICE}/{kind}" Target="{name}.xml"/>' for name, (kind, _) in parts.items()
    )
    relations = '<Relationships xmlns="http://schemas.openxmlformats.org/package/2006/relationships">{}</Relationships>'
    files = {
        "[Content_Types].xml": '<Types xmlns="http://schemas.openxmlformats.org/package/2006/content-types"/>',
        "_rels/.rels": relations.format(
            f'<Relationship Id="r1" Type="{OFFICE}/officeDocument" Target="word/document.xml"/>'
        ),
        "word/_rels/document.xml.rels": relations.format(links),
        "word/document.xml": f"<w:document {NAMES}><w:body>{body}</w:body></w:document>",
        **{f"word/{name}.xml": xml for name, (_, xml) in parts.items()},
    }
    if strict:
        strict_names = {
            _NAMES["w"]: "http://purl.oclc.org/ooxml/wordprocessingml/main",
            OFFICE: "http://purl.oclc.org/ooxml/officeDocument/relationships",
        }
        for old, new in strict_names.items():
            files = {name: xml.replace(old, new) for name, xml in files.items()}
    return zip_of(files)


def show(shapes: str, relations: Mapping[str, tuple[str, str, str]] | None = None) -> bytes:
    """A slide of these shapes; `relations`: kind, name of the part and its XML, by id."""
    presentation = pptx.Presentation()
    presentation.slides.add_slide(presentation.slide_layouts[6])
    buffer = io.BytesIO()
    presentation.save(buffer)
    files: dict[str, bytes | str] = dict(unzipped(buffer.getvalue()))
    files["ppt/slides/slide1.xml"] = f"<p:sld {NAMES}><p:cSld><p:spTree>{shapes}</p:spTree></p:cSld></p:sld>"
    links = ""
    for identity, (kind, part, xml) in (relations or {}).items():
        files[f"ppt/{part}"] = xml
        links += f'<Relationship Id="{identity}" Type="{OFFICE}/{kind}" Target="../{part}"/>'
    old = files["ppt/slides/_rels/slide1.xml.rels"]
    assert isinstance(old, bytes)
    files["ppt/slides/_rels/slide1.xml.rels"] = old.replace(b"</Relationships>", links.encode() + b"</Relationships>")
    return zip_of(files)


def shape(text: str, *, description: str = "") -> str:
    lines = "".join(f"<a:p><a:r><a:t>{line}</a:t></a:r></a:p>" for line in text.split("\n"))
    return (
        f'<p:sp><p:nvSpPr><p:cNvPr id="2" name="n" descr="{description}"/><p:nvPr/></p:nvSpPr>'
        f"<p:txBody>{lines}</p:txBody></p:sp>"
    )
