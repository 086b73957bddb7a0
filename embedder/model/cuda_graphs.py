"""Decode steps as CUDA graphs: one launch starts a step of a few hundred small kernels.

A graph replays the same kernels on the same memory. So a step here uses tensors of fixed shape, whose contents say how
many rows there are, how long each is and which position comes next. Measured in docs/gpu-and-flops.md.
"""

from __future__ import annotations

import logging
import threading
import weakref
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional as F

from embedder.model.decoder import Decoder, KVCacheSession, SpareMemory
from embedder.model.layouts import Layout
from embedder.model.vocabulary import Vocabulary

logger = logging.getLogger(__name__)

MOST_ROWS = 256  # a larger step takes longer than launching its kernels
_LEAST_PLACES = 64
_SIZES_AN_OCTAVE = 8  # rounding of long prompts: at most an eighth of a graph's positions is unused
_MOST_GRAPHS = 16
_MOST_BYTES = 2**30  # keys and values of all graphs
_WARM_UPS = 3  # before a capture, as torch requires: libraries allocate memory in the first calls


@dataclass(frozen=True, slots=True)
class Shape:
    """The capacity of a graph: rows and positions, on one stream."""

    rows: int
    places: int
    stream: int


class StaticCacheSession(KVCacheSession):
    """A KVCacheSession over fixed memory, reused for one batch after another."""

    def __init__(self, layout: Layout, *, rows: int, places: int, is_bidirectional: bool, like: Tensor) -> None:
        super().__init__(
            layout,
            [places] * rows,
            steps=0,
            shared=0,
            is_bidirectional=is_bidirectional,
            like=like,
            spare=SpareMemory(),  # this fixed memory is reused anyway
        )
        device = like.device
        # Angles have the dtype of the inputs; a body without angles gets float32 inputs.
        dtype = torch.float32 if layout.rotary is None else like.dtype
        self._inputs = torch.zeros(rows, like.shape[1], dtype=dtype, device=device)
        self._states = torch.zeros(rows, like.shape[1], device=device)
        self._places = torch.arange(places, device=device)
        self._starts = torch.zeros(rows, dtype=torch.long, device=device)  # (B,) start of each prompt
        self._positions = torch.zeros(rows, dtype=torch.long, device=device)  # (B,)
        self._at = torch.zeros(1, dtype=torch.long, device=device)  # position of this step, the same for all rows
        self.play: Callable[[], object] = self.compute

    @property
    def bytes_kept(self) -> int:
        return self._keys.nbytes + self._values.nbytes

    def begin(self, lengths: Sequence[int], *, steps: int, shared: int) -> None:
        """Starts a batch with rows of these lengths, longest first; unused rows are computed and discarded."""
        self.lengths, self.steps, self.shared, self._taken = list(lengths), steps, shared, 0
        longest, rows = lengths[0], len(lengths)
        # Memory of an earlier batch must be finite: 0 · NaN is NaN.
        self._keys.zero_()
        self._values.zero_()
        own = torch.tensor(self.lengths, device=self._starts.device)
        self._starts.fill_(longest)
        self._starts[:rows] = longest - own
        self._positions.zero_()
        self._positions[:rows] = own
        self._at.fill_(longest)

    def advance(self, inputs: Tensor) -> Tensor:
        if self._taken == self.steps:
            raise IndexError(f"The session has room for {self.steps} steps only.")
        self._taken += 1
        rows = len(self.lengths)
        self._inputs[:rows].copy_(inputs)
        self.play()
        return self._states[:rows].clone()

    def compute(self) -> None:
        """Computes one step from `_inputs` to `_states`. Capturable: nothing in it depends on a Python number."""
        seen = (self._places >= self._starts[:, None]) & (self._places <= self._at)  # (B, places)
        mask = seen[:, None, None, :]

        def attend(layer: int, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
            keys, values = self._keys[layer], self._values[layer]  # (B, key_heads, places, head_size)
            keys.index_copy_(2, self._at, k[:, :, None].to(keys.dtype))
            values.index_copy_(2, self._at, v[:, :, None].to(values.dtype))
            queries = q.reshape(q.shape[0], k.shape[1], -1, q.shape[-1]).to(keys.dtype)
            found = F.scaled_dot_product_attention(queries, keys, values, attn_mask=mask, scale=self.layout.scaling)
            return found.to(q.dtype).reshape(q.shape)

        self._states.copy_(self._forward(self._inputs, self._positions, attend))
        self._at.add_(1)
        self._positions.add_(1)


class BorrowedSession:
    """A StaticCacheSession that returns to its graph's decoder when this object is garbage-collected."""

    def __init__(self, run: StaticCacheSession) -> None:
        self.read, self.advance = run.read, run.advance


class GraphedDecoder(Decoder):
    """A decoder that runs the steps of small batches as graphs. Thread-safe.

    Each graph serves one batch at a time; concurrent batches run without one. Graphs are captured at first use, which
    is quick, and the least recently used are dropped when memory runs short.
    """

    def __init__(
        self,
        layout: Layout,
        vocabulary: Vocabulary,
        *,
        is_bidirectional: bool,
        capture: Callable[[StaticCacheSession], None] | None = None,
        most_graphs: int = _MOST_GRAPHS,
        most_bytes: int = _MOST_BYTES,
    ) -> None:
        super().__init__(layout, vocabulary, is_bidirectional=is_bidirectional)
        self._capture = capture or capture_graph
        self._most_graphs, self._most_bytes = most_graphs, most_bytes
        self._runs: OrderedDict[Shape, StaticCacheSession] = OrderedDict()  # least recently used first
        self._lent: set[Shape] = set()
        self._lock = threading.Lock()
        self._is_off = False

    def start(
        self,
        lengths: Sequence[int],
        *,
        steps: int,
        like: Tensor,
        shared: int = 0,
        between_parts: Callable[[], None] | None = None,
    ) -> KVCacheSession:
        """Like `Decoder.start`, but a graph never calls `between_parts`."""
        shape = shape_for(len(lengths), lengths[0] + steps, like.device)
        run = self._take(shape, like) if steps and shape is not None else None
        if shape is None or run is None:
            return super().start(lengths, steps=steps, like=like, shared=shared, between_parts=between_parts)
        borrowed = BorrowedSession(run)
        # Returns the graph even if the run is dropped early, for example after an error.
        weakref.finalize(borrowed, self._lent.discard, shape)
        run.begin(lengths, steps=steps, shared=shared)
        return borrowed  # type: ignore[return-value]  # a session as far as prefill runners see

    def _take(self, shape: Shape, like: Tensor) -> StaticCacheSession | None:
        with self._lock:
            if self._is_off or shape in self._lent:
                return None
            run = self._runs.get(shape) or self._make(shape, like)
            if run is not None:
                self._runs[shape] = run
                self._runs.move_to_end(shape)
                self._lent.add(shape)
            return run

    def _make(self, shape: Shape, like: Tensor) -> StaticCacheSession | None:
        layout = self._layout
        sizes = len(layout.layers), shape.rows, layout.key_heads, shape.places, layout.head_size
        if not self._has_room(2 * like.element_size() * torch.Size(sizes).numel()):
            return None
        try:
            # Tensors from inference mode cannot be written to outside it.
            with torch.inference_mode(mode=False), torch.no_grad():
                run = StaticCacheSession(
                    layout, rows=shape.rows, places=shape.places, is_bidirectional=self._is_bidirectional, like=like
                )
                self._capture(run)
        except RuntimeError as error:  # CUDA has no memory, or cannot capture a part of this model
            logger.warning("CUDA graphs are disabled from now on: %s", error)
            self._is_off = True
            return None
        return run

    def _has_room(self, more: int) -> bool:
        """Drops the least recently used graphs until `more` bytes fit."""
        if more > self._most_bytes:
            return False
        free = [shape for shape in self._runs if shape not in self._lent]
        while len(self._runs) >= self._most_graphs or self._bytes_kept() + more > self._most_bytes:
            if not free:
                return False
            dropped = self._runs.pop(free.pop(0))
            if dropped.like.device.type == "cuda":
                torch.cuda.synchronize(dropped.like.device)  # its last step may still be running
        return True

    def _bytes_kept(self) -> int:
        return sum(run.bytes_kept for run in self._runs.values())


def shape_for(rows: int, places: int, device: torch.device) -> Shape | None:
    """Rounds sizes up, so that few graphs serve all batches; None for a batch that does not benefit."""
    if rows > MOST_ROWS:
        return None
    # Work on one stream runs in order, so a graph can be reused before its last step is done.
    stream = torch.cuda.current_stream(device).cuda_stream if device.type == "cuda" else 0
    return Shape(_power_of_two(rows), _rounded_places(places), stream)


def _rounded_places(places: int) -> int:
    part = max(_LEAST_PLACES, _power_of_two(places) // (2 * _SIZES_AN_OCTAVE))
    return -(-places // part) * part


def _power_of_two(number: int) -> int:
    return 1 << (number - 1).bit_length()


def capture_graph(run: StaticCacheSession) -> None:
    """Captures a graph; the run's steps replay it from now on. Raises RuntimeError if that is impossible."""
    device = run.like.device
    with torch.cuda.device(device):
        stream = torch.cuda.Stream()
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            for _ in range(_WARM_UPS):
                run.compute()
        torch.cuda.current_stream().wait_stream(stream)
        graph = torch.cuda.CUDAGraph()
        # thread_local: other threads may allocate GPU memory meanwhile.
        with torch.cuda.graph(graph, capture_error_mode="thread_local"):
            run.compute()

    def replay() -> None:
        with torch.cuda.device(device):
            graph.replay()

    run.play = replay
