"""Decode steps as CUDA graphs: a step of a few hundred small kernels is started at once.

A graph replays the same kernels over the same memory, so a step is written here over tensors of fixed shape whose
contents say how many rows there are, how long each is and which position comes next. Not measured on a card yet.
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

MOST_ROWS = 256  # a step of more rows takes longer than it takes to start its kernels
_LEAST_PLACES = 64
_SIZES_AN_OCTAVE = 8  # how finely long prompts are rounded up: at most an eighth of a graph's places is empty
_MOST_GRAPHS = 16
_MOST_BYTES = 2**30  # of the keys and values of all graphs
_WARM_UPS = 3  # before a capture, as torch asks for: libraries take their memory in the first calls


@dataclass(frozen=True, slots=True)
class Shape:
    """What a graph serves: so many rows or fewer, of so many positions or fewer, on one stream."""

    rows: int
    places: int
    stream: int


class StaticCacheSession(KVCacheSession):
    """A KVCacheSession over memory that stays where it is, for one batch after the other."""

    def __init__(self, layout: Layout, *, rows: int, places: int, sees_both_ways: bool, like: Tensor) -> None:
        super().__init__(
            layout,
            [places] * rows,
            steps=0,
            shared=0,
            sees_both_ways=sees_both_ways,
            like=like,
            spare=SpareMemory(),  # this memory is for one batch after the other itself
        )
        device = like.device
        # Angles take the dtype of the inputs; a body without angles is given inputs in float32.
        dtype = torch.float32 if layout.rotary is None else like.dtype
        self._inputs = torch.zeros(rows, like.shape[1], dtype=dtype, device=device)
        self._states = torch.zeros(rows, like.shape[1], device=device)
        self._places = torch.arange(places, device=device)
        self._starts = torch.zeros(rows, dtype=torch.long, device=device)  # (B,) where each prompt begins
        self._positions = torch.zeros(rows, dtype=torch.long, device=device)  # (B,)
        self._at = torch.zeros(1, dtype=torch.long, device=device)  # the place of this step, the same for all rows
        self.play: Callable[[], object] = self.compute

    @property
    def bytes_kept(self) -> int:
        return self._keys.nbytes + self._values.nbytes

    def begin(self, lengths: Sequence[int], *, steps: int, shared: int) -> None:
        """For rows of these lengths, longest first; rows that are left over are computed and not given out."""
        self.lengths, self.steps, self.shared, self._taken = list(lengths), steps, shared, 0
        longest, rows = lengths[0], len(lengths)
        # Products with what an earlier batch has left are zero only if it is finite.
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
            raise IndexError(f"There is room for {self.steps} steps.")
        self._taken += 1
        rows = len(self.lengths)
        self._inputs[:rows].copy_(inputs)
        self.play()
        return self._states[:rows].clone()

    def compute(self) -> None:
        """One step from `_inputs` to `_states`, which a graph holds: nothing in it depends on a number of Python."""
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


class Lent:
    """A StaticCacheSession for as long as this lives."""

    def __init__(self, run: StaticCacheSession) -> None:
        self.read, self.advance = run.read, run.advance


class GraphedDecoder(Decoder):
    """A decoder whose steps are graphs where batches are small. Safe to use from several threads.

    Each graph serves one batch at a time: who comes meanwhile is served without one. Graphs are made when first needed,
    a moment's work, and those not used for longest go when there are too many.
    """

    def __init__(
        self,
        layout: Layout,
        vocabulary: Vocabulary,
        *,
        sees_both_ways: bool,
        capture: Callable[[StaticCacheSession], None] | None = None,
        most_graphs: int = _MOST_GRAPHS,
        most_bytes: int = _MOST_BYTES,
    ) -> None:
        super().__init__(layout, vocabulary, sees_both_ways=sees_both_ways)
        self._capture = capture or capture_graph
        self._most_graphs, self._most_bytes = most_graphs, most_bytes
        self._runs: OrderedDict[Shape, StaticCacheSession] = OrderedDict()  # that used longest ago first
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
        """As `Decoder.start`; nothing is let in between the parts of a graph."""
        shape = shape_for(len(lengths), lengths[0] + steps, like.device)
        run = self._take(shape, like) if steps and shape is not None else None
        if shape is None or run is None:
            return super().start(lengths, steps=steps, like=like, shared=shared, between_parts=between_parts)
        lent = Lent(run)
        # Also when a run is dropped before its last step, after an error for one.
        weakref.finalize(lent, self._lent.discard, shape)
        run.begin(lengths, steps=steps, shared=shared)
        return lent  # type: ignore[return-value]  # a session as far as prefill runners see

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
            # Tensors made in inference mode could be written to in no other mode.
            with torch.inference_mode(mode=False), torch.no_grad():
                run = StaticCacheSession(
                    layout, rows=shape.rows, places=shape.places, sees_both_ways=self._sees_both_ways, like=like
                )
                self._capture(run)
        except RuntimeError as error:  # of CUDA, which has no room or cannot capture a part of this model
            logger.warning("Steps are taken without CUDA graphs from now on: %s", error)
            self._is_off = True
            return None
        return run

    def _has_room(self, more: int) -> bool:
        """Drops what was used longest ago until there is."""
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
    """Sizes rounded up, so that few graphs serve all batches; None for a batch that needs none."""
    if rows > MOST_ROWS:
        return None
    # Work on one stream runs in order: a graph can be lent again before its last step is done.
    stream = torch.cuda.current_stream(device).cuda_stream if device.type == "cuda" else 0
    return Shape(_power_of_two(rows), _rounded_places(places), stream)


def _rounded_places(places: int) -> int:
    part = max(_LEAST_PLACES, _power_of_two(places) // (2 * _SIZES_AN_OCTAVE))
    return -(-places // part) * part


def _power_of_two(number: int) -> int:
    return 1 << (number - 1).bit_length()


def capture_graph(run: StaticCacheSession) -> None:
    """From now on the run's steps replay a graph. Raises RuntimeError where that cannot be."""
    device = run.like.device
    with torch.cuda.device(device):
        stream = torch.cuda.Stream()
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            for _ in range(_WARM_UPS):
                run.compute()
        torch.cuda.current_stream().wait_stream(stream)
        graph = torch.cuda.CUDAGraph()
        # thread_local: other threads may take memory of the card meanwhile.
        with torch.cuda.graph(graph, capture_error_mode="thread_local"):
            run.compute()

    def replay() -> None:
        with torch.cuda.device(device):
            graph.replay()

    run.play = replay
