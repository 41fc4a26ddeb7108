"""What was learned of how fast jobs train, as the data of a ConfigMap, and when that is worth a write. Pure."""

import math
from collections.abc import Mapping
from typing import Any

from sterna.engines.kubernetes.apiserver.configmap_document import data_of, document_of, unreadable
from sterna.engines.kubernetes.process.settings import KNOWLEDGE
from sterna.model.learning import MODELS_MAX, Knowledge, Seen, ThroughputModel

_KEY = "knowledge.json"
_GREW = 1.25  # a model is written again once so many times as much was seen

Key = tuple[str, str]  # category, accelerator


def knowledge_data(knowledge: Knowledge) -> dict[str, str]:
    """Equal knowledge gives equal data."""
    models = knowledge.within(MODELS_MAX).models
    return data_of(_KEY, {"models": [_model_body(key, model) for key, model in sorted(models.items())]})


def knowledge_of(data: Mapping[str, str] | None) -> Knowledge:
    """`InvalidRequest`: no operator wrote this."""
    if not data:
        return Knowledge()
    try:
        return Knowledge(dict(_model(body) for body in document_of(_KEY, data)["models"]))
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise unreadable(KNOWLEDGE, data, error, without="without it, speeds are learned anew") from None


def is_worth_keeping(model: ThroughputModel, kept: ThroughputModel | None) -> bool:
    """Is there so much more than what is kept? Writes grow with the logarithm of what was seen, not with reports."""
    if kept is None or model.finished != kept.finished:
        return True
    known = {seen.workers: seen.epochs for seen in kept.seen}
    return any(seen.epochs >= _GREW * known.get(seen.workers, 0) + 1 for seen in model.seen)


def _model_body(key: Key, model: ThroughputModel) -> dict[str, Any]:
    return {
        "category": key[0],
        "accelerator": key[1],
        "seen": [list(seen) for seen in model.seen],
        "finished": model.finished,
        "finishedUnits": model.finished_units,
    }


def _model(body: Mapping[str, Any]) -> tuple[Key, ThroughputModel]:
    seen = tuple(sorted(Seen(int(workers), int(epochs), float(total)) for workers, epochs, total in body["seen"]))
    model = ThroughputModel(seen, int(body["finished"]), float(body["finishedUnits"]))
    counts = (model.finished, model.finished_units, *(number for each in seen for number in each))
    if any(not math.isfinite(number) or number < 0 for number in counts) or any(0 in each for each in seen):
        raise ValueError(f"{body!r} is no model")
    return (str(body["category"]), str(body["accelerator"])), model
