"""Entries find their groups of changes alike, however many of either there are."""

import numpy as np
import pyarrow as pa
import pytest

from state.multiset.matching import _match_few, _match_many, _match_numbers


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

    group = np.full(entry_count, -1, np.int64)
    asked = (keys, np.array([match for _, match in pairs]), numbers)
    assert _match_numbers(group, np.arange(entry_count), (owner, wanted), asked)
    assert group.tolist() == expected
    # In any order of the groups, too.
    mixed = random.permutation(len(pairs))
    group = np.full(entry_count, -1, np.int64)
    asked = (keys[mixed], asked[1][mixed], numbers[mixed])
    assert _match_numbers(group, np.arange(entry_count), (owner, wanted), asked)
    assert group.tolist() == expected


@pytest.mark.parametrize("step", [1, 7, 9])
def test_numbers_of_one_key_each(step: int) -> None:
    """With a table where they are close together, and by searching where they are not."""
    random = np.random.default_rng(step)
    keys = np.sort(random.integers(0, 9, 100))
    probes = random.permutation(100) * step - 350
    owner = np.sort(random.integers(0, 9, 500))
    numbers = random.integers(-400, 700, 500)
    by_pair = {pair: at for at, pair in enumerate(zip(keys.tolist(), probes.tolist(), strict=True))}
    pairs = list(zip(owner.tolist(), numbers.tolist(), strict=True))
    assert by_pair.keys() & set(pairs)

    group = np.full(500, -1, np.int64)
    assert _match_numbers(group, np.arange(500), (owner, numbers), (keys, probes, np.arange(100)))

    assert group.tolist() == [by_pair.get(pair, -1) for pair in pairs]


def test_numbers_far_apart() -> None:
    far = np.iinfo(np.int64)
    group = np.full(3, -1, np.int64)
    entries = (np.array([0, 0, 1]), np.array([far.min, 5, far.max]))

    near = (np.array([0, 1]), np.array([5, 6]), np.array([7, 8]))
    assert _match_numbers(group, np.arange(3), entries, near)
    assert group.tolist() == [-1, 7, -1]

    wide = (np.array([0, 1]), np.array([far.min, far.max]), np.array([7, 8]))
    assert not _match_numbers(group, np.arange(3), entries, wide)
    one = (np.array([0]), np.array([far.min]), np.array([9]))
    assert _match_numbers(group, np.arange(3), entries, one)
    assert group.tolist() == [9, 7, -1]
