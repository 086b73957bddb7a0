"""Encodings of texts: by mark, by declaration, as UTF-8, or guessed; and what is reported of them."""

from __future__ import annotations

import codecs

import pytest

from app.types.texts import ExtractedText
from ingest.readers.document import read_document
from ingest.readers.encodings import labelled

# Prose and tables as people write them, in the encoding of the Windows of their country.
WESTERN = [
    "The room costs £450 a week. Breakfast is £5.",
    "Cost;£450\nTax;€12\n",
    "It’s fine – “smart quotes” aren’t ASCII…",
    "Price €12 at 20 °C ± 2. See § 4.",
    "Le café coûte 3,50 €. Où êtes-vous né ? À Orléans.",
    "Les élèves français étudient l’œuvre complète de Molière à l'école.",
    "La città è più bella di così, però perché no?",
    "È così.",
    "A situação não é fácil: a informação está à disposição da população.",
    "Från Göteborg till Malmö går tåget två gånger i timmen.",
    "Åsa åker båt på sjön.",
    "Sää on tänään kylmä ja sateinen. Pöydällä on kahvia ja pullaa.",
    "¿Dónde está la estación? Mañana será otro día. El niño comió piña.",
    "Rødgrød med fløde på bordet koster 40 kr.",
    "Það er gott að vera hér á Íslandi þegar sólin skín.",
    "Größe;Preis\nM;12,50 €\nL;14,90 €\n",
    "Straße;Hausnr.;Ort\nMüllerstraße;4;München\nGoethestraße;12;Köln\n",
    "Artikel\tMenge\tBetrag\nÖl\t3\t€12\nÄpfel\t7\t€4\n",
    "Name,Gehalt\nJürgen,£450\nBärbel,£390\n",
    "Position;Übertrag\n1;1.200,00 €\n2;17,35 €",
    "Temperatur;20 °C\nDruck;3 bar\nToleranz;±2 %",
    "Maßeinheit;µm²\nFläche;12 m²\n",
    "3 × 4 = 12 ± 1",
    "São Paulo – 1º lugar",
    "Naïve approach\nnothing else here",
    "A naïve approach would be to read every page of the manual before the first start of the engine.",
    "Zoë Smith wrote the minutes of the meeting, and nothing else in them is unusual.",
    "The façade of the old town hall was painted in three colours by a local firm.",
]
OTHERS = [
    ("cp1251", "Сегодня хорошая погода, и мы пойдём гулять в парк."),
    ("koi8-r", "Сегодня хорошая погода, и мы пойдём гулять в парк."),
    ("cp1253", "Σήμερα ο καιρός είναι καλός και θα πάμε στο πάρκο."),
    ("cp1250", "Dnes je hezké počasí a půjdeme ven na procházku."),
    ("cp1250", "Zażółć gęślą jaźń. Święta są za pasem, a śnieg jeszcze nie spadł w górach."),
    ("cp1254", "Bugün hava çok güzel ve parka gideceğiz. Işık söndü, çocuklar uyuyor."),
    ("cp1255", "שלום עולם, היום מזג האוויר יפה מאוד."),
    ("gbk", "今天天气很好，我们去公园散步。明天也会是晴天。"),
    ("big5", "今天天氣很好，我們去公園散步。明天也會是晴天。"),
    ("euc_kr", "오늘은 날씨가 좋아서 공원에 갑니다. 내일도 맑을 것입니다."),
    ("euc_jp", "今日は良い天気ですね。公園に行きましょう。明日も晴れるでしょう。"),
    ("cp850", "Die Prüfung fällt aus; wir grüßen alle Schüler und Schülerinnen der Straße."),
    ("iso8859-15", "Le prix de l'œuvre est de 35 €, le cœur du musée reste gratuit."),
    ("iso2022_jp", "今日は良い天気ですね。"),
    ("mac_roman", "Le garçon a mangé une pâtisserie très sucrée ; il était déjà tard."),
]


def read(data: bytes, uri: str = "a.txt", media_type: str | None = None) -> ExtractedText:
    return read_document(data, uri=uri, media_type=media_type)


@pytest.mark.parametrize("times", [1, 20])
@pytest.mark.parametrize("text", WESTERN)
def test_latin_text_without_a_declaration_is_windows_1252(text, times):
    found = read((text + "\n").encode("cp1252") * times)
    assert found.text == (text + "\n") * times
    assert found.metadata == {"encoding": "windows-1252", "encoding_guessed": True}


