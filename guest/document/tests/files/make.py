"""Makes the files beside it, with the programs whose documents people send:

    python3 -m venv v && v/bin/pip install openpyxl==3.1.5 python-docx==1.2.0 reportlab==5.1.0 odfpy==1.4.1 xlwt==1.3.0 \
        pikepdf==10.17.0 python-pptx==1.0.2
    v/bin/python make.py

Chromium prints one of them.
"""

import datetime
import pathlib
import subprocess
import sys
import tempfile

import docx
import openpyxl
import pikepdf
import xlwt
from odf import draw, presentation
from odf.namespaces import PRESENTATIONNS
from odf.office import Annotation
from odf.opendocument import OpenDocumentPresentation, OpenDocumentSpreadsheet, OpenDocumentText
from odf.style import MasterPage, PageLayout
from odf.table import Table, TableCell, TableRow
from odf.text import H, LineBreak, List, ListItem, Note, NoteBody, NoteCitation, P, S, Span
from pptx import Presentation
from pptx.util import Inches
from reportlab.lib.pagesizes import A4
from reportlab.pdfgen import canvas

here = pathlib.Path(__file__).parent

PAGE = """<!doctype html><meta charset="utf-8"><title>Report</title>
<style>section { break-after: page } body { font: 11pt sans-serif } td, th { padding: 2pt 12pt; text-align: left }</style>
<section><h1>Annual report</h1><p>Revenue rose by 12&nbsp;% in Zürich, offices in Kraków and Ελλάδα followed.</p>
<p>A second paragraph that is long enough to be broken into two lines by a program that prints it on a page of paper,
with a difficult affix and a flow of ligatures.</p></section>
<section><h2>Staff</h2><table><tr><th>Name</th><th>Role</th><th>Since</th></tr>
<tr><td>Ada Lovelace</td><td>Analyst</td><td>1843</td></tr><tr><td>Grace Hopper</td><td>Admiral</td><td>1943</td></tr></table></section>
<section><h2>Outlook</h2><p>The invoice number is RX-20431.</p></section>"""


def chromium():
    with tempfile.TemporaryDirectory() as folder:
        page = pathlib.Path(folder, "report.html")
        page.write_text(PAGE)
        options = ["--headless", "--no-sandbox", "--disable-gpu", "--no-pdf-header-footer"]
        subprocess.run(["chromium", *options, f"--print-to-pdf={here / 'chromium.pdf'}", f"file://{page}"], check=True)


def reportlab():
    page = canvas.Canvas(str(here / "reportlab.pdf"), pagesize=A4, invariant=True)
    page.setFont("Helvetica", 12)
    page.drawString(72, 760, "Quarterly figures of the café")
    text = page.beginText(72, 730)
    for line in ["first line", "second line"]:
        text.textLine(line)
    page.drawText(text)
    page.drawString(72, 600, "left")
    page.drawString(300, 600, "right")
    page.beginForm("stamp")
    page.setFont("Times-Roman", 10)
    page.drawString(0, 0, "stamped by a form")
    page.endForm()
    page.translate(72, 500)
    page.doForm("stamp")
    page.showPage()
    page.setFont("Courier", 12)
    page.drawString(72, 760, "the last page")
    page.save()
    with pikepdf.open(here / "reportlab.pdf") as document:
        document.save(here / "encrypted.pdf", encryption=pikepdf.Encryption(user="secret", owner="secret"))
    scan = canvas.Canvas(str(here / "scanned.pdf"), pagesize=A4, invariant=True)
    scan.rect(72, 72, 300, 300, fill=1)
    scan.save()


ROWS = [
    ("id", "city", "amount", "paid", "day", "note"),
    (1, "Zürich", 1234.5, True, datetime.date(2026, 3, 1), "a \"quoted\" note"),
    (2, "Oslo", 0.1, False, datetime.date(2026, 3, 2), None),
    (3, "Lima", -7, True, datetime.date(2026, 12, 31), "two\nlines"),
]


