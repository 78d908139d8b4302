"""A small network learns to read handwritten digits: a training script as people write it.

It trains well, and it compiles far more often than it needs to. `retrace run` over it tells
where and why; `train_digits_fixed.py` is the same program with the advice applied.
"""

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import optax
from flax.training.train_state import TrainState
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

BATCH = 128
RESTARTS = 3
EPOCHS = 3


class Network(nn.Module):
    @nn.compact
    def __call__(self, images, train):
        x = nn.relu(nn.Conv(16, (3, 3))(images))
        x = nn.max_pool(x, (2, 2), (2, 2))
        x = x.reshape(len(x), -1)
        x = nn.relu(nn.Dense(64)(x))
        x = nn.Dropout(0.2, deterministic=not train)(x)
        return nn.Dense(10)(x)


model = Network()
dropout_key = jax.random.key(1)


def load():
    digits = load_digits()
    images = (digits.images[..., None] / 16).astype(np.float32)
    labels = digits.target.astype(np.int32)
    return train_test_split(images, labels, test_size=0.2, random_state=0)


def initial_params(images):
    params = model.init(jax.random.key(0), images[:1], train=False)["params"]
    # A calm start: smaller weights keep the first steps short.
    return jax.tree.map(lambda weights: 0.5 * weights, params)


def new_state(params, steps):
    """Weights as they are, with an optimizer that starts afresh (a "warm restart")."""
    tx = optax.adam(optax.cosine_decay_schedule(5e-3, steps))
    return TrainState.create(apply_fn=model.apply, params=params, tx=tx)


@jax.jit
def train_step(state, step, batch):
    def loss_of(params):
        key = jax.random.fold_in(dropout_key, step)
        logits = state.apply_fn(
            {"params": params}, batch["image"], train=True, rngs={"dropout": key}
        )
        return optax.softmax_cross_entropy_with_integer_labels(logits, batch["label"]).mean()

    loss, grads = jax.value_and_grad(loss_of)(state.params)
    return state.apply_gradients(grads=grads), optax.safe_increment(step), loss


def evaluate(params, images, labels):
    predict = jax.jit(lambda p, x: model.apply({"params": p}, x, train=False).argmax(-1))
    return jnp.mean(predict(params, images) == labels)


def main():
    train_images, test_images, train_labels, test_labels = load()
    shuffle = np.random.default_rng(0)
    params = initial_params(train_images)
    step = 0  # counts on through all restarts
    for _ in range(RESTARTS):
        state = new_state(params, steps=EPOCHS * len(train_images) // BATCH)
        for _ in range(EPOCHS):
            order = shuffle.permutation(len(train_images))
            losses = []
            for start in range(0, len(order), BATCH):
                rows = order[start : start + BATCH]
                batch = {"image": train_images[rows], "label": train_labels[rows]}
                state, step, loss = train_step(state, step, batch)
                losses.append(loss)
            accuracy = evaluate(state.params, test_images, test_labels)
            print(f"step {step:3d}  loss {np.mean(losses):.3f}  accuracy {accuracy:.3f}")
        params = state.params


if __name__ == "__main__":
    main()
