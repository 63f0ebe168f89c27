"""Which changes are about which entries of the histories that were loaded.

Changes come in groups of one key and one match (`kernel.Groups`). An entry of a spread history was
found by its index; one of a packed history is compared with the groups of its key.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from state.multiset.vectors import bytes_of, is_among

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from state.multiset.spread_history import SpreadHistory
    from state.multiset.text import PackedHistories
    from state.multiset.touched import Matching, Touched

    Integers = NDArray[np.int64]


_FEW = 256
"""Up to so many are compared one by one: starting Arrow's kernels would take longer."""


_SPAN_PER_GROUP = 8
"""Numbers that lie as close together as this have a table: that is sooner done than searching."""
_PAIRS_MAX = 1 << 62
"""Pairs of a key and a number are numbers below this."""


class EntriesToMatch(NamedTuple):
    """The entries that were loaded, by key and sequence number."""

    key_count: int
    """Of the touched keys and those that are due."""
    key: Integers
    sequence: Integers
    packed: PackedHistories
    packed_entry: Integers
    """Per entry: its place in `packed`; -1 for one that goes and was not read."""
    spread: Mapping[int, SpreadHistory]
    """By key."""


def groups_of_entries(touched: Touched, matching: Matching, entries: EntriesToMatch) -> Integers:
    """The group of changes that matches each loaded entry, -1 where none does to any effect."""
    group = np.full(entries.key.size, -1, np.int64)
    is_packed = np.ones(entries.key_count + 1, np.bool_)
    for key, history in entries.spread.items():
        is_packed[key] = False
        low, high = entries.key.searchsorted([key, key + 1])
        sequence = entries.sequence[low:high]
        found = is_among(history.found, sequence).nonzero()[0]
        place = low + np.searchsorted(sequence, history.found[found])
        group[place] = history.found_group[found]
    groups = _in_question(touched, entries.key[is_packed[entries.key]], entries.key_count)
    if not groups.size:
        return group
    wanted = np.zeros(entries.key_count, np.bool_)
    wanted[touched.group_key[groups]] = True
    candidates = (is_packed[entries.key] & wanted[entries.key]).nonzero()[0]
    owner, places = entries.key[candidates], entries.packed_entry[candidates]
    numbers = matching.numbers(groups, entries.packed.texts(places))
    if numbers is not None:
        of_groups, of_rows = numbers
        asked = touched.group_key[groups], of_groups, groups
        if _match_numbers(group, candidates, (owner, of_rows), asked):
            return group
    rows = entries.packed.rows(places)
    matches = matching.of_rows(rows)
    if 2 * candidates.size <= groups.size:
        groups = matching.narrow(groups, rows)
        if not groups.size:
            return group
    probes = matching.of_groups(groups)
    match = _match_few if candidates.size <= _FEW else _match_many
    match(group, candidates, (owner, matches), (touched.group_key[groups], probes, groups))
    return group


def _in_question(touched: Touched, keys: Integers, key_count: int) -> Integers:
    """Groups that an entry of these keys could match to any effect."""
    has_entries = np.zeros(key_count + 1, np.bool_)
    has_entries[keys] = True
    asked = has_entries[touched.group_key]
    if not touched.replace:
        # Where every addition is a new entry, an old one matters only to a retraction.
        asked = asked & touched.group_retracts
    return asked.nonzero()[0]


def _match_numbers(
    group: Integers,
    candidates: Integers,
    entries: tuple[Integers, Integers],
    asked: tuple[Integers, Integers, Integers],
) -> bool:
    """As `_match_few`, by numbers that stand for match columns; False where they are too large."""
    (owner, numbers), (keys, probes, groups) = entries, asked
    low, high = int(probes.min()), int(probes.max())
    span = high - low + 1
    near = ((numbers >= low) & (numbers <= high)).nonzero()[0]
    if span <= _SPAN_PER_GROUP * probes.size:
        table = np.full(span, -1)
        table[probes - low] = np.arange(probes.size)
        if np.count_nonzero(table >= 0) == probes.size:
            # No two keys have a number in question in common.
            place = table[numbers[near] - low]
            same = (place >= 0) & (keys[place] == owner[near])
            group[candidates[near[same]]] = groups[place[same]]
            return True
    if span >= _PAIRS_MAX // (int(keys.max()) + 1):
        return False
    wanted = keys * span + (probes - low)
    by_pair = None if (wanted[1:] > wanted[:-1]).all() else np.argsort(wanted)
    pairs = owner[near] * span + (numbers[near] - low)
    place = np.minimum(np.searchsorted(wanted, pairs, sorter=by_pair), wanted.size - 1)
    place = place if by_pair is None else by_pair[place]
    same = wanted[place] == pairs
    group[candidates[near[same]]] = groups[place[same]]
    return True


def _match_few(
    group: Integers,
    candidates: Integers,
    entries: tuple[Integers, pa.BinaryArray],
    asked: tuple[Integers, pa.BinaryArray, Integers],
) -> None:
    """Write the groups of a few candidates into `group`, one by one.

    Args:
        group: Of all entries.
        candidates: Entries to be matched.
        entries: Their keys and match columns.
        asked: Keys, match columns and numbers of the groups that may match them.
    """
    (owner, matches), (keys, probes, groups) = entries, asked
    if groups.size > _FEW:
        # Most match nothing; telling which in Arrow spares making Python's bytes of them.
        near = pc.is_in(probes, value_set=matches).to_numpy(zero_copy_only=False).nonzero()[0]
        keys, probes, groups = keys[near], probes.take(pa.array(near)), groups[near]
    wanted = set(bytes_of(matches))
    known = {
        pair: number
        for pair, number in zip(
            zip(keys.tolist(), bytes_of(probes), strict=True), groups.tolist(), strict=True
        )
        if pair[1] in wanted
    }
    pairs = zip(owner.tolist(), bytes_of(matches), strict=True)
    group[candidates] = [known.get(pair, -1) for pair in pairs]


def _match_many(
    group: Integers,
    candidates: Integers,
    entries: tuple[Integers, pa.BinaryArray],
    asked: tuple[Integers, pa.BinaryArray, Integers],
) -> None:
    """Write the groups of candidates into `group`, all at once; as `_match_few`."""
    (owner, matches), (keys, probes, groups) = entries, asked
    probes = probes.dictionary_encode()
    code = pc.index_in(matches, value_set=probes.dictionary).fill_null(-1).to_numpy()
    hit = (code >= 0).nonzero()[0]
    # The same upsert key may be in question for several keys: compare (key, code) pairs.
    width = len(probes.dictionary)
    pairs = keys * width + probes.indices.to_numpy()
    by_pair = np.argsort(pairs)
    wanted = owner[hit] * width + code[hit]
    place = np.minimum(np.searchsorted(pairs[by_pair], wanted), pairs.size - 1)
    same = pairs[by_pair[place]] == wanted
    group[candidates[hit[same]]] = groups[by_pair[place[same]]]
