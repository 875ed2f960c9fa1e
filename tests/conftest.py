"""Generated examples are the same in every run, so that a failure is the change's and not the day's."""

from hypothesis import settings

settings.register_profile("same", derandomize=True, database=None)
settings.load_profile("same")
