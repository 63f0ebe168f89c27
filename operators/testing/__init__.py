"""Tools that tests, the oracle runner and benchmarks share.

batch        what an operator means, as a plain function of its ordered input
strategies   Hypothesis strategies for changes and specs
harness      runs an operator over changes or a recorded case, on any backend
"""
