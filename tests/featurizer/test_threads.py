from contextlib import nullcontext

from threadpoolctl import ThreadpoolController

from wye.featurizer.threads import OneThread


def test_what_is_inside_has_one_thread_and_others_keep_theirs() -> None:
    blas = ThreadpoolController().select(user_api="blas")

    def threads() -> list[int]:
        return [library.num_threads for library in blas.lib_controllers]

    with blas.limit(limits=2):
        one_thread = OneThread()
        before = threads()
        with one_thread():
            assert set(threads()) == {1}
        assert threads() == before
    with blas.limit(limits=1):
        assert isinstance(OneThread()(), nullcontext)
