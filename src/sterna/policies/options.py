"""Options of a policy: what `model/options.py` offers, under the name by which policies know it."""

from sterna.model.options import NoOptions, option, parse_options, shown

__all__ = ["NoOptions", "option", "parse_options", "shown"]
