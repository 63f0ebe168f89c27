"""From the parser's trees to the algebra.

query              SELECT, set operations, VALUES, WITH, ORDER BY, LIMIT
tables             FROM: tables, views, joins, window table functions
merging            USING and NATURAL
grouping           GROUP BY and aggregates
grouping_sets      GROUPING SETS, ROLLUP, CUBE
group_windows      GROUP BY TUMBLE(ts, ..), HOP, SESSION
over, qualify      OVER, and QUALIFY, which keeps rows by it
subqueries         EXISTS and IN as semi and anti joins
marked_subqueries  the same inside of other expressions; correlated: columns from around them
scalar_subqueries  subqueries as values; with ANY: quantified
unnest, lateral    UNNEST and LATERAL (SELECT ..) in FROM
hints              STATE_TTL, MULTI_JOIN
"""
