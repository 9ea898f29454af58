"""The entry point `torch.backends`, which `import torch` calls, so that programs need not import the package.

A module of its own, since a program may import tutti_torch first: then `import torch` runs in the middle of that.
"""


def registered():
    """Importing the package has registered the backend, or will have."""
