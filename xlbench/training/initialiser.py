"""Fresh parameters: their shapes, where they lie, and the program that makes them."""

from concurrent.futures import Future, ThreadPoolExecutor

import flax.linen as nn
import jax
from jax.sharding import Mesh

from xlbench.models.lora import Lora
from xlbench.parallel import partitioning
from xlbench.training.objectives.contract import Objective
from xlbench.trees import Params, Shapes, Shardings, Tree


class Initialiser:
    """Makes fresh parameters; the model is traced once, for their shapes and for the program.

    Args:
      model: a Linen module.
      objective: what the model is trained for.
      mesh: the devices, each of which fills only its own part.
      lora: what is adapted, if anything.

    Attributes:
      shapes: of the parameters.
      shardings: of the parameters.
    """

    def __init__(self, model: nn.Module, objective: Objective, mesh: Mesh, lora: Lora | None):
        def init(rng: jax.Array) -> Tree[nn.meta.AxisMetadata[jax.Array]]:
            params = model.init(rng, *objective.example_inputs())['params']
            return params if lora is None else lora.add(params, jax.random.fold_in(rng, 1))

        rng = jax.eval_shape(jax.random.key, 0)
        boxed = jax.jit(init).eval_shape(rng)
        self.shapes: Shapes = nn.unbox(boxed)
        self.shardings: Shardings = partitioning.param_shardings(boxed, mesh)
        # The same function, so that jax need not trace it again.
        out_shardings = nn.meta.replace_boxed(boxed, self.shardings)
        self._program = jax.jit(init, out_shardings=out_shardings)
        self._compiling: Future[jax.stages.Compiled] | None = None

    def compile_ahead(self, rng: jax.Array) -> None:
        """Compiles the program in a thread, while the caller does other things.

        Args:
          rng: any key like the one to come.
        """
        thread = ThreadPoolExecutor(1, 'initialiser')
        self._compiling = thread.submit(lambda: self._program.lower(rng).compile())
        thread.shutdown(wait=False)

    def __call__(self, rng: jax.Array) -> Params:
        """Fresh parameters, on the devices."""
        compiled, self._compiling = self._compiling, None
        return nn.unbox((compiled.result() if compiled else self._program)(rng))
