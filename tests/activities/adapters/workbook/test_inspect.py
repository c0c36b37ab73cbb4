"""What bytes are, whatever their name says."""

from __future__ import annotations

import io
import zipfile
from pathlib import Path
from typing import Any

import openpyxl
import pytest
import xlsxwriter

from counterfoil.activities.adapters.workbook.inspect import inspect
from counterfoil.models.errors import Refusal

CORPUS = Path(__file__).parents[5] / "shared" / "corpus"
needs_corpus = pytest.mark.skipif(not CORPUS.is_dir(), reason=f"the corpus of real files is not at {CORPUS}")


def plain() -> bytes:
    target = io.BytesIO()
    book = xlsxwriter.Workbook(target, {"in_memory": True})
    sheet = book.add_worksheet("Data")
    sheet.write(0, 0, 1)
    book.close()
    return target.getvalue()


def code_of(content: bytes, suffix: str = ".xlsx") -> str:
    with pytest.raises(Refusal) as caught:
        inspect(content, suffix)
    return caught.value.code


def zipped(entries: list[tuple[str, bytes]]) -> bytes:
    target = io.BytesIO()
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as container:
        for name, content in entries:
            container.writestr(name, content)
    return target.getvalue()


def test_an_ordinary_workbook_is_one() -> None:
    workbook = inspect(plain(), ".XLSX")
    assert (workbook.main, workbook.suffix) == ("xl/workbook.xml", ".xlsx")


REFUSED = {
    "tika__testEXCEL.strict.xlsx": "WORKBOOK_STRICT",
    "tika__testEXCEL.xls": "WORKBOOK_LEGACY",
    "msoffcrypto-tool__example_password.xlsx": "WORKBOOK_ENCRYPTED",
    "tika__testWORD.docx": "WORKBOOK_MISLABELLED",
    "tika__testWORD_truncated.docx": "WORKBOOK_CORRUPT",
    "tika__testPPT.pptx": "WORKBOOK_MISLABELLED",
    "tika__testODFwithOOo3.odt": "WORKBOOK_MISLABELLED",
    "puremagic__test_utf16le.csv": "WORKBOOK_MISLABELLED",
    "PhpSpreadsheet__charset.UTF-8.bom.html": "WORKBOOK_MISLABELLED",
    "pocs__1016garbage.pdf": "WORKBOOK_NOT_OOXML",
    "pocs__pdf_zip_pe.exe": "WORKBOOK_NOT_OOXML",
    "rubyzip__symlink.zip": "WORKBOOK_CORRUPT",
    "tika__testZIP_corrupted_oom.zip": "WORKBOOK_CORRUPT",
}
EDITED = {"tika__testEXCEL.xlsx", "tika__testEXCEL_macro.xlsm"}


@needs_corpus
def test_every_file_of_the_corpus_is_accounted_for() -> None:
    assert {path.name for path in CORPUS.iterdir()} - {"README.md", "SOURCES.txt"} == REFUSED.keys() | EDITED


@needs_corpus
@pytest.mark.parametrize("name", sorted(REFUSED))
def test_a_real_file_that_is_no_editable_workbook_is_refused(workplace: Any, probe: Any, name: str) -> None:
    content = (CORPUS / name).read_bytes()
    failed = workplace.refuse(content, probe("Sheet1"), "renamed.xlsx")
    assert failed.code == REFUSED[name]


@needs_corpus
@pytest.mark.parametrize("name", sorted(EDITED))
def test_a_real_workbook_is_edited_and_verified(workplace: Any, probe: Any, name: str) -> None:
    content = (CORPUS / name).read_bytes()
    sheet = openpyxl.load_workbook(io.BytesIO(content)).sheetnames[0]
    output = workplace.edit(content, probe(sheet), "book" + Path(name).suffix)
    assert openpyxl.load_workbook(io.BytesIO(output))[sheet]["AZ3"].value == 12.5


@needs_corpus
def test_a_real_macro_workbook_under_the_plain_name_is_mislabelled() -> None:
    assert code_of((CORPUS / "tika__testEXCEL_macro.xlsm").read_bytes(), ".xlsx") == "WORKBOOK_MISLABELLED"
    assert code_of(plain(), ".xlsm") == "WORKBOOK_MISLABELLED"


def test_a_template_is_mislabelled(repacked: Any, parts: Any) -> None:
    types = parts(plain())["[Content_Types].xml"]
    template = repacked(plain(), {"[Content_Types].xml": types.replace(b"sheet.main+xml", b"template.main+xml")})
    assert code_of(template) == "WORKBOOK_MISLABELLED"


def test_a_binary_workbook_is_not_ooxml(repacked: Any, parts: Any) -> None:
    types = parts(plain())["[Content_Types].xml"]
    main = b"application/vnd.openxmlformats-officedocument.spreadsheetml.sheet.main+xml"
    binary = types.replace(main, b"application/vnd.ms-excel.sheet.binary.macroEnabled.main")
    assert code_of(repacked(plain(), {"[Content_Types].xml": binary})) == "WORKBOOK_NOT_OOXML"


