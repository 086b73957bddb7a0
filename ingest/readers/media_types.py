"""The media type of a file by its name. Imports no parser, so that listing files loads none."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import PurePosixPath

from app.errors import DocumentError
from app.types.uris import path_in

MARKDOWN = "text/markdown"
DOCX = "application/vnd.openxmlformats-officedocument.wordprocessingml.document"
XLSX = "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet"
PPTX = "application/vnd.openxmlformats-officedocument.presentationml.presentation"
DOC = "application/msword"
XLS = "application/vnd.ms-excel"
PPT = "application/vnd.ms-powerpoint"
RTF = "application/rtf"
ODT = "application/vnd.oasis.opendocument.text"
ODS = "application/vnd.oasis.opendocument.spreadsheet"
ODP = "application/vnd.oasis.opendocument.presentation"
# With macros, templates and shows: files of the same format.
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
        ODT: ".odt .ott .fodt",
        ODS: ".ods .ots .fods",
        ODP: ".odp .otp .fodp",
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
    "latex": ".tex",
    "restructuredtext": ".rst",
}
# Media types of source code, and the language that each stands for.
CODE = {f"text/x-{language}": language for language in _LANGUAGES}

SUFFIXES = {
    ".txt": "text/plain",
    ".log": "text/plain",
    ".md": MARKDOWN,
    ".markdown": MARKDOWN,
    ".html": "text/html",
    ".htm": "text/html",
    ".xhtml": "text/html",
    ".pdf": "application/pdf",
    ".png": "image/png",
    ".jpg": "image/jpeg",
    ".jpeg": "image/jpeg",
    ".tif": "image/tiff",
    ".tiff": "image/tiff",
    ".webp": "image/webp",
    **OFFICE_SUFFIXES,
    ".csv": "text/csv",
    ".tsv": "text/tab-separated-values",
    ".json": "application/json",
    ".jsonl": "application/x-ndjson",
    ".ndjson": "application/x-ndjson",
    ".xml": "application/xml",
    ".epub": "application/epub+zip",
    ".eml": "message/rfc822",
    ".mbox": "application/mbox",
    ".zip": "application/zip",
    ".tar": "application/x-tar",
    ".tgz": "application/x-tar",
    ".tar.gz": "application/x-tar",
    ".tar.bz2": "application/x-tar",
    ".tar.xz": "application/x-tar",
} | {suffix: f"text/x-{language}" for language, suffixes in _LANGUAGES.items() for suffix in suffixes.split()}


def media_type_of(uri: str) -> str:
    """The media type that the suffix of a path, file name or URL stands for. Raises DocumentError for others."""
    path = path_of(uri)
    parts = path.name.lower().split(".")  # PurePath takes the dots of a name that begins with several for its own
    for suffix in ("." + ".".join(parts[-2:]), "." + parts[-1]):
        if len(suffix) < len(path.name) and (media_type := SUFFIXES.get(suffix)):
            return media_type
    what = f"Files ending in {path.suffix!r}" if path.suffix else "Files without a suffix"
    raise DocumentError(f"{what} cannot be read. Known suffixes: {', '.join(SUFFIXES)}.")


def can_read(media_type: str) -> bool:
    """Whether what reads it is installed here; of the extras those for pictures alone are asked, which every folder of
    photographs would need."""
    return media_type not in PICTURES or find_spec("rapidocr") is not None


def path_of(uri: str) -> PurePosixPath:
    return PurePosixPath(path_in(uri) if "://" in uri else uri.replace("\\", "/"))
