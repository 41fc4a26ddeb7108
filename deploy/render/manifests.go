package main

import (
	"fmt"
	"regexp"
	"sort"
	"strings"

	"sigs.k8s.io/yaml"
)

// installOrder is the order in which Helm creates kinds, as far as this chart has them. The rest comes last.
var installOrder = []string{
	"Namespace", "NetworkPolicy", "PodDisruptionBudget", "ServiceAccount", "ConfigMap", "CustomResourceDefinition",
	"ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding", "Service", "Pod", "Deployment",
}

var separator = regexp.MustCompile(`(?m)^---\s*$`)

type manifest struct {
	source, text, kind string
	hook               bool
}

// inOrder puts documents in the order of installing, hooks (tests) behind them, and names the template each is from.
func inOrder(rendered map[string]string, skipTests bool) (string, error) {
	var found []manifest
	for _, source := range sortedKeys(rendered) {
		if strings.HasSuffix(source, "/NOTES.txt") {
			continue
		}
		for _, text := range separator.Split(rendered[source], -1) {
			one, err := parse(source, text)
			if err != nil {
				return "", err
			}
			if one.kind == "" || one.hook && skipTests {
				continue
			}
			found = append(found, one)
		}
	}
	sort.SliceStable(found, func(i, j int) bool { return place(found[i]) < place(found[j]) })
	var text strings.Builder
	for _, one := range found {
		fmt.Fprintf(&text, "---\n# Source: %s\n%s\n", one.source, strings.TrimSpace(one.text))
	}
	return text.String(), nil
}

// parse makes sure that the text is one object; of an empty document nothing is set but its source.
func parse(source, text string) (manifest, error) {
	var head struct {
		APIVersion string `json:"apiVersion"`
		Kind       string `json:"kind"`
		Metadata   struct {
			Name        string            `json:"name"`
			Annotations map[string]string `json:"annotations"`
		} `json:"metadata"`
	}
	if err := yaml.Unmarshal([]byte(text), &head); err != nil {
		return manifest{}, fmt.Errorf("%s: %w\n%s", source, err, text)
	}
	if head.Kind == "" && head.APIVersion == "" && strings.TrimSpace(withoutComments(text)) == "" {
		return manifest{source: source}, nil
	}
	if head.Kind == "" || head.APIVersion == "" || head.Metadata.Name == "" {
		return manifest{}, fmt.Errorf("%s: an object needs apiVersion, kind and metadata.name\n%s", source, text)
	}
	_, hook := head.Metadata.Annotations["helm.sh/hook"]
	return manifest{source: source, text: text, kind: head.Kind, hook: hook}, nil
}

func withoutComments(text string) string {
	return regexp.MustCompile(`(?m)^\s*#.*$`).ReplaceAllString(text, "")
}

func place(one manifest) int {
	if one.hook {
		return len(installOrder) + 1
	}
	for at, kind := range installOrder {
		if kind == one.kind {
			return at
		}
	}
	return len(installOrder)
}
