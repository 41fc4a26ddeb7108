"""SharePods of KubeShare: what they take of a card, and where those that go before training are put."""