@pytest.mark.parametrize(("encoding", "text"), OTHERS)
def test_other_scripts_and_systems_are_guessed_too(encoding, text):
    found = read(text.encode(encoding))
    assert found.text == text
    assert found.metadata["encoding_guessed"] is True


def test_utf8_is_not_reported():
    assert read("Köln".encode()).metadata == {}
    assert read("Köln".encode("utf-8-sig")).metadata == {}


@pytest.mark.parametrize(
    ("mark", "encoding"),
    [(codecs.BOM_UTF8, "utf-8"), (codecs.BOM_UTF16_LE, "utf-16-le"), (codecs.BOM_UTF16_BE, "utf-16-be")],
)
def test_a_mark_counts_more_than_a_declaration(mark, encoding):
    found = read(mark + "Köln am Rhein".encode(encoding), media_type="text/plain; charset=koi8-r")
    assert found.text == "Köln am Rhein"


@pytest.mark.parametrize("encoding", ["utf-16-le", "utf-16-be"])
def test_utf16_without_its_mark(encoding):
    assert read("Köln lies on the Rhine.".encode(encoding)).text == "Köln lies on the Rhine."


@pytest.mark.parametrize("uri", ["a.txt", "a.md", "a.csv", "a.html", "a.json", "a.jsonl", "a.xml", "a.py", "a.srt"])
def test_the_charset_of_a_media_type_counts_for_every_kind_of_text(uri):
    word = "Привет"
    text = {".json": f'["{word}"]', ".jsonl": f'"{word}"', ".xml": f"<a>{word}</a>"}.get(uri[1:], word)
    found = read(text.encode("koi8-r"), uri, "application/octet-stream; charset=KOI8-R")
    assert word in found.text
    assert found.metadata["encoding"] == "koi8-r"
    assert "encoding_guessed" not in found.metadata


def test_what_is_declared_counts_more_than_valid_utf8():
    escaped = "日本語".encode("iso2022_jp")
    assert read(escaped, media_type="text/plain; charset=iso-2022-jp").text == "日本語"


@pytest.mark.parametrize(
    "page",
    [
        '<meta charset="windows-1251"><p>{}</p>',
        '<meta http-equiv="Content-Type" content="text/html; charset=windows-1251"><p>{}</p>',
        '<?xml version="1.0" encoding="windows-1251"?><html><p>{}</p></html>',
        "<!-- " + "x" * 5000 + " <meta charset=utf-16> --><meta charset=windows-1251><p>{}</p>",
    ],
)
def test_pages_declare_their_encoding(page):
    assert read(page.format("Привет").encode("cp1251"), "a.html").text == "Привет"


def test_a_server_counts_more_than_its_page():
    page = "<meta charset=utf-8><p>Привет</p>".encode("koi8-r")
    assert read(page, "a.html", "text/html; charset=koi8-r").text == "Привет"


@pytest.mark.parametrize(
    ("uri", "code"),
    [
        ("a.py", "# -*- coding: cp1251 -*-\nword = 'Привет'\n"),
        ("a.py", "#!/usr/bin/python3\n# vim: set fileencoding=cp1251 :\nword = 'Привет'\n"),
        ("a.css", '@charset "windows-1251";\np::before { content: "Привет" }\n'),
        ("a.tex", "\\documentclass{article}\n\\usepackage[cp1251]{inputenc}\nПривет\n"),
    ],
)
def test_source_code_declares_its_encoding(uri, code):
    assert "Привет" in read(code.encode("cp1251"), uri).text


@pytest.mark.parametrize("declared", ["utf-8", "no-such-charset", "us-ascii", "rot13", "unicode_escape", "", "%%%"])
def test_a_wrong_declaration_is_no_obstacle(declared):
    text = "Le café coûte 3,50 €."
    assert read(text.encode("cp1252"), media_type=f"text/plain; charset={declared}").text == text
    assert read(text.encode(), media_type="text/plain; charset=us-ascii").text == text


def test_labels_mean_what_browsers_take_them_for():
    found = read("Preis: €12 – „gut“".encode("cp1252"), media_type="text/plain; charset=ISO-8859-1")
    assert (found.text, found.metadata) == ("Preis: €12 – „gut“", {"encoding": "windows-1252"})
    assert [encoding.codec for label in ("gb2312", "ks_c_5601-1987", "latin1") if (encoding := labelled(label))] == [
        "gb18030",
        "cp949",
        "cp1252",
    ]
    assert read("①㈱".encode("cp932"), media_type="text/plain; charset=shift_jis").text == "①㈱"
