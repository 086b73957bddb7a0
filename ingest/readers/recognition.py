"""Text recognition: the lines of a picture, by rapidocr's models, which come in its wheel. Needs the extra `ocr`.

The page is turned upright first: detection finds lines in any direction, and reading some tells which end is up.
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

_DETECT_SIDE = 1_280  # of what lines are looked for in; more takes memory, and finds no more
_LEAST_SIDE = 32
_MARGIN = 0.04  # of the sides, added around: detection misses letters at the edge
_WORST_LINE = 0.5  # confidence: what is read worse is mostly no text
_TALL = 1.5  # of its width: such a line runs up or down
_MOST_TRIED = 6  # lines by which is told which end of the page is up
_TRIED_LENGTH = 10  # of their height is read for that
_SURE = 0.93  # confidence: lines that stand on their head are read with less
_LEAST_LETTERS = 4
_OUT_OF_MEMORY = ("bad_alloc", "Failed to allocate memory", "Insufficient memory")
_TOKEN = re.compile(
    r"[\u2e80-\u9fff\uac00-\ud7af\uf900-\ufaff\uff00-\uffef]|[^\s\u2e80-\u9fff\uac00-\ud7af\uf900-\ufaff\uff00-\uffef]+"
)


def recognize(picture: Image.Image) -> RecognizedLines:
    """Of a picture in RGB. Raises RecognitionError, or MemoryError."""
    try:
        return _recognize(_fitted(picture))
    except (ONNXRuntimeError, cv2.error) as error:
        if any(each in str(error) for each in _OUT_OF_MEMORY):
            raise MemoryError from error
        raise RecognitionError(type(error).__name__) from error


def _recognize(picture: Image.Image) -> RecognizedLines:
    pixels = np.asarray(picture)[:, :, ::-1]  # as OpenCV has it
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
    found = tuple(line for line in lines if line is not None)
    return RecognizedLines(found, turns, pixels.shape[1], pixels.shape[0])


def _fitted(picture: Image.Image) -> Image.Image:
    width, height = picture.size
    scale = min(READ_SIDE / max(width, height), 1.0)
    scale = max(scale, _LEAST_SIDE / max(1, min(width, height))) if scale == 1.0 else scale
    size = (max(1, round(width * scale)), max(1, round(height * scale)))
    return picture if size == picture.size else picture.resize(size, Image.Resampling.LANCZOS)


@cache
def _engine() -> Any:
    """One for the process. One thread: a child has one processor, and several of them work at a time."""
    return rapidocr.RapidOCR(
        params={
            "Global.log_level": "critical",
            "Global.max_side_len": READ_SIDE,
            "Det.limit_type": "max",  # small pictures are not made larger
            "Det.limit_side_len": READ_SIDE,
            "EngineConfig.onnxruntime.intra_op_num_threads": 1,
            "EngineConfig.onnxruntime.inter_op_num_threads": 1,
            "Rec.rec_batch_num": 1,  # lines differ in length: a batch pads them, and takes the memory of the longest
        }
    )


def _detected(pixels: Pixels) -> list[Quad]:
    """Lines of text, wherever they run."""
    height, width = pixels.shape[:2]
    scale = min(1.0, _DETECT_SIDE / max(height, width))
    size = (max(_LEAST_SIDE, round(width * scale)), max(_LEAST_SIDE, round(height * scale)))
    small = cv2.resize(np.ascontiguousarray(pixels), size, interpolation=cv2.INTER_AREA)
    x_pad, y_pad = (max(8, round(side * _MARGIN)) for side in size)
    border = [int(value) for value in np.median(small.reshape(-1, small.shape[2]), axis=0)]
    padded = cv2.copyMakeBorder(small, y_pad, y_pad, x_pad, x_pad, cv2.BORDER_CONSTANT, value=border)
    found = _engine()(padded, use_det=True, use_cls=False, use_rec=False)
    boxes = getattr(found, "boxes", None)
    if boxes is None:
        return []
    offset, factor = np.array([x_pad, y_pad]), np.array([width / size[0], height / size[1]])
    most = np.array([width - 1, height - 1])
    quads = (np.clip((np.asarray(box) - offset) * factor, 0, most).astype(np.float32) for box in boxes)
    return [quad for quad in quads if min(_lengths(quad)) >= 3]


def _lengths(quad: Quad) -> tuple[float, float]:
    """Width and height."""
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
    """By how well the beginnings of some lines are read either way up."""
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
    found = _engine()(line, use_det=False, use_cls=False, use_rec=True)
    return float(found.scores[0]) if found.txts and len(found.txts[0].strip()) >= _LEAST_LETTERS else 0.0


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
    found = _engine()(_crop(pixels, quad), use_det=False, use_cls=False, use_rec=True, return_word_box=True)
    if not found.txts or not found.txts[0].strip() or found.scores[0] < _WORST_LINE:
        return None
    words = tuple(_words(found.txts[0], found.word_results[0]))
    return RecognizedLine(quad, words) if words else None


def _words(text: str, told: Any) -> Iterator[RecognizedWord]:
    """Words of a line, by the columns in which the model saw their letters; a column is as wide as any other."""
    columns = [column for word in told.word_cols for column in word]
    letters = sum(1 for each in text if not each.isspace())
    count = max(float(told.line_txt_len), 1.0)
    if len(columns) != letters:
        columns = [round((at + 0.5) * count / max(1, letters)) for at in range(letters)]
    seen = 0
    half = 0.5 * (columns[-1] - columns[0]) / max(1, len(text) - 1) if columns else 0.0
    tokens = list(_TOKEN.finditer(text))
    for token in tokens:
        own = columns[seen : seen + len(token.group())]
        seen += len(token.group())
        confidences = told.confs[token.start() : token.end()] or [0.0]
        left, right = (own[0] + 0.5 - half) / count, (own[-1] + 0.5 + half) / count
        yield RecognizedWord(
            token.group(), min(1.0, max(0.0, left)), min(1.0, max(0.0, right)), sum(confidences) / len(confidences)
        )
