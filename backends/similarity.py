"""Inner products with one question's vector, the same to the last bit whatever is computed beside.

BLAS shares a matrix-vector product among its threads, and waits for the last of them: on a busy
machine that is a time slice of the scheduler, 20 ms where one thread needs 0.3. `np.vecdot` makes
one dot product a row, on the thread that asks, so a value depends on nothing but its two vectors.
"""

import numpy as np

from backends.types import Float16, Float32, Int64

_SIGN_AND_VALUE = np.array(0x8FFFFFFF, np.uint32).view(np.int32)
_HALFWAY = np.float32(2.0**56)


def products(vectors: Float32, query: Float32) -> Float32:
    """Inner product of every row with a query.

    Args:
        vectors: (n, d).
        query: (d,) of moderate size: below 2^72.

    Returns:
        (n,) float32.
    """
    result: Float32 = np.vecdot(vectors, query)
    return result


def half_products(vectors: Float16, rows: Int64, query: Float32) -> Float32:
    """Inner product of some half-precision rows with a query.

    NumPy converts halves one by one. Here their bits are moved to where a float32 has them, which
    is exact and twice as fast over all: a half with its exponent in that place stands for 2^-112
    times its value, and two factors of 2^56 make up for that without overflow.

    Args:
        vectors: (n, d), finite and C-contiguous.
        rows: (m,) which of them.
        query: (d,) of moderate size: below 2^72.

    Returns:
        (m,) float32, equal to those of the rows converted to float32.
    """
    bits = vectors.view(np.int16).take(rows, axis=0).astype(np.int32)
    bits <<= 13
    bits &= _SIGN_AND_VALUE
    result: Float32 = np.vecdot(bits.view(np.float32), query * _HALFWAY)
    result *= _HALFWAY
    return result
