"""The HTML report: complete, harmless, and in need of nothing."""

from html.parser import HTMLParser

from sterna.interfaces.reports.page import report_page
from sterna.interfaces.reports.run_finding import finding
from tests.interfaces.results import result


class Balance(HTMLParser):
    """Collects tags that are closed out of order, and everything that would be fetched."""

    VOID = frozenset({"meta", "rect", "line", "polyline", "polygon"})

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.wrong: list[str] = []
        self.fetched: list[str] = []

    def handle_starttag(self, tag, attrs):
        self.fetched += [value for name, value in attrs if name in ("src", "href") and not str(value).startswith("#")]
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        pass

    def handle_endtag(self, tag):
        if not self.open or self.open.pop() != tag:
            self.wrong.append(tag)


def page(*, problems: tuple[str, ...] = ()) -> str:
    findings = [
        finding(result(policy, trace), name=policy, options=(("size", "min"),), problems=problems)
        for trace in ("one", "two")
        for policy in ("fifo", "afs-l")
    ]
    return report_page(findings, setting=[("cluster", "4 nodes x 4 GPUs")], command="sterna compare -t 'a b'")


def test_the_page_is_well_formed_and_fetches_nothing():
    reader = Balance()
    reader.feed(page())
    assert reader.wrong == []
    assert reader.open == []
    assert reader.fetched == []
    assert "default-src 'none'" in page()


def test_every_trace_has_its_table_and_every_policy_its_gantt():
    text = page()
    assert text.count('class="sortable"') == 2
    assert text.count("<details") == 4
    assert text.count("<svg ") == 2 * (3 + 2)
    assert "size=min" in text
    assert "4 nodes x 4 GPUs" in text


def test_words_from_files_cannot_become_markup():
    hostile = "<script>alert(1)</script>"
    findings = [finding(result(hostile, hostile), name=hostile, options=((hostile, hostile),), problems=(hostile,))]
    text = report_page(findings, setting=[(hostile, hostile)], command=hostile)
    assert hostile not in text
    assert text.count("<script>") == 1  # our own


def test_many_problems_are_cut_short_and_counted():
    text = page(problems=tuple(f"line {number}: x" for number in range(120)))
    assert "Rows left out: 120" in text
    assert "and 70 more" in text
    assert "line 119: x" not in text


def test_the_same_findings_give_the_same_page():
    assert page() == page()
