package main

import (
	"fmt"
	"os"
	"sort"
	"strings"

	"github.com/xeipuuv/gojsonschema"
	"sigs.k8s.io/yaml"
)

func readValues(data []byte) (map[string]interface{}, error) {
	values := map[string]interface{}{}
	if err := yaml.Unmarshal(data, &values); err != nil {
		return nil, err
	}
	if values == nil { // an empty file
		values = map[string]interface{}{}
	}
	return values, nil
}

// valuesWith lays files, then single settings, over the chart's own values.
func (c *chart) valuesWith(paths, settings []string) (map[string]interface{}, error) {
	values := c.values
	for _, path := range paths {
		data, err := os.ReadFile(path)
		if err != nil {
			return nil, err
		}
		above, err := readValues(data)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
		values = overlay(values, above)
	}
	for _, setting := range settings {
		above, err := settingOf(setting)
		if err != nil {
			return nil, err
		}
		values = overlay(values, above)
	}
	return values, nil
}

// overlay merges maps key by key; anything else replaces what was there, and null takes it away.
func overlay(below, above map[string]interface{}) map[string]interface{} {
	merged := make(map[string]interface{}, len(below)+len(above))
	for key, value := range below {
		merged[key] = value
	}
	for key, value := range above {
		upper, isMap := value.(map[string]interface{})
		lower, wasMap := merged[key].(map[string]interface{})
		switch {
		case value == nil:
			delete(merged, key)
		case isMap && wasMap:
			merged[key] = overlay(lower, upper)
		default:
			merged[key] = value
		}
	}
	return merged
}

func settingOf(text string) (map[string]interface{}, error) {
	path, written, found := strings.Cut(text, "=")
	if !found || path == "" {
		return nil, fmt.Errorf("--set %s: expected path=value", text)
	}
	var value interface{}
	if err := yaml.Unmarshal([]byte(written), &value); err != nil {
		return nil, fmt.Errorf("--set %s: %w", text, err)
	}
	keys := strings.Split(path, ".")
	for i := len(keys) - 1; i > 0; i-- {
		value = map[string]interface{}{keys[i]: value}
	}
	return map[string]interface{}{keys[0]: value}, nil
}

// validate says every way in which values break the chart's schema, in a fixed order.
func (c *chart) validate(values map[string]interface{}) error {
	if c.schema == nil {
		return nil
	}
	result, err := gojsonschema.Validate(gojsonschema.NewBytesLoader(c.schema), gojsonschema.NewGoLoader(values))
	if err != nil {
		return fmt.Errorf("values.schema.json: %w", err)
	}
	if result.Valid() {
		return nil
	}
	problems := make([]string, 0, len(result.Errors()))
	for _, problem := range result.Errors() {
		problems = append(problems, "- "+problem.String())
	}
	sort.Strings(problems)
	return fmt.Errorf("values don't meet the specifications of the schema(s) in the following chart(s):\n%s:\n%s",
		c.metadata.Name, strings.Join(problems, "\n"))
}
