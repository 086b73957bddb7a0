"""The one module that imports transformers, whose modules are filled while they are imported: two threads that imported
it from two places could find it half empty. Python lets the second thread wait for this module.
"""

import warnings

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

# Its own generate() calls its own models by a name that it retires.
warnings.filterwarnings("ignore", message="`past_key_values` is deprecated", category=FutureWarning)

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
