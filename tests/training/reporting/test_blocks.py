from training.reporting.blocks import Code, Section, Table
from training.reporting.html import html
from training.reporting.markdown import markdown

SECTIONS = [
    Section("Part", ["Say `wye`.", Code("a < b\nc")]),
    Section("Deeper", [Table(("name", "what", "n"), [("a|b", "<i>", "1")], words=2)], level=3),
]


def test_markdown() -> None:
    assert markdown("Title", SECTIONS) == (
        "# Title\n\n## Part\n\nSay `wye`.\n\n    a < b\n    c\n\n### Deeper\n\n"
        "| name | what | n |\n| --- | --- | ---: |\n| a\\|b | <i> | 1 |\n"
    )


def test_html_escapes_everything() -> None:
    text = html("T & t", SECTIONS)
    assert "<title>T &amp; t</title>" in text
    assert "<p>Say <code>wye</code>.</p>" in text
    assert "<pre>a &lt; b\nc</pre>" in text
    assert "<h3>Deeper</h3>" in text
    assert '<td class="word">&lt;i&gt;</td><td>1</td>' in text