def excel():
    book = openpyxl.Workbook()
    sheet = book.active
    sheet.title = "Orders"
    for row in ROWS:
        sheet.append(row)
    plain = book.create_sheet("Plain")
    plain.append([1, 2.5, datetime.datetime(2026, 1, 2, 3, 4, 5)])
    plain["E3"] = datetime.time(6, 30)
    plain["AB3"] = "far"
    book.create_sheet("Empty")
    titled = book.create_sheet("Titled & more")
    titled["A1"] = "Sales of 2026"
    titled.append(["region", "sum"])
    titled.append(["north", 10])
    book.save(here / "openpyxl.xlsx")


def large():
    """Enough rows for a section of their own."""
    book = openpyxl.Workbook()
    sheet = book.active
    sheet.title = "Sales"
    sheet.append(["id", "city", "amount", "day"])
    for number in range(400):
        day = datetime.date(2026, 1, 1) + datetime.timedelta(days=number % 365)
        sheet.append([number, ["Zürich", "Oslo", "Lima", "Kyoto"][number % 4], number * 0.25, day])
    book.save(here / "large.xlsx")


def old_excel():
    book = xlwt.Workbook()
    sheet = book.add_sheet("Orders")
    day = xlwt.easyxf(num_format_str="YYYY-MM-DD")
    for y, row in enumerate(ROWS):
        for x, value in enumerate(row):
            if value is not None:
                sheet.write(y, x, value, *([day] if isinstance(value, datetime.date) else []))
    book.save(str(here / "xlwt.xls"))


def open_document():
    book = OpenDocumentSpreadsheet()
    table = Table(name="Orders")
    for values in ROWS:
        row = TableRow()
        for value in values:
            if isinstance(value, bool):
                cell = TableCell(valuetype="boolean", booleanvalue=str(value).lower())
            elif isinstance(value, (int, float)):
                cell = TableCell(valuetype="float", value=value)
            elif isinstance(value, datetime.date):
                cell = TableCell(valuetype="date", datevalue=value.isoformat())
            else:
                cell = TableCell(valuetype="string")
            if isinstance(value, str):
                cell.addElement(P(text=value))
            row.addElement(cell)
        table.addElement(row)
    book.spreadsheet.addElement(table)
    book.save(str(here / "odfpy.ods"))


def word():
    document = docx.Document()
    document.add_heading("Minutes", 1)
    document.add_paragraph("Present: Ada & Grace.")
    document.add_heading("Decisions", 2)
    paragraph = document.add_paragraph("The release is ")
    paragraph.add_run("postponed").bold = True
    paragraph.add_run(" to May.")
    table = document.add_table(rows=0, cols=2)
    for left, right in [("task", "who"), ("tests | docs", "Ada"), ("review", "Grace")]:
        cells = table.add_row().cells
        cells[0].text, cells[1].text = left, right
    document.add_paragraph("End <of> minutes")
    document.save(here / "python-docx.docx")


LEFT = """The quick summary of the year is that sales
rose in each region, and that the costs of
transport fell for the third time in a row.
What the next year brings nobody can say,
but the orders of the first weeks are many,
and the new office in Kyoto has begun to
answer the letters of its customers."""

RIGHT = """Staff were asked what they would change,
and most of them named the old machines in
the workshop, which stand still one day of
ten. Others would like to have a kitchen
with windows, longer breaks at noon, and
a quieter room for calls with customers
who cannot hear well."""


def columns():
    """Two columns whose lines are drawn side by side, a table, and two columns drawn one after the other."""
    page = canvas.Canvas(str(here / "columns.pdf"), pagesize=A4, invariant=True)
    page.setFont("Helvetica", 11)
    page.drawString(72, 790, "A title that goes over both of the columns of this page, as titles often do")
    for number, (left, right) in enumerate(zip(LEFT.splitlines(), RIGHT.splitlines())):
        page.drawString(72, 760 - 14 * number, left)
        page.drawString(320, 760 - 14 * number, right)
    page.drawString(72, 640, "A line over the whole width of the page parts what is above from what is below it.")
    page.showPage()
    page.setFont("Helvetica", 11)
    cities = ["Zürich", "Oslo", "Lima", "Kyoto", "Accra", "a city whose name nobody remembers", "Quito", "Perth"]
    for number, city in enumerate(cities):
        page.drawString(72, 760 - 14 * number, city)
        page.drawString(320, 760 - 14 * number, f"order {number}")
    page.showPage()
    page.setFont("Helvetica", 11)
    for x, column in ((72, LEFT), (320, RIGHT)):
        for number, line in enumerate(column.splitlines()):
            page.drawString(x, 760 - 14 * number, line)
    page.save()


