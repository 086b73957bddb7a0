"""The configs that are shipped: all are read, and those of decoders train one to its published adapter."""

import shutil
from dataclasses import replace
from importlib import resources

import numpy as np
import pytest
from test_training import ANIMALS, COLOURS, curve, data_folder, write_config, write_rows  # noqa: F401
from tiny_models import save_tiny_model

from embedder import load_encoder
from embedder.errors import DataError
from embedder.training.config import read_config
from embedder.training.data import ASPECTS_FILE
from embedder.training.train import Trainer

FOLDER = resources.files("embedder.training") / "configs"
ASPECTS = [
    {
        "aspect": aspect,
        "domain": domain,
        "instructions": [f"Which {aspect}?", f"Tell the {aspect}."],
        "values": {value: [f"{value} {domain} number {n}" for n in range(6)] for value in values},
    }
    for aspect, domain, values in (("colour", "stones", COLOURS), ("animal", "stories", ANIMALS))
]
CONFIGS = sorted(path.name.removesuffix(".yaml") for path in FOLDER.iterdir())


def test_every_shipped_config_is_read():
    assert {"gircse-mini", "gircse-small", "gircse-base", "gircse-270m", "gircse-1.5b"} <= set(CONFIGS)
    for name in CONFIGS:
        assert read_config(FOLDER / f"{name}.yaml").name == name


@pytest.mark.parametrize("name", ["gircse-270m", "gircse-1.5b"])
def test_a_decoder_is_trained_as_its_config_says(name, data_folder, tmp_path):  # noqa: F811
    """Two steps; what was published generates, and reads an instruction."""
    save_tiny_model(tmp_path / "base", "gemma3" if name == "gircse-270m" else "qwen2")
    changes = {"base": str(tmp_path / "base"), "optimiser_steps": 2, "max_length": 256}
    config = replace(read_config(FOLDER / f"{name}.yaml"), **changes)
    with pytest.raises(DataError, match=rf"{ASPECTS_FILE} is missing. Add it, or remove with_aspects"):
        Trainer(config, data=data_folder, out=tmp_path / "run")
    shutil.copytree(data_folder.parent, tmp_path / "data")
    data_folder = tmp_path / "data" / data_folder.name
    write_rows(data_folder / ASPECTS_FILE, ASPECTS)
    Trainer(config, data=data_folder, out=tmp_path / "run").run()
    assert len(curve(tmp_path / "run")) == 2
    encoder = load_encoder(str(tmp_path / "run" / "adapter"))
    assert len(encoder.refine("the red dog", instruction="Which colour?").steps) == config.query_steps
    colour, animal = (
        encoder.encode_queries(["the red dog"], instruction=each)[0] for each in ("Which colour?", "Which animal?")
    )
    assert not np.allclose(colour, animal, atol=1e-4)


def test_a_model_that_would_have_no_room_for_its_steps_is_not_trained(data_folder, tmp_path):  # noqa: F811
    path = write_config(tmp_path, max_length=500, query_steps=14, document_steps=2)
    with pytest.raises(
        DataError, match=r"max_length is 500, .* 14 of .* 512 positions are for steps\. Set max_length to 498"
    ):
        Trainer(read_config(path), data=data_folder, out=tmp_path / "run")
    Trainer(replace(read_config(path), max_length=498), data=data_folder, out=tmp_path / "run")
