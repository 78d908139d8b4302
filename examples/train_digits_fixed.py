"""`train_digits.py` with retrace's advice applied: each function is compiled once.

The comments that begin with "Fixed" mark what was changed, and why it helps.
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


def load():
    digits = load_digits()
    images = (digits.images[..., None] / 16).astype(np.float32)
    labels = digits.target.astype(np.int32)
    return train_test_split(images, labels, test_size=0.2, random_state=0)


# Fixed: under jit the initialisation is one program, not one for each operation.
@jax.jit
def initial_params(images):
    params = model.init(jax.random.key(0), images, train=False)["params"]
    # A calm start: smaller weights keep the first steps short.
    return jax.tree.map(lambda weights: 0.5 * weights, params)


# Fixed: one optimizer for all restarts. Each `optax.adam(...)` is unequal to every other, and
# a TrainState carries it as static metadata, so a new one means another program. (Under jit
# for the same reason as above: `create` makes the optimizer's arrays one by one.)
def state_maker(steps):
    tx = optax.adam(optax.cosine_decay_schedule(5e-3, steps))

    @jax.jit
    def new_state(params):
        """Weights as they are, with an optimizer that starts afresh (a "warm restart")."""
        return TrainState.create(apply_fn=model.apply, params=params, tx=tx)

    return new_state


@jax.jit
def train_step(state, step, batch):
    def loss_of(params):
        # Fixed: made in here, the key is a part of this program.
        key = jax.random.fold_in(jax.random.key(1), step)
        logits = state.apply_fn(
            {"params": params}, batch["image"], train=True, rngs={"dropout": key}
        )
        return optax.softmax_cross_entropy_with_integer_labels(logits, batch["label"]).mean()

    loss, grads = jax.value_and_grad(loss_of)(state.params)
    return state.apply_gradients(grads=grads), optax.safe_increment(step), loss


# Fixed: one function, jitted once; a lambda in the loop is a new function each time.
@jax.jit
def evaluate(params, images, labels):
    predictions = model.apply({"params": params}, images, train=False).argmax(-1)
    return jnp.mean(predictions == labels)


def main():
    train_images, test_images, train_labels, test_labels = load()
    shuffle = np.random.default_rng(0)
    params = initial_params(train_images[:1])
    # Fixed: an array with a dtype. A Python int is weakly typed, and what comes back from the
    # first step is not, so the second step would be another program.
    step = np.int32(0)  # counts on through all restarts
    new_state = state_maker(steps=EPOCHS * len(train_images) // BATCH)
    for _ in range(RESTARTS):
        state = new_state(params)
        for _ in range(EPOCHS):
            order = shuffle.permutation(len(train_images))
            losses = []
            # Fixed: whole batches alone. The shuffle leaves out other images in each epoch.
            for start in range(0, len(order) - BATCH + 1, BATCH):
                rows = order[start : start + BATCH]
                batch = {"image": train_images[rows], "label": train_labels[rows]}
                state, step, loss = train_step(state, step, batch)
                losses.append(loss)
            accuracy = evaluate(state.params, test_images, test_labels)
            print(f"step {step:3d}  loss {np.mean(losses):.3f}  accuracy {accuracy:.3f}")
        params = state.params


if __name__ == "__main__":
    main()
