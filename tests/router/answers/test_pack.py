from time import process_time

from hypothesis import given
from hypothesis import strategies as st

from wye.router.answers.pack import LEFT_OUT, pack

BRIDGE = "Stari Most is a bridge. Boats are popular. It was rebuilt in 2004."
RIVER = "The Neretva is a river. It flows into the Adriatic."


def test_what_has_room_stays_as_it_is() -> None:
    assert pack("When was it rebuilt?", [BRIDGE, RIVER], 1000) == [BRIDGE, RIVER]
    assert pack("When?", [], 0) == []


def test_the_first_sentences_of_the_first_passages_stay() -> None:
    packed = pack("When was it rebuilt?", [BRIDGE, RIVER], 45)
    assert packed == ["Stari Most is a bridge. Boats are popular. …", ""]


def test_the_questions_words_count() -> None:
    packed = pack("When was it rebuilt?", ["Boats are popular. It was rebuilt in 2004."], 23)
    assert packed == ["… It was rebuilt in 2004."]


@given(st.text(max_size=30), st.lists(st.text(max_size=120), max_size=4), st.integers(0, 300))
def test_what_is_kept_stands_in_the_passage_in_order_and_within_the_room(
    question: str, texts: list[str], room: int
) -> None:
    packed = pack(question, texts, room)
    assert len(packed) == len(texts)
    if sum(map(len, texts)) <= room:
        assert packed == texts
    for text, own in zip(texts, packed, strict=True):
        at = 0
        for part in [own] if LEFT_OUT in text or own == text else own.split(f"{LEFT_OUT}"):
            at = text.index(part.strip(), at) + len(part.strip()) if part.strip() else at


def test_half_of_ten_passages_takes_no_time() -> None:
    texts = [" ".join(f"The river {n} flows into sea {m}." for m in range(8)) for n in range(10)]
    room = sum(map(len, texts)) // 2
    pack("Which sea?", texts, room)
    started = process_time()
    for _ in range(10):
        packed = pack("Into which sea does river 7 flow?", texts, room)
    assert (process_time() - started) / 10 < 0.02
    assert sum(map(len, packed)) < room + 8 * len(f" {LEFT_OUT} ") * len(texts)
