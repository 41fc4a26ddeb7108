"""How decisions look as text, as the engines are given it."""

from sterna.journal.journal import Shapes
from sterna.wire.decision_file import decision_record, event_record, outcome_record
from sterna.wire.snapshot_file import snapshot_document

SHAPES = Shapes(snapshot=snapshot_document, decision=decision_record, outcome=outcome_record, event=event_record)
