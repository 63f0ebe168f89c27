#!/bin/sh
# The Python of Spark's workers and helpers. Spark puts archives before all else that a process of
# Python looks through: pyspark as sources, which each process would compile anew, and a jar, whose
# table of contents each would read. Here pyspark is looked for where it is installed, beside us.
PYTHONPATH="$TAILRACE_PACKAGES" exec "$TAILRACE_PYTHON" "$@"
