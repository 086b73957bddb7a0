"""Describes the compute devices of this machine. Imports torch."""

from __future__ import annotations

import shutil

import torch


def describe_device(wanted: str | None) -> tuple[bool, str, str]:
    """(Whether the device `wanted` is usable, description, advice). None means the best available device."""
    build = f"torch {torch.__version__}"
    if torch.cuda.is_available():
        names = ", ".join(
            f"{torch.cuda.get_device_name(number)} ({torch.cuda.mem_get_info(number)[0] / 1e9:.0f} GB free)"
            for number in range(torch.cuda.device_count())
        )
        return True, f"{names}; {build}", ""
    if wanted is not None and wanted.startswith("cuda"):
        advice = "Unset GIRCSE_DEVICE to compute on the CPU, or install a driver and the CUDA build of torch."
        return False, f"GIRCSE_DEVICE is {wanted}, but {build} finds no GPU", advice
    if shutil.which("nvidia-smi") is not None:
        advice = "Install the CUDA build of torch (pip install --force-reinstall torch), or set GIRCSE_DEVICE=cpu."
        return (
            wanted is not None,
            f"there is an NVIDIA driver, but {build} finds no GPU",
            advice if wanted is None else "",
        )
    return True, f"no GPU, using the CPU; {build}", ""
