"""Tools that tests, the oracle runner and benchmarks share.

batch, batch_*, joins  what operators mean, as plain functions of their ordered input
strategies             Hypothesis strategies for changes and specs
operator_harness       runs a keyed operator over changes, on any backend
harness                runs a materializer over changes, on any backend
recorded               compares that with the definition, and with recorded cases
"""
