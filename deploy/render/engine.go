package main

import (
	"encoding/json"
	"fmt"
	"path"
	"strings"
	"text/template"

	"github.com/Masterminds/sprig"
	"sigs.k8s.io/yaml"
)

// execute renders every template but the partials (`_name`), by path.
func (c *chart) execute(scope map[string]interface{}) (map[string]string, error) {
	// A key that is missing is empty, as it is for Helm, and not an error: the schema is what catches typing mistakes.
	all := template.New("chart").Option("missingkey=zero")
	all.Funcs(functions(all))
	names := sortedKeys(c.templates)
	for _, name := range names {
		if _, err := all.New(name).Parse(c.templates[name]); err != nil {
			return nil, err
		}
	}
	rendered := map[string]string{}
	for _, name := range names {
		if strings.HasPrefix(path.Base(name), "_") {
			continue
		}
		scope["Template"] = map[string]interface{}{"Name": name, "BasePath": c.metadata.Name + "/templates"}
		text, err := run(all, name, scope)
		if err != nil {
			return nil, err
		}
		rendered[name] = text
	}
	return rendered, nil
}

func run(all *template.Template, name string, scope interface{}) (string, error) {
	var text strings.Builder
	if err := all.ExecuteTemplate(&text, name, scope); err != nil {
		return "", err
	}
	return strings.ReplaceAll(text.String(), "<no value>", ""), nil
}

func functions(all *template.Template) template.FuncMap {
	known := sprig.TxtFuncMap()
	delete(known, "env") // a chart must not depend on who renders it
	delete(known, "expandenv")
	known["include"] = func(name string, scope interface{}) (string, error) { return run(all, name, scope) }
	known["tpl"] = func(text string, scope interface{}) (string, error) {
		clone, err := all.Clone()
		if err != nil {
			return "", err
		}
		if _, err := clone.New("tpl").Parse(text); err != nil {
			return "", err
		}
		return run(clone, "tpl", scope)
	}
	known["required"] = func(message string, value interface{}) (interface{}, error) {
		if value == nil || value == "" {
			return nil, fmt.Errorf("%s", message)
		}
		return value, nil
	}
	known["lookup"] = func(string, string, string, string) map[string]interface{} {
		return map[string]interface{}{} // there is no cluster to look into, as with `helm template`
	}
	known["toYaml"] = func(value interface{}) (string, error) {
		data, err := yaml.Marshal(value)
		return strings.TrimSuffix(string(data), "\n"), err
	}
	known["fromYaml"] = func(text string) (map[string]interface{}, error) { return readValues([]byte(text)) }
	known["toJson"] = func(value interface{}) (string, error) {
		data, err := json.Marshal(value)
		return string(data), err
	}
	return known
}
