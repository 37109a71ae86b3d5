"""Findings of a check as JUnit XML, which every CI service reads: a test case per published row."""

import re
from collections.abc import Sequence
from itertools import groupby
from xml.etree import ElementTree as ET

from recbench.published.check import Finding

FORBIDDEN = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
"""Characters that XML has no way to write."""


def junit(findings: Sequence[Finding]) -> str:
    """One suite per paper; what got worse is a failure, what could not be run is skipped."""
    root = ET.Element("testsuites", {"name": "recbench check", **_counts(findings)})
    ordered = sorted(findings, key=lambda finding: finding.row.paper)
    for paper, group in groupby(ordered, key=lambda finding: finding.row.paper):
        members = list(group)
        suite = ET.SubElement(root, "testsuite", {"name": paper, **_counts(members)})
        for finding in members:
            _case(suite, finding)
    ET.indent(root)
    text = ET.tostring(root, encoding="unicode", xml_declaration=False)
    return f'<?xml version="1.0" encoding="UTF-8"?>\n{text}\n'


def _counts(findings: Sequence[Finding]) -> dict[str, str]:
    return {
        "tests": str(len(findings)),
        "failures": str(sum(finding.regressed for finding in findings)),
        "errors": "0",
        "skipped": str(sum(not finding.checked for finding in findings)),
    }


def _case(suite: ET.Element, finding: Finding) -> None:
    row = finding.row
    place = f"{row.paper}.{row.our_dataset or row.dataset}"
    name = f"{row.text} {row.metric} {row.part}" + (f", table {row.table}" if row.table else "")
    case = ET.SubElement(suite, "testcase", classname=_legal(place), name=_legal(name))
    if not finding.checked:
        ET.SubElement(case, "skipped", message=_legal(finding.status))
        return
    if finding.regressed:
        message = finding.reason or f"{finding.value} is worse than the recorded {row.ours}"
        failure = ET.SubElement(
            case, "failure", type=finding.status.lower(), message=_legal(message)
        )
        failure.text = _numbers(finding)
    ET.SubElement(case, "system-out").text = f"{finding.status}; {_numbers(finding)}"


def _numbers(finding: Finding) -> str:
    row = finding.row
    known = {
        "ours": finding.value, "recorded": row.ours, "published": row.value,
        "tolerance": row.tolerance, "inside the grid": row.inside,
    }  # fmt: skip
    return ", ".join(f"{name} {value}" for name, value in known.items() if value is not None)


def _legal(text: str) -> str:
    return FORBIDDEN.sub("?", text)
