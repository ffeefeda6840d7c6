"""Ways in which PyTorch code uses the batch, for `write_idioms.py`.

Each function is the `forward` of a small module; the sizes of its operands follow its name in
`IDIOMS`, with the batch as `B`. A size of 2 that is no batch stands in several on purpose.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, arange, nn
from torch.nn import functional

WIDTH, HEADS, ROWS, WORDS = 8, 2, 4, 16


class Net(nn.Module):
    """The parameters that idioms choose from."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(WIDTH, WIDTH)
        self.words = nn.Embedding(WORDS, WIDTH)
        self.places = nn.Embedding(ROWS, WIDTH)
        self.token = nn.Parameter(torch.randn(1, 1, WIDTH))
        self.first = nn.Parameter(torch.randn(WIDTH))
        self.kernel = nn.Parameter(torch.randn(WIDTH, WIDTH, 3, 3))
        self.bias_table = nn.Parameter(torch.randn(49, HEADS))
        self.norm = nn.GroupNorm(2, WIDTH)
        self.lstm = nn.LSTM(WIDTH, WIDTH, batch_first=True)
        self.gru = nn.GRU(WIDTH, WIDTH)
        self.cell = nn.GRUCell(WIDTH, WIDTH)
        self.attention = nn.MultiheadAttention(WIDTH, HEADS, batch_first=True)
        self.layer = nn.TransformerEncoderLayer(WIDTH, HEADS, 16, 0.0, batch_first=True)


def heads_of(x: Tensor) -> Tensor:
    b, s, _ = x.shape
    return x.view(b, s, HEADS, -1).transpose(1, 2)


# --- rows of each sample, picked


def rows_by_arange(net: Net, x: Tensor, at: Tensor) -> Tensor:
    return net.linear(x[arange(x.shape[0]), at])


def rows_by_argmax(net: Net, ids: Tensor) -> Tensor:
    x = net.words(ids)
    return net.linear(x[arange(x.shape[0]), ids.argmax(-1)])


def rows_by_pairs(net: Net, x: Tensor, at: Tensor) -> Tensor:
    return net.linear(x[arange(x.shape[0])[:, None], at])


def points_by_repeated_arange(net: Net, x: Tensor, at: Tensor) -> Tensor:
    b, s = at.shape
    return net.linear(x[arange(b).view(b, 1).repeat(1, s), at])


def last_rows(net: Net, x: Tensor, mask: Tensor) -> Tensor:
    return net.linear(x[arange(x.shape[0]), mask.sum(1) - 1])


def rows_by_flat_index(net: Net, x: Tensor, at: Tensor) -> Tensor:
    b, s, h = x.shape
    flat = (at + arange(b)[:, None] * s).view(-1)
    return net.linear(x.view(-1, h).index_select(0, flat).view(b, -1, h))


def rows_by_gather(net: Net, x: Tensor, at: Tensor) -> Tensor:
    return net.linear(x.gather(1, at[:, :, None].expand(-1, -1, x.shape[-1])))


def fixed_columns(net: Net, x: Tensor) -> Tensor:
    b = x.shape[0]
    return net.linear(x[arange(b)[:, None], torch.tensor([0, 2, 3])])


def every_second_row(net: Net, x: Tensor) -> Tensor:
    return net.linear(x.index_select(1, arange(0, x.shape[1], 2)))


def top_rows(net: Net, x: Tensor) -> Tensor:
    best = x.sum(-1).topk(2, dim=1).indices
    return net.linear(x.gather(1, best.unsqueeze(-1).repeat(1, 1, x.shape[-1])))


def beams(net: Net, x: Tensor, order: Tensor) -> Tensor:
    """Beams of each sample are put in another order, by rows counted over all of them."""
    b, k = order.shape
    flat = x.repeat_interleave(k, dim=0)
    y = flat.index_select(0, (order + arange(b)[:, None] * k).view(-1))
    return net.linear(y).view(b, k, -1)


# --- windows


