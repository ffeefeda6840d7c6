"""Layouts of one planned model for JAX.

An entry lists for each dimension of a tensor the mesh axes that split it, outermost first. Names
are those of the model file that was planned. JAX is imported when a function is called.
"""

AXES = (('server', 2), ('c0', 2), ('c1', 4))
"""Mesh axes with their sizes, outermost first."""

DEVICES = (0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15)
"""For each rank, row-major over the axes, its place in the list of devices."""

PARAMETERS = {
    'p0': (('server',), ('c1', 'c0')),
    'p1': (('c0', 'server'), ()),
    'p2': ((), ('c1',)),
    'p3': (('c1', 'server', 'c0'), ()),
    'p4': (('server', 'c0', 'c1'), ()),
    't.file': (('c0', 'c1'), ('server',)),
}
"""Parameters between their uses: what is stored."""

USED = {}
"""Parameters that their operators read in another layout: what is gathered for use."""

INPUTS = {}
"""Inputs of the model."""

SHARED = {}
"""Tensors with several readers: the layout to bring them into, once for all."""

ACTIVATIONS = {}
"""Results of operators, as they are made."""

OPERANDS = {}
"""Operands of operators, by operator and position, as they are read."""

PARTIAL = {}
"""Results that are left as terms of a sum over these axes: give them no constraint."""


def mesh(devices=None):
    """The mesh over these devices, or over all that JAX sees."""
    import jax
    import numpy

    found = list(jax.devices() if devices is None else devices)
    if len(found) != len(DEVICES):
        raise ValueError(f"planned for {len(DEVICES)} devices, not for {len(found)}")
    ordered = numpy.empty(len(found), dtype=object)
    ordered[:] = [found[index] for index in DEVICES]
    names = tuple(name for name, _ in AXES)
    return jax.sharding.Mesh(ordered.reshape([size for _, size in AXES]), names)


def partition_spec(entry):
    """The PartitionSpec of an entry of any table above."""
    import jax

    return jax.sharding.PartitionSpec(*(axes if axes else None for axes in entry))


def partition_specs(table):
    """A dict of PartitionSpecs from one of the tables above."""
    return {name: partition_spec(entry) for name, entry in table.items()}


def shardings(table, where):
    """A dict of NamedShardings on a mesh from one of the tables above."""
    import jax

    specs = partition_specs(table).items()
    return {name: jax.sharding.NamedSharding(where, spec) for name, spec in specs}


def place(parameters, where, rename=lambda name: name):
    """A flat dict of parameters, laid out on a mesh as they are stored.

    `rename` turns a name of the dict into one of the model file.
    """
    import jax

    found = shardings(PARAMETERS, where)
    unknown = [name for name in parameters if rename(name) not in found]
    if unknown:
        raise KeyError(f"{len(unknown)} parameters are not in the plan, such as {unknown[0]!r}")
    return {n: jax.device_put(value, found[rename(n)]) for n, value in parameters.items()}


def use(name, value, where):
    """A parameter inside jit, in the layout in which its operator reads it."""
    return _constrained(value, USED.get(name, PARAMETERS[name]), where)


def constrain(name, value, where):
    """An input or a result inside jit, in its layout; unchanged if it has none."""
    for table in (SHARED, INPUTS, ACTIVATIONS):
        if name in table:
            return _constrained(value, table[name], where)
    return value


def operand(operator, index, value, where):
    """An operand inside jit, in the layout in which its operator reads it."""
    entry = OPERANDS.get((operator, index))
    return value if entry is None else _constrained(value, entry, where)


def _constrained(value, entry, where):
    import jax

    sharding = jax.sharding.NamedSharding(where, partition_spec(entry))
    return jax.lax.with_sharding_constraint(value, sharding)
