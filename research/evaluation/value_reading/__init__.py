"""How well a model follows instructions and tells values apart: the measures of the model cards."""