def test_other_zip_archives_are_not_workbooks() -> None:
    assert code_of(zipped([("a.txt", b"a")])) == "WORKBOOK_NOT_OOXML"
    assert code_of(zipped([("mimetype", b"application/epub+zip")])) == "WORKBOOK_MISLABELLED"


@pytest.mark.parametrize("content", [b"", b"PK\x03\x04", b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1junk"])
def test_stumps_are_corrupt(content: bytes) -> None:
    assert code_of(content) == "WORKBOOK_CORRUPT"


@pytest.mark.parametrize("content", [b"a,b\n1,2\n", "ä;ö\n".encode(), b"<html><table/></html>", b"\xff\xfea\x00"])
def test_text_under_a_workbooks_name_is_mislabelled(content: bytes) -> None:
    assert code_of(content) == "WORKBOOK_MISLABELLED"


@pytest.mark.parametrize("content", [b"\x00\x01\x02", b"\x89PNG\r\n", b"MZ\x90", b"{\\rtf1}"])
def test_other_kinds_of_files_are_not_ooxml(content: bytes) -> None:
    assert code_of(content) == "WORKBOOK_NOT_OOXML"


@pytest.mark.parametrize("keep", [0.3, 0.6, 0.95, 0.999])
def test_a_truncated_workbook_is_corrupt(keep: float) -> None:
    content = plain()
    assert code_of(content[: int(len(content) * keep)]) == "WORKBOOK_CORRUPT"


def test_a_flipped_bit_in_a_part_is_corrupt() -> None:
    content = bytearray(plain())
    content[60] ^= 0x10
    assert code_of(bytes(content)) == "WORKBOOK_CORRUPT"


def test_a_missing_main_part_is_corrupt(repacked: Any) -> None:
    assert code_of(repacked(plain(), {"xl/workbook.xml": None})) == "WORKBOOK_CORRUPT"


@pytest.mark.parametrize("name", ["../evil.xml", "xl/../../evil.xml", "C:/evil.xml", "xl\\..\\evil.xml", "//evil"])
def test_a_part_outside_the_container_is_corrupt(repacked: Any, name: str) -> None:
    assert code_of(repacked(plain(), {name: b"x"})) == "WORKBOOK_CORRUPT"


@pytest.mark.filterwarnings("ignore:Duplicate name")
@pytest.mark.parametrize("name", ["xl/workbook.xml", "xl/WORKBOOK.xml", "/xl/workbook.xml"])
def test_a_part_that_is_there_twice_is_corrupt(name: str, parts: Any) -> None:
    assert code_of(zipped([*parts(plain()).items(), (name, b"<a/>")])) == "WORKBOOK_CORRUPT"


def test_a_bomb_is_corrupt(repacked: Any) -> None:
    assert code_of(repacked(plain(), {"xl/bomb.xml": b"\x00" * 20_000_000})) == "WORKBOOK_CORRUPT"


def test_too_many_parts_are_corrupt(repacked: Any) -> None:
    assert code_of(repacked(plain(), {f"xl/x{n}.xml": b"" for n in range(10_001)})) == "WORKBOOK_CORRUPT"


def test_entities_are_corrupt(repacked: Any, parts: Any) -> None:
    declaration = b'<!DOCTYPE a [<!ENTITY b "c">]>'
    main = parts(plain())["xl/workbook.xml"].replace(b"?>\n", b"?>\n" + declaration)
    assert code_of(repacked(plain(), {"xl/workbook.xml": main})) == "WORKBOOK_CORRUPT"


def test_a_signed_workbook_is_named_as_such(repacked: Any) -> None:
    with pytest.raises(Refusal) as caught:
        inspect(repacked(plain(), {"_xmlsignatures/sig1.xml": b"<a/>"}), ".xlsx")
    assert caught.value.code == "WORKBOOK_UNSUPPORTED_CONTENT"
    assert caught.value.subject == "_xmlsignatures/sig1.xml"


def test_a_shared_workbooks_log_of_revisions_is_named(repacked: Any) -> None:
    assert code_of(repacked(plain(), {"xl/revisions/revisionLog1.xml": b"<a/>"})) == "WORKBOOK_UNSUPPORTED_CONTENT"


def test_a_workbook_reserved_by_a_password_is_named(repacked: Any, parts: Any) -> None:
    main = parts(plain())["xl/workbook.xml"]
    reserved = main.replace(b"<workbookPr", b'<fileSharing userName="a" reservationPassword="CC1A"/><workbookPr')
    assert code_of(repacked(plain(), {"xl/workbook.xml": reserved})) == "WORKBOOK_UNSUPPORTED_CONTENT"
