"""Another batch: followed from the inputs, the same whatever the way to it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ir.batch import BatchError, batch_dims, find_batch, with_batch
from ir.graph import OpGraph, Role, graph_to_dict
from ir.normalise import normalise
from ir.ops import check_operators
from tests.builders import GraphBuilder, attention_block, mlp
from tests.ir.blocks import Form, block

FORMS = st.builds(
    Form,
    batch=st.sampled_from([1, 2, 3]),
    rows=st.sampled_from([1, 4, 5]),
    key_heads=st.sampled_from([1, 2, 4]),
    scale=st.sampled_from(["scores mul", "scores div", "operands", "none"]),
    mask=st.sampled_from(["none", "add", "batch", "where"]),
    guard=st.booleans(),
    cast=st.booleans(),
    dropout=st.booleans(),
)
BATCHES = st.sampled_from([2, 4, 6, 7, 12])


def sized(graph: OpGraph, batch: int) -> OpGraph:
    """With another batch, checked."""
    found = with_batch(graph, batch)
    found.validate()
    check_operators(found)
    assert found.batch == batch
    return found


@given(FORMS, BATCHES, BATCHES)
def test_a_batch_set_twice_is_the_batch_set_last(form: Form, first: int, then: int) -> None:
    graph = block(form)
    assert graph_to_dict(sized(sized(graph, first), then)) == graph_to_dict(sized(graph, then))


@given(FORMS, BATCHES)
def test_a_block_with_another_batch_is_the_block_built_with_it(form: Form, batch: int) -> None:
    built = block(Form(**{**{n: getattr(form, n) for n in Form.__slots__}, "batch": batch}))
    found = sized(block(form), batch)
    activations = [n for n, t in built.tensors.items() if t.role is not Role.CONSTANT]
    assert [found.tensors[n].dims for n in activations] == [
        built.tensors[n].dims for n in activations
    ]
    assert [op.kind for op in found.ops] == [op.kind for op in built.ops]


@given(FORMS, BATCHES)
def test_weights_keep_their_dims(form: Form, batch: int) -> None:
    graph = block(form)
    assert sized(graph, batch).parameters == graph.parameters


@pytest.mark.parametrize("graph", [mlp(3), attention_block()], ids=["mlp", "attention"])
def test_the_normal_form_is_the_same_before_and_after(graph: OpGraph) -> None:
    assert graph_to_dict(normalise(sized(graph, 24))) == graph_to_dict(sized(normalise(graph), 24))


def patches(with_expand: bool, batch: int = 1) -> OpGraph:
    """The head of a vision transformer: a class token in front of the patches of every image."""
    build = GraphBuilder("vit")
    image = build.input("image", (batch, 3, 8, 8))
    weight = build.weight("patch.weight", (16, 3, 4, 4))
    y = build.op("Conv", (image, weight), (batch, 16, 2, 2), kernel_shape=(4, 4), strides=(4, 4))
    y = build.op("Reshape", (y,), (batch, 16, 4))
    y = build.op("Transpose", (y,), (batch, 4, 16), perm=(0, 2, 1))
    token = build.weight("token", (1, 1, 16))
    if with_expand:
        token = build.op("Expand", (token,), (batch, 1, 16))
    y = build.op("Concat", (token, y), (batch, 5, 16), axis=1)
    position = build.weight("position", (1, 5, 16))
    y = build.op("Add", (y, position), (batch, 5, 16))
    y = build.op("Gather", (y, build.tensor("first", (), Role.CONSTANT, "int64")), (batch, 16),
                 axis=1)  # fmt: skip
    return build.build(y)


@pytest.mark.parametrize("with_expand", [True, False])
def test_a_token_for_every_image_gets_the_batch_where_it_joins(with_expand: bool) -> None:
    found = sized(patches(with_expand), 6)
    assert found.tensors[found.outputs[0]].dims == (6, 16)
    expands = [op for op in found.ops if op.kind == "Expand"]
    assert [found.tensors[op.outputs[0]].dims for op in expands] == [(6, 1, 16)]
    assert found.tensors["token"].dims == (1, 1, 16)
    assert found.tensors["position"].dims == (1, 5, 16)


@pytest.mark.parametrize("with_expand", [True, False])
def test_such_a_batch_too_is_the_batch_set_last(with_expand: bool) -> None:
    graph = patches(with_expand)
    assert graph_to_dict(sized(sized(graph, 4), 6)) == graph_to_dict(sized(graph, 6))


def test_a_constant_that_joins_is_widened_without_an_operator() -> None:
    build = GraphBuilder("filled")
    x = build.input("x", (1, 4))
    zero = build.tensor("zero", (1, 4), Role.CONSTANT)
    a = build.op("Concat", (x, zero), (1, 8), axis=1)
    b = build.op("Concat", (zero, x), (1, 8), axis=1)
    found = sized(build.build(build.op("Add", (a, b), (1, 8))), 5)
    assert [op.kind for op in found.ops] == ["Concat", "Concat", "Add"]
    assert {found.tensors[n].dims for op in found.ops for n in op.inputs} == {(5, 4), (5, 8)}


def test_a_batch_merged_with_rows_grows_with_them() -> None:
    build = GraphBuilder("merged")
    x = build.input("x", (2, 3, 8))
    y = build.op("Reshape", (x,), (6, 8))
    y = build.op("MatMul", (y, build.weight("w", (8, 4))), (6, 4))
    found = sized(build.build(build.op("Reshape", (y,), (2, 3, 4))), 10)
    assert [found.tensors[op.outputs[0]].dims for op in found.ops] == [
        (30, 8),
        (30, 4),
        (10, 3, 4),
    ]


def test_a_loss_over_the_batch_ends_it() -> None:
    build = GraphBuilder("loss")
    x = build.input("x", (2, 8))
    mean = build.op("ReduceMean", (x,), (1, 8), axes=(0,))
    found = sized(build.build(build.op("Sub", (x, mean), (2, 8))), 6)
    assert found.tensors[mean].dims == (1, 8)


def refusal(graph: OpGraph, batch: int = 8) -> str:
    with pytest.raises(BatchError) as caught:
        with_batch(graph, batch)
    return str(caught.value)


def test_a_batch_on_both_sides_of_a_product_names_it() -> None:
    build = GraphBuilder("gram")
    x = build.input("x", (2, 8))
    turned = build.op("Transpose", (x,), (8, 2), perm=(1, 0))
    graph = build.build(build.op("MatMul", (x, turned), (2, 2), name="gram"))
    message = refusal(graph)
    assert "op_gram (MatMul)" in message
    assert "fix:" in message


def test_an_operator_that_nobody_knows_names_itself() -> None:
    build = GraphBuilder("mystery")
    x = build.input("x", (2, 8))
    assert "op_odd (Mystery)" in refusal(build.build(build.op("Mystery", (x,), (2, 8), name="odd")))


def test_a_squeezed_batch_names_the_squeeze() -> None:
    build = GraphBuilder("squeezed")
    x = build.input("x", (1, 8))
    graph = build.build(build.op("Squeeze", (x,), (8,), name="flat", axes=(0,)))
    assert "op_flat (Squeeze)" in refusal(graph)


def test_a_batch_under_a_sort_names_it() -> None:
    build = GraphBuilder("sorted")
    x = build.input("x", (4, 8))
    graph = build.build(build.op("CumSum", (x,), (4, 8), name="sum", axis=0))
    assert "op_sum (CumSum)" in refusal(graph)


def test_a_batch_that_reaches_no_output_is_refused() -> None:
    build = GraphBuilder("mean")
    x = build.input("x", (4, 8))
    graph = build.build(build.op("ReduceMean", (x,), (8,), axes=(0,)))
    assert "no output depends on the batch" in refusal(graph)


@pytest.mark.parametrize("batch", [0, -1])
def test_a_batch_must_be_positive(batch: int) -> None:
    assert "positive" in refusal(mlp(2), batch)


def test_a_model_without_inputs_has_no_batch() -> None:
    build = GraphBuilder("weights only")
    graph = build.build(build.op("Relu", (build.weight("w", (4, 4)),), (4, 4)))
    assert find_batch(graph) == 0
    assert "no input" in refusal(graph)


def test_most_inputs_decide_what_the_batch_is() -> None:
    build = GraphBuilder("three")
    positions = build.input("positions", (5,))
    x, y = build.input("x", (2, 5)), build.input("y", (2, 5))
    total = build.op("Add", (build.op("Add", (x, y), (2, 5)), positions), (2, 5))
    graph = build.build(total)
    assert find_batch(graph) == 2
    assert sized(graph, 6).tensors[total].dims == (6, 5)


@pytest.mark.parametrize("kind", ["ScatterND", "ScatterElements"])
def test_a_batch_that_a_scatter_adds_up_ends_there(kind: str) -> None:
    """As in the gradient of a table: its rows have no batch, whatever was added to them."""
    build = GraphBuilder("table")
    ids, x = build.input("ids", (4, 1), "int64"), build.input("x", (4, 1 if "El" in kind else 6))
    table = build.tensor("zeros", (10, 1 if "El" in kind else 6), Role.CONSTANT)
    y = build.op(kind, (table, ids, x), build.tensors[table].dims, axis=0, reduction="add")
    found = sized(build.build(y, build.op("Neg", (x,), build.tensors[x].dims)), 8)
    assert found.tensors[y].dims == build.tensors[table].dims
    assert found.tensors[ids].dims == (8, 1)


def test_a_dimension_in_front_of_the_batch_may_be_its_groups() -> None:
    """`x.view(1, 2, 8)` of two samples: all of them in one group, or groups of two."""
    build = GraphBuilder("grouped")
    x = build.input("x", (2, 8))
    y = build.op("Relu", (build.op("Reshape", (x,), (1, 2, 8), name="group"),), (1, 2, 8))
    message = refusal(build.build(build.op("Reshape", (y,), (2, 8))), 6)
    assert "op_group (Reshape) can be read in two ways" in message


def test_sizes_that_agree_in_one_reading_alone_decide_it() -> None:
    """One convolution with a group for each sample: the batch is in the channels."""
    build = GraphBuilder("styled")
    x, style = build.input("x", (2, 4, 6, 6)), build.input("style", (2, 4))
    kernels = build.op("Reshape", (style,), (2, 1, 4, 1, 1))
    weight = build.weight("w", (1, 4, 4, 3, 3))
    kernels = build.op("Mul", (weight, kernels), (2, 4, 4, 3, 3))
    kernels = build.op("Reshape", (kernels,), (8, 4, 3, 3))
    wide = build.op("Reshape", (x,), (1, 8, 6, 6))
    y = build.op("Conv", (wide, kernels), (1, 8, 4, 4), group=2, kernel_shape=(3, 3))
    found = sized(build.build(build.op("Reshape", (y,), (2, 4, 4, 4))), 6)
    assert found.tensors[wide].dims == (1, 24, 6, 6)
    assert next(op for op in found.ops if op.kind == "Conv").attributes["group"] == 6


def test_copies_of_the_batch_come_apart_again() -> None:
    build = GraphBuilder("copies")
    x = build.input("x", (2, 8))
    twice = build.op("Concat", (x, x), (4, 8), axis=0)
    first, last = (
        build.op(
            "Slice", (twice,), (2, 8), axes=(0,), slice_axes=(0,), steps=(1,), starts=(start,),
            ends=(start + 2,),
        )
        for start in (0, 2)
    )  # fmt: skip
    found = sized(build.build(build.op("Sub", (last, first), (2, 8))), 6)
    assert found.tensors[twice].dims == (12, 8)
    slices = [op.attributes for op in found.ops if op.kind == "Slice"]
    assert [(a["starts"], a["ends"]) for a in slices] == [((0,), (6,)), ((6,), (12,))]


def test_bounds_of_a_slice_that_leave_the_batch_whole_grow_with_it() -> None:
    build = GraphBuilder("columns")
    x = build.input("x", (2, 8))
    y = build.op(
        "Slice", (x,), (2, 3), axes=(1,), slice_axes=(0, 1), starts=(0, 0), ends=(2, 3),
        steps=(1, 1),
    )  # fmt: skip
    found = sized(build.build(y), 6)
    assert found.ops[0].attributes["ends"] == (6, 3)


def test_a_loss_of_the_batch_is_an_output() -> None:
    build = GraphBuilder("loss of a batch")
    x = build.input("x", (4, 8))
    found = sized(build.build(build.op("ReduceMean", (x,), (), axes=(0, 1))), 6)
    assert found.tensors["x"].dims == (6, 8)


def outcome(graph: OpGraph, batch: int) -> OpGraph | str:
    try:
        return with_batch(graph, batch)
    except BatchError as error:
        return str(error)


@given(FORMS, st.lists(st.integers(1, 12), min_size=2, max_size=4))
def test_a_graph_that_had_other_batches_gives_what_a_new_one_gives(
    form: Form, batches: list[int]
) -> None:
    used = block(form)
    for batch in batches:
        assert outcome(used, batch) == outcome(block(form), batch)
    assert batch_dims(used) == batch_dims(block(form))
