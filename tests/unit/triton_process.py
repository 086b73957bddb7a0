"""Runs Triton's kernel where there is no card: `interpreted` in Triton's interpreter against float64, `compiled` by its
compiler and assembler for three generations of cards. A process of its own: Triton reads TRITON_INTERPRET once."""

import sys

import torch
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource, compile

from embedder.gpu.triton_vocabulary import _join_splits, _mix_tiles, mean_embedding

# Rows, entries, width, processors, scale: one row, odd widths, several tiles in a split, a last tile that is not full.
CASES = [(1, 1000, 48, 1, 1.0), (3, 700, 100, 2, 0.5), (20, 513, 70, 1, 2.0), (64, 130, 33, 4, 1.0), (2, 5, 7, 9, 1.0)]
SMALLEST_SHARED_MEMORY = {80: 163 * 1024, 89: 99 * 1024, 90: 227 * 1024}  # of cards of a generation, in bytes


def interpret() -> None:
    torch.manual_seed(0)
    for dtype, tolerance in ((torch.float32, 1e-5), (torch.float16, 4e-3)):  # the interpreter multiplies no bfloat16
        for rows, entries, width, processors, scale in CASES:
            states, head, embedding = (torch.randn(size, width).to(dtype) for size in (rows, entries, entries))
            bias = torch.randn(entries)
            bias[::3], bias[-1] = -1e9, -torch.inf
            for each in (None, bias, torch.full((entries,), -torch.inf).index_fill_(0, torch.tensor(3), 0.0)):
                found = mean_embedding(states, head, embedding, each, scale=scale, processors=processors)
                logits = states.double() @ head.double().T * scale + (0 if each is None else each.double())
                expected = torch.softmax(logits, dim=-1) @ embedding.double()
                assert found.dtype == dtype
                torch.testing.assert_close(found.double(), expected, rtol=tolerance, atol=tolerance)


def compile_for_cards() -> None:
    for card, shared in SMALLEST_SHARED_MEMORY.items():
        target = GPUTarget("cuda", card, 32)
        for dtype, tile, piece in (("bf16", 256, 64), ("fp32", 128, 32)):
            for rows in (16, 64):
                weights = dict.fromkeys(("states", "head", "embedding"), f"*{dtype}")
                found = dict.fromkeys(("bias", "sums", "peaks", "totals"), "*fp32")
                sizes = dict.fromkeys(("rows", "entries", "width", "tiles_each"), "i32")
                chosen = {"HAS_BIAS": True, "ROWS": rows, "ENTRIES": tile, "WIDTH": piece, "PRECISION": "ieee"}
                signature = weights | found | sizes | {"scale": "fp32"} | dict.fromkeys(chosen, "constexpr")
                source = ASTSource(_mix_tiles, signature, chosen)
                kernel = compile(source, target=target, options={"num_warps": 8, "num_stages": 2})
                assert kernel.metadata.shared <= shared
                assert kernel.asm["cubin"]
        pointers = dict.fromkeys(("sums", "peaks", "totals"), "*fp32") | {"out": "*bf16"}
        signature = pointers | dict.fromkeys(("rows", "width", "splits"), "i32")
        chosen = {"SPLITS": 256, "WIDTH": 128}
        compile(ASTSource(_join_splits, signature | dict.fromkeys(chosen, "constexpr"), chosen), target=target)


if __name__ == "__main__":
    {"interpreted": interpret, "compiled": compile_for_cards}[sys.argv[1]]()
