"""Forms with files, read to their end or refused."""

from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing, asynccontextmanager

from fastapi import Request
from starlette.datastructures import FormData
from starlette.exceptions import HTTPException
from starlette.formparsers import MultiPartException, MultiPartParser


@asynccontextmanager
async def form_of(request: Request, *, files: int, fields: int) -> AsyncIterator[FormData]:
    """The form that a request holds; its files are closed at the end.

    Args:
        request: Of the kind multipart/form-data.
        files: That it may have.
        fields: That it may have beside them.

    Raises:
        HTTPException: 400 for what is no such form, has more, or breaks off.
    """
    async with aclosing(request.stream()) as stream:
        try:
            form = await _Whole(request, stream, files, fields).parse()
        except MultiPartException as error:
            raise HTTPException(400, error.message) from error
        except ValueError as error:  # UnicodeError as well
            raise HTTPException(
                400, "The charset of the form cannot be read; leave it out, it is UTF-8."
            ) from error
    try:
        yield form
    finally:
        await form.close()


class _Whole(MultiPartParser):
    """Starlette's parser would silently leave out the part in which a form breaks off."""

    def __init__(
        self, request: Request, stream: AsyncGenerator[bytes], files: int, fields: int
    ) -> None:
        super().__init__(
            request.headers, self._to_the_end(stream), max_files=files, max_fields=fields
        )
        self._has_ended = False

    def on_end(self) -> None:
        self._has_ended = True

    async def _to_the_end(self, stream: AsyncGenerator[bytes]) -> AsyncGenerator[bytes]:
        async for block in stream:
            yield block
        if not self._has_ended:
            raise MultiPartException(
                "The form breaks off before its last boundary, so nothing of it is stored."
            )
