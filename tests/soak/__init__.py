"""Long troubled runs of whole systems, seen from outside. Half a minute in CI, so that they still work; an hour each in
`make soak`."""
