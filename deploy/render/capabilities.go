package main

import (
	"fmt"

	"github.com/Masterminds/semver"
)

// capabilities is what a template may ask about the cluster.
type capabilities struct {
	KubeVersion kubeVersion
	APIVersions versions
}

type kubeVersion struct{ Version, Major, Minor string }

func (k kubeVersion) String() string     { return k.Version }
func (k kubeVersion) GitVersion() string { return k.Version }

type versions map[string]bool

func (v versions) Has(name string) bool { return v[name] }

// capabilitiesOf: like `helm template`, it knows only the APIs that every cluster has and those it is told of.
func capabilitiesOf(version string, more []string) (capabilities, error) {
	parsed, err := semver.NewVersion(version)
	if err != nil {
		return capabilities{}, fmt.Errorf("--kube-version %s: %w", version, err)
	}
	known := versions{}
	for _, name := range append([]string{
		"v1", "apps/v1", "batch/v1", "rbac.authorization.k8s.io/v1", "networking.k8s.io/v1",
		"apiextensions.k8s.io/v1", "coordination.k8s.io/v1", "policy/v1", "policy/v1beta1",
	}, more...) {
		known[name] = true
	}
	return capabilities{
		KubeVersion: kubeVersion{
			Version: "v" + parsed.String(),
			Major:   fmt.Sprint(parsed.Major()),
			Minor:   fmt.Sprint(parsed.Minor()),
		},
		APIVersions: known,
	}, nil
}

// suits says no to a cluster outside of the range that Chart.yaml gives; an empty range is any.
func (c capabilities) suits(wanted string) error {
	if wanted == "" {
		return nil
	}
	allowed, err := semver.NewConstraint(wanted)
	if err != nil {
		return fmt.Errorf("Chart.yaml: kubeVersion %s: %w", wanted, err)
	}
	if version := semver.MustParse(c.KubeVersion.Version); !allowed.Check(version) {
		return fmt.Errorf("chart requires kubeVersion: %s which is incompatible with Kubernetes %s", wanted, c.KubeVersion)
	}
	return nil
}
