"""What can go wrong when a model is loaded or a text embedded.

EmbedderError
├── ModelNotFoundError   no such folder, package or hub model; the message says how to get it
├── ContractError        gircse.json, the weights or the golden vectors do not fit together
├── TextError            a text, instruction, step count or bias cannot be used (also a ValueError)
├── ServerError          a running gircse-search or a language model's server does not answer, or refuses to
└── UnknownTaskError     the paper has no instruction for a task (in embedder.text.instructions; also a LookupError)

DataError              files of training or evaluation cannot be used; the message names them (a ValueError)
"""


class EmbedderError(Exception):
    """Root of the embedder's errors."""


class ModelNotFoundError(EmbedderError):
    pass


class ContractError(EmbedderError):
    pass


class TextError(EmbedderError, ValueError):
    pass


class ServerError(EmbedderError):
    pass


class DataError(ValueError):
    pass
