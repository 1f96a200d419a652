"""A train step of xlbench as speed scripts take it: fresh parameters, and the same batch again."""

from collections.abc import Callable, Mapping

from contest import RATE

ADAMW = {'name': 'adamw', 'learning_rate': RATE, 'schedule': 'constant'}
# Ours compile first, and find where their memory lies (training/train_step.py).
WARMUPS = {'torch': 3, 'xlbench': 8}


def start(dtype: str) -> dict[str, str]:
    """Starts jax as xlbench.train does; the fields of a model's config that stand for a dtype.

    On a CPU bfloat16 pays as the type of operands, with float32 between the products.
    """
    import jax

    from xlbench.parallel import freed_memory

    freed_memory.run_inline()
    return {'matmul_dtype' if jax.default_backend() == 'cpu' else 'dtype': dtype}


def xlbench_step(model, objective, batch: Mapping, optimizer: Mapping = ADAMW) -> Callable:
    """A function that trains on one batch with xlbench's compiled step.

    Args:
      model: what `models.build` returned.
      objective: what `objectives.build` returned.
      batch: arrays of the features that the objective's view has.
      optimizer: the block of a stage.

    Returns:
      The step, which returns the batch's loss divided by its weight. Its attributes: `parameters`,
      their number, and `run`, the TrainStep.
    """
    import jax

    from xlbench.parallel import partitioning
    from xlbench.training import memory, optimizers, train_step

    mesh = partitioning.make_mesh(devices=jax.devices()[:1])
    tx, schedule = optimizers.build(**optimizer, num_steps=1_000_000)
    params = train_step.init_params(model, objective, mesh, jax.random.key(0))
    mask = optimizers.trainable_mask(params)
    state = [train_step.init_state(tx, params, mask)]
    parameters = sum(leaf.size for leaf in jax.tree.leaves(params))
    del params  # The first step consumes them.
    function = train_step.make_train_step(model, objective, tx, schedule, mask)

    def compiled(run):
        run.keeps_memory = memory.keep_freed(run.memory, mesh)

    run = train_step.TrainStep(function, jax.random.key(1), on_compile=compiled)
    batch = partitioning.put_batch(dict(batch), mesh)

    def step() -> float:
        state[0], metrics = run(state[0], batch)
        jax.block_until_ready(state[0])
        return float(metrics['loss']) / float(metrics['weight'])

    step.parameters, step.run = parameters, run
    return step
