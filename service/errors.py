"""The one base error of this folder."""


class ServiceError(Exception):
    """Something about a command or a request that the user can put right."""
