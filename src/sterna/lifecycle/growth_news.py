"""How a job's evaluation value grows: the options it is judged by, and what its owner is told when that changes. Pure.

What a judge makes of evaluations is `model/judging/`.
"""

from collections.abc import Mapping

from sterna.model.errors import InvalidRequest
from sterna.model.growth import Category, Growth
from sterna.model.judging import Judge
from sterna.model.workload import Workload

JUDGE = "sterna.dev/judge"  # annotation of a job: options of its judge, name=value with commas between them

_WORDS: Mapping[Category, str] = {
    Category.PROGRESSING: "grows again",
    Category.WATCHING: "grows slowly",
    Category.CONVERGED: "hardly changes any more",
}


def judge_of(workload: Workload, usual: Mapping[str, str]) -> Judge:
    """How this job is judged: by the usual options, and by its own where it has any. `InvalidRequest`: it cannot be."""
    text = dict(workload.annotations).get(JUDGE, "")
    own: dict[str, str] = {}
    for part in filter(None, (part.strip() for part in text.split(","))):
        name, equals, value = part.partition("=")
        if not equals:
            field = f"job {workload.id}: metadata.annotations.{JUDGE}"
            raise InvalidRequest(field=field, value=text, expected="name=value, several separated by commas")
        own[name.strip()] = value.strip()
    return Judge.of({**usual, **own})


def judged_growth(growth: Growth) -> Growth | None:
    """How the job grows, for a decision. None: it was not judged, since growth needs two evaluations.

    A judge whose options changed keeps the category and begins to score anew: that job was judged.
    """
    return None if growth.score is None and growth.category is Category.PROGRESSING else growth


def is_news(before: Growth | None, now: Growth | None) -> bool:
    """Did the job come into another category? That it makes progress at first is none."""
    if now is None:
        return False
    return now.category is not (Category.PROGRESSING if before is None else before.category)


def growth_in_words(
    now: Growth,
    *,
    before: Growth | None,
    metric: str = "",
    value: float | None = None,
    evaluations: int = 0,
    threshold: float | None = None,
) -> str:
    """For the event that tells of another category, with the numbers that it was decided by, as far as they are known.

    `metric` empty: the value has no name; `value` None: this engine does not keep it.
    """
    found = [] if value is None else [f"it is {value:.4g} after {evaluations} evaluations"]
    found.append(f"its score is {'unknown' if now.score is None else f'{now.score:.3g}'}")
    if threshold is not None:
        found.append(f"the threshold is {threshold:g}")
    found.append(f"it was {(Category.PROGRESSING if before is None else before.category).value} before")
    return f"{metric or 'its evaluation value'} {_WORDS[now.category]}: {', '.join(found)}"
