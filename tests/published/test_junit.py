import xml.etree.ElementTree as ET

from recbench.published.check import Finding, judge
from recbench.published.junit import junit
from recbench.published.rows import Published

ROW = Published(
    paper="toy", table="1", dataset="Toy & Co", protocol="strong", model="EASE", metric="ndcg@10",
    value=0.5, our_dataset="toy", our_split="strong", our_model="ease", part="test",
    parameters="l2=5", tolerance=0.001, ours=0.5,
)  # fmt: skip
OTHER = Published(
    paper="another", table="", dataset="<msd>", protocol="strong", model="EASE", metric="ndcg@10",
    value=0.5, our_dataset="", our_split="strong", our_model="ease", part="test",
)  # fmt: skip
FINDINGS = [
    judge(ROW, 0.5),
    Finding(OTHER, "its dataset is not known"),
    judge(ROW, 0.4),
    Finding(ROW, "failed", reason="ValueError: \x00 \x1b[31m <&>"),
]


def test_every_row_is_a_case_of_its_papers_suite():
    root = ET.fromstring(junit(FINDINGS))
    assert root.tag == "testsuites"
    assert [suite.get("name") for suite in root] == ["another", "toy"]
    for element in (root, *root):
        cases = list(element.iter("testcase"))
        assert int(element.get("tests")) == len(cases)
        assert int(element.get("failures")) == len(list(element.iter("failure")))
        assert int(element.get("skipped")) == len(list(element.iter("skipped")))
    assert [case.get("classname") for case in root.iter("testcase")] == [
        "another.<msd>", "toy.toy", "toy.toy", "toy.toy",
    ]  # fmt: skip


def test_what_got_worse_fails_and_says_by_how_much():
    regressed, failed = ET.fromstring(junit(FINDINGS)).iter("failure")
    assert regressed.get("message") == "0.4 is worse than the recorded 0.5"
    assert regressed.text == "ours 0.4, recorded 0.5, published 0.5, tolerance 0.001"
    assert failed.get("message") == "ValueError: ? ?[31m <&>"


def test_what_was_not_run_is_skipped_with_its_reason():
    (skipped,) = ET.fromstring(junit(FINDINGS)).iter("skipped")
    assert skipped.get("message") == "its dataset is not known"


def test_an_empty_check_is_still_a_document():
    root = ET.fromstring(junit([]))
    assert (root.tag, root.get("tests")) == ("testsuites", "0")
