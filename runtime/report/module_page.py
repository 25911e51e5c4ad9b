"""The page of a module, whatever its parts run on."""

from dataclasses import replace

from vtakit.runtime.profile import Profile
from vtakit.runtime.report.accelerator_page import accelerator_page, device_facts
from vtakit.runtime.report.ceilings import Ceilings
from vtakit.runtime.report.model_page import model_page
from vtakit.runtime.report.page import Page, Section
from vtakit.runtime.report.report import Report
from vtakit.runtime.target import Summary


def module_page(title: str, image: Summary, profile: Profile, ceilings: Ceilings) -> Page:
    """Return the page of `model_page`, for a module with launches after the sections of `accelerator_page` for each launch."""
    page = model_page(title, image, profile, ceilings)
    launches = profile.launches
    if not launches:
        return page
    sections = [
        section if len(launches) == 1 else replace(section, title=f"Launch {at}: {section.title}")
        for at, report in enumerate(launches, 1) for section in accelerator_page(title, report, f"launch{at}-").sections
    ]
    if profile.placement is not None:
        sections.append(Section("Left to this processor", "The dearest first.", grid=profile.left))
    sections += [replace(section, title=f"On this processor: {section.title}") for section in page.sections]
    whole = Report(launches[0].device, tuple([layer for report in launches for layer in report.layers]))
    return Page(title, (
        *device_facts(whole), ("launches", str(len(launches))), ("on this processor", f"{profile.seconds * 1e3:.3f} ms"),
    ), tuple(sections))
