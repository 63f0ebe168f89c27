"""HTTP in, dataflow out: plans and SQL, pipelines and their queries, state for people.

__main__, app, wiring     the command line; routes and the layers around them; what they work with
settings                  everything that can be set, built once and passed down
settings_in_words         what is wrong with them
deadline                  how long planning may take, whatever is planned
auth                      who may read and who may operate
problems, problem_types   from an error to an answer; the kinds of problems
status_codes              what the status of a pipeline may tell as an error
telemetry                 metrics and logs
api/                      one resource a file
sql/                      SQL to Flink's compiled plans
plan/                     compiled plans: read, checked, explained, compared
runtime/                  plans as streaming queries, kept running; sources, sinks, savepoints
demo/                     what `make run` shows
"""
