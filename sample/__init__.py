"""A library of short, openly licensed texts to try the search on: `library.jsonl`, credited in `ATTRIBUTION.md`.

`planted.json` names queries whose best results change with the instruction, and the label that these should carry.
"""
