"""Python side of the fusion compiler: model builders, tokenizer, chat front end and test helpers.

Nothing here compiles or fuses: that is the work of `fusion-compile` and `fusion-run`, which these modules call.
"""