def windows_as_strided(net: Net, x: Tensor) -> Tensor:
    b, s, h = x.shape
    strips = x.contiguous().as_strided((b, s // 2 - 1, 4, h), (s * h, 2 * h, h, 1))
    return net.linear(strips)


def windows_by_unfold(net: Net, x: Tensor) -> Tensor:
    return net.linear(x.unfold(1, 2, 1).transpose(2, 3))


def patches_by_unfold(net: Net, x: Tensor) -> Tensor:
    return net.linear(functional.unfold(x, 2, stride=2).transpose(1, 2))


def windows_of_images(net: Net, x: Tensor) -> Tensor:
    """Shifted windows with their mask, as in Swin."""
    b, side, _, c = x.shape
    w, n = side // 2, 4
    x = torch.roll(x, (-1, -1), (1, 2))
    parts = x.view(b, w, 2, w, 2, c).permute(0, 1, 3, 2, 4, 5).reshape(-1, n, c)
    q = parts.view(-1, n, HEADS, c // HEADS).transpose(1, 2)
    scores = q @ q.transpose(-2, -1)
    mask = torch.zeros(w * w, n, n).masked_fill(torch.ones(w * w, n, n).triu(1) > 0, -100.0)
    scores = scores.view(b, w * w, HEADS, n, n) + mask[None, :, None]
    seen = scores.view(-1, HEADS, n, n).softmax(-1) @ q
    parts = net.linear(seen.transpose(1, 2).reshape(-1, n, c))
    x = parts.view(b, w, w, 2, 2, c).permute(0, 1, 3, 2, 4, 5).reshape(b, side, side, c)
    return torch.roll(x, (1, 1), (1, 2))


def relative_shift(net: Net, x: Tensor) -> Tensor:
    """Scores of relative positions moved into place, as in Transformer-XL."""
    q = heads_of(net.linear(x))
    scores = q @ q.transpose(-2, -1)
    b, heads, s, t = scores.shape
    padded = torch.cat([torch.zeros(b, heads, s, 1), scores], dim=-1)
    return padded.view(b, heads, t + 1, s)[:, :, 1:].reshape(b, heads, s, t)


def chunked_rows(net: Net, x: Tensor) -> Tensor:
    """Rows in overlapping chunks, as in Longformer."""
    b, s, h = x.shape
    x = x.view(b, s // 2, 2, h)
    size, stride = list(x.size()), list(x.stride())
    size[1], stride[1] = size[1] * 2 - 1, stride[1] // 2
    return net.linear(x.as_strided(size, stride))


# --- masks and tables repeated for the batch


def mask_of_all_heads(net: Net, x: Tensor, mask: Tensor) -> Tensor:
    b, s, h = x.shape
    q = heads_of(net.linear(x)).reshape(b * HEADS, s, -1)
    scores = torch.bmm(q, q.transpose(1, 2)).masked_fill(mask.repeat(HEADS, 1, 1) > 0, -9.0)
    return torch.bmm(scores.softmax(-1), q).view(b, HEADS, s, -1).transpose(1, 2).reshape(b, s, h)


def mask_of_each_head(net: Net, x: Tensor, mask: Tensor) -> Tensor:
    b, s, h = x.shape
    q = heads_of(net.linear(x)).reshape(b * HEADS, s, -1)
    keep = mask[:, None].repeat_interleave(HEADS, dim=0)
    scores = torch.bmm(q, q.transpose(1, 2)) + keep
    return torch.bmm(scores.softmax(-1), q).view(b, HEADS, s, -1).transpose(1, 2).reshape(b, s, h)


def causal_mask_repeated(net: Net, x: Tensor) -> Tensor:
    b, s, _ = x.shape
    q = heads_of(net.linear(x)).reshape(b * HEADS, s, -1)
    future = torch.full((s, s), float("-inf")).triu(1).unsqueeze(0).repeat(b * HEADS, 1, 1)
    return torch.baddbmm(future, q, q.transpose(1, 2)).softmax(-1)


def causal_mask_expanded(net: Net, x: Tensor) -> Tensor:
    b, s, _ = x.shape
    q = heads_of(net.linear(x))
    keep = torch.ones(s, s).tril().bool()[None, None].expand(b, HEADS, s, s)
    return (q @ q.transpose(-2, -1)).masked_fill(~keep, -9.0).softmax(-1)


def slopes_repeated(net: Net, x: Tensor) -> Tensor:
    """Biases that grow with the distance, for batch and heads in one dimension (ALiBi)."""
    b, s, _ = x.shape
    q = heads_of(net.linear(x)).reshape(b * HEADS, s, -1)
    slopes = torch.tensor([0.5, 0.25])[:, None, None] * arange(s)[None, None, :]
    return torch.baddbmm(slopes.repeat(b, 1, 1), q, q.transpose(1, 2))


def slopes_of_a_mask(net: Net, x: Tensor, mask: Tensor) -> Tensor:
    """ALiBi as in Bloom: distances follow from the mask."""
    b, s, _ = x.shape
    q = heads_of(net.linear(x)).reshape(b * HEADS, s, -1)
    far = ((mask.cumsum(-1) - 1) * mask)[:, None, :]
    slopes = torch.tensor([0.5, 0.25])[:, None] * far.float()
    return slopes.view(b * HEADS, 1, s).baddbmm(q, q.transpose(1, 2))


def lengths_as_mask(net: Net, x: Tensor, lengths: Tensor) -> Tensor:
    keep = arange(x.shape[1])[None, :] < lengths[:, None]
    return net.linear(x) * keep[:, :, None]


def padding_and_future(net: Net, x: Tensor, mask: Tensor) -> Tensor:
    b, s, _ = x.shape
    q = heads_of(net.linear(x))
    past = torch.ones(s, s, dtype=torch.bool).tril().expand(b, 1, s, s)
    keep = past & mask[:, None, None, :].expand(b, 1, s, s).bool()
    bias = torch.zeros(b, 1, s, s).masked_fill(~keep, torch.finfo(torch.float).min)
    return functional.scaled_dot_product_attention(q, q, q, attn_mask=bias)


def window_mask(net: Net, x: Tensor) -> Tensor:
    b, s, _ = x.shape
    q = heads_of(net.linear(x))
    at = arange(s)
    near = (at[:, None] - at[None, :]).abs() <= 1
    scores = q @ q.transpose(-2, -1)
    return torch.where(near.expand(b, HEADS, s, s), scores, torch.tensor(-9.0)).softmax(-1)


def positions_expanded(net: Net, ids: Tensor) -> Tensor:
    at = arange(ids.shape[1]).expand(ids.shape[0], -1)
    return net.linear(net.words(ids) + net.places(at))


def positions_repeated(net: Net, ids: Tensor) -> Tensor:
    at = arange(ids.shape[1]).unsqueeze(0).repeat(ids.shape[0], 1)
    return net.linear(net.words(ids) + net.places(at))


def positions_like(net: Net, ids: Tensor) -> Tensor:
    at = torch.ones_like(ids).cumsum(1) - 1
    return net.linear(net.words(ids) + net.places(at))


def types_of_zeros(net: Net, ids: Tensor) -> Tensor:
    types = torch.zeros(ids.shape, dtype=torch.long)
    return net.linear(net.words(ids) + net.places(types))


def table_expanded(net: Net, x: Tensor) -> Tensor:
    b = x.shape[0]
    table = net.places.weight[None].expand(b, -1, -1)
    return net.linear(torch.cat([x, table], dim=-1)[..., :WIDTH])


def rotary(net: Net, x: Tensor) -> Tensor:
    b, s, _ = x.shape
    q = heads_of(net.linear(x))
    rates = 1.0 / 100 ** (arange(0, 4, 2).float() / 4)
    at = arange(s)[None, :].expand(b, -1).float()
    angles = (rates[None, :, None].expand(b, -1, 1) @ at[:, None, :]).transpose(1, 2)
    angles = torch.cat([angles, angles], dim=-1)[:, None]
    turned = torch.cat([-q[..., 2:], q[..., :2]], dim=-1)
    return q * angles.cos() + turned * angles.sin()


def steps_of_time(net: Net, x: Tensor, time: Tensor) -> Tensor:
    """Sines of a time of each sample, as in diffusion."""
    rates = torch.exp(-arange(WIDTH // 2).float())
    angles = time[:, None].float() * rates[None]
    found = net.linear(torch.cat([angles.sin(), angles.cos()], dim=-1))
    return x + found[:, None, :]


def grid_of_points(net: Net, x: Tensor) -> Tensor:
    """Coordinates of each position beside its features (CoordConv)."""
    b, _, h, w = x.shape
    rows, columns = torch.meshgrid(torch.linspace(0, 1, h), torch.linspace(0, 1, w), indexing="ij")
    grid = torch.stack([rows, columns])[None].repeat(b, 1, 1, 1)
    x = torch.cat([x[:, 2:], grid], dim=1)
    return functional.conv2d(x, net.kernel, padding=1)


def warped(net: Net, x: Tensor, flow: Tensor) -> Tensor:
    """An image read along a flow."""
    b, _, h, w = x.shape
    rows, columns = torch.meshgrid(
        torch.linspace(-1, 1, h), torch.linspace(-1, 1, w), indexing="ij"
    )
    grid = torch.stack([columns, rows], -1).unsqueeze(0).expand(b, h, w, 2) + flow
    seen = functional.grid_sample(x, grid, align_corners=True)
    return functional.conv2d(seen, net.kernel, padding=1)


def relative_bias(net: Net, x: Tensor) -> Tensor:
    q = heads_of(net.linear(x))
    at = arange(x.shape[1])
    index = (at[:, None] - at[None, :] + 3).view(-1)
    bias = net.bias_table[index].view(x.shape[1], x.shape[1], HEADS).permute(2, 0, 1)
    return q @ q.transpose(-2, -1) + bias.unsqueeze(0)


# --- along the batch


def halves_of_the_batch(net: Net, x: Tensor) -> Tensor:
    """Guidance: the two halves of the batch are the same samples."""
    plain, led = net.linear(torch.cat([x, x])).chunk(2)
    return plain + 3.0 * (led - plain)


def chunks_changed(net: Net, x: Tensor) -> Tensor:
    first, second = net.linear(x).chunk(2, dim=0)
    return torch.cat([second, first], dim=0)


def three_times(net: Net, x: Tensor) -> Tensor:
    q, k, v = net.linear(x.repeat(3, 1, 1)).view(3, *x.shape).unbind(0)
    return q * k + v


def flipped_twice(net: Net, x: Tensor) -> Tensor:
    return net.linear(torch.cat([x, x.flip(1)], dim=0)).view(2, *x.shape).mean(0)


def rolled_batch(net: Net, x: Tensor) -> Tensor:
    """Features next to those of another sample (mixup)."""
    return net.linear(0.7 * x + 0.3 * x.roll(1, dims=0))


def flipped_batch(net: Net, x: Tensor) -> Tensor:
    return net.linear(0.7 * x + 0.3 * x.flip(0))


def beside_first(net: Net, x: Tensor) -> Tensor:
    """The first sample is a reference for all."""
    return net.linear(x - x[:1])


def differences(net: Net, x: Tensor) -> Tensor:
    """Frames of one clip in the batch: each without the one before."""
    return net.linear(x[1:] - x[:-1])


def all_rows_together(net: Net, x: Tensor) -> Tensor:
    """Rows of all samples see one another."""
    b, s, h = x.shape
    y = net.linear(x).view(1, b * s, h)
    return ((y @ y.transpose(1, 2)).softmax(-1) @ y).view(b, s, h)


def minus_repeated_mean(net: Net, x: Tensor) -> Tensor:
    return net.linear(x - x.mean(0, keepdim=True).repeat(x.shape[0], 1, 1))


def neighbours(net: Net, x: Tensor) -> Tensor:
    """Frames of one clip in the batch: a part of the channels comes from the frame before."""
    b, s, h = x.shape
    clips = x.view(b // 2, 2, s, h)
    moved = torch.cat([torch.zeros(b // 2, 1, s, h), clips[:, :1]], dim=1)
    return net.linear(moved.view(b, s, h))


def similar_samples(net: Net, x: Tensor, y: Tensor) -> Tensor:
    """Every sample with every other (contrastive)."""
    return net.linear(x) @ net.linear(y).t()


def identity_of_batch(net: Net, x: Tensor) -> Tensor:
    y = net.linear(x)
    return y @ y.t() - torch.eye(x.shape[0])


def one_after_another(net: Net, x: Tensor) -> Tensor:
    return torch.stack([net.linear(x[i] * x[i].mean()) for i in range(x.shape[0])])


def minus_mean(net: Net, x: Tensor) -> Tensor:
    return net.linear(x - x.mean(0, keepdim=True))


def deviation_of_groups(net: Net, x: Tensor) -> Tensor:
    """Deviation among all samples as one more channel (StyleGAN)."""
    b, c, h, w = x.shape
    y = x.view(2, b // 2, 1, c, h, w)
    y = (y - y.mean(0)).square().mean(0).add(1e-8).sqrt().mean([2, 3, 4], keepdim=True).squeeze(2)
    return torch.cat([x[:, 1:], y.view(-1, 1, 1, 1).repeat(2, 1, h, w)], dim=1)


def kernel_of_each_sample(net: Net, x: Tensor, style: Tensor) -> Tensor:
    """Kernels modulated by sample, as one grouped convolution (StyleGAN2)."""
    b, c, h, w = x.shape
    kernels = net.kernel[None] * style[:, None, :, None, None]
    y = functional.conv2d(x.view(1, b * c, h, w), kernels.view(b * c, c, 3, 3), padding=1, groups=b)
    return y.view(b, c, h, w)


def instance_norm(net: Net, x: Tensor) -> Tensor:
    return functional.conv2d(functional.instance_norm(x), net.kernel)


def group_norm_by_view(net: Net, x: Tensor) -> Tensor:
    b, c, h, w = x.shape
    y = x.view(b, 2, -1)
    y = (y - y.mean(-1, keepdim=True)) / (y.var(-1, keepdim=True, unbiased=False) + 1e-5).sqrt()
    return functional.conv2d(y.view(b, c, h, w), net.kernel)


def group_norm(net: Net, x: Tensor) -> Tensor:
    return functional.conv2d(net.norm(x), net.kernel)


def channels_shuffled(net: Net, x: Tensor) -> Tensor:
    b, c, h, w = x.shape
    return functional.conv2d(
        x.view(b, 2, c // 2, h, w).transpose(1, 2).reshape(b, c, h, w), net.kernel
    )


def pixels_shuffled(net: Net, x: Tensor) -> Tensor:
    y = functional.conv2d(x, net.kernel, padding=1)
    return functional.pixel_unshuffle(functional.pixel_shuffle(y, 2), 2)


# --- flattened with the batch


def flat_rows(net: Net, x: Tensor) -> Tensor:
    return net.linear(x.view(-1, x.shape[-1])).view_as(x)


def flat_samples(net: Net, x: Tensor) -> Tensor:
    return functional.conv2d(x, net.kernel).flatten(1).sum(1).view(-1)


def heads_with_batch(net: Net, x: Tensor) -> Tensor:
    b, s, h = x.shape
    q = heads_of(net.linear(x)).flatten(0, 1)
    return (q @ q.mT).softmax(-1).bmm(q).unflatten(0, (b, HEADS)).transpose(1, 2).reshape(b, s, h)


def heads_behind_rows(net: Net, x: Tensor) -> Tensor:
    """Rows first, then batch and heads in one, as in the first implementation of PyTorch."""
    x = x.transpose(0, 1)
    s, b, h = x.shape
    q = net.linear(x).contiguous().view(s, b * HEADS, h // HEADS).transpose(0, 1)
    seen = torch.bmm(torch.bmm(q, q.transpose(1, 2)).softmax(-1), q)
    return net.linear(seen.transpose(0, 1).contiguous().view(s, b, h)).transpose(0, 1)


def by_einsum(net: Net, x: Tensor) -> Tensor:
    b, s, h = x.shape
    q = net.linear(x).view(b, s, HEADS, -1)
    scores = torch.einsum("bqhd,bkhd->bhqk", q, q).softmax(-1)
    return torch.einsum("bhqk,bkhd->bqhd", scores, q).reshape(b, s, h)


def attention_module(net: Net, x: Tensor, mask: Tensor) -> Tensor:
    return net.attention(x, x, x, key_padding_mask=mask > 0, need_weights=False)[0]


def encoder_layer(net: Net, x: Tensor) -> Tensor:
    return net.layer(x)


def loss_of_words(net: Net, ids: Tensor, labels: Tensor) -> Tensor:
    scores = net.words(ids) @ net.words.weight.t()
    return functional.cross_entropy(scores.view(-1, WORDS), labels.view(-1))


def mean_of_rows(net: Net, x: Tensor, mask: Tensor) -> Tensor:
    keep = mask[:, :, None].expand(x.shape).float()
    return net.linear((x * keep).sum(1) / keep.sum(1).clamp(min=1e-9))


# --- tables and counts of the batch


def one_hot_words(net: Net, ids: Tensor) -> Tensor:
    return functional.one_hot(ids, WORDS).float() @ net.words.weight


def scattered_words(net: Net, ids: Tensor) -> Tensor:
    bags = torch.zeros(ids.shape[0], WORDS).scatter(1, ids, 1.0)
    return net.linear(bags @ net.words.weight)


def counted_words(net: Net, ids: Tensor) -> Tensor:
    bags = torch.zeros(ids.shape[0], WORDS).scatter_add(1, ids, torch.ones(ids.shape))
    return net.linear(bags @ net.words.weight)


def offset_words(net: Net, ids: Tensor) -> Tensor:
    """Fields with tables of their own in one, as in factorisation machines."""
    return net.linear(net.words(ids + torch.tensor([0, 4, 8, 12]))).sum(1)


# --- caches and states


def cache_by_position(net: Net, x: Tensor, cache: Tensor) -> tuple[Tensor, Tensor]:
    q = heads_of(net.linear(x))
    cache = cache.clone()
    cache[:, :, 1:2] = q
    return q @ cache.transpose(-2, -1), cache


def cache_by_index_copy(net: Net, x: Tensor, cache: Tensor, at: Tensor) -> tuple[Tensor, Tensor]:
    q = heads_of(net.linear(x))
    cache = cache.index_copy(2, at, q)
    return q @ cache.transpose(-2, -1), cache


def cache_of_each_sample(net: Net, x: Tensor, cache: Tensor, at: Tensor) -> tuple[Tensor, Tensor]:
    q = heads_of(net.linear(x))
    cache = cache.index_put((arange(x.shape[0]), torch.tensor(0), at), q[:, 0, 0])
    return q @ cache.transpose(-2, -1), cache


def buffer_of_samples(net: Net, x: Tensor, at: Tensor) -> Tensor:
    """A buffer made here, of which each sample fills a row of its own."""
    rows = torch.zeros(x.shape)
    rows = rows.index_put((arange(x.shape[0]), at), net.linear(x[:, 0]))
    return net.linear(rows)


def cache_by_cat(net: Net, x: Tensor, cache: Tensor) -> tuple[Tensor, Tensor]:
    q = heads_of(net.linear(x))
    cache = torch.cat([cache, q], dim=2)
    return (q @ cache.transpose(-2, -1)).softmax(-1) @ cache, cache


def heads_of_keys_repeated(net: Net, x: Tensor, cache: Tensor) -> Tensor:
    b, _, s, d = cache.shape
    k = cache[:, :1, None].expand(b, 1, HEADS, s, d).reshape(b, HEADS, s, d)
    return heads_of(net.linear(x)) @ k.transpose(2, 3)


def lstm(net: Net, x: Tensor) -> Tensor:
    return net.lstm(x)[0]


def gru_with_state(net: Net, x: Tensor) -> Tensor:
    return net.gru(x.transpose(0, 1), torch.zeros(1, x.shape[0], WIDTH))[0].transpose(0, 1)


def unrolled_cell(net: Net, x: Tensor) -> Tensor:
    state = torch.zeros(x.shape[0], WIDTH)
    found = []
    for t in range(x.shape[1]):
        state = net.cell(x[:, t], state)
        found.append(state)
    return torch.stack(found, dim=1)


def unrolled_products(net: Net, x: Tensor) -> Tensor:
    state = net.first.expand(x.shape[0], -1)
    found = []
    for step in x.unbind(1):
        state = torch.tanh(net.linear(torch.cat([step[:, :4], state[:, 4:]], dim=1)))
        found.append(state)
    return torch.stack(found, 1)


# --- joined to every sample


def token_in_front(net: Net, x: Tensor) -> Tensor:
    x = torch.cat([net.token.expand(x.shape[0], -1, -1), x], dim=1)
    return net.linear(x)[:, 0]


def start_in_front(net: Net, ids: Tensor) -> Tensor:
    start = torch.full((ids.shape[0], 1), 3, dtype=torch.long)
    return net.linear(net.words(torch.cat([start, ids[:, :-1]], dim=1)))


def labels_moved(net: Net, ids: Tensor) -> Tensor:
    moved = ids.new_zeros(ids.shape)
    moved[:, 1:] = ids[:, :-1].clone()
    moved[:, 0] = 1
    return net.linear(net.words(moved.masked_fill(moved == 5, 0)))


def queries_behind(net: Net, x: Tensor) -> Tensor:
    """Learned queries repeated for the batch, which is the second dimension (DETR)."""
    x = x.transpose(0, 1)
    queries = net.places.weight.unsqueeze(1).repeat(1, x.shape[1], 1)
    scores = torch.einsum("qbh,sbh->bqs", queries, net.linear(x)).softmax(-1)
    return torch.einsum("bqs,sbh->bqh", scores, x)


def padded(net: Net, x: Tensor) -> Tensor:
    return net.linear(functional.pad(x, (0, 0, 1, 2)))


def stacked(net: Net, x: Tensor) -> Tensor:
    return torch.stack([x, net.linear(x)], dim=1).flatten(0, 1)


def split_widths(net: Net, x: Tensor) -> Tensor:
    a, b, c = net.linear(x).split([4, 2, 2], dim=-1)
    return torch.cat([a, b * c.sigmoid()], dim=-1)


def in_order(net: Net, x: Tensor) -> Tensor:
    order = x[..., 0].argsort(1)
    return net.linear(torch.take_along_dim(x, order[:, :, None], dim=1))


B = "B"
ROW = (B, ROWS, WIDTH)
IMAGE = (B, WIDTH, ROWS, ROWS)
IDS = "ids"
"""In front of the sizes of integers."""
SHORT = (B, 2, ROWS, ROWS)
IDIOMS: dict[Callable[..., Any], tuple[tuple[str | int, ...], ...]] = {
    rows_by_arange: (ROW, (IDS, B)),
    rows_by_argmax: ((IDS, B, ROWS),),
    rows_by_pairs: (ROW, (IDS, B, 3)),
    points_by_repeated_arange: (ROW, (IDS, B, 3)),
    last_rows: (ROW, (IDS, B, ROWS)),
    rows_by_flat_index: (ROW, (IDS, B, 3)),
    rows_by_gather: (ROW, (IDS, B, 3)),
    fixed_columns: (ROW,),
    every_second_row: (ROW,),
    top_rows: (ROW,),
    beams: ((B, WIDTH), (IDS, B, 3)),
    windows_as_strided: ((B, 8, WIDTH),),
    windows_by_unfold: (ROW,),
    patches_by_unfold: ((B, 2, ROWS, ROWS),),
    windows_of_images: ((B, 4, 4, WIDTH),),
    relative_shift: (ROW,),
    chunked_rows: ((B, 8, WIDTH),),
    mask_of_all_heads: (ROW, (IDS, B, ROWS, ROWS)),
    mask_of_each_head: (ROW, (B, ROWS)),
    causal_mask_repeated: (ROW,),
    causal_mask_expanded: (ROW,),
    slopes_repeated: (ROW,),
    slopes_of_a_mask: (ROW, (IDS, B, ROWS)),
    lengths_as_mask: (ROW, (IDS, B)),
    padding_and_future: (ROW, (IDS, B, ROWS)),
    window_mask: (ROW,),
    positions_expanded: ((IDS, B, ROWS),),
    positions_repeated: ((IDS, B, ROWS),),
    positions_like: ((IDS, B, ROWS),),
    types_of_zeros: ((IDS, B, ROWS),),
    table_expanded: (ROW,),
    rotary: (ROW,),
    steps_of_time: (ROW, (IDS, B)),
    grid_of_points: (IMAGE,),
    warped: (IMAGE, (B, ROWS, ROWS, 2)),
    relative_bias: (ROW,),
    halves_of_the_batch: (ROW,),
    chunks_changed: (ROW,),
    three_times: (ROW,),
    flipped_twice: (ROW,),
    rolled_batch: (ROW,),
    flipped_batch: (ROW,),
    beside_first: (ROW,),
    differences: (ROW,),
    all_rows_together: (ROW,),
    minus_repeated_mean: (ROW,),
    neighbours: (ROW,),
    similar_samples: ((B, WIDTH), (B, WIDTH)),
    identity_of_batch: ((B, WIDTH),),
    one_after_another: (ROW,),
    minus_mean: (ROW,),
    deviation_of_groups: (IMAGE,),
    kernel_of_each_sample: (IMAGE, (B, WIDTH)),
    instance_norm: (IMAGE,),
    group_norm_by_view: (IMAGE,),
    group_norm: (IMAGE,),
    channels_shuffled: (IMAGE,),
    pixels_shuffled: (IMAGE,),
    flat_rows: (ROW,),
    flat_samples: (IMAGE,),
    heads_with_batch: (ROW,),
    heads_behind_rows: (ROW,),
    by_einsum: (ROW,),
    attention_module: (ROW, (IDS, B, ROWS)),
    encoder_layer: (ROW,),
    loss_of_words: ((IDS, B, ROWS), (IDS, B, ROWS)),
    mean_of_rows: (ROW, (IDS, B, ROWS)),
    one_hot_words: ((IDS, B, ROWS),),
    scattered_words: ((IDS, B, ROWS),),
    counted_words: ((IDS, B, ROWS),),
    offset_words: ((IDS, B, 4),),
    cache_by_position: ((B, 1, WIDTH), SHORT),
    cache_by_index_copy: ((B, 1, WIDTH), SHORT, (IDS, 1)),
    cache_of_each_sample: ((B, 1, WIDTH), SHORT, (IDS, B)),
    buffer_of_samples: (ROW, (IDS, B)),
    cache_by_cat: ((B, 1, WIDTH), SHORT),
    heads_of_keys_repeated: ((B, 1, WIDTH), SHORT),
    lstm: (ROW,),
    gru_with_state: (ROW,),
    unrolled_cell: (ROW,),
    unrolled_products: (ROW,),
    token_in_front: (ROW,),
    start_in_front: ((IDS, B, ROWS),),
    labels_moved: ((IDS, B, ROWS),),
    queries_behind: (ROW,),
    padded: (ROW,),
    stacked: (ROW,),
    split_widths: (ROW,),
    in_order: (ROW,),
}
