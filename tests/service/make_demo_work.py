"""Makes the binary files of the second demo corpus from the texts in `sources`.

    python tests/service/make_demo_work.py [FOLDER]

A source has the path of its file under `files`, with `.md` or `.txt` behind it where the file is no
text; a workbook is a folder with a CSV file for each sheet. In a text `# ` begins a heading or a
slide, `## ` a heading below it, `- ` a bullet, `| ` a row of a table, and `Notes: ` what a speaker
says. `=== page`, `=== columns` and `=== right` begin a page of a PDF, a page of two columns, and
its right column. Equal sources give equal files: no time of day gets into them.
"""

import csv
import io
import re
import sys
import textwrap
from collections.abc import Callable
from datetime import date, datetime
from pathlib import Path
from zipfile import ZIP_DEFLATED, ZipFile, ZipInfo

import docx
import openpyxl
import pptx
from pptx.util import Cm

HERE = Path(__file__).parents[2] / "service" / "demo_work"
COMPANY = "Ternholm Ferries and Boatyard"
TIME = datetime(2031, 7, 10, 12)
ENCODINGS = {"sites/parking-quay-house.txt": "cp1252"}  # the other plain texts become UTF-16
_PAGE = (595, 842)  # A4 in points


def build(sources: Path, out: Path) -> list[Path]:
    """Write every binary file below `out`; returns their paths relative to it, sorted.

    Raises:
        KeyError: A source is of a kind that is not made.
    """
    makers: dict[str, Callable[[Path], bytes]] = {
        ".xlsx": workbook,
        ".pptx": slides,
        ".docx": document,
        ".pdf": pdf,
        ".txt": lambda source: encoded(source, source.relative_to(sources)),
    }
    made = []
    for source in sorted(sources.glob("*/*")):
        path = source.relative_to(sources)
        if len(path.suffixes) > 1:
            path = path.with_suffix("")
        (out / path).parent.mkdir(parents=True, exist_ok=True)
        (out / path).write_bytes(makers[path.suffix](source))
        made.append(path)
    return made


def encoded(source: Path, path: Path) -> bytes:
    """A text with Windows' line ends, in the encoding of an old program."""
    text = source.read_text("utf-8").replace("\n", "\r\n")
    if encoding := ENCODINGS.get(path.as_posix()):
        return text.encode(encoding)
    return ("\ufeff" + text).encode("utf-16-le")


def workbook(folder: Path) -> bytes:
    """A sheet for each `1-Name.csv`, in the order of the digits."""
    book = openpyxl.Workbook()
    book.remove(book.active)
    for source in sorted(folder.glob("*.csv")):
        sheet = book.create_sheet(source.stem.partition("-")[2])
        with source.open(encoding="utf-8", newline="") as lines:
            for row in csv.reader(lines):
                sheet.append([cell(value) for value in row])
        sheet.freeze_panes = "A2"
    book.properties.creator = COMPANY
    return timeless(book.save)


def cell(value: str) -> str | int | float | date | None:
    """A whole number, a decimal fraction or a date, if the text is one."""
    if re.fullmatch(r"\d{4}-\d\d-\d\d", value):
        return date.fromisoformat(value)
    if re.fullmatch(r"-?\d+", value):
        return int(value)
    return float(value) if re.fullmatch(r"-?\d+\.\d+", value) else value or None


def slides(source: Path) -> bytes:
    """A slide for each `# ` heading."""
    show = pptx.Presentation()
    for part in re.split(r"^# ", source.read_text("utf-8"), flags=re.M)[1:]:
        title, *lines = part.strip().split("\n")
        rows = [cells(line) for line in lines if line.startswith("| ")]
        slide = show.slides.add_slide(show.slide_layouts[5 if rows else 1])
        slide.shapes.title.text = title
        if rows:
            shape = slide.shapes.add_table(len(rows), len(rows[0]), Cm(1), Cm(5), Cm(23), Cm(12))
            for at, row in enumerate(rows):
                for column, text in enumerate(row):
                    shape.table.cell(at, column).text = text
        else:
            bullets = [line[2:] for line in lines if line.startswith("- ")]
            slide.placeholders[1].text_frame.text = "\n".join(bullets)
        if notes := [line.removeprefix("Notes: ") for line in lines if line.startswith("Notes: ")]:
            slide.notes_slide.notes_text_frame.text = "\n".join(notes)
    show.core_properties.author = COMPANY
    return timeless(show.save)


