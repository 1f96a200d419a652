"""The commands, and their order, that make each table and figure of the four papers, as data.

  recipe   commands, experiments and tables
  mtg      35 experiments of each of four models, and what is made of them
  mrs      21 of each of three models
  clidsum  pipelines, end-to-end systems, ablations
  fewshot  six sweeps, and those of single tables
"""

from xlbench.benchmarks.experiments import clidsum, fewshot, mrs, mtg, recipe

RECIPES = {one.RECIPE.benchmark: one.RECIPE for one in (mtg, mrs, clidsum, fewshot)}

__all__ = ['RECIPES', 'clidsum', 'fewshot', 'mrs', 'mtg', 'recipe']
