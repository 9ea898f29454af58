"""tutti train's GPT in PyTorch: the same parameters by the same names and shapes, the same mathematics."""

import torch
from torch import nn
from torch.nn import functional


class Linear(nn.Module):
    """x · Wᵀ + b, as nn.Linear: the test of gradients sets the values, the benchmark takes these."""

    def __init__(self, inputs, outputs, biased=True):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(outputs, inputs) * 0.02)
        self.bias = nn.Parameter(torch.zeros(outputs)) if biased else None

    def forward(self, x):
        return functional.linear(x, self.weight, self.bias)


class LayerNorm(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.gain = nn.Parameter(torch.ones(width))
        self.bias = nn.Parameter(torch.zeros(width))

    def forward(self, x):
        return functional.layer_norm(x, self.gain.shape, self.gain, self.bias, eps=1e-5)


class Mlp(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.up, self.down = Linear(width, 4 * width), Linear(4 * width, width)

    def forward(self, x):
        return self.down(functional.gelu(self.up(x), approximate="tanh"))


class Embedding(nn.Module):
    def __init__(self, vocabulary, length, width):
        super().__init__()
        self.token = nn.Parameter(torch.randn(vocabulary, width) * 0.02)
        self.position = nn.Parameter(torch.randn(length, width) * 0.02)

    def forward(self, tokens):
        return functional.embedding(tokens, self.token) + self.position[:tokens.shape[1]]


class Block(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.norm1, self.qkv, self.projection = LayerNorm(width), Linear(width, 3 * width), Linear(width, width)
        self.norm2, self.mlp = LayerNorm(width), Mlp(width)

    def attention(self, x):
        sequences, length, width = x.shape
        parts = self.qkv(x).view(sequences, length, 3, self.heads, width // self.heads).permute(2, 0, 3, 1, 4)
        out = functional.scaled_dot_product_attention(*parts, is_causal=True)
        return self.projection(out.transpose(1, 2).reshape(x.shape))

    def forward(self, x):
        h = x + self.attention(self.norm1(x))
        return h + self.mlp(self.norm2(h))


class Head(nn.Module):
    """The mean cross-entropy."""

    def __init__(self, vocabulary, width):
        super().__init__()
        self.norm = LayerNorm(width)
        self.weight = nn.Parameter(torch.randn(vocabulary, width) * 0.02)

    def forward(self, x, targets):
        logits = functional.linear(self.norm(x), self.weight)
        return functional.cross_entropy(logits.flatten(0, 1), targets.flatten())


class Gpt(nn.Module):
    def __init__(self, layers, width, heads, length, vocabulary=256):
        super().__init__()
        self.embedding = Embedding(vocabulary, length, width)
        self.block = nn.ModuleList(Block(width, heads) for _ in range(layers))
        self.head = Head(vocabulary, width)

    def units(self):
        """What tutti train shards and gathers as a whole, in order."""
        return [self.embedding, *self.block, self.head]

    def forward(self, tokens, targets):
        x = self.embedding(tokens)
        for block in self.block:
            x = block(x)
        return self.head(x, targets)
