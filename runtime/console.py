"""rich's console with text that cannot control the terminal."""

from collections.abc import Iterable

from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment

from vtakit.base.text import printable


class PrintableConsole(Console):
    """A console that writes control characters of the text it is given as escapes. Its own styles and cursor moves remain."""

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        """Render to segments of printable text."""
        for segment in super().render(renderable, options):
            yield segment if segment.control else Segment(printable(segment.text), segment.style)
