"""Keyed state: bytes, time and order; it knows neither rows' meaning nor kinds of change.

types                     Flink's logical types (logical_type, type_parse, type_format)
codec                     rows as canonical bytes, columns, and JSON of outside: values, columns,
                          arrow_values, json_values, json_lines, line_shapes, text_columns,
                          debezium_types
joined_rows, row_pieces, digits     texts of many rows, written and read without a step for each
key_groups                the unit of state, of commit and of rescale
lexicographic             values as text that is ordered as they are; ordered_text,
                          ordered_columns; orders: stable orders of numbers
descriptors, registry     what a state is, and what a pipeline remembers of it
ttl                       when an element is expired, and what touches it
primitives/               typed state for operators: value, list, map, sorted map, multiset, timers
multiset/                 the histories of FLIP-544, an epoch of many keys at once
execution/                the controller of FLIP-425: many records in flight, few round trips
backends/                 where it all is: Redis or this process; the epoch protocol
epochs, reader            the ledger of a pipeline; committed state for readers
savepoint/                all of it as of one epoch, in files
errors                    the tree of what can be wrong
testing/                  conformance, models and faults, for tests of backends and of state
"""
