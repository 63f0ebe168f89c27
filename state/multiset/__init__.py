"""Histories: ordered multisets of rows, one a key, in two layouts.

    interface   what a history does, one change at a time, and its reports (the meaning)
    packed      the list that means it
    kernel      the same for an epoch of many keys at once: changes, lives, timeline; quiet,
                adding: its short cuts; touched: what it is about to do
    strategy    which layout a history is kept in
    text        the packed layout: parse and write
    spread      the spread layout: names and fields; segments: which hash has a block; index: which
                entries match
    loading     what an epoch reads; probing: of spread histories, each a spread_history; matching:
                which changes it is for; assembling: what was read, put together
    memory      what a worker remembers of them; recalling: going on from it; known_index: their
                indexes; numbered: entries found by numbers
    writing     what it writes, given an epoch_result; spread_writing: of spread histories;
                block_lines: what stays there
    history     what people are shown
    registered  what a pipeline remembers of them; walk: when TTL was switched on late
    vectors     Arrow's bytes to Python's

Rows, keys and match columns are canonical bytes here, or codes; kinds of changes are unknown: a
change accumulates or retracts.
"""
