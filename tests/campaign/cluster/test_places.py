"""Who gets which group, without any cluster."""

from hypothesis import given
from hypothesis import strategies as st

from recbench.campaign.cluster.places import Place, Places
from recbench.campaign.needs import Needs

GB = 10**9


def places(*workers: tuple[str, str, int], free: int) -> Places:
    made = Places()
    for address, machine, memory in workers:
        made.add(Place(address, machine, memory, disk=0), free)
    return made


def given_out(made: Places, *memory: int | None) -> dict[int, str]:
    needs = [Needs(one) for one in memory]
    return {number: place.address for number, place in made.assign(needs)}


def test_a_large_group_goes_to_a_worker_that_has_the_memory():
    made = places(("small", "m", 4 * GB), ("large", "n", 20 * GB), free=20 * GB)
    assert given_out(made, 17 * GB, 17 * GB, 1 * GB) == {0: "large", 2: "small"}


def test_two_fits_are_never_put_into_memory_for_one():
    made = places(("a", "m", 10 * GB), ("b", "m", 10 * GB), free=12 * GB)
    assert given_out(made, 8 * GB, 8 * GB) == {0: "a"}
    made.release("a")
    assert given_out(made, 8 * GB) == {0: "a"}


def test_memory_is_kept_for_the_first_that_waits():
    made = places(*((name, "m", 10 * GB) for name in "abc"), free=10 * GB)
    assert given_out(made, 4 * GB) == {0: "a"}
    assert given_out(made, 8 * GB, 4 * GB, None) == {2: "b"}  # unless nobody knows what it takes
    made.release("a")
    assert given_out(made, 8 * GB, 4 * GB) == {0: "a"}


def test_what_nobody_could_ever_hold_keeps_no_memory_from_others():
    made = places(("a", "m", 4 * GB), free=4 * GB)
    assert given_out(made, 8 * GB, 4 * GB) == {1: "a"}
    assert not made.could_hold(Needs(8 * GB))
    assert made.most == Needs(4 * GB, 0)


def test_scratch_space_is_looked_at_too():
    made = Places()
    made.add(Place("a", "m", GB, disk=5 * GB), GB)
    assert not made.could_hold(Needs(0, 6 * GB))
    assert [place.address for _, place in made.assign([Needs(0, 5 * GB)])] == ["a"]
    made.release("a", disk=GB)
    assert not list(made.assign([Needs(0, 5 * GB)]))


def test_two_fits_are_never_put_onto_a_disk_for_one():
    made = Places()
    for address in "ab":
        made.add(Place(address, "m", GB, disk=6 * GB), GB)
    large = Needs(0, 4 * GB)
    assert [place.address for _, place in made.assign([large, large])] == ["a"]
    assert [place.address for _, place in made.assign([large, Needs(GB)])] == ["b"]
    made.release("b", disk=3 * GB)  # the fit of the other has written most of it
    made.release("a", disk=6 * GB)
    assert len([*made.assign([large, Needs(0, 2 * GB)])]) == 2


def test_each_worker_of_a_machine_has_a_number_and_a_new_one_takes_that_of_one_that_left():
    made = places(("a", "m", GB), ("b", "m", GB), ("c", "n", GB), free=GB)
    made.remove("a")
    made.add(Place("d", "m", GB, disk=0), GB)
    given = {place.address: place.number for _, place in made.assign([Needs()] * 3)}
    assert given == {"b": 1, "c": 0, "d": 0}


def test_a_machine_is_as_large_as_it_was_when_little_was_under_way():
    made = places(("a", "m", 10 * GB), free=10 * GB)
    given_out(made, 6 * GB)
    made.add(Place("b", "m", 10 * GB, disk=0), free=4 * GB)  # the fit holds what it was promised
    assert given_out(made, 5 * GB) == {}
    assert given_out(made, 4 * GB) == {0: "b"}


def test_who_comes_in_the_middle_of_a_fit_has_all_of_the_machine_when_that_is_over():
    made = places(("a", "m", 10 * GB), free=10 * GB)
    given_out(made, 8 * GB)
    made.add(Place("b", "m", 99 * GB, disk=0), free=2 * GB)
    assert given_out(made, 5 * GB) == {}
    made.remove("a")
    assert made.could_hold(Needs(10 * GB))
    assert not made.could_hold(Needs(11 * GB))
    assert given_out(made, 5 * GB) == {0: "b"}


@given(
    st.lists(st.tuples(st.sampled_from("mn"), st.integers(1, 10)), min_size=1, max_size=6),
    st.lists(st.integers(0, 12), max_size=12),
    st.integers(1, 12),
)
def test_whatever_comes_no_machine_is_promised_more_than_it_has(workers, queue, free):
    made = places(*((str(n), *worker) for n, worker in enumerate(workers)), free=free)
    given = dict(made.assign([Needs(one) for one in queue]))
    for machine in "mn":
        promised = [queue[number] for number, place in given.items() if place.machine == machine]
        assert sum(promised) <= free
    assert len({place.address for place in given.values()}) == len(given)
    assert all(queue[number] <= place.memory for number, place in given.items())
