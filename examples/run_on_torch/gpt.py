"""A small GPT in ordinary code, trained as planned.

python gpt.py export gpt.pt2                            the model as a file that a search reads
torchrun --nproc-per-node 2 gpt.py train plan/plan.json
"""
# mypy: ignore-errors
# ruff: noqa: ANN001, ANN201, ANN204, D101, INP001, PLC0415, T201

from __future__ import annotations

import sys

import torch
from torch import nn
from torch.nn import functional

VOCABULARY, TOKENS, WIDTH, HEADS, LAYERS, BATCH = 2048, 128, 256, 8, 4, 8


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm, self.qkv = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, 3 * WIDTH)
        self.out, self.last = nn.Linear(WIDTH, WIDTH), nn.LayerNorm(WIDTH)
        self.up, self.down = nn.Linear(WIDTH, 4 * WIDTH), nn.Linear(4 * WIDTH, WIDTH)

    def forward(self, x):
        batch, tokens, width = x.shape
        parts = self.qkv(self.norm(x)).split(width, -1)
        q, k, v = (y.view(batch, tokens, HEADS, -1).transpose(1, 2) for y in parts)
        found = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(found.transpose(1, 2).reshape(batch, tokens, width))
        return x + self.down(functional.gelu(self.up(self.last(x)), approximate="tanh"))


class GPT(nn.Module):
    def __init__(self):
        super().__init__()
        self.tokens, self.places = nn.Embedding(VOCABULARY, WIDTH), nn.Embedding(TOKENS, WIDTH)
        self.blocks = nn.ModuleList(Block() for _ in range(LAYERS))
        self.norm, self.head = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, VOCABULARY, bias=False)
        self.tokens.weight = self.head.weight
        nn.init.normal_(self.head.weight, std=0.02)

    def forward(self, ids, targets):
        x = self.tokens(ids) + self.places(torch.arange(ids.shape[1], device=ids.device))
        for block in self.blocks:
            x = block(x)
        return functional.cross_entropy(self.head(self.norm(x)).flatten(0, 1), targets.flatten())


def batch(seed):
    """Random tokens, each to be followed by the next."""
    generator = torch.Generator().manual_seed(seed)
    ids = torch.randint(VOCABULARY, (BATCH, TOKENS + 1), generator=generator)
    return ids[:, :-1].contiguous(), ids[:, 1:].contiguous()


def export(path):
    """Write the model to a file."""
    torch.export.save(torch.export.export(GPT(), batch(0)), path)


def train(plan):
    """Five steps, as a plan says."""
    from executors.torch import parallelize

    torch.manual_seed(0)
    model = parallelize(GPT(), plan, batch(0))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    for step in range(5):
        loss = model(*batch(0))
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        if torch.distributed.get_rank() == 0:
            print(f"step {step}: loss {loss.item():.4f}")
    if torch.distributed.get_rank() == 0:
        print(f"head.weight rests as {model.head.weight.placements}")
    torch.distributed.barrier()
    torch.distributed.destroy_process_group()


if __name__ == "__main__":
    {"export": export, "train": train}[sys.argv[1]](sys.argv[2])
