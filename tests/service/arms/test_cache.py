"""Answers of an arm that are kept for a while."""

from hypothesis import given
from hypothesis import strategies as st

from service.arms.arm import _key
from service.arms.cache import Cache, Key
from service.arms.types import RemoteHits, remote_hit


def answer(text: str = "text") -> RemoteHits:
    return RemoteHits((remote_hit("id", text, "title", 1.0, {"y": 1, "tags": ["a", "b"]}),))


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def test_an_answer_is_kept_for_its_time() -> None:
    clock = Clock()
    cache = Cache(10.0, 5, 1 << 20, clock)
    cache.put(("q",), answer())
    clock.now = 9.9
    assert cache.get(("q",)) == answer()
    clock.now = 10.0
    assert cache.get(("q",)) is None
    assert (len(cache), cache.bytes) == (0, 0)


def test_without_a_time_nothing_is_kept() -> None:
    cache = Cache(0.0, 5, 1 << 20)
    cache.put(("q",), answer())
    assert cache.get(("q",)) is None


def test_what_is_larger_than_all_may_be_is_not_kept() -> None:
    cache = Cache(10.0, 5, 4_000)
    cache.put(("q",), answer())
    cache.put(("q",), answer("long" * 2_000))
    assert (cache.get(("q",)), cache.bytes) == (None, 0)


def test_long_questions_and_filters_count() -> None:
    cache = Cache(10.0, 100, 1 << 20)
    for number in range(50):
        question, filter_ = f"{number}" + "x" * 100_000, {"value": "y" * 100_000}
        cache.put(_key(question, 5, filter_), RemoteHits(()))
    assert len(cache) == 5
    assert 1_000_000 < cache.bytes < 1 << 20


STEPS = st.lists(
    st.tuples(st.tuples(st.sampled_from("abcdef")), st.integers(1, 2_000), st.booleans())
)


@given(STEPS)
def test_the_longest_unused_go_first(steps: list[tuple[Key, int, bool]]) -> None:
    """As a list does it that is looked through from its end."""
    cache = Cache(10.0, 3, 4_000, Clock())
    plain: list[tuple[Key, RemoteHits, int]] = []
    for key, length, puts in steps:
        if not puts:
            found = next((one for one in plain if one[0] == key), None)
            assert cache.get(key) == (found[1] if found else None)
            if found:
                plain.remove(found)
                plain.append(found)
            continue
        alone = Cache(10.0, 1, 1 << 20, Clock())
        alone.put(key, answer("x" * length))
        plain = [one for one in plain if one[0] != key]
        plain.append((key, answer("x" * length), alone.bytes))
        while len(plain) > 3 or sum(size for *_, size in plain) > 4_000:
            plain.pop(0)
        cache.put(key, answer("x" * length))
        assert cache.bytes == sum(size for *_, size in plain) <= 4_000
        assert len(cache) == len(plain)
