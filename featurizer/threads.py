"""Threads of the library that multiplies matrices."""

from contextlib import AbstractContextManager, nullcontext
from typing import Any

from threadpoolctl import ThreadpoolController


class OneThread:
    """Has matrices multiplied in the thread that asks, while it is entered.

    The products here are small: a second thread waits, busily, for a processor that others use, and
    on a busy machine that takes many times as long as the product.
    """

    def __init__(self) -> None:
        """Look which libraries are loaded, and whether they have more than one thread at all."""
        self._blas = ThreadpoolController().select(user_api="blas")
        self._is_given = all(each.num_threads == 1 for each in self._blas.lib_controllers)

    def __call__(self) -> AbstractContextManager[Any]:
        """To be entered; others have their threads back afterwards."""
        # To ask and to tell takes Python's lock a dozen times, for which the encoder waits too.
        return nullcontext() if self._is_given else self._blas.limit(limits=1)
