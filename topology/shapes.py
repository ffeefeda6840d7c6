"""The shapes that a picture of a machine is made of."""

from dataclasses import dataclass, field

__all__ = ["Box", "Dot", "Line", "Picture"]


@dataclass(frozen=True, slots=True)
class Dot:
    """A device, or a network port."""

    x: float
    y: float
    label: str
    kind: str
    """`device` or `nic`."""


@dataclass(frozen=True, slots=True)
class Line:
    """A link."""

    points: tuple[tuple[float, float], ...]
    kind: str
    width: float = 1.5
    faint: bool = False


@dataclass(frozen=True, slots=True)
class Box:
    """A switch, a server, a group of devices or something shared, around its middle."""

    x: float
    y: float
    width: float
    height: float
    label: str
    kind: str
    """`switch`, `server`, `group` (an ellipse), or `shared`."""


@dataclass(slots=True)
class Picture:
    """Everything to draw; y grows upwards."""

    title: str
    subtitle: str = ""
    dots: list[Dot] = field(default_factory=list)
    lines: list[Line] = field(default_factory=list)
    boxes: list[Box] = field(default_factory=list)
    legend: dict[str, str] = field(default_factory=dict)
    """What a kind of link is, by kind."""

    def extent(self) -> tuple[float, float, float, float]:
        """Left, right, bottom and top of all shapes."""
        xs = [dot.x for dot in self.dots] + [x for line in self.lines for x, _ in line.points]
        ys = [dot.y for dot in self.dots] + [y for line in self.lines for _, y in line.points]
        for box in self.boxes:
            xs += [box.x - box.width / 2, box.x + box.width / 2]
            ys += [box.y - box.height / 2, box.y + box.height / 2]
        return min(xs), max(xs), min(ys), max(ys)
