"""`sterna get`: lists of jobs, nodes and migrations, once or as they change."""

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

from sterna.interfaces.cli.asking import (
    Form,
    Home,
    Namespace,
    Record,
    client_of,
    complete_jobs,
    complete_nodes,
    job_ids,
    printed,
    say,
    until_interrupted,
)
from sterna.interfaces.cli.json_path import Template, read_path, read_template
from sterna.interfaces.cli.label_selector import label_requirements
from sterna.interfaces.cli.terminal import strong
from sterna.model.errors import EngineRefused, InvalidRequest, NotFound
from sterna.model.node_affinity import LabelRequirement

if TYPE_CHECKING:
    from sterna.interfaces.client import Client
    from sterna.interfaces.reports.record_tables import RecordColumn

_EPILOG = """\b
Examples:
  sterna get jobs
  sterna get jobs -A -o wide
  sterna get job mnist -o yaml
  sterna get nodes -w
  sterna get jobs -l team=vision --sort-by .submittedAt
  sterna get jobs -o jsonpath='{range .items[*]}{.name}{" "}{.phase}{"\\n"}{end}'
  sterna get migrations -o json | jq '.[].downtimeSeconds'
\b
Columns of jobs: NAME STATUS WORKERS SCHEDULER WAITING RUNNING TOTAL; -o wide adds size, GPUs, progress, growth, reason,
nodes, priority, restarts, migrations, checkpoint and age. --sort-by takes one of them or a path in the JSON output;
paths and templates are kubectl's, and what was not asked for by name is in .items.
"""
_TEMPLATE = "jsonpath"
_KINDS = ("jobs", "nodes", "migrations")
_LOOK_AGAIN_S = 2.0
_TIMELY = ("waitingSeconds", "runningSeconds", "totalSeconds", "remainingSeconds", "metrics")  # change all the time


class _Question(NamedTuple):
    """One kind of thing: how to get it, and how to show it."""

    fetch: Callable[[], list[Record]]
    columns: "Sequence[RecordColumn]"
    name: Callable[[Record], str]

    def only(self, requirements: Sequence[LabelRequirement]) -> "_Question":
        """Those whose labels meet all of these."""
        if not requirements:
            return self

        def fetch() -> list[Record]:
            return [record for record in self.fetch() if all(each.holds(record["labels"]) for each in requirements)]

        return self._replace(fetch=fetch)

    def sorted_by(self, words: str | None) -> "_Question":
        """By a column as it is shown, or by a path, numbers before words; what has no such value comes last."""
        if words is None:
            return self
        key = _sort_key(self.columns, words)
        return self._replace(fetch=lambda: sorted(self.fetch(), key=key))


def complete_kinds(incomplete: str) -> list[str]:
    return [kind for kind in _KINDS if kind.startswith(incomplete)]


def complete_forms(incomplete: str) -> list[str]:
    return [form for form in (*Form, f"{_TEMPLATE}=") if form.startswith(incomplete)]


def complete_names(ctx: typer.Context, incomplete: str) -> list[str]:
    kind = str(ctx.params.get("kind") or "")
    if kind.startswith("job"):
        return complete_jobs(ctx, incomplete)
    return complete_nodes(ctx, incomplete) if kind.startswith("node") else []


def get(
    kind: Annotated[
        str, typer.Argument(metavar="KIND", help="jobs, nodes or migrations.", autocompletion=complete_kinds)
    ],
    names: Annotated[
        list[str] | None, typer.Argument(metavar="NAME...", help="Only these.", autocompletion=complete_names)
    ] = None,
    watch: Annotated[bool, typer.Option("--watch", "-w", help="Go on, and print what changes.")] = False,
    namespace: Namespace = "default",
    all_namespaces: Annotated[bool, typer.Option("--all-namespaces", "-A", help="Jobs of every namespace.")] = False,
    selector: Annotated[
        str, typer.Option("--selector", "-l", metavar="LABELS", help="Only jobs with these: app=mnist,tier!=dev.")
    ] = "",
    sort_by: Annotated[
        str | None, typer.Option("--sort-by", metavar="COLUMN|PATH", help="Such as age or .workers.current.")
    ] = None,
    output: Annotated[
        str,
        typer.Option(
            "--output",
            "-o",
            metavar="FORM",
            help="For people: table or wide. For programs: json, yaml, name, jsonpath=TEMPLATE.",
            autocompletion=complete_forms,
        ),
    ] = Form.TABLE.value,
    home: Home = None,
) -> None:
    """List jobs, nodes or migrations.

    With one NAME, json and yaml give everything known about it. Jobs are sorted by namespace and name.
    """
    form = _form(output)
    requirements = label_requirements(selector)
    client = client_of(home)
    wanted = list(dict.fromkeys(names or ()))
    question = _question(client, kind, wanted, None if all_namespaces else namespace)
    if requirements and kind.startswith("migration"):
        raise InvalidRequest(field="--selector", value=selector, expected="jobs or nodes, as migrations have no labels")
    question = question.only(requirements).sorted_by(sort_by)
    records = question.fetch()
    if watch:
        with until_interrupted():
            _print(question, records, form, watched=True)
            for changed in _changes(client, question, records):
                _print(question, changed, form, watched=True, head=False)
    else:
        _print(question, records, form, alone=len(wanted) == 1)
        if not records and kind.startswith("job") and not requirements and form in (Form.TABLE, Form.WIDE):
            _tell_none(client, namespace)


