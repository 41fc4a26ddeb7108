"""What can be set about judging: each field says what it does, and its default is the documented one."""

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from enum import StrEnum

from sterna.model.errors import InvalidRequest
from sterna.model.options import option, parse_options


class Mode(StrEnum):
    """What a score is. With E the evaluation value at a check, and P = |change of E| / seconds between two checks:"""

    RAW = "raw"  # P, in the value's own units per second
    NORMALISED = "normalised"  # P / the largest P of this job so far: between 0 and 1, whatever the value's units
    RELATIVE = "relative"  # |change of E| / |E| from one check to the next


class Rule(StrEnum):
    """What makes a job converged."""

    SPECON = "specon"  # its score stays at or below the threshold
    LOGLINEAR = "loglinear"  # that, and its growth falls faster than a log-linear fit of it leaves in doubt
    COMPAT = "compat"  # container-migration's program to the letter, which hardly ever says Converged


class Merge(StrEnum):
    """What becomes of values that are reported within one check interval."""

    MEAN = "mean"
    LATEST = "latest"  # as SpeCon does


@dataclass(frozen=True, slots=True)
class Judge:
    threshold: float = option(0.1, "alpha: growth counts as slow up to this score", at_least=0)
    check_interval_s: float = option(10.0, "values reported closer together than this are one check", at_least=0)
    mode: Mode = option(Mode.NORMALISED, "what a score is: raw, normalised (share of the largest so far) or relative")
    rule: Rule = option(Rule.SPECON, "what makes a job converged: specon, loglinear or compat (container-migration's)")
    merge: Merge = option(Merge.MEAN, "what becomes of the values of one check: their mean, or the latest")
    median_of: int = option(1, "the median of this many last checks is taken: removes spikes", at_least=1, at_most=25)
    over_checks: int = option(1, "growth is measured over this many checks: evens out noise", at_least=1, at_most=25)
    confirmations: int = option(1, "slow checks while Watching that make it Converged", at_least=1, at_most=1000)
    settle_checks: int = option(
        0, "checks not judged after the first one, at the start and after every restart", at_least=0, at_most=1000
    )
    window: int = option(10, "loglinear: the fit is over this many last checks", at_least=3, at_most=100)
    per_cpu: bool = option(False, "growth per CPU used, so that a job that lacks CPU does not look converged")

    def __post_init__(self) -> None:
        for entry in fields(self):
            value, least, most = getattr(self, entry.name), entry.metadata["at_least"], entry.metadata["at_most"]
            if least is not None and not value >= least:  # also refuses NaN
                raise InvalidRequest(field=f"judge: {entry.name}", value=value, expected=f"at least {least:g}")
            if most is not None and value > most:
                raise InvalidRequest(field=f"judge: {entry.name}", value=value, expected=f"at most {most:g}")

    @staticmethod
    def of(settings: Mapping[str, str]) -> "Judge":
        """From text, as in a configuration. Unknown names and bad values are `InvalidRequest`s."""
        return parse_options(Judge, settings, of="judge")

    @property
    def applied(self) -> "Judge":
        """As it is used: container-migration judges every single value as it comes, whatever else is set."""
        if self.rule is not Rule.COMPAT:
            return self
        return replace(
            self,
            check_interval_s=0.0,
            merge=Merge.LATEST,
            median_of=1,
            over_checks=1,
            confirmations=1,
            settle_checks=0,
            per_cpu=False,
        )
