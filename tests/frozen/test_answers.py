"""The comparison of frozen answers finds what differs, and the answers are those of the cases."""

from tests.frozen.answers import CASES, KEPT, TOLERANCE, cases, differences, first_difference, kept


def test_every_case_has_an_answer_and_every_answer_a_case() -> None:
    names = [case.name for case in cases(CASES.read_text())]
    assert len(names) == len(set(names)) >= 40
    assert sorted(names) == sorted(path.name.removesuffix(".json.gz") for path in KEPT.iterdir())


def test_every_command_of_a_case_has_an_exit_status() -> None:
    for case in cases(CASES.read_text()):
        frozen = kept(case.name)
        assert {f"{at} exit" for at in range(len(case.commands))} <= frozen.keys()


def test_the_first_difference_has_its_place() -> None:
    place = first_difference("a\nstep 1.5 s\n", "a\nstep 2.5 s\n", TOLERANCE)
    assert place.startswith(":2:6: ")
    assert "step 1.5 s" in place
    assert "step 2.5 s" in place


def test_numbers_may_differ_by_the_tolerance_and_words_not_at_all() -> None:
    assert not first_difference("1.0000000000001 s", "1.0 s", TOLERANCE)
    assert first_difference("1.0000000000001 s", "1.0 s", 0)
    assert first_difference("1.00000000001 s", "1.0 s", TOLERANCE)
    assert first_difference("1 s", "1 ms", TOLERANCE)
    assert first_difference("a", "a\nb", TOLERANCE)


def test_files_that_come_and_go_are_named() -> None:
    found = list(differences({"old": "", "both": "x"}, {"both": "x", "new": ""}, TOLERANCE))
    assert found == ["new: is new", "old: is missing"]