def _form(output: str) -> Form | Template:
    """As typed behind -o."""
    name, equals, template = output.partition("=")
    if name == _TEMPLATE and equals:
        return read_template(template, field="--output jsonpath")
    try:
        return Form(output)
    except ValueError:
        expected = "one of: " + ", ".join((*Form, f"{_TEMPLATE}=TEMPLATE"))
        raise InvalidRequest(field="--output", value=output, expected=expected) from None


def _question(client: "Client", kind: str, names: list[str], namespace: str | None) -> _Question:
    """`namespace` None: jobs of all of them."""
    if kind in ("jobs", "job"):
        return _jobs(client, names, namespace)
    if kind in ("nodes", "node"):
        return _nodes(client, names)
    if kind in ("migrations", "migration"):
        return _migrations(client, names)
    raise InvalidRequest(field="KIND", value=kind, expected="one of: " + ", ".join(_KINDS))


def _jobs(client: "Client", names: list[str], namespace: str | None) -> _Question:
    from sterna.interfaces.reports.record_tables import JOBS, NAMESPACE

    ids = job_ids(names, namespace or "default")

    def fetch() -> list[Record]:
        if ids:
            return [client.job(job_id) for job_id in ids]
        return sorted(client.jobs(namespace=namespace), key=lambda job: (job["namespace"], job["name"]))

    return _Question(fetch, JOBS if namespace else (NAMESPACE, *JOBS), lambda job: str(job["id"]))


def _nodes(client: "Client", names: list[str]) -> _Question:
    from sterna.interfaces.reports.record_tables import NODES

    def fetch() -> list[Record]:
        return _only(names, {str(node["name"]): node for node in client.nodes()}, "node")

    return _Question(fetch, NODES, lambda node: str(node["name"]))


def _migrations(client: "Client", names: list[str]) -> _Question:
    from sterna.interfaces.reports.record_tables import MIGRATIONS

    def fetch() -> list[Record]:
        return _only(names, {str(move["id"]): move for move in client.migrations()}, "migration")

    return _Question(fetch, MIGRATIONS, lambda move: str(move["id"]))


def _only(names: list[str], records: dict[str, Record], kind: str) -> list[Record]:
    for name in names:
        if name not in records:
            raise NotFound(kind, name)
    return [records[name] for name in names] if names else list(records.values())


def _changes(client: "Client", question: _Question, before: list[Record]) -> Iterator[list[Record]]:
    """Whatever is not as it was, again and again. Durations that only went on are no change."""
    known = {question.name(record): _lasting(record) for record in before}
    counter = client.changed(after=0, timeout_s=0)
    while True:
        counter = client.changed(after=counter, timeout_s=_LOOK_AGAIN_S)
        records = question.fetch()
        now = {question.name(record): _lasting(record) for record in records}
        if changed := [record for record in records if known.get(question.name(record)) != now[question.name(record)]]:
            yield changed
        known = now


def _lasting(record: Record) -> Record:
    return {key: value for key, value in record.items() if key not in _TIMELY}


def _print(
    question: _Question,
    records: list[Record],
    form: Form | Template,
    *,
    alone: bool = False,
    watched: bool = False,
    head: bool = True,
) -> None:
    match form:
        case Template():
            typer.echo(form.filled(records[0] if alone else {"items": records}))
        case Form.NAME:
            if records:
                say("\n".join(question.name(record) for record in records))
        case Form.JSON | Form.YAML if watched:
            for record in records:
                say(("---\n" if form is Form.YAML else "") + printed(record, form))
        case Form.JSON | Form.YAML:
            say(printed(records[0] if alone else records, form))
        case _:
            _print_table(question, records, wide=form is Form.WIDE, head=head)


def _sort_key(columns: "Sequence[RecordColumn]", words: str) -> "Callable[[Record], tuple[int, float, str]]":
    heads = {column.head.lower(): column.sort for column in columns if column.sort}
    path = heads.get(words.lower())
    if path is None and words.isalpha() and words.lower() == words:
        known = ", ".join(heads)
        raise InvalidRequest(field="--sort-by", value=words, expected=f"one of {known}, or a path such as .name")
    found = read_path(path or words, field="--sort-by").found
    return lambda record: _ordered(next(iter(found(record)), None))


def _ordered(value: Any) -> tuple[int, float, str]:
    """Numbers before words, and nothing last."""
    if isinstance(value, int | float):
        return 0, value, ""
    return (2, 0.0, "") if value is None else (1, 0.0, str(value))


def _print_table(question: _Question, records: list[Record], *, wide: bool, head: bool) -> None:
    from datetime import UTC, datetime

    from sterna.interfaces.reports.record_tables import record_table

    say(record_table(question.columns, records, now=datetime.now(UTC), wide=wide, head=head, strong=strong))


def _tell_none(client: "Client", namespace: str) -> None:
    try:
        elsewhere = len(client.jobs())
    except EngineRefused:  # a user who may not see other namespaces gets no hint of them
        return
    if elsewhere:
        typer.echo(f"no jobs in namespace {namespace}; {elsewhere} in others, see -A", err=True)


def add_to(cli: typer.Typer) -> None:
    cli.command(epilog=_EPILOG)(get)
