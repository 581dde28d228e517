"""Threads of the BLAS library, and one that ends a process together with its parent."""

import multiprocessing
import os
from contextlib import AbstractContextManager, nullcontext
from typing import Any

from threadpoolctl import ThreadpoolController


class OneThread:
    """A factory of context managers within which BLAS computes in the calling thread alone.

    The products here are small. A second thread would busy-wait for a processor that others use,
    which on a busy machine takes many times as long as the product.
    """

    def __init__(self) -> None:
        """Find the loaded BLAS libraries, and whether any has more than one thread."""
        self._blas = ThreadpoolController().select(user_api="blas")
        self._is_given = all(each.num_threads == 1 for each in self._blas.lib_controllers)

    def __call__(self) -> AbstractContextManager[Any]:
        """A context manager; on exit the former number of threads is restored."""
        # Setting the limit takes the GIL a dozen times, for which the encoder waits too.
        return nullcontext() if self._is_given else self._blas.limit(limits=1)


def end_with_parent() -> None:
    """Exit when the parent ends, since a killed parent cannot end what it started."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)
