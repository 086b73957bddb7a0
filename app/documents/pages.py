"""Pages of documents: images and words from a renderer, cached, with the words of a passage marked."""

from __future__ import annotations

from app.documents.passage_words import words_of_passage
from app.errors import DamagedFileError, DocumentError, InputError, NotFoundError
from app.ports.pages import PageRenderer
from app.ports.parts import BlobStore
from app.runtime.lru import BytesCache
from app.types.documents import Document
from app.types.pages import IMAGE_WIDTHS, PageView, PageWords, PlacedWord
from app.types.texts import POSITIONS, TextLayout, Word
from embedder.lru import LRUCache

_KEPT_PAGES = 64  # pages whose words are cached
_LONGEST_PASSAGE = 20_000


class DocumentPages:
    """Images of pages, and their words with a passage marked. `cache_bytes` limits the images cached in memory."""

    def __init__(self, blobs: BlobStore, renderer: PageRenderer, *, cache_bytes: int) -> None:
        self._blobs = blobs
        self._renderer = renderer
        self._images: BytesCache[tuple[str, int, int]] = BytesCache(cache_bytes)
        self._words: LRUCache[tuple[str, int], PageWords] = LRUCache(_KEPT_PAGES)

    def page(self, document: Document, number: int, *, start: int = 0, end: int = 0) -> PageView:
        """Marks the words of the page within characters [start, end) of the document's text."""
        if not 0 <= start <= end <= start + _LONGEST_PASSAGE and end:
            raise InputError(f"A passage can have at most {_LONGEST_PASSAGE:,} characters, not {start} to {end}.")
        page = self._page_words(document, number)
        first, last = self._stretch(document, number)
        recognized = self._recognized(document, number, first, last)
        if recognized:
            text = self._blobs.text_window(document.content_hash, first, last).text
            words = tuple(_placed(word, text[word.start - first : word.end - first]) for word in recognized)
            marked = tuple(at for at, word in enumerate(recognized) if word.start < end and word.end > start)
        else:
            words = page.words
            marked = self._marked(document, words, max(start, first), min(end, last), first)
        return PageView(number, page.count, page.width, page.height, words, marked)

    def image(self, document: Document, number: int, *, width: int) -> bytes:
        """A JPEG with the next larger width of `IMAGE_WIDTHS`."""
        width = next((each for each in IMAGE_WIDTHS if each >= width), IMAGE_WIDTHS[-1])
        key = document.content_hash, number, width
        image = self._images.get(key)
        if image is None:
            path = self._blobs.verified(document.content_hash)
            try:
                image = self._renderer.image(path, media_type=document.media_type, page=number, width=width)
            except FileNotFoundError:
                raise _gone(document) from None
            self._images.keep(key, image)
        return image

    def _page_words(self, document: Document, number: int) -> PageWords:
        key = document.content_hash, number
        words = self._words.get(key)
        if words is None:
            path = self._blobs.verified(document.content_hash)
            try:
                words = self._renderer.words(path, media_type=document.media_type, page=number)
            except FileNotFoundError:
                raise _gone(document) from None
            self._words.keep({key: words})
        return words

    def _stretch(self, document: Document, number: int) -> tuple[int, int]:
        """The character range [first, last) of this page in the document's text; the whole text if unknown."""
        starts = self._blobs.layout(document.content_hash, 0, 0).page_starts
        if number > len(starts):
            return 0, 2**62
        return starts[number - 1], starts[number] if number < len(starts) else 2**62

    def _recognized(self, document: Document, number: int, first: int, last: int) -> list[Word]:
        found: TextLayout = self._blobs.layout(document.content_hash, first, last)
        return [word for word in found.words if word.page == number]

    def _marked(
        self, document: Document, words: tuple[PlacedWord, ...], start: int, end: int, first: int
    ) -> tuple[int, ...]:
        if end <= start or not words:
            return ()
        try:
            begin = max(first, start - _LONGEST_PASSAGE)
            window = self._blobs.text_window(document.content_hash, begin, end)
        except DamagedFileError:
            raise
        except NotFoundError:  # the document has no extracted text
            return ()
        passage = window.text[start - begin :]
        before = window.text[: start - begin] if first or begin == 0 else ""
        return words_of_passage([word.text for word in words], passage, before=before)


def _placed(word: Word, text: str) -> PlacedWord:
    places = (word.left, word.top, word.right, word.bottom)
    return PlacedWord(text, *(each / POSITIONS for each in places))


def _gone(document: Document) -> DocumentError:
    return DocumentError(f"The file of {document.uri} no longer exists. Add the document again.")
