"""The one base error of this folder."""


class ServiceError(Exception):
    """A mistake in a command, a request or the settings that the user can correct."""
