from wye.featurizer.constituency.parser import SyntaxParser
from wye.featurizer.plan import plan_by_dependencies, walk
from wye.featurizer.plan_dependencies import dependency_tree

NESTED = "Who leads the country where the composer of Finlandia was born?"


def test_a_tree_has_the_words_in_order(questions: SyntaxParser) -> None:
    for syntax in questions.parse([NESTED, "Where? Is that it?"]):
        for start, end in syntax.sentences:
            tokens = syntax.tokens[start:end]
            tree = dependency_tree(tokens, start)
            assert [word for word, _ in tree.tagged_words()] == [token.text for token in tokens]


def test_arcs_that_cross_leave_a_flat_tree(questions: SyntaxParser) -> None:
    (syntax,) = questions.parse(["a b c d"])
    tokens = syntax.tokens
    heads = (2, 3, 2, 2)
    crossed = [
        type(token)(**{**{name: getattr(token, name) for name in token.__slots__}, "head": head})
        for token, head in zip(tokens, heads, strict=True)
    ]
    tree = dependency_tree(crossed, 0)
    assert [word for word, _ in tree.tagged_words()] == ["a", "b", "c", "d"]
    assert [child.label for child in tree.children] == ["X"]


def test_plans_need_no_trees(questions: SyntaxParser) -> None:
    (syntax,) = questions.parse([NESTED])
    found = plan_by_dependencies(syntax.tokens, syntax.sentences)
    assert [NESTED[slice(*step.span)] for step in walk(found.steps)] == [
        "the country where the composer of Finlandia was born",
        "the composer of Finlandia",
    ]
    assert plan_by_dependencies((), ()).steps == ()
