"""Media types: their suffixes, and the extras that some of them need. Imports no parser."""

from __future__ import annotations

import re
from importlib.util import find_spec
from pathlib import PurePosixPath

from app.types.uris import path_in

MARKDOWN, RESTRUCTURED = "text/markdown", "text/x-restructuredtext"
ASCIIDOC, ORG = "text/asciidoc", "text/x-org"
DOCX = "application/vnd.openxmlformats-officedocument.wordprocessingml.document"
XLSX = "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet"
PPTX = "application/vnd.openxmlformats-officedocument.presentationml.presentation"
VISIO = "application/vnd.ms-visio.drawing"
XPS = "application/vnd.ms-xpsdocument"
TRANSLATIONS = "text/x-gettext-translation"
PROPERTY_LIST = "application/x-plist"
IWORK = "application/vnd.apple.iwork"
EPUB = "application/epub+zip"
MESSAGE, MAILBOX, OUTLOOK = "message/rfc822", "application/mbox", "application/vnd.ms-outlook"
TNEF = "application/ms-tnef"  # a message with its attachments, packed by Outlook
PLAIN, HTML, XML, JSON, CSV = "text/plain", "text/html", "application/xml", "application/json", "text/csv"
NOTEBOOK, MANUAL, JSON_LINES = "application/x-ipynb+json", "text/troff", "application/x-ndjson"
ZIP, TAR = "application/zip", "application/x-tar"
COMPRESSED = "application/gzip"  # one file, also by bzip2 or xz
SIGNED = "application/pkcs7-mime"  # one file with its signatures
CALENDAR, CONTACTS = "text/calendar", "text/vcard"
SUBTITLES = "application/x-subrip"
DOC = "application/msword"
XLS = "application/vnd.ms-excel"
PPT = "application/vnd.ms-powerpoint"
RTF = "application/rtf"
ODT = "application/vnd.oasis.opendocument.text"
ODS = "application/vnd.oasis.opendocument.spreadsheet"
ODP = "application/vnd.oasis.opendocument.presentation"
# Macro-enabled files, templates and slide shows have the same format.
OFFICE_SUFFIXES = {
    suffix: media_type
    for media_type, suffixes in {
        DOCX: ".docx .docm .dotx .dotm",
        XLSX: ".xlsx .xlsm .xltx .xltm",
        PPTX: ".pptx .pptm .ppsx .ppsm .potx .potm",
        DOC: ".doc .dot",
        XLS: ".xls .xlt .xlsb",
        PPT: ".ppt .pps .pot",
        RTF: ".rtf",
        ODT: ".odt .ott .fodt .sxw .stw",
        ODS: ".ods .ots .fods .sxc .stc",
        ODP: ".odp .otp .fodp .odg .otg .fodg .sxi .sti .sxd",
    }.items()
    for suffix in suffixes.split()
}
PICTURES = {
    "image/png": "PNG",
    "image/jpeg": "JPEG",
    "image/tiff": "TIFF",
    "image/webp": "WEBP",
}

_LANGUAGES = {
    "python": ".py .pyi",
    "javascript": ".js .mjs .jsx",
    "typescript": ".ts .tsx",
    "java": ".java",
    "kotlin": ".kt",
    "scala": ".scala",
    "go": ".go",
    "rust": ".rs",
    "c": ".c .h",
    "cpp": ".cpp .cc .hpp",
    "csharp": ".cs",
    "swift": ".swift",
    "php": ".php",
    "ruby": ".rb",
    "perl": ".pl",
    "lua": ".lua",
    "r": ".r",
    "julia": ".jl",
    "haskell": ".hs",
    "shell": ".sh .bash",
    "powershell": ".ps1",
    "sql": ".sql",
    "css": ".css",
    "yaml": ".yaml .yml",
    "toml": ".toml",
    "ini": ".ini .cfg",
    "properties": ".properties",
    "latex": ".tex .bib",
    "restructuredtext": ".rst",
}
# Media type of source code → its language.
CODE = {f"text/x-{language}": language for language in _LANGUAGES}