def document(source: Path) -> bytes:
    text = docx.Document()
    table = None
    for line in source.read_text("utf-8").splitlines():
        if line.startswith("| "):
            table = table or text.add_table(0, len(cells(line)))
            for target, value in zip(table.add_row().cells, cells(line), strict=True):
                target.text = value
            continue
        table = None
        if heading := re.match(r"#+ ", line):
            text.add_heading(line[heading.end() :], level=heading.end() - 2)
        elif line:
            text.add_paragraph(line)
    text.core_properties.author = COMPANY
    return timeless(text.save)


def cells(line: str) -> list[str]:
    """The cells of `| a | b |`."""
    return [value.strip() for value in line.strip("| ").split("|")]


def timeless(save: Callable[[io.BytesIO], None]) -> bytes:
    """What `save` writes, an archive, with one fixed time instead of the time of its making."""
    archive, stream = io.BytesIO(), io.BytesIO()
    save(archive)
    now = TIME.strftime("%Y-%m-%dT%H:%M:%SZ").encode()
    with ZipFile(archive) as old, ZipFile(stream, "w") as new:
        for name in old.namelist():
            content = old.read(name)
            if name == "docProps/core.xml":
                content = re.sub(rb"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", now, content)
            new.writestr(ZipInfo(name, TIME.timetuple()[:6]), content, ZIP_DEFLATED)
    return stream.getvalue()


def pdf(source: Path) -> bytes:
    """Pages in Helvetica. Two columns are written row by row, as some programs do."""
    parts = re.split(r"^=== (page|columns|right)\n", source.read_text("utf-8"), flags=re.M)
    pages = [lines_of(parts[0], 56, 88)]
    for kind, text in zip(parts[1::2], parts[2::2], strict=True):
        if kind == "right":
            pages[-1] += lines_of(text, 312, 44)
        else:
            pages.append(lines_of(text, 56, 44 if kind == "columns" else 88))
    kids = " ".join(f"{5 + 2 * at} 0 R" for at in range(len(pages)))
    font = "<< /Type /Font /Subtype /Type1 /Encoding /WinAnsiEncoding /BaseFont /%s >>"
    objects = [
        "<< /Type /Catalog /Pages 2 0 R >>",
        f"<< /Type /Pages /Count {len(pages)} /Kids [{kids}] >>",
        font % "Helvetica",
        font % "Helvetica-Bold",
    ]
    for at, page in enumerate(pages):
        shown = "\n".join(line for _, _, line in sorted(page, key=lambda one: (-one[0], one[1])))
        objects.append(
            f"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 {_PAGE[0]} {_PAGE[1]}] /Contents "
            f"{6 + 2 * at} 0 R /Resources << /Font << /F1 3 0 R /F2 4 0 R >> >> >>"
        )
        objects.append(f"<< /Length {len(shown)} >>\nstream\n{shown}\nendstream")
    out, offsets = b"%PDF-1.4\n", []
    for number, body in enumerate(objects, 1):
        offsets.append(len(out))
        out += f"{number} 0 obj\n{body}\nendobj\n".encode("cp1252")
    size = len(objects) + 1
    rows = "".join(f"{offset:010} 00000 n \n" for offset in offsets)
    table = f"xref\n0 {size}\n0000000000 65535 f \n{rows}"
    trailer = f"trailer\n<< /Size {size} /Root 1 0 R >>\nstartxref\n{len(out)}\n%%EOF\n"
    return out + (table + trailer).encode()


def lines_of(text: str, left: int, width: int) -> list[tuple[float, int, str]]:
    """Height, left end and operators of each line, broken after `width` characters."""
    lines: list[tuple[float, int, str]] = []
    height = _PAGE[1] - 60.0
    for paragraph in text.splitlines():
        level = len(paragraph) - len(paragraph.lstrip("#"))
        font, size = {0: ("F1", 10), 1: ("F2", 18), 2: ("F2", 12)}[level]
        for line in textwrap.wrap(paragraph.lstrip("# "), width):
            shown = re.sub(r"([\\()])", r"\\\1", line)
            lines.append((height, left, f"BT /{font} {size} Tf {left} {height} Td ({shown}) Tj ET"))
            height -= 15
        height -= 9 * bool(level)
    return lines


if __name__ == "__main__":
    build(HERE / "sources", Path(sys.argv[1]) if sys.argv[1:] else HERE / "files")
