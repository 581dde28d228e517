"""A report as Markdown, its plots as files beside it."""

from collections.abc import Sequence

from training.reporting.blocks import Block, Code, Figure, Section, Table


def markdown(title: str, sections: Sequence[Section]) -> str:
    """The text of a file."""
    parts = [f"# {title}"]
    for section in sections:
        parts.append(f"{'#' * section.level} {section.title}")
        parts += [_block(block) for block in section.blocks]
    return "\n\n".join(parts) + "\n"


def _block(block: Block) -> str:
    if isinstance(block, Code):
        return "\n".join(f"    {line}" for line in block.text.splitlines())
    if isinstance(block, Figure):
        return f"![{block.caption}]({block.name}.svg)"
    if isinstance(block, Table):
        rule = ["---" if at < block.words else "---:" for at in range(len(block.header))]
        return "\n".join(map(_row, [block.header, rule, *block.rows]))
    return block


def _row(cells: Sequence[str]) -> str:
    inner = " | ".join(cell.replace("|", "\\|") for cell in cells)
    return f"| {inner} |"
