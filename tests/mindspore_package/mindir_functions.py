"""Small networks as functions, for `mindir_operators`: MindSpore compiles their source."""

from __future__ import annotations

from typing import Any

import mindspore as ms
from mindspore import mint, ops
from mindspore.ops.auto_generate import gen_ops_prim as generated


def scalars(x: Any) -> Any:
    return (x + 2, x * 3.0, 1 - x, x / 2, x > 0.5, x**2)


def maskedfill(x: Any, m: Any) -> Any:
    return ops.masked_fill(x, m, -5.0)


def clamp(x: Any) -> Any:
    return ops.clamp(x, -0.5, 0.5)


def addcmul(x: Any, y: Any, z: Any) -> Any:
    return ops.addcmul(x, y, z, ms.Tensor([0.5], ms.float32))


def addn(x: Any, y: Any) -> Any:
    return ops.addn([x, y, x])


def cast(x: Any) -> Any:
    return ops.cast(x, ms.int32)


def glu(x: Any) -> Any:
    return ops.glu(x, 1)


def reshape(x: Any) -> Any:
    return ops.reshape(x, (6, -1))


def transpose(x: Any) -> Any:
    return ops.transpose(x, (2, 0, 1))


def swapaxes(x: Any) -> Any:
    return ops.swapaxes(x, 0, 2)


def expanddims(x: Any) -> Any:
    return ops.expand_dims(x, 1)


def squeeze(x: Any) -> Any:
    return ops.squeeze(x)


def broadcastto(x: Any) -> Any:
    return ops.broadcast_to(x, (5, 2, 3))


def tile(x: Any) -> Any:
    return ops.tile(x, (2, 1, 3))


def repeat_interleave(x: Any) -> Any:
    return ops.repeat_interleave(x, 2, 1)


def stack(x: Any, y: Any) -> Any:
    return ops.stack([x, y], 1)


def unstack(x: Any) -> Any:
    return ops.unbind(x, 1)


def split(x: Any) -> Any:
    return ops.split(x, 2, 2)


def split_sizes(x: Any) -> Any:
    return ops.split(x, [1, 3], 2)


def chunk(x: Any) -> Any:
    return ops.chunk(x, 2, 2)


def part(x: Any) -> Any:
    return ops.slice(x, (0, 1, 1), (2, -1, 2))


def slicing(x: Any) -> Any:
    return (x[:, 1], x[0], x[:, ::2], x[..., -1], x[1:, :2])


def backwards(x: Any) -> Any:
    return x[::-1]


def narrow(x: Any) -> Any:
    return ops.narrow(x, 1, 1, 2)


def pad(x: Any) -> Any:
    return ops.pad(x, (1, 2), value=0.5)


def reflect(x: Any) -> Any:
    return ops.pad(x, (1, 2), mode="reflect")


def flip(x: Any) -> Any:
    return ops.flip(x, (0, 2))


def roll(x: Any) -> Any:
    return ops.roll(x, 1, 1)


def tril(x: Any) -> Any:
    return ops.tril(x, 1)


def triu(x: Any) -> Any:
    return ops.triu(x)


def flatten(x: Any) -> Any:
    return ops.flatten(x, start_dim=1)


def filled(x: Any) -> Any:
    return x + ops.full((3, 4), 2.0) + ops.zeros((3, 4)) + ops.ones((4,))


def full_like(x: Any) -> Any:
    return x * ops.full_like(x, 3.0)


def counted(x: Any) -> Any:
    return x + ops.arange(0, 4).astype(ms.float32)


def gather(x: Any, i: Any) -> Any:
    return ops.gather(x, i, 0)


def gather_axis(x: Any, i: Any) -> Any:
    return ops.gather(x, i, 1)


def gatherd(x: Any, i: Any) -> Any:
    return ops.gather_elements(x, 1, i)


def index_select(x: Any, i: Any) -> Any:
    return ops.index_select(x, 1, i)


def scatternd(i: Any, x: Any) -> Any:
    return ops.scatter_nd(i, x, (6, 4))


def tensorscatterelements(x: Any, i: Any, u: Any) -> Any:
    return ops.tensor_scatter_elements(x, i, u, axis=1)


def one_hot(i: Any) -> Any:
    return ops.one_hot(i, 5, 1.0, 0.0)


def onehot_axis(i: Any) -> Any:
    return ops.OneHot(axis=0)(i, 5, ms.Tensor(3.0, ms.float32), ms.Tensor(1.0, ms.float32))


def method_sum(x: Any) -> Any:
    return (x.sum(), x.mean(1), x.sum(-1, keepdims=True))


def logsumexp(x: Any) -> Any:
    return ops.logsumexp(x, 1)


def topk(x: Any) -> Any:
    return ops.topk(x, 2)


def cumsum(x: Any) -> Any:
    return ops.cumsum(x, 1)


def std(x: Any) -> Any:
    return ops.std(x, 1)


def var(x: Any) -> Any:
    return ops.var(x, 1)


def cross_entropy(x: Any, y: Any) -> Any:
    return ops.cross_entropy(x, y)


def nllloss(x: Any, y: Any) -> Any:
    return ops.nll_loss(ops.log_softmax(x, 1), y)


def bilinear(x: Any) -> Any:
    return ops.interpolate(x, size=(14, 16), mode="bilinear")


def bilinear_corners(x: Any) -> Any:
    return ops.interpolate(x, size=(14, 16), mode="bilinear", align_corners=True)


def nearest(x: Any) -> Any:
    return ops.interpolate(x, size=(14, 16), mode="nearest")


def pixelshuffle(x: Any) -> Any:
    return ops.pixel_shuffle(x, 2)


def concat(x: Any, y: Any) -> Any:
    return ops.concat((x, y), 1)


def extended(x: Any, scale: Any, shift: Any, y: Any) -> Any:
    """Primitives of the newer interface."""
    z = mint.nn.functional.layer_norm(x + y, (8,), scale, shift, 1e-5)
    z, _, total = generated.AddRmsNorm()(z, y, scale, 1e-5)
    return mint.nn.functional.silu(z) + mint.add(total, y, alpha=2), generated.Swiglu()(z, -1)


def attention(query: Any, key: Any, value: Any, hidden: Any) -> Any:
    return ops.flash_attention_score(
        query, key, value, 4, attn_mask=hidden, scalar_value=0.5, input_layout="BNSD"
    )


def merged_attention(query: Any, key: Any, value: Any) -> Any:
    return ops.flash_attention_score(query, key, value, 4, scalar_value=0.5, input_layout="BSH")


def gelus(x: Any) -> Any:
    """In both forms, of the newer interface."""
    tangent = mint.nn.functional.gelu(x, approximate="tanh")
    return mint.nn.functional.gelu(x), tangent


def newer(x: Any) -> Any:
    """Views and reductions of the newer interface."""
    wide = mint.reshape(mint.transpose(x, 0, 1), (3, 8))
    rows = mint.cumsum(mint.cat((wide, wide), 1), 1)
    return mint.sum(rows, 1), mint.max(rows, 1), mint.topk(rows, 2, 1), mint.unsqueeze(x, 1)


def forward(x: Any, weight: Any, bias: Any) -> Any:
    return ops.softmax(ops.bias_add(ops.matmul(ops.relu(x), weight), bias), -1).square().sum()


def gradients(x: Any, weight: Any, bias: Any) -> Any:
    """The gradients that MindSpore makes of a small loss."""
    return ops.GradOperation(get_all=True)(forward)(x, weight, bias)
