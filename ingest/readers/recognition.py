"""Text recognition: the lines of a picture, with the models in the wheel of rapidocr. Needs the extra `ocr`.

The page is turned upright first: detection finds lines in any direction, and recognising some shows which end is up.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import cache
from typing import Any

import cv2
import numpy as np
import rapidocr
from numpy.typing import NDArray
from PIL import Image
from rapidocr.inference_engine.onnxruntime.main import ONNXRuntimeError

from ingest.readers.recognized_lines import (
    READ_SIDE,
    Quad,
    RecognitionError,
    RecognizedLine,
    RecognizedLines,
    RecognizedWord,
)

Pixels = NDArray[np.uint8]

_DETECT_SIDE = 1_280  # longest side in pixels for detection; more takes memory and finds no more lines
_LEAST_SIDE = 32
_MARGIN = 0.04  # of each side, added around the page: detection misses letters at the edge
_WORST_LINE = 0.5  # least confidence of a line; below it is mostly no text
_TALL = 1.5  # height to width: such a line runs up or down
_MOST_TRIED = 6  # lines that are tried to find which end of the page is up
_TRIED_LENGTH = 10  # times the height: how much of such a line is recognised
_SURE = 0.93  # confidence that only upright lines reach
_LEAST_LETTERS = 4
_OUT_OF_MEMORY = ("bad_alloc", "Failed to allocate memory", "Insufficient memory")
_TOKEN = re.compile(
    r"[\u2e80-\u9fff\uac00-\ud7af\uf900-\ufaff\uff00-\uffef]|[^\s\u2e80-\u9fff\uac00-\ud7af\uf900-\ufaff\uff00-\uffef]+"
)


def recognize(picture: Image.Image) -> RecognizedLines:
    """The lines of an RGB picture. Raises RecognitionError if the models fail, MemoryError when memory runs out."""
    try:
        return _recognize(_fitted(picture))
    except (ONNXRuntimeError, cv2.error) as error:
        if any(message in str(error) for message in _OUT_OF_MEMORY):
            raise MemoryError from error
        raise RecognitionError(type(error).__name__) from error


def _recognize(picture: Image.Image) -> RecognizedLines:
    pixels = np.asarray(picture)[:, :, ::-1]  # BGR, which OpenCV expects; (height, width, 3)
    quads = _detected(pixels)
    turns = 0
    if _run_up(quads):
        turns = 1
        pixels = np.rot90(pixels)
        quads = _detected(pixels)
    if _are_upside_down(pixels, quads):
        turns += 2
        pixels = np.rot90(pixels, 2)
        quads = _detected(pixels)
    pixels = np.ascontiguousarray(pixels)
    lines = (_read_line(pixels, quad) for quad in quads)
    recognized = tuple(line for line in lines if line is not None)
    return RecognizedLines(recognized, turns, pixels.shape[1], pixels.shape[0])


def _fitted(picture: Image.Image) -> Image.Image:
    width, height = picture.size
    scale = min(READ_SIDE / max(width, height), 1.0)
    scale = max(scale, _LEAST_SIDE / max(1, min(width, height))) if scale == 1.0 else scale
    size = (max(1, round(width * scale)), max(1, round(height * scale)))
    return picture if size == picture.size else picture.resize(size, Image.Resampling.LANCZOS)


@cache
def _engine() -> Any:
    """The models, loaded once per process. One thread each: a child has one CPU, and several children run at a time."""
    return rapidocr.RapidOCR(
        params={
            "Global.log_level": "critical",
            "Global.max_side_len": READ_SIDE,
            "Det.limit_type": "max",  # do not enlarge small pictures
            "Det.limit_side_len": READ_SIDE,
            "EngineConfig.onnxruntime.intra_op_num_threads": 1,
            "EngineConfig.onnxruntime.inter_op_num_threads": 1,
            "Rec.rec_batch_num": 1,  # a batch would pad lines to the longest and take its memory
        }
    )


def _detected(pixels: Pixels) -> list[Quad]:
    """Quads of text lines in any direction, in pixels of the picture."""
    height, width = pixels.shape[:2]
    scale = min(1.0, _DETECT_SIDE / max(height, width))
    size = (max(_LEAST_SIDE, round(width * scale)), max(_LEAST_SIDE, round(height * scale)))
    small = cv2.resize(np.ascontiguousarray(pixels), size, interpolation=cv2.INTER_AREA)
    x_pad, y_pad = (max(8, round(side * _MARGIN)) for side in size)
    border = [int(value) for value in np.median(small.reshape(-1, small.shape[2]), axis=0)]
    padded = cv2.copyMakeBorder(small, y_pad, y_pad, x_pad, x_pad, cv2.BORDER_CONSTANT, value=border)
    result = _engine()(padded, use_det=True, use_cls=False, use_rec=False)
    boxes = getattr(result, "boxes", None)
    if boxes is None:
        return []
    offset, factor = np.array([x_pad, y_pad]), np.array([width / size[0], height / size[1]])
    most = np.array([width - 1, height - 1])
    quads = (np.clip((np.asarray(box) - offset) * factor, 0, most).astype(np.float32) for box in boxes)
    return [quad for quad in quads if min(_lengths(quad)) >= 3]


def _lengths(quad: Quad) -> tuple[float, float]:
    """Width and height of a quad, in pixels."""
    return float(np.linalg.norm(quad[1] - quad[0])), float(np.linalg.norm(quad[3] - quad[0]))


def _run_up(quads: Sequence[Quad]) -> bool:
    tall = wide = 0.0
    for quad in quads:
        width, height = _lengths(quad)
        if height >= _TALL * width:
            tall += height
        else:
            wide += width
    return tall > wide


def _are_upside_down(pixels: Pixels, quads: Sequence[Quad]) -> bool:
    """Whether the starts of some long lines are recognised better after a half turn."""
    longest = sorted(quads, key=lambda quad: -_lengths(quad)[0])[:_MOST_TRIED]
    upright = turned = 0.0
    for quad in longest:
        line = _crop(pixels, quad)
        line = line[:, : _TRIED_LENGTH * line.shape[0]]
        upright += (score := _score(line))
        if score >= _SURE:
            return False
        turned += (score := _score(np.ascontiguousarray(np.rot90(line, 2))))
        if score >= _SURE:
            return True
    return turned > upright


def _score(line: Pixels) -> float:
    result = _engine()(line, use_det=False, use_cls=False, use_rec=True)
    return float(result.scores[0]) if result.txts and len(result.txts[0].strip()) >= _LEAST_LETTERS else 0.0


def _crop(pixels: Pixels, quad: Quad) -> Pixels:
    width, height = (max(1, round(length)) for length in _lengths(quad))
    corners = np.array([[0, 0], [width, 0], [width, height], [0, height]], dtype=np.float32)
    matrix = cv2.getPerspectiveTransform(quad, corners)
    return cv2.warpPerspective(  # type: ignore[return-value]
        np.ascontiguousarray(pixels),
        matrix,
        (width, height),
        borderMode=cv2.BORDER_REPLICATE,
        flags=cv2.INTER_CUBIC,
    )


def _read_line(pixels: Pixels, quad: Quad) -> RecognizedLine | None:
    result = _engine()(_crop(pixels, quad), use_det=False, use_cls=False, use_rec=True, return_word_box=True)
    if not result.txts or not result.txts[0].strip() or result.scores[0] < _WORST_LINE:
        return None
    words = tuple(_words(result.txts[0], result.word_results[0]))
    return RecognizedLine(quad, words) if words else None


def _words(text: str, details: Any) -> Iterator[RecognizedWord]:
    """The words of a line, with positions from the columns of the model's output. All columns are equally wide."""
    columns = [column for word in details.word_cols for column in word]
    letters = sum(1 for char in text if not char.isspace())
    count = max(float(details.line_txt_len), 1.0)
    if len(columns) != letters:
        columns = [round((at + 0.5) * count / max(1, letters)) for at in range(letters)]
    seen = 0
    half = 0.5 * (columns[-1] - columns[0]) / max(1, len(text) - 1) if columns else 0.0
    tokens = list(_TOKEN.finditer(text))
    for token in tokens:
        own = columns[seen : seen + len(token.group())]
        seen += len(token.group())
        confidences = details.confs[token.start() : token.end()] or [0.0]
        left, right = (own[0] + 0.5 - half) / count, (own[-1] + 0.5 + half) / count
        yield RecognizedWord(
            token.group(), min(1.0, max(0.0, left)), min(1.0, max(0.0, right)), sum(confidences) / len(confidences)
        )
