// Command render prints what `helm template` would print for the chart beside it, and nothing that it would not.
//
// Helm is not packaged everywhere where this project is tested, so this is the part of it that one chart without
// dependencies needs, on the same foundations: Go's text/template, the sprig functions, sigs.k8s.io/yaml and the same
// validator of JSON schemas. It knows no releases, no hooks' order, no clusters and no chart repositories.
//
//	render [flags] RELEASE CHART
package main

import (
	"flag"
	"fmt"
	"os"
	"strings"
)

type list []string

func (l *list) String() string     { return strings.Join(*l, ",") }
func (l *list) Set(s string) error { *l = append(*l, s); return nil }

func main() {
	var files, settings, apiVersions list
	flag.Var(&files, "values", "YAML `file` laid over values.yaml; may be repeated, the last one wins")
	flag.Var(&settings, "set", "`path=value` laid over the files, the value in YAML; may be repeated")
	flag.Var(&apiVersions, "api-versions", "group/version or group/version/Kind that the cluster has beside the usual ones")
	namespace := flag.String("namespace", "default", "namespace of the release")
	kubeVersion := flag.String("kube-version", "1.32.0", "version of the cluster that is rendered for")
	skipTests := flag.Bool("skip-tests", false, "leave out what `helm test` runs")
	notes := flag.Bool("notes", false, "print what `helm install` says at its end, instead of the manifests")
	flag.Parse()
	if flag.NArg() != 2 {
		fmt.Fprintln(os.Stderr, "usage: render [flags] RELEASE CHART")
		flag.PrintDefaults()
		os.Exit(2)
	}
	text, err := render(request{
		release: flag.Arg(0), chart: flag.Arg(1), namespace: *namespace, kubeVersion: *kubeVersion,
		files: files, settings: settings, apiVersions: apiVersions, skipTests: *skipTests, notes: *notes,
	})
	if err != nil {
		fmt.Fprintln(os.Stderr, "Error:", err)
		os.Exit(1)
	}
	fmt.Print(text)
}

type request struct {
	release, chart, namespace, kubeVersion string
	files, settings, apiVersions           []string
	skipTests, notes                       bool
}

func render(asked request) (string, error) {
	chart, err := loadChart(asked.chart)
	if err != nil {
		return "", err
	}
	values, err := chart.valuesWith(asked.files, asked.settings)
	if err != nil {
		return "", err
	}
	if err := chart.validate(values); err != nil {
		return "", err
	}
	capabilities, err := capabilitiesOf(asked.kubeVersion, asked.apiVersions)
	if err != nil {
		return "", err
	}
	if err := capabilities.suits(chart.metadata.KubeVersion); err != nil {
		return "", err
	}
	rendered, err := chart.execute(map[string]interface{}{
		"Values":       values,
		"Chart":        chart.metadata,
		"Files":        chart.files,
		"Capabilities": capabilities,
		"Release": map[string]interface{}{
			"Name": asked.release, "Namespace": asked.namespace, "Service": "Helm",
			"IsInstall": true, "IsUpgrade": false, "Revision": 1,
		},
	})
	if err != nil {
		return "", err
	}
	if asked.notes {
		return rendered[chart.metadata.Name+"/templates/NOTES.txt"], nil
	}
	return inOrder(rendered, asked.skipTests)
}
