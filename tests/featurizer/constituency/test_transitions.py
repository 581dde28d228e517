import pytest

from wye.featurizer.constituency.transitions import ParserState, Transition

SHIFT, CLOSE = Transition("shift"), Transition("close")
NP, S, ROOT = (Transition("open", (label,)) for label in ("NP", "S", "ROOT"))
SENTENCE = (("boats", "NNS"), ("float", "VBP"))


def state_after(*steps: Transition) -> ParserState:
    state = ParserState(SENTENCE, frozenset({"ROOT"}), unary_limit=2)
    for step in steps:
        assert state.is_legal(step), step
        state.apply(step)
    return state


def test_a_derivation_builds_its_tree_when_the_root_is_closed() -> None:
    state = state_after(SHIFT, NP, CLOSE, S, SHIFT, CLOSE, ROOT, CLOSE)
    assert str(state.tree) == "(ROOT (S (NP (NNS boats)) (VBP float)))"
    assert state_after(SHIFT, S, SHIFT, CLOSE).tree is None
    assert state_after(SHIFT, S, SHIFT, CLOSE, ROOT).tree is None


@pytest.mark.parametrize(
    ("steps", "illegal"),
    [
        ((), CLOSE),
        ((), NP),
        ((SHIFT,), SHIFT),
        ((SHIFT,), CLOSE),
        ((SHIFT,), ROOT),
        ((SHIFT, NP), S),
        ((SHIFT, S, SHIFT), ROOT),
        ((SHIFT, S, SHIFT, CLOSE), SHIFT),
        ((SHIFT, NP, CLOSE, NP, CLOSE, NP), CLOSE),
    ],
)
def test_steps_that_lead_nowhere_are_illegal(
    steps: tuple[Transition, ...], illegal: Transition
) -> None:
    assert not state_after(*steps).is_legal(illegal)


def test_a_phrase_of_several_labels_is_a_chain() -> None:
    both = Transition("open", ("S", "VP"))
    state = state_after(SHIFT, both, SHIFT, CLOSE, ROOT, CLOSE)
    assert str(state.tree) == "(ROOT (S (VP (NNS boats) (VBP float))))"


def test_transitions_are_read_as_checkpoints_spell_them() -> None:
    assert Transition.from_repr("Shift") == SHIFT
    assert Transition.from_repr("CloseConstituent") == CLOSE
    assert Transition.from_repr("OpenConstituent(('NP',))") == NP
    with pytest.raises(ValueError, match="Finalize"):
        Transition.from_repr("Finalize('ROOT')")
