"""From the parser's trees to the algebra.

query        SELECT, set operations, VALUES, WITH, ORDER BY, LIMIT
tables       FROM: tables, views, joins, window table functions
grouping     GROUP BY and aggregates
over         OVER
subqueries   EXISTS and IN as semi and anti joins
hints        STATE_TTL, MULTI_JOIN
"""
