package main

import (
	"fmt"
	"os"
	"path/filepath"
	"sort"
	"strings"

	"github.com/gobwas/glob"
	"sigs.k8s.io/yaml"
)

// metadata is Chart.yaml as templates see it.
type metadata struct {
	APIVersion  string   `json:"apiVersion"`
	Name        string   `json:"name"`
	Version     string   `json:"version"`
	AppVersion  string   `json:"appVersion"`
	KubeVersion string   `json:"kubeVersion"`
	Type        string   `json:"type"`
	Description string   `json:"description"`
	Home        string   `json:"home"`
	Icon        string   `json:"icon"`
	Keywords    []string `json:"keywords"`
	Sources     []string `json:"sources"`
}

type chart struct {
	metadata  metadata
	templates map[string]string // by the path that Helm gives them: chart/templates/file
	files     files
	values    map[string]interface{}
	schema    []byte // nil: the chart has none
}

// files are those that are neither templates nor what Helm reads itself; a template sees them as .Files.
type files map[string][]byte

func (f files) Get(name string) string { return string(f[name]) }

func (f files) Glob(pattern string) files {
	matches := glob.MustCompile(pattern, '/')
	found := files{}
	for name, data := range f {
		if matches.Match(name) {
			found[name] = data
		}
	}
	return found
}

func loadChart(root string) (*chart, error) {
	found, err := readTree(root, "")
	if err != nil {
		return nil, err
	}
	made := &chart{templates: map[string]string{}, files: files{}, values: map[string]interface{}{}}
	if err := yaml.UnmarshalStrict(found["Chart.yaml"], &made.metadata); err != nil {
		return nil, fmt.Errorf("Chart.yaml: %w", err)
	}
	if made.metadata.APIVersion != "v2" || made.metadata.Name == "" || made.metadata.Version == "" {
		return nil, fmt.Errorf("%s/Chart.yaml: a chart needs apiVersion v2, a name and a version", root)
	}
	for name, data := range found {
		switch {
		case name == "Chart.yaml":
		case name == "values.yaml":
			if made.values, err = readValues(data); err != nil {
				return nil, fmt.Errorf("values.yaml: %w", err)
			}
		case name == "values.schema.json":
			made.schema = data
		case strings.HasPrefix(name, "templates/"):
			made.templates[made.metadata.Name+"/"+name] = string(data)
		case strings.HasPrefix(name, "crds/"), strings.HasPrefix(name, "charts/"):
			return nil, fmt.Errorf("%s: Helm treats this directory in its own way, and this program does not", name)
		default:
			made.files[name] = data
		}
	}
	return made, nil
}

// readTree reads all files below a directory by their slashed path, through symbolic links as Helm does.
func readTree(root, below string) (map[string][]byte, error) {
	entries, err := os.ReadDir(filepath.Join(root, below))
	if err != nil {
		return nil, err
	}
	found := map[string][]byte{}
	for _, entry := range entries {
		name := filepath.ToSlash(filepath.Join(below, entry.Name()))
		there := filepath.Join(root, name)
		about, err := os.Stat(there)
		if err != nil {
			return nil, err
		}
		if !about.IsDir() {
			if found[name], err = os.ReadFile(there); err != nil {
				return nil, err
			}
			continue
		}
		deeper, err := readTree(root, name)
		if err != nil {
			return nil, err
		}
		for path, data := range deeper {
			found[path] = data
		}
	}
	return found, nil
}

func sortedKeys(texts map[string]string) []string {
	keys := make([]string, 0, len(texts))
	for key := range texts {
		keys = append(keys, key)
	}
	sort.Strings(keys)
	return keys
}
