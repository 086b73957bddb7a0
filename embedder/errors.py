"""The errors of loading a model and embedding a text.

EmbedderError
├── ModelNotFoundError   no such folder, package or hub model; the message says how to get it
├── ContractError        gircse.json, the weights or the golden vectors do not fit together
├── DeviceError          torch cannot compute on the device here
├── TextError            a text, instruction, step count or bias is invalid (also a ValueError)
├── ServerError          a gircse-search or language-model server does not answer, or refuses
└── UnknownTaskError     the paper has no instruction for a task (in embedder.text.instructions; also a LookupError)

DataError              a file of training or evaluation is invalid; the message names it (a ValueError)
"""


class EmbedderError(Exception):
    """Base class of the embedder's errors."""


class ModelNotFoundError(EmbedderError):
    pass


class ContractError(EmbedderError):
    pass


class DeviceError(EmbedderError):
    pass


class TextError(EmbedderError, ValueError):
    pass


class ServerError(EmbedderError):
    pass


class DataError(ValueError):
    pass
