"""Keras models, optimizers and variables: saved as plain arrays, restored into what is built, exact with dropout."""

from pathlib import Path
from typing import Any

import pytest

from sterna.training import Mismatch
from sterna.training.checkpoint import CheckpointStore
from sterna.training.state.registry import Registry
from tests.needs import needs

pytestmark = pytest.mark.filterwarnings("ignore")


class Training:
    def __init__(self, seed: int, *, built: bool = True) -> None:
        keras = needs("keras")
        keras.utils.set_random_seed(seed)
        self.model = keras.Sequential(
            [keras.layers.Dense(8, activation="relu"), keras.layers.Dropout(0.5), keras.layers.Dense(1)]
        )
        self.optimizer = keras.optimizers.Adam(0.01 * seed)
        self.count = keras.Variable(seed)
        if built:
            self.model.build((None, 4))
            self.optimizer.build(self.model.trainable_variables)

    def step(self) -> None:
        tensorflow = needs("tensorflow")
        inputs = tensorflow.ones((3, 4))
        with tensorflow.GradientTape() as tape:
            loss = tensorflow.reduce_mean(self.model(inputs, training=True) ** 2)
        weights = self.model.trainable_variables
        self.optimizer.apply_gradients(zip(tape.gradient(loss, weights), weights, strict=True))
        self.count.assign_add(1)

    def registered(self) -> Registry:
        registry = Registry()
        registry.add("model", self.model)
        registry.add("optimizer", self.optimizer)
        registry.add("count", self.count)
        return registry

    def weights(self) -> list[Any]:
        return [weight.tolist() for weight in self.model.get_weights()]


def restored(directory: Path, registry: Registry) -> Any:
    store = CheckpointStore(directory, incarnation=0)
    return store.load(store.save(registry.state(), {}, step=0, about={}).generation).shared


def test_a_restored_keras_training_goes_on_bit_for_bit(tmp_path):
    needs("tensorflow")
    before, after = Training(1), Training(2)
    for _ in range(3):
        before.step()
    states = restored(tmp_path, before.registered())
    after.registered().restore(states)
    assert after.weights() == before.weights()
    for _ in range(3):  # with dropout, so their own generators have to agree, and moments, so their optimizers
        before.step()
        after.step()
    assert after.weights() == before.weights()
    assert int(after.count.numpy()) == int(before.count.numpy()) == 7


def test_what_is_not_built_yet_is_told_how_to_be(tmp_path):
    needs("tensorflow")
    before, after = Training(1), Training(2, built=False)
    before.step()
    states = restored(tmp_path, before.registered())
    registry = after.registered()
    with pytest.raises(Mismatch, match=r"'model' has 0 weights and the checkpoint 4; build the model"):
        registry.restore({"model": states["model"]})
    with pytest.raises(Mismatch, match=r"'optimizer' has 2 variables and the checkpoint 10; call optimizer.build"):
        registry.restore({"optimizer": states["optimizer"]})
