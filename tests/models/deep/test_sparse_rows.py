"""Products of sparse rows with a table that is trained."""

import numpy as np
import pytest
from scipy import sparse

torch = pytest.importorskip("torch", reason="needs the extra: pip install torch")

from recbench.models.deep.nets.sparse_rows import summed


def test_a_product_and_its_derivatives_are_those_of_a_dense_one():
    """Of rows and columns without entries, too; the gradient has the other rows alone."""
    dense = np.random.default_rng(0).random((6, 9)).round(1)
    dense[dense < 0.6] = dense[2] = dense[:, 4] = 0
    made = sparse.csr_array(dense)
    parts = [torch.as_tensor(part) for part in (made.indptr, made.indices, made.data)]
    tables = [torch.ones(9, 4, dtype=torch.float64, requires_grad=True) for _ in range(2)]
    weights = torch.arange(24, dtype=torch.float64).reshape(6, 4)
    sums = summed(*parts, tables[0]), torch.as_tensor(dense) @ tables[1]
    assert torch.allclose(*sums)
    for each in sums:
        (each * weights).square().sum().backward()
    gradient = tables[0].grad.coalesce()
    assert torch.allclose(gradient.to_dense(), tables[1].grad)
    assert gradient.indices()[0].tolist() == np.unique(made.indices).tolist()