SUFFIXES = {
    ".txt": PLAIN,
    ".text": PLAIN,
    ".log": PLAIN,
    **dict.fromkeys((".md", ".markdown", ".mdx", ".qmd", ".rmd"), MARKDOWN),
    ".adoc": ASCIIDOC,
    ".asciidoc": ASCIIDOC,
    ".org": ORG,
    **dict.fromkeys((".srt", ".ass", ".ssa", ".sbv", ".lrc", ".ttml"), SUBTITLES),
    ".vtt": "text/vtt",
    **{f".{section}": MANUAL for section in ("man", *range(1, 10))},
    ".html": HTML,
    ".htm": HTML,
    ".xhtml": HTML,
    ".pdf": "application/pdf",
    ".png": "image/png",
    ".jpg": "image/jpeg",
    ".jpeg": "image/jpeg",
    ".tif": "image/tiff",
    ".tiff": "image/tiff",
    ".webp": "image/webp",
    **OFFICE_SUFFIXES,
    **dict.fromkeys((".vsdx", ".vsdm"), VISIO),
    **dict.fromkeys((".xps", ".oxps"), XPS),
    **dict.fromkeys((".pages", ".numbers", ".key"), IWORK),
    ".csv": CSV,
    ".tsv": "text/tab-separated-values",
    ".json": JSON,
    ".ipynb": NOTEBOOK,
    ".jsonl": JSON_LINES,
    ".ndjson": JSON_LINES,
    ".xml": XML,
    ".po": TRANSLATIONS,  # .pot is also PowerPoint's
    **dict.fromkeys((".fb2", ".svg", ".opml", ".enex", ".drawio", ".gpx", ".kml", ".rss", ".atom"), XML),
    **dict.fromkeys((".docbook", ".dbk", ".dita", ".ditamap", ".jats", ".nxml", ".tei", ".tmx", ".xlf", ".xliff"), XML),
    **dict.fromkeys((".plist", ".webarchive"), PROPERTY_LIST),
    ".epub": EPUB,
    ".eml": MESSAGE,
    ".emlx": MESSAGE,
    ".mht": MESSAGE,
    ".mhtml": MESSAGE,
    ".msg": OUTLOOK,
    ".tnef": TNEF,
    ".mbox": MAILBOX,
    ".ics": CALENDAR,
    ".vcf": CONTACTS,
    ".zip": ZIP,
    ".tar": TAR,
    ".tgz": TAR,
    ".tar.gz": TAR,
    ".tar.bz2": TAR,
    ".tar.xz": TAR,
    ".gz": COMPRESSED,
    ".bz2": COMPRESSED,
    ".xz": COMPRESSED,
    **dict.fromkeys((".p7m", ".p7s"), SIGNED),
} | {suffix: f"text/x-{language}" for language, suffixes in _LANGUAGES.items() for suffix in suffixes.split()}

