"""Stable orders are those of Python's sort, whichever way the bound asks for."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from state.orders import stable_order

BOUNDS = (1, 10, 2**16, 2**16 + 1, 2**32, 2**32 + 1, 2**61, 2**63 - 1)


@pytest.mark.parametrize("bound", BOUNDS)
@given(data=st.data())
def test_equal_values_stay_in_their_order(bound: int, data: st.DataObject):
    few = data.draw(st.lists(st.integers(0, bound - 1), min_size=1, max_size=4))
    values = data.draw(st.lists(st.sampled_from(few), max_size=12))

    order = stable_order(np.array(values, np.int64), bound)

    assert order.tolist() == sorted(range(len(values)), key=values.__getitem__)
