"""The only module that imports transformers. transformers fills its modules during import, so two threads that import
it from different places could see it half-initialised. Python makes the second thread wait for this module."""

import warnings

from transformers import (
    AutoConfig,
    AutoModel,
    AutoModelForCausalLM,
    AutoTokenizer,
    DynamicCache,
    GenerationConfig,
    PreTrainedModel,
    PreTrainedTokenizerFast,
    StoppingCriteria,
    StoppingCriteriaList,
)
from transformers import logging as transformers_logging

# PEFT's generate() uses a name that transformers deprecates.
warnings.filterwarnings("ignore", message="`past_key_values` is deprecated", category=FutureWarning)

__all__ = [
    "AutoConfig",
    "AutoModel",
    "AutoModelForCausalLM",
    "AutoTokenizer",
    "DynamicCache",
    "GenerationConfig",
    "PreTrainedModel",
    "PreTrainedTokenizerFast",
    "StoppingCriteria",
    "StoppingCriteriaList",
    "transformers_logging",
]