# Other names of the same types, used by servers and mail programs.
_ALIASES = {
    "application/xhtml+xml": HTML,
    "text/xml": XML,
    "text/json": JSON,
    "text/x-rst": RESTRUCTURED,
    "text/rtf": "application/rtf",
    "application/x-zip-compressed": ZIP,
    "application/vnd.oasis.opendocument.graphics": ODP,
    **dict.fromkeys(("image/svg+xml", "application/rss+xml", "application/atom+xml"), XML),
    "application/csv": CSV,
    **dict.fromkeys(("application/x-gzip", "application/x-bzip2", "application/x-xz"), COMPRESSED),
    **dict.fromkeys(("application/x-pkcs7-mime", "application/cms"), SIGNED),
    "application/vnd.ms-tnef": TNEF,
    "application/oxps": XPS,
    **{f"application/vnd.apple.{name}": IWORK for name in ("pages", "numbers", "keynote")},
    **{f"application/x-iwork-{name}-sffpages": IWORK for name in ("pages", "numbers", "keynote")},
    **dict.fromkeys(("application/x-bplist", "application/x-webarchive"), PROPERTY_LIST),
    **dict.fromkeys(("application/xliff+xml", "application/tei+xml", "application/docbook+xml"), XML),
    "application/ics": CALENDAR,
    **dict.fromkeys(("text/x-vcard", "text/directory"), CONTACTS),
    "application/jsonl": JSON_LINES,
    "text/x-markdown": MARKDOWN,
    "text/x-python-script": "text/x-python",
}
# Suffixes of formats without text.
_NEVER_READ = {
    *(".gif", ".bmp", ".ico", ".heic", ".avif", ".psd", ".mp3", ".ogg", ".wav", ".flac", ".m4a", ".mp4", ".mkv"),
    *(".mov", ".avi", ".webm", ".exe", ".dll", ".so", ".dylib", ".a", ".o", ".obj", ".class", ".jar", ".pyc", ".wasm"),
    *(".bin", ".iso", ".dmg", ".deb", ".rpm", ".apk", ".7z", ".rar", ".zst", ".lz4", ".ttf"),
    *(".otf", ".woff", ".woff2", ".eot", ".db", ".sqlite", ".sqlite3", ".mdb", ".parquet", ".feather", ".arrow"),
    *(".npy", ".npz", ".pkl", ".pickle", ".pt", ".pth", ".ckpt", ".onnx", ".h5", ".hdf5", ".safetensors", ".gguf"),
}
# Types that programs send for unknown files.
_SAYING_NOTHING = ("application/octet-stream", "binary/octet-stream", "application/x-download")
_CHARSET = re.compile(r""";\s*charset\s*=\s*["']?([\w.:+-]{1,40})""", re.IGNORECASE)


def type_of_suffix(uri: str) -> str:
    """The media type of a path, file name or URL by its suffix; empty if unknown."""
    path = path_of(uri)
    parts = path.name.lower().split(".")  # not PurePath.suffixes: it misreads names that begin with several dots
    for suffix in ("." + ".".join(parts[-2:]), "." + parts[-1]):
        if len(suffix) < len(path.name) and (media_type := SUFFIXES.get(suffix)):
            return media_type
    return ""


def known_type(declared: str) -> str:
    """The declared media type without parameters, under its common name; empty if it says nothing."""
    media_type = declared.partition(";")[0].strip().lower()
    media_type = _ALIASES.get(media_type, media_type)
    return "" if media_type in _SAYING_NOTHING else media_type


def charset_of(declared: str) -> str:
    """The charset in a media type; empty if it has none."""
    match = _CHARSET.search(declared)
    return match[1].lower() if match else ""


def with_charset(media_type: str, declared: str) -> str:
    """`media_type` with the charset of `declared`."""
    charset = charset_of(declared)
    return f"{media_type}; charset={charset}" if charset else media_type


def may_be_read(path: str) -> bool:
    """Whether a reader may know the format, judged by the file name before the file is fetched."""
    media_type = type_of_suffix(path)
    suffix = path_of(path).suffix.lower()
    return not missing_extra_reason(media_type) if media_type else suffix not in _NEVER_READ


def missing_extra_reason(media_type: str) -> str:
    """Advice on what to install for this media type; empty if nothing is missing."""
    if media_type in PICTURES and find_spec("rapidocr") is None:
        return "to read pictures by OCR, run pip install 'gircse-search[ocr]'"
    if media_type in (DOC, XLS, PPT) and find_spec("office_oxide") is None:
        return "to read Office files from before 2007, run pip install 'gircse-search[office]'"
    return ""


def path_of(uri: str) -> PurePosixPath:
    return PurePosixPath(path_in(uri) if "://" in uri else uri.replace("\\", "/"))
