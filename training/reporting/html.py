"""A report as one HTML file that needs nothing beside it, in light or in dark."""

import re
from collections.abc import Sequence
from html import escape

from training.reporting.blocks import Block, Code, Figure, Section, Table
from training.reporting.plots import INK

_STYLE = """
:root { color-scheme: light dark; }
body { font: 15px/1.5 system-ui, sans-serif; max-width: 75rem; margin: 2rem auto; padding: 0 1rem; }
p { max-width: 45rem; }
.wide { overflow-x: auto; }
table { border-collapse: collapse; font-size: 13px; margin: .5rem 0 1rem; }
th, td { padding: .2rem .6rem; text-align: right; white-space: nowrap; }
th.word, td.word { text-align: left; white-space: normal; }
thead th { border-bottom: 1px solid currentColor; vertical-align: bottom; }
tbody tr:nth-child(even) { background: rgba(127, 127, 127, .12); }
pre { overflow-x: auto; padding: .6rem; background: rgba(127, 127, 127, .12); }
figure { margin: .5rem 0 1rem; }
figure svg { max-width: 100%; height: auto; }
figcaption { font-size: 13px; opacity: .8; }
"""


def html(title: str, sections: Sequence[Section]) -> str:
    """The text of a file."""
    body = [f"<h1>{escape(title)}</h1>"]
    for section in sections:
        level = section.level
        body.append(f"<h{level}>{escape(section.title)}</h{level}>")
        body += [_block(block) for block in section.blocks]
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{escape(title)}</title>\n<style>{_STYLE}</style>\n</head>\n<body>\n"
        + "\n".join(body)
        + "\n</body>\n</html>\n"
    )


def _block(block: Block) -> str:
    if isinstance(block, Code):
        return f"<pre>{escape(block.text)}</pre>"
    if isinstance(block, Figure):
        # Ids are an element's address in the whole page, and two plots may use the same one.
        svg = re.sub(r'(\bid="|href="#|url\(#)', rf"\g<1>{block.name}-", block.svg)
        svg = svg.replace(INK, "currentColor")
        return f"<figure>{svg}<figcaption>{escape(block.caption)}</figcaption></figure>"
    if isinstance(block, Table):
        return _table(block)
    text = re.sub(r"`([^`]+)`", r"<code>\1</code>", escape(block))
    return f"<p>{text}</p>"


def _table(table: Table) -> str:
    head = _row("th", table.header, table.words)
    body = "\n".join(_row("td", row, table.words) for row in table.rows)
    inner = f"<thead>{head}</thead>\n<tbody>\n{body}\n</tbody>"
    return f'<div class="wide"><table>\n{inner}\n</table></div>'


def _row(tag: str, cells: Sequence[str], words: int) -> str:
    found = (
        f'<{tag} class="word">{escape(cell)}</{tag}>'
        if at < words
        else f"<{tag}>{escape(cell)}</{tag}>"
        for at, cell in enumerate(cells)
    )
    return f"<tr>{''.join(found)}</tr>"
