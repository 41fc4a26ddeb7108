"""The program that renders the chart does what Helm does, as far as it goes, and says so where it does not go."""

import pytest

from tests.deploy.rendering import RenderFailed, objects, render

CHART = "apiVersion: v2\nname: small\nversion: 1.2.3\nappVersion: '4.5'\n"
VALUES = "word: tern\nnested: {kept: 1, changed: 2}\nlist: [a, b]\ntext: 'a {{ .Values.word }}'\nnothing: ''\n"


def chart_of(directory, template, **files):
    """A chart with one template, whose object has the given text below `data`."""
    head = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: one}\ndata:\n"
    written = {"Chart.yaml": CHART, "values.yaml": VALUES, "templates/one.yaml": head + template, **files}
    for name, text in written.items():
        path = directory / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return directory


@pytest.mark.parametrize(
    ("template", "values", "expected"),
    [
        pytest.param("{{ .Values.word | quote }}", {}, "tern", id="a value, and a function of sprig's"),
        pytest.param("'{{ .Values.absent.deeper }}'", {"absent": {}}, "", id="what is missing is empty"),
        pytest.param("{{ toYaml .Values.nested | nindent 4 }}", {}, {"kept": 1, "changed": 2}, id="a map"),
        pytest.param(
            "{{ toJson .Values.nested }}", {"nested.changed": 9}, {"kept": 1, "changed": 9}, id="maps are merged"
        ),
        pytest.param("{{ toJson .Values.nested }}", {"nested.kept": None}, {"changed": 2}, id="null takes away"),
        pytest.param("{{ toJson .Values.list }}", {"list": ["c"]}, ["c"], id="lists are replaced"),
        pytest.param("{{ tpl .Values.text . }}", {}, "a tern", id="a value that is a template"),
        pytest.param("{{ required `no word` .Values.word }}", {}, "tern", id="something that must be there and is"),
        pytest.param("{{ (fromYaml `a: [1]`).a | first }}", {}, 1, id="text read as YAML"),
        pytest.param("{{ lookup `v1` `Pod` `` `` | len }}", {}, 0, id="there is no cluster to look into"),
        pytest.param("{{ .Release.Name }}/{{ .Release.Namespace }}", {}, "mine/here", id="the release"),
        pytest.param("{{ .Chart.Name }}-{{ .Chart.AppVersion }}", {}, "small-4.5", id="the chart"),
        pytest.param("{{ .Template.Name }}", {}, "small/templates/one.yaml", id="the template itself"),
        pytest.param("{{ .Capabilities.KubeVersion.Version }}", {}, "v1.25.3", id="the cluster's version"),
        pytest.param("{{ .Capabilities.APIVersions.Has `apps/v1` }}", {}, True, id="the cluster's kinds"),
        pytest.param("{{ .Files.Get `more/b.txt` }}", {}, "second", id="a file"),
        pytest.param(
            "{{ range $n, $_ := .Files.Glob `*/*` }}{{ $n }},{{ end }}", {}, "more/a.txt,more/b.txt,", id="files"
        ),
        pytest.param("{{ include `part` (dict `x` 3) }}", {}, 6, id="a part of its own"),
    ],
)
def test_templates_see_what_helm_shows_them(tmp_path, template, values, expected):
    part = "{{ define `part` }}{{ mul .x 2 }}{{ end }}"
    files = {"more/a.txt": "first", "more/b.txt": "second", "templates/_part.tpl": part}
    chart = chart_of(tmp_path, f"  found: {template}", **files)
    text = render(values, release="mine", namespace="here", kube_version="1.25.3", chart=chart)
    (body,) = objects(text)
    assert body["data"]["found"] == expected


@pytest.mark.parametrize(
    ("template", "files", "complaint"),
    [
        pytest.param("  {{ required `a word, please` .Values.nothing }}", {}, "a word, please", id="not there"),
        pytest.param("  {{ fail `no` }}", {}, "no", id="the template says no"),
        pytest.param("  {{ .Values.word", {}, "unclosed action", id="a template that is none"),
        pytest.param("  a: [", {}, "small/templates/one.yaml", id="a result that is no YAML"),
        pytest.param("  {{ env `HOME` }}", {}, 'function "env" not defined', id="whoever renders it does not matter"),
        pytest.param(
            "  {}", {"templates/two.yaml": "a: 1"}, "needs apiVersion, kind and metadata.name", id="no object"
        ),
        pytest.param("  {}", {"crds/one.yaml": ""}, "in its own way", id="a directory that Helm alone understands"),
        pytest.param("  {}", {"Chart.yaml": "name: x"}, "apiVersion v2", id="no chart"),
    ],
)
def test_what_cannot_be_rendered_is_told(tmp_path, template, files, complaint):
    with pytest.raises(RenderFailed) as failed:
        render(chart=chart_of(tmp_path, template, **files))
    assert complaint in str(failed.value)


def test_objects_come_in_the_order_of_installing_and_tests_last(tmp_path):
    kinds = ["Deployment", "ServiceMonitor", "Service", "Namespace", "ClusterRole"]
    head = "apiVersion: v1\nkind: {kind}\nmetadata:\n  name: x\n  annotations: {{helm.sh/hook: {hook}}}\n"
    plain = "---\n".join(head.format(kind=kind, hook="").replace("helm.sh/hook: ", "") for kind in kinds)
    files = {"templates/more.yaml": plain, "templates/a-test.yaml": head.format(kind="Pod", hook="test")}
    chart = chart_of(tmp_path, "  {}", **files)
    expected = ["Namespace", "ConfigMap", "ClusterRole", "Service", "Deployment", "ServiceMonitor"]
    assert [body["kind"] for body in objects(render(chart=chart))] == expected
    assert [body["kind"] for body in objects(render(chart=chart, tests=True))] == [*expected, "Pod"]
