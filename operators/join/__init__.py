"""Joins of changelogs, one kind a module.

streaming.py    two inputs, INNER LEFT RIGHT FULL; semi_anti.py the two kinds that show one side
columnar_join.py    both of these, a whole epoch at once; columnar_side.py one side of it,
                columnar_outer_side.py one that keeps associations, columnar_meetings.py which
                changes meet which rows, columnar_emissions.py what that emits
multi.py        n inputs at once, INNER and LEFT
temporal.py     each row with the version of a table at the row's time
interval.py     rows that lie near each other in time
lookup.py       each row with what a table holds now; lookup_table.py what can be asked
side_state.py   what the first three keep of a side; condition.py which pairs belong together
binary.py       what joins of two inputs share; bundles.py what a mini-batch leaves of changes
"""
