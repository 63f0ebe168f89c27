"""Typed keyed state for operators: what a key may hold, and how it is kept.

session.py     one epoch's cache, its handles and its writes; how to add a kind of state
cells.py       what a kind of state gives to a session, and the requests that load it
handle.py      access to a state for the current key, by the rules of its TTL
write_batch.py many small writes, gathered into few
value.py       one element a key: value; merging.py: reducing, aggregating (field_cell.py: one
               key; many_values.py: many in one go)
known_collection.py     what cells of lists, maps and sorted maps share
collection.py  many elements a key, packed or spread: what lists and maps share
               (collection_known.py, collection_cell.py: one key; collection_requests.py: what
               is read of it)
layout.py      the text of packed collections and the header of spread ones
lists.py       list
maps.py        map; many_maps.py: the maps of many keys in one go, many_cells.py where they have
               stamps; value_entries.py: values of many keys in the same way
sorted.py      sorted map: lists of values by ordered user keys, and their ranges
               (sorted_known.py, sorted_cell.py: one key; sorted_requests.py: what is read of
               it; sorted_places.py: counts and parts; sorted_text.py; intervals.py: what is
               known; sorted_packed.py: many keys as the texts that are stored)
timers.py      timers of keys, by time; untimed_keys.py: keys that lack one, as a TTL is switched
               on late
multisets.py   sequenced multiset, in the layout of state.multiset
               (multiset_cell.py, multiset_history.py: one key; multiset_look.py,
               multiset_order.py: what is read of it; multiset_text.py)
expiry.py      clean-up of what is expired
inspection.py  what people see of a key, without what is expired; listing.py: which keys there are
"""
