"""Which worker of a cluster gets which group: one at a time each, within the memory of its machine.

Nothing here knows Dask, which could only count what every worker was started with.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from recbench.campaign.needs import Needs


@dataclass
class Place:
    """A worker that is ready for groups."""

    address: str
    machine: str
    memory: int
    """Bytes that a fit may take, the worker's own limit heeded."""
    disk: int
    """Bytes free where large inverses are kept."""
    number: int = 0
    """The lowest that no other worker of the machine has: it decides about the device."""
    at: Needs | None = None
    """What the group needs that it is at."""

    @property
    def taken(self) -> int:
        """The memory that its group was promised."""
        return (self.at.memory or 0) if self.at else 0

    def could_hold(self, needs: Needs) -> bool:
        """Whether the group fits if nothing else is on the machine."""
        return (needs.memory or 0) <= self.memory and needs.disk <= self.disk


class Places:
    """The workers that are ready, and what their machines have."""

    def __init__(self) -> None:
        self._places: dict[str, Place] = {}
        self._memory: dict[str, int] = {}

    def __contains__(self, address: str) -> bool:
        return address in self._places

    def __len__(self) -> int:
        return len(self._places)

    @property
    def machines(self) -> int:
        """How many machines they are on."""
        return len({place.machine for place in self._places.values()})

    def add(self, place: Place, free: int) -> None:
        """Take a worker in, on whose machine so much memory is free beside what is promised.

        A fit that is under way holds some of what it was promised, nobody knows how much: what was
        free when less was under way counts as well.
        """
        mates = [other for other in self._places.values() if other.machine == place.machine]
        numbers = {mate.number for mate in mates}
        place.number = next(n for n in range(len(mates) + 1) if n not in numbers)
        self._memory[place.machine] = max(self._memory.get(place.machine, 0) if mates else 0, free)
        place.memory = min(place.memory, self._memory[place.machine])
        self._places[place.address] = place

    def remove(self, address: str) -> None:
        """A worker is gone."""
        self._places.pop(address, None)

    def clear(self) -> None:
        """All of them are."""
        self._places.clear()

    def release(self, address: str, disk: int | None = None) -> None:
        """A worker has no group any more, and so much scratch space, if that is known."""
        place = self._places.get(address)
        if place is not None:
            place.at = None
            for mate in self._places.values():
                if disk is not None and mate.machine == place.machine:  # they share the folder
                    mate.disk = disk

    def assign(self, waiting: Iterable[Needs]) -> Iterator[tuple[int, Place]]:
        """Give groups, by their number in the queue, to workers that have room; the first go first.

        Memory is kept for the first that has to wait: those behind it would take it again and again
        as it comes free. Of the workers that have room the smallest is taken.
        """
        kept: dict[str, int] = {}
        for number, needs in enumerate(waiting):
            if all(place.at is not None for place in self._places.values()):
                return
            able = [place for place in self._places.values() if place.could_hold(needs)]
            room = {place.machine: self._left(place.machine) for place in able}
            asked = needs.memory or 0  # what nobody knows cannot be kept from anybody
            ready = [
                place for place in able
                if place.at is None
                and (not asked or asked <= room[place.machine] - kept.get(place.machine, 0))
                and needs.disk <= place.disk - self._disk_taken(place.machine)
            ]  # fmt: skip
            if ready:
                place = min(ready, key=lambda place: (place.memory, place.number))
                place.at = needs
                yield number, place
            elif able and not kept:
                kept[max(room, key=lambda machine: room[machine])] = asked

    def could_hold(self, needs: Needs) -> bool:
        """Whether any worker could take such a group, were it idle."""
        return any(place.could_hold(needs) for place in self._places.values())

    @property
    def most(self) -> Needs:
        """The most that any worker has."""
        places = self._places.values()
        return Needs(
            max((p.memory for p in places), default=0), max((p.disk for p in places), default=0)
        )

    def _left(self, machine: str) -> int:
        taken = sum(p.taken for p in self._places.values() if p.machine == machine)
        return self._memory[machine] - taken

    def _disk_taken(self, machine: str) -> int:
        return sum(p.at.disk for p in self._places.values() if p.at and p.machine == machine)
