"""The one module that imports transformers, whose modules are filled while they are imported: two threads that imported
it from two places could find it half empty. Python lets the second thread wait for this module.
"""

from transformers import (
    AutoConfig,
    AutoModel,
    AutoModelForCausalLM,
    AutoTokenizer,
    DynamicCache,
    GenerationConfig,
    PreTrainedModel,
    StoppingCriteria,
    StoppingCriteriaList,
)
from transformers import logging as transformers_logging

__all__ = [
    "AutoConfig",
    "AutoModel",
    "AutoModelForCausalLM",
    "AutoTokenizer",
    "DynamicCache",
    "GenerationConfig",
    "PreTrainedModel",
    "StoppingCriteria",
    "StoppingCriteriaList",
    "transformers_logging",
]
