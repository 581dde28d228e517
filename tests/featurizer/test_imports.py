import subprocess
import sys

import pytest

from wye.featurizer.imports import ImportingWithout


def test_a_module_is_refused_within_and_only_there() -> None:
    """In a process of its own, since here it may be loaded."""
    program = """if True:
        import sys
        from concurrent.futures import ThreadPoolExecutor
        from importlib import import_module
        from wye.featurizer.imports import ImportingWithout

        before = [*sys.meta_path]
        with ThreadPoolExecutor(1) as other, ImportingWithout("wave"):
            try:
                import wave
            except ImportError:
                assert "wave" not in sys.modules
            else:
                raise AssertionError
            assert other.submit(import_module, "wave").result()
            import wave  # another thread loaded it
        assert sys.meta_path == before
    """
    subprocess.run([sys.executable, "-c", program], check=True)


def test_it_ends_with_an_error_too() -> None:
    before = [*sys.meta_path]
    with pytest.raises(KeyError), ImportingWithout("wave"):
        raise KeyError
    assert sys.meta_path == before