def slides():
    deck = Presentation()
    first = deck.slides.add_slide(deck.slide_layouts[0])
    first.shapes.title.text, first.placeholders[1].text = "Plans & hopes", "for 2027"
    second = deck.slides.add_slide(deck.slide_layouts[5])
    second.shapes.title.text = "Budget"
    table = second.shapes.add_table(3, 2, Inches(1), Inches(2), Inches(6), Inches(1)).table
    for y, row in enumerate([("item", "sum"), ("travel | food", "1200"), ("rent", "900")]):
        for x, text in enumerate(row):
            table.cell(y, x).text = text
    box = second.shapes.add_textbox(Inches(1), Inches(5), Inches(6), Inches(1))
    box.text_frame.text = "first line\vsecond line"
    second.notes_slide.notes_text_frame.text = "Do not mention the loan."
    deck.slides.add_slide(deck.slide_layouts[6])
    # The order of the slides is not that of their members.
    order = deck.slides._sldIdLst
    order.insert(0, order[1])
    shrink(deck)
    deck.save(here / "python-pptx.pptx")


def shrink(deck):
    """Leaves out layouts that no slide uses."""
    used = {slide.slide_layout.name for slide in deck.slides}
    for layout in [layout for layout in deck.slide_layouts if layout.name not in used]:
        deck.slide_layouts.remove(layout)


def open_text():
    document = OpenDocumentText()
    document.text.addElement(H(outlinelevel=1, text="Minutes"))
    paragraph = P(text="Present: Ada")
    paragraph.addElement(S(c=3))
    paragraph.addElement(Span(text="& Grace."))
    note = Note(noteclass="footnote")
    note.addElement(NoteCitation(text="1"))
    body = NoteBody()
    body.addElement(P(text="a footnote"))
    note.addElement(body)
    paragraph.addElement(note)
    comment = Annotation()
    comment.addElement(P(text="a comment"))
    paragraph.addElement(comment)
    document.text.addElement(paragraph)
    document.text.addElement(H(outlinelevel=2, text="Decisions"))
    items = List()
    for text in ("The release is postponed.", "Lunch is at noon."):
        item = ListItem()
        item.addElement(P(text=text))
        items.addElement(item)
    document.text.addElement(items)
    table = Table(name="Tasks")
    for values in [("task", "who"), ("tests | docs", "Ada"), ("review", "Grace")]:
        row = TableRow()
        for value in values:
            cell = TableCell()
            cell.addElement(P(text=value))
            row.addElement(cell)
        table.addElement(row)
    document.text.addElement(table)
    end = P(text="End")
    end.addElement(LineBreak())
    end.addText("<of> minutes")
    document.text.addElement(end)
    document.save(str(here / "odfpy.odt"))


def open_slides():
    deck = OpenDocumentPresentation()
    layout = PageLayout(name="layout")
    deck.automaticstyles.addElement(layout)
    deck.masterstyles.addElement(MasterPage(name="master", pagelayoutname=layout))

    def frame(kind, text):
        frame = draw.Frame(width="10cm", height="2cm", x="1cm", y="1cm")
        frame.setAttrNS(PRESENTATIONNS, "class", kind)
        box = draw.TextBox()
        box.addElement(P(text=text))
        frame.addElement(box)
        return frame

    for title, text, note in [("Plans & hopes", "for 2027", None), ("Budget", "Rent is 900.", "Do not mention the loan.")]:
        page = draw.Page(masterpagename="master")
        page.addElement(frame("title", title))
        page.addElement(frame("outline", text))
        page.addElement(frame("page-number", "7"))
        if note:
            notes = presentation.Notes()
            notes.addElement(frame("notes", note))
            page.addElement(notes)
        deck.presentation.addElement(page)
    deck.save(str(here / "odfpy.odp"))


MAKERS = (chromium, reportlab, columns, excel, large, old_excel, open_document, open_text, open_slides, word, slides)

# All of them, or those that are named.
for make in [make for make in MAKERS if make.__name__ in sys.argv[1:]] or MAKERS:
    make()
