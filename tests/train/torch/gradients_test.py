"""The hand-written backward pass against PyTorch's: the same weights and batch, every parameter's gradient.

Its argument is the program that writes them. Skipped where this Python has no torch: see TUTTI_TORCH_PYTHON.
"""

import json
import pathlib
import subprocess
import sys
import unittest

try:
    import torch
except ImportError as error:
    torch = None
    REASON = f"{sys.executable} has no torch ({error}): set TUTTI_TORCH_PYTHON to a Python that has it"
else:
    REASON = ""
    sys.path.append(str(pathlib.Path(__file__).resolve().parents[3] / "bench/train_torch"))
    from gpt import Gpt

PROGRAM = sys.argv[1]


@unittest.skipIf(torch is None, REASON)
class Gradients(unittest.TestCase):
    def setUp(self):
        done = subprocess.run([PROGRAM], capture_output=True, text=True, timeout=60)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.ours = json.loads(done.stdout)
        torch.set_num_threads(1)
        names = ("layers", "width", "heads", "length", "vocabulary")
        self.model = Gpt(**{name: self.ours[name] for name in names})

    def run_model(self, dtype):
        """The loss, and the gradients by name."""
        model = self.model.to(dtype)
        parameters = dict(model.named_parameters())
        self.assertEqual(set(parameters), set(self.ours["parameters"]))
        for name, parameter in parameters.items():
            value = torch.tensor(self.ours["parameters"][name]["value"], dtype=dtype)
            parameter.data = value.reshape(parameter.shape)
            parameter.grad = None
        tokens, targets = (torch.tensor(self.ours[name]).view(-1, self.ours["length"])
                           for name in ("tokens", "targets"))
        loss = model(tokens, targets)
        loss.backward()
        return loss.item(), {name: parameter.grad.flatten().double() for name, parameter in parameters.items()}

    def test_loss_and_every_gradient_are_pytorchs(self):
        exact_loss, exact = self.run_model(torch.float64)
        torch_loss, theirs = self.run_model(torch.float32)
        self.assertAlmostEqual(self.ours["loss"] / exact_loss, 1, delta=1e-6)
        off, their_off = {}, {}
        for name, gradient in exact.items():
            mine = torch.tensor(self.ours["parameters"][name]["gradient"], dtype=torch.float64)
            off[name] = ((mine - gradient).norm() / gradient.norm()).item()
            their_off[name] = ((theirs[name] - gradient).norm() / gradient.norm()).item()
            with self.subTest(name):
                self.assertLess(off[name], 1e-5)
                self.assertLess((mine - gradient).abs().max().item(), 2e-5 * gradient.abs().max().item())
        worst = max(off, key=off.get)
        print(f"\n{len(exact)} parameters; farthest from PyTorch in f64: ours {off[worst]:.1e} ({worst}), PyTorch's own "
              f"f32 {max(their_off.values()):.1e}; loss {self.ours['loss']:.7f}, {torch_loss:.7f}")


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1] + sys.argv[2:], verbosity=2)
