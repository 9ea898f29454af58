"""A small transformer, its batches and its loss: what the trainings of training_test.py have in common."""

import functools

import torch
import torch.nn.functional as F
from torch import nn

VOCABULARY, WIDTH, HEADS, LENGTH, LAYERS, BATCH = 64, 32, 4, 16, 2, 4


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.query, self.key, self.value = (nn.Linear(WIDTH, WIDTH) for _ in range(3))
        self.out = nn.Linear(WIDTH, WIDTH)
        self.attend = functools.partial(F.scaled_dot_product_attention, is_causal=True)  # context parallel: other ones

    def forward(self, x):
        q, k, v = (part(x).unflatten(-1, (-1, WIDTH // HEADS)).transpose(1, 2)
                   for part in (self.query, self.key, self.value))
        return self.out(self.attend(q, k, v).transpose(1, 2).flatten(2))


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.attention = Attention()
        self.up, self.down = nn.Linear(WIDTH, 4 * WIDTH), nn.Linear(4 * WIDTH, WIDTH)

    def forward(self, x):
        x = x + self.attention(self.norm1(x))
        return x + self.down(F.gelu(self.up(self.norm2(x))))


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.tokens, self.places = nn.Embedding(VOCABULARY, WIDTH), nn.Embedding(LENGTH, WIDTH)
        self.blocks = nn.ModuleList(Block() for _ in range(LAYERS))
        self.head = nn.Linear(WIDTH, VOCABULARY)

    def forward(self, tokens, first=0):
        x = self.tokens(tokens) + self.places(torch.arange(first, first + tokens.shape[1]))
        for block in self.blocks:
            x = block(x)
        return self.head(x)


def model():
    torch.manual_seed(1)
    return Model()


def batch(step, part):
    """Tokens and targets; other ones for each part of a step's batch."""
    random = torch.Generator().manual_seed(1000 * step + part)
    tokens = torch.randint(VOCABULARY, (BATCH, LENGTH + 1), generator=random)
    return tokens[:, :-1], tokens[:, 1:]


def loss_of(logits, targets):
    return F.cross_entropy(logits.flatten(0, 1), targets.flatten())


def train(module, steps, part, optimizer=None, first_step=0):
    """The losses of some steps."""
    optimizer = optimizer or torch.optim.Adam(module.parameters(), lr=1e-2)
    losses = []
    for step in range(first_step, first_step + steps):
        tokens, targets = batch(step, part)
        optimizer.zero_grad()
        loss = loss_of(module(tokens), targets)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses
