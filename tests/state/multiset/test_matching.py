"""Entries find their groups of changes alike, however many of either there are."""

import numpy as np
import pyarrow as pa
import pytest

from state.multiset.matching import _match_few, _match_many


@pytest.mark.parametrize("group_count", [1, 3, 256, 257, 2_000])
@pytest.mark.parametrize("entry_count", [1, 40, 300])
def test_one_by_one_and_all_at_once_are_the_same(group_count: int, entry_count: int) -> None:
    random = np.random.default_rng(group_count * 1_000 + entry_count)
    pairs = sorted({(int(k), int(m)) for k, m in random.integers(0, 60, (group_count, 2))})
    numbers = np.arange(len(pairs)) * 2
    keys = np.array([key for key, _ in pairs])
    probes = pa.array([b"[%d]" % match for _, match in pairs], pa.binary())
    owner = np.sort(random.integers(0, 60, entry_count))
    wanted = random.integers(0, 60, entry_count)
    matches = pa.array([b"[%d]" % each for each in wanted], pa.binary())
    by_pair = dict(zip(pairs, numbers.tolist(), strict=True))
    expected = [by_pair.get(pair, -1) for pair in zip(owner.tolist(), wanted.tolist(), strict=True)]

    for match in (_match_few, _match_many):
        group = np.full(entry_count, -1, np.int64)
        match(group, np.arange(entry_count), (owner, matches), (keys, probes, numbers))
        assert group.tolist() == expected
