import numpy as np
import pytest
import torch

from wye.router.scorer import AttentionMlp
from wye.training.fit.scorers import AttentionMlpModule

SHAPES = [(85, (256, 128, 64)), (6, (6, 6, 3)), (1, (1,))]


@pytest.mark.parametrize(("inputs", "hidden"), SHAPES)
def test_what_serves_computes_what_was_trained(inputs: int, hidden: tuple[int, ...]) -> None:
    torch.manual_seed(0)
    module = AttentionMlpModule(inputs, hidden, 0.3).eval()
    network = AttentionMlp(module.tensors())
    points = np.random.default_rng(0).normal(scale=2, size=(40, inputs))

    single = module(torch.tensor(points, dtype=torch.float32)).detach().numpy()
    served = np.array([network.logit(row) for row in points])
    np.testing.assert_allclose(served, single, atol=1e-6)

    module.double()
    x = torch.tensor(points, requires_grad=True)
    logits = module(x)
    np.testing.assert_allclose(served, logits.detach().numpy(), rtol=0, atol=1e-12)
    logits.sum().backward()
    assert x.grad is not None
    np.testing.assert_allclose(network.gradients(points), x.grad.numpy(), rtol=0, atol=1e-12)


def test_dropout_is_for_training_only() -> None:
    module = AttentionMlpModule(4, (8,), 0.5)
    x = torch.ones(1, 4)
    assert len({module(x).item() for _ in range(20)}) > 1
    module.eval()
    assert len({module(x).item() for _ in range(20)}) == 1


def test_weights_are_copies() -> None:
    module = AttentionMlpModule(2, (2,), 0.0)
    before = module.tensors()
    with torch.no_grad():
        module.head.bias.add_(1)
    assert module.tensors()["head.bias"] == before["head.bias"] + 1
