"""Pipelines of one or more stages: how a step is cut, laid out, bounded and written as a plan.

The doors are `one_batch.search_batch` (a step of one batch on one mesh) and
`pipeline_search.search_pipeline` (a global batch in stages and micro-batches). Both solve stages
(`solved`), which `stage_plan.plan_of` turns into a plan.

- What is asked: `preparation` (checks, the graph in normal form), `task` (what all parts of a
  search for a pipeline share), `infeasibility` (why nothing fits, and what would help).
- Where a network is cut: `segments`, `stage_cuts`, `chain`, `space` (stages and micro-batches).
- What stages cost: `prices`, `interval_tables`; `bounds` of configurations and of their order.
- Layouts of one configuration: `configuration`, `within_memory`, `soft_trade_off`, `unequal`.
- What is minimised beside time: `objectives`.
- From layouts to a plan: `mesh_collectives`, `plan_builder` (of one mesh), `stage_plan` (of all).
"""
