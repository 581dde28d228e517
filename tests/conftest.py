"""What all tests share."""

from hypothesis import settings

# A busy machine is not a failing test.
settings.register_profile("wye", deadline=None)
settings.load_profile("wye")
