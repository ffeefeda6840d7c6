"""Layouts of one planned model for torch.distributed.tensor.

An entry lists one placement for each dimension of the DeviceMesh. Names are those of the model
file that was planned. torch is imported when a function is called.
"""

MESH_DIMS = (('c1', 4), ('server', 2), ('c0', 2))
"""Dimensions of the DeviceMesh with their sizes."""

RANKS = (0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15)
"""Ranks of the DeviceMesh, row-major over its dimensions."""

PARAMETERS = {
    'p0': ('Shard(1)', 'Shard(0)', 'Shard(1)'),
    'p1': ('Replicate()', 'Shard(0)', 'Shard(0)'),
    'p2': ('Shard(1)', 'Replicate()', 'Replicate()'),
    'p3': ('Shard(0)', 'Shard(0)', 'Shard(0)'),
    'p4': ('Shard(0)', 'Shard(0)', 'Shard(0)'),
    't.file': ('Shard(0)', 'Shard(1)', 'Shard(0)'),
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


def device_mesh(device_type="cuda"):
    """The DeviceMesh; every rank of the job calls this."""
    import torch
    from torch.distributed.device_mesh import DeviceMesh

    if torch.distributed.is_initialized() and torch.distributed.get_world_size() != len(RANKS):
        world = torch.distributed.get_world_size()
        raise ValueError(f"planned for {len(RANKS)} ranks, not for {world}")
    ranks = torch.tensor(RANKS).reshape([size for _, size in MESH_DIMS])
    return DeviceMesh(device_type, ranks, mesh_dim_names=tuple(name for name, _ in MESH_DIMS))


def placements(entry):
    """The placements of an entry of any table above."""
    from torch.distributed.tensor import Partial, Replicate, Shard

    known = {"Replicate()": Replicate, "Partial()": Partial}
    return [known[p]() if p in known else Shard(int(p[6:-1])) for p in entry]


def distribute(module, mesh, rename=lambda name: name):
    """Make DTensors of all parameters of a module, laid out as they are stored.

    `rename` turns a parameter's name in the module into one of the model file.
    """
    import torch
    from torch.distributed.tensor import distribute_tensor

    unknown = [name for name, _ in module.named_parameters() if rename(name) not in PARAMETERS]
    if unknown:
        raise KeyError(f"{len(unknown)} parameters are not in the plan, such as {unknown[0]!r}")
    done = {}
    for prefix, owner in list(module.named_modules()):
        for last, value in list(owner.named_parameters(recurse=False)):
            if value not in done:
                name = rename(f"{prefix}.{last}" if prefix else last)
                laid_out = distribute_tensor(value.data, mesh, placements(PARAMETERS[name]))
                done[value] = torch.nn.Parameter(laid_out, requires_grad=value.requires_grad)
            owner.register_parameter(last, done[value])
    return module


def use(name, value):
    """A parameter in the layout in which its operator reads it, gathered if need be."""
    return value.redistribute(placements=placements(USED.get(name, PARAMETERS[name])))


def constrain(name, value):
    """An input or a result in its layout; unchanged if it has none, or is a sum still in terms."""
    for table in (SHARED, INPUTS, ACTIVATIONS):
        if name in table:
            return _redistributed(value, table[name])
    return value


def operand(operator, index, value):
    """An operand in the layout in which its operator reads it."""
    entry = OPERANDS.get((operator, index))
    return value if entry is None else _redistributed(value, entry)


def _redistributed(value, entry):
    partial = "Partial()" in entry
    return value if partial else value.redistribute(placements=placements(entry))
