"""What was read, on the terminal and as a page."""

from dataclasses import dataclass

import numpy as np
from rich.console import Console
from training import Array, Digits

from vtakit.runtime.grid import Grid, count, share
from vtakit.runtime.module import Module
from vtakit.runtime.profile import Profile
from vtakit.runtime.report import Report
from vtakit.runtime.report.ceilings import measure
from vtakit.runtime.report.module_page import module_page
from vtakit.runtime.report.page import Page, Section

SHADES = " ░▒▓█"
ACROSS = 3  # images in a row on the terminal
WIDTH = 24  # of what is said of one


@dataclass(frozen=True, slots=True, eq=False)
class Reading:
    """What a network made of some images: a number for each class, [N, 10], and what they show, [N]."""

    device: str
    numbers: str
    logits: Array
    labels: Array

    @property
    def guesses(self) -> Array:
        """The class of each image."""
        found: Array = self.logits.argmax(axis=1)
        return found

    @property
    def wrong(self) -> Array:
        """The numbers of the images whose class is not what they show."""
        return np.flatnonzero(self.guesses != self.labels)

    @property
    def accuracy(self) -> float:
        """The share of the images that are read rightly."""
        return 1 - len(self.wrong) / len(self.labels)

    def __str__(self) -> str:
        return f"{self.numbers} on {self.device}: {self.accuracy:.1%} of {len(self.labels)} images that training did not see"


def differences(got: Array, wanted: Array) -> int:
    """For how many images not all bytes are the same."""
    assert got.dtype == wanted.dtype
    assert got.shape == wanted.shape
    return int((got.view(np.uint32) != wanted.view(np.uint32)).any(axis=1).sum())


def print_layers(report: Report) -> None:
    """Each layer's cycles, and what bounds them."""
    rows = [
        (layer.name, count(layer.cycles), count(layer.macs), share(layer.share_of_peak), layer.bound_by or "")
        for layer in (*report.layers, report.total)
    ]
    Console().print(Grid("", ("layer", "cycles", "MACs", "of peak", "bound by"), tuple(rows)))


def drawn(image: Array) -> list[str]:
    """An image in letters, two a pixel, since letters are high."""
    return ["".join(SHADES[round(float(pixel) * (len(SHADES) - 1))] * 2 for pixel in row) for row in image[0]]


def print_wrong(data: Digits, small: Reading, real: Reading) -> None:
    """The images that int8 reads wrongly."""
    for first in range(0, len(small.wrong), ACROSS):
        row = small.wrong[first : first + ACROSS]
        print("\n" + "   ".join(f"{said(data, small, real, at):{WIDTH}}" for at in row).rstrip())
        for lines in zip(*(drawn(data.images[at]) for at in row), strict=True):
            print("   ".join(f"{line:{WIDTH}}" for line in lines).rstrip())
    print()


def said(data: Digits, small: Reading, real: Reading, at: int) -> str:
    """What an image shows, what it was taken for, and what float32 takes it for if that is something else."""
    text = f"{data.labels[at]}, read as {small.guesses[at]}"
    return text if small.guesses[at] == real.guesses[at] else f"{text} (float: {real.guesses[at]})"


def page(module: Module, profile: Profile, data: Digits, readings: tuple[Reading, Reading, Reading]) -> Page:
    """The report: accuracy of float32, of int8 on fsim and on rtl; what int8 reads wrongly; where the cycles went."""
    real, small, _ = readings
    device = profile.launches[0].device
    made = module_page(f"Handwritten digits on {device}", module.image, profile, measure(module.image.target, profile.layers))
    result = Grid("accuracy", ("device", "numbers", "images", "wrong", "right"), tuple([
        (each.device, each.numbers, str(len(each.labels)), str(len(each.wrong)), f"{each.accuracy:.1%}") for each in readings
    ]), labels=2)
    return made.beginning_with(
        Section("Accuracy", "Images that training did not see. The devices' bytes are those of NumPy.", grid=result),
        Section("Read wrongly", "By int8.", picture="".join(figure(data.images[at, 0], said(data, small, real, at))
                                                            for at in small.wrong)),
    )


def figure(image: Array, text: str) -> str:
    """An image of the page, a square for each pixel, with a line of text."""
    squares = "".join(
        f'<rect x="{10 * column}" y="{10 * row}" width="10" height="10" fill="rgb({shade},{shade},{shade})"/>'
        for (row, column), shade in np.ndenumerate((255 * (1 - image)).astype(int))
    )
    line = f'<text x="0" y="95" font-size="11">{text}</text>'
    return f'<svg width="150" height="100" viewBox="0 0 150 100">{squares}{line}</svg>'
