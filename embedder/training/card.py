"""Writes the model card beside an adapter: description, training, data with licences, contract."""

from __future__ import annotations

from collections.abc import Sequence
from importlib import resources
from pathlib import Path
from string import Template

from huggingface_hub import ModelCardData

from embedder.evaluation.card import SCORES_BEGIN, SCORES_END
from embedder.model.contract import Contract
from embedder.training.config import TrainConfig
from embedder.training.progress import read_log

CARD_FILE = "README.md"
_TERMS = "\n## Terms\n\nThe base model has its own terms: {} beside this card. Distribute them with the model.\n"
_LICENCE_HEADINGS = ("licence", "license")


def write_card(
    folder: Path,
    contract: Contract,
    config: TrainConfig,
    *,
    run: Path,
    files: Sequence[Path] = (),
    notices: Sequence[str] = (),
) -> Path | None:
    """Writes the card unless the folder has one. Returns its path, or None.

    run: the folder with the log. files: the training files. notices: names of the base's licence files in `folder`.
    """
    path = folder / CARD_FILE
    if path.exists():
        return None
    path.write_text(_card(contract, config, run=run, files=files, notices=notices), encoding="utf-8")
    return path


def read_licences(folder: Path) -> dict[str, str]:
    """File name without extension -> licence, from the tables of a README.md in the folder or its parent."""
    found: dict[str, str] = {}
    for readme in (folder.parent / "README.md", folder / "README.md"):
        columns: list[str] = []
        for line in readme.read_text(encoding="utf-8").splitlines() if readme.is_file() else ():
            cells = [cell.strip() for cell in line.strip().strip("|").split("|")] if line.startswith("|") else []
            lowered = [cell.lower() for cell in cells]
            if not cells:
                columns = []
            elif "file" in lowered and set(_LICENCE_HEADINGS) & set(lowered):
                columns = ["licence" if cell in _LICENCE_HEADINGS else cell for cell in lowered]
            elif len(cells) == len(columns):
                row = dict(zip(columns, cells, strict=True))
                found[row["file"].strip("`")] = row["licence"]
    return found


def _card(contract: Contract, config: TrainConfig, *, run: Path, files: Sequence[Path], notices: Sequence[str]) -> str:
    steps = [row for row in read_log(run) if "stepwise" in row]
    front = ModelCardData(
        base_model=None if contract.base.startswith((".", "/", "package:")) else contract.base,
        license="other" if notices else "apache-2.0",  # the base's terms apply to derived models
        library_name="gircse-search",
        pipeline_tag="feature-extraction",
        tags=["gircse", "sentence-similarity", "instruction-following", "embeddings"],
    )
    template = Template((resources.files("embedder.training") / "card.md").read_text(encoding="utf-8"))
    return template.substitute(
        front=front.to_yaml(),
        name=contract.name,
        kind="LoRA adapter" if config.tuning == "lora" else "model, trained whole,",
        base=config.base,
        dimension=contract.dimension,
        max_length=contract.max_length,
        query_steps=contract.default_query_steps,
        document_steps=contract.default_document_steps,
        scores_begin=SCORES_BEGIN,
        scores_end=SCORES_END,
        steps=f"{len(steps):,}",
        texts=f"{sum(row.get('texts', 0) for row in steps):,}",
        seed=config.seed,
        data=_data_rows(files),
        contract=_contract_rows(contract),
        terms=_TERMS.format(" and ".join(f"`{name}`" for name in notices)) if notices else "",
    )


def _data_rows(files: Sequence[Path]) -> str:
    licences: dict[str, str] = {}
    for folder in {path.parent for path in files}:
        licences |= read_licences(folder)
    names = [path.name.removesuffix(".gz").removesuffix(".jsonl") for path in files]
    return "\n".join(f"| {name} | {licences.get(name, 'not stated')} |" for name in names)


def _contract_rows(contract: Contract) -> str:
    shown = {
        "fingerprint": contract.fingerprint,
        "base": contract.base,
        "template": contract.template,
        "attention": contract.attention,
        "pooling": contract.pooling,
        "head": contract.head,
        "soft-token temperature": contract.temperature,
        "max length": f"{contract.max_length} prompt tokens",
        "dimension": contract.dimension,
        "dtype": contract.dtype,
        **({"similarity": "the best of a document's steps (max-sim)"} if contract.has_max_sim else {}),
        **({"context encoder": contract.context_encoder} if contract.context_encoder else {}),
        "query steps / document steps": f"{contract.default_query_steps} / {contract.default_document_steps}",
    }
    return "\n".join(f"| {name} | `{value}` |" for name, value in shown.items())
