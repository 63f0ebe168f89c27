"""The demo of `make run`: real flights, and the proof that their final table is right."""
