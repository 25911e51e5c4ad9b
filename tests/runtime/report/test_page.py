"""Pages of reports: whole, self-contained HTML with a row, a point and a place in time for every layer."""

import re
from dataclasses import replace
from html.parser import HTMLParser

import numpy as np
import onnx
import pytest
from driver_support import COUNTERS, PRODUCT, TINY
from model_support import model, network
from quantized_support import Layers, quantized
from support import EXAMPLES, raises

import vtakit
from vtakit.base.errors import VtakitError
from vtakit.hw.isa.file import save
from vtakit.hw.isa.insns import Stage
from vtakit.runtime import cli
from vtakit.runtime.cpu.target import Cpu
from vtakit.runtime.profile import CONVERTS
from vtakit.runtime.report import Layer, Report
from vtakit.runtime.report.accelerator_page import accelerator_page
from vtakit.runtime.report.ceilings import Ceilings, measure
from vtakit.runtime.report.charts import _shares, roofline_of
from vtakit.runtime.report.model_page import model_page
from vtakit.runtime.report.module_page import module_page
from vtakit.runtime.report.page import Page, Section, bar
from vtakit.sim.trace import Span, Trace

TRACE = Trace(cycles=40, instructions=(), causes=tuple(
    Span(stage=stage, start=start, end=end, name=name)
    for stage in Stage for start, end, name in ((0, 10, "idle"), (10, 30, "busy"), (30, 40, "wait_memory"))
))
_ALONE = {"meta", "img", "link", "br", "hr", "input"}


class Reader(HTMLParser):
    """What a page has; tags that are not closed, ids that stand twice, and what would be fetched are failures."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.ids: set[str] = set()
        self.rows: list[list[str]] = []
        self.heads: list[str] = []
        self.links: set[str] = set()
        self.feed(text)
        self.close()
        assert self.open == []
        assert all(link[1:] in self.ids for link in self.links), self.links - {f"#{each}" for each in self.ids}

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        assert tag not in ("script", "link", "iframe")
        for name, value in attrs:
            if name == "id":
                assert value not in self.ids
                self.ids.add(str(value))
            elif name in ("src", "href", "xlink:href"):
                assert str(value).startswith("#"), f"the page would fetch {value}"
                self.links.add(str(value))
            self.links |= set(re.findall(r"url\((#[^)]*)\)", value or ""))
        if tag not in _ALONE:
            self.open.append(tag)
        if tag == "tr":
            self.rows.append([])
        elif tag in ("td", "th"):
            self.rows[-1].append("")

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attrs)
        if tag not in _ALONE:
            self.handle_endtag(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self.open[-1:] in (["td"], ["th"]):
            self.rows[-1][-1] += data
        elif self.open[-1:] == ["h2"]:
            self.heads.append(data)


@pytest.fixture
def report() -> Report:
    layer = Layer.of("a <product> & $x$", TINY, PRODUCT.insns, COUNTERS, bus_bytes=8)
    return Report("rtl", (layer, Layer.of("again", TINY, PRODUCT.insns, COUNTERS | {"cycles": 400}, bus_bytes=8)))


def test_a_program_has_layers_roofline_stalls_timeline_and_traffic(report):
    report = replace(report, trace=TRACE)
    text = str(accelerator_page("a & b", report))
    page = Reader(text)
    assert page.heads == ["Layers", "Roofline", "Stalls", "Timeline", "Traffic"]
    assert page.rows[1][:5] == ["1", "a <product> & $x$", "200", "33.3%", "16"]
    assert [row[:4] for row in page.rows[2:4]] == [["2", "again", "400", "66.7%"], ["", "all", "600", "100.0%"]]
    assert "<title>a &amp; b</title>" in text
    assert "<product>" not in text
    assert text.count("<svg") == 3
    assert 'style="background-size: 33.3% 100%"' in text
    assert text == str(accelerator_page("a & b", report))


def test_what_a_device_does_not_tell_is_left_out():
    page = Reader(str(accelerator_page("p", Report("fsim", (Layer.of("product", TINY, PRODUCT.insns, {}),)))))
    assert page.heads == ["Layers", "Traffic"]
    assert page.rows[1][:4] == ["1", "product", "–", "16"]


def test_columns_of_a_timeline_are_shares_of_cycles():
    edges = np.linspace(0, 40, 9)
    np.testing.assert_allclose(_shares([(0, 10), (12, 13), (35, 40)], edges), [1, 1, 0.2, 0, 0, 0, 0, 1])
    np.testing.assert_allclose(_shares([], edges), np.zeros(8))
    rng = np.random.default_rng(0)
    cuts = np.sort(rng.choice(1000, 40, replace=False))
    spans = list(zip(cuts[::2].tolist(), cuts[1::2].tolist(), strict=True))
    busy = np.zeros(1000)
    for start, end in spans:
        busy[start:end] = 1
    np.testing.assert_allclose(_shares(spans, np.arange(0, 1001, 25.0)), busy.reshape(-1, 25).mean(axis=1))


def test_a_model_has_layers_roofline_kinds_and_timeline():
    module = vtakit.compile(network())
    profile = module.profile({"x": np.zeros((1, 3, 16, 16), np.float32)}, repeat=1)
    page = Reader(str(model_page("net", module.image, profile, Ceilings(1e11, 1e10))))
    assert page.heads == ["Layers", "Roofline", "Time by operator", "Timeline"]
    assert [row[1] for row in page.rows[1 : len(profile.layers) + 1]] == [timed.name for timed in profile.layers]
    first = profile.layers[0]
    roof = min(1e11, first.layer.macs / first.layer.bytes * 1e10)
    assert page.rows[1][-2:] == ["memory" if roof < 1e11 else "compute", f"{first.layer.macs / first.seconds / roof:.1%}"]
    kinds = page.rows[len(profile.layers) + 2 :]
    assert sum(int(row[1]) for row in kinds) == len(profile.layers)
    assert kinds[0][0] == max({row[0]: float(row[2]) for row in kinds}.items(), key=lambda pair: pair[1])[0]


@pytest.mark.parametrize(("count", "words"), [(1, ["", "On this processor: "]),
                                              (2, ["Launch 1: ", "Launch 2: ", "On this processor: "])])
def test_a_module_with_launches_has_the_sections_of_each_and_of_its_processor(report, count, words):
    """No id stands twice, whatever is drawn twice."""
    module = vtakit.compile(network())
    profile = module.profile({"x": np.zeros((1, 3, 16, 16), np.float32)}, repeat=1)
    launches = (replace(report, trace=TRACE),) * count
    made = module_page("net on rtl", module.image, replace(profile, launches=launches), Ceilings(1e11, 1e10))
    page, known = Reader(str(made)), dict(made.facts)
    device = ["Layers", "Roofline", "Stalls", "Timeline", "Traffic"]
    processor = ["Layers", "Roofline", "Time by operator", "Timeline"]
    assert page.heads == [word + head for word in words for head in (processor if "processor" in word else device)]
    assert (known["device"], known["cycles"], known["launches"]) == ("rtl", f"{600 * count:,}", str(count))
    assert known["on this processor"] == f"{profile.seconds * 1e3:.3f} ms"
    assert str(module_page("net", module.image, profile, Ceilings(1e11, 1e10))) == str(
        model_page("net", module.image, profile, Ceilings(1e11, 1e10)))


def test_a_model_with_launches_says_of_each_layer_on_the_processor_why_and_what_it_costs():
    node, rng = onnx.helper.make_node, np.random.default_rng(0)
    constants = {"s": np.float32(0.1), "z": np.int8(0), "w": rng.integers(-99, 99, (4, 4, 1, 1), np.int8)}
    nodes = [
        node("QuantizeLinear", ["x", "s", "z"], ["q"]), node("DequantizeLinear", ["q", "s", "z"], ["d"]),
        node("DequantizeLinear", ["w", "s", "z"], ["v"]), node("Conv", ["d", "v"], ["c"], name="conv"),
        node("QuantizeLinear", ["c", "s", "z"], ["r"]), node("DequantizeLinear", ["r", "s", "z"], ["e"]),
        node("Softmax", ["e"], ["p"], name="soft", axis=1), node("Conv", ["p", "v"], ["y"], name="float")]
    proto = model(nodes, [("x", "f4", (1, 4, 6, 6))], [("y", "f4", (1, 4, 6, 6))], constants)
    module = vtakit.compile(proto, "vta")
    profile = module.profile({"x": rng.standard_normal((1, 4, 6, 6), np.float32)}, repeat=1)
    rows = {row[0].partition(" ")[0]: row for row in profile.left.rows}
    assert rows["soft"][2] == "it computes in floating point, and the accelerator in int8"
    assert "8 bits" in rows["float"][2] or "quantize" in rows["float"][2]
    assert rows["float"][-1] == "50.0%"
    assert sum(float(row[3]) for row in profile.left.rows) == pytest.approx(profile.seconds * 1e3, abs=0.01)
    assert [row for row in profile.left.rows if row[2] == CONVERTS]
    page = Reader(str(module_page("net", module.image, profile, Ceilings(1e11, 1e10))))
    assert "Left to this processor" in page.heads
    assert "left to the CPU" in str(profile)
    assert {each["why"] for each in profile.to_dict()["layers"]} == {row[2] for row in profile.left.rows}


def test_ceilings_are_those_of_a_processor():
    """Wide bounds: between what any processor does and what none does."""
    found = measure(Cpu.host().ready("ceilings"))
    assert 1e8 < found.macs < 1e14
    assert 1e8 < found.bytes < 1e13


def test_bars_are_of_percentages():
    assert [bar(cell) for cell in ("12.5%", "130.0%", "12", "–", "a%", "")] == [12.5, 100, None, None, None, None]


def test_sections_can_be_put_before(report):
    page = accelerator_page("p", report).beginning_with(Section("First", "some <text>"))
    assert page.sections[0].title == "First"
    assert "some &lt;text&gt;" in str(page)
    assert isinstance(page, Page)


def test_points_are_of_layers_that_multiply(report):
    idle = Layer.of("idle", TINY, (), COUNTERS, bus_bytes=8)
    assert [label for label, *_ in roofline_of(Report("rtl", (idle, *report.layers))).points] == ["2", "3"]


def test_a_report_saves_a_page(report, tmp_path):
    replace(report, trace=TRACE).save(tmp_path / "page.html")
    assert Reader((tmp_path / "page.html").read_text()).heads[-2:] == ["Timeline", "Traffic"]
    with raises(VtakitError, "a report is a .html, .json, .png, .svg or .txt file, not 'x.htm'"):
        report.save("x.htm")


def test_the_command_for_models(tmp_path, capsys):
    model, page = tmp_path / "net.onnx", tmp_path / "page.html"
    onnx.save(network(), model)
    assert cli.main(["report", str(model), "-o", str(page)]) == 0
    assert capsys.readouterr().out == f"{page}: Layers, Roofline, Time by operator, Timeline\n"
    assert "<h1>net.onnx on this processor</h1>" in page.read_text()
    np.savez(tmp_path / "in.npz", x=np.zeros((1, 3, 16, 16), np.float32))
    vtakit.compile(network()).save(tmp_path / "net.vtak")
    page.unlink()
    assert cli.main(["report", str(tmp_path / "net.vtak"), "-o", str(page), "--input", str(tmp_path / "in.npz")]) == 0
    Reader(page.read_text())


def test_the_command_for_models_on_the_accelerator(tmp_path, capsys):
    model, page = tmp_path / "net.onnx", tmp_path / "page.html"
    net = Layers(3, channels=3, size=6)
    net.classifier(net.pool(net.relu(net.conv("x", 6))), 4)
    onnx.save(quantized(net.model(), net.inputs(4)), model)
    assert cli.main(["report", str(model), "-o", str(page), "--target", "vta", "--config", "tiny", "--device", "rtl"]) == 0
    device = ["Layers", "Roofline", "Stalls", "Timeline", "Traffic"]
    processor = ["Left to this processor", *[
        f"On this processor: {head}" for head in ("Layers", "Roofline", "Time by operator", "Timeline")]]
    assert Reader(page.read_text()).heads == [*device, *processor]
    assert "<h1>net.onnx on rtl</h1>" in page.read_text()
    capsys.readouterr()
    assert cli.main(["report", str(model), "-o", str(page), "--target", "vta", "--config", "tiny"]) == 0
    assert Reader(page.read_text()).heads == [*device, *processor]
    assert "<h1>net.onnx on cycle</h1>" in page.read_text()
    module = tmp_path / "net.vtak"
    assert cli.main(["compile", str(model), "-o", str(module), "--target", "vta", "--config", "tiny"]) == 0
    assert cli.main(["report", str(module), "-o", str(page)]) == 0
    assert "<h1>net.vtak on cycle</h1>" in page.read_text()
    assert cli.main(["report", str(module), "-o", str(page), "--device", "fsim"]) == 0
    assert Reader(page.read_text()).heads == ["Layers", "Traffic", *processor]
    assert "<h1>net.vtak on fsim</h1>" in page.read_text()


@pytest.mark.parametrize(("words", "what"), [
    (["net.onnx", "-o", "net.onnx"], "--output 'net.onnx' would replace the model 'net.onnx'"),
    (["net.onnx", "-o", "in.npz", "--input", "in.npz"], "--output 'in.npz' would replace the input 'in.npz'"),
    (["p.vta", "-o", "p.vta", "--device", "fsim"], "--output 'p.vta' would replace the program 'p.vta'"),
    (["p.vta", "-o", "x.bin", "--device", "fsim", "--input", "x=x.bin"], "--output 'x.bin' would replace the input 'x.bin'"),
])
def test_a_page_does_not_replace_what_is_read(words, what, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    onnx.save(network(), "net.onnx")
    np.savez("in.npz", x=np.zeros((1, 3, 16, 16), np.float32))
    save(PRODUCT, "p.vta")
    (tmp_path / "x.bin").write_bytes(b"\1\2\3\4")
    before = {path: path.read_bytes() for path in tmp_path.iterdir()}
    assert cli.main(["report", *words]) == 2
    assert capsys.readouterr().err == f"vtakit report: {what}; name another file\n"
    assert {path: path.read_bytes() for path in tmp_path.iterdir()} == before


def test_the_command_for_programs(tmp_path, capsys):
    page = tmp_path / "page.html"
    save(PRODUCT, tmp_path / "p.vta")
    assert cli.main(["report", str(tmp_path / "p.vta"), "-o", str(page), "--device", "fsim"]) == 0
    assert capsys.readouterr().out == f"{page}: Layers, Traffic\n"
    (tmp_path / "x.bin").write_bytes(b"\1\2\3\4")
    words = [str(tmp_path / "p.vta"), "-o", str(page), "--device", "rtl", "--input", f"x={tmp_path / 'x.bin'}"]
    assert cli.main(["report", *words]) == 0
    assert Reader(page.read_text()).heads == ["Layers", "Roofline", "Stalls", "Timeline", "Traffic"]


@pytest.mark.parametrize(("words", "message"), [
    (["net.onnx", "-o", "page.html", "--device", "rtl"],
     "device 'rtl' runs models for target 'vta' (--target vta); this one is for 'llvm', which runs on cpu"),
    (["net.onnx", "-o", "no/page.html"], "cannot write the report 'no/page.html': No such file or directory"),
    (["net.onnx", "-o", "page.html", "--input", "a", "--input", "b"],
     "a model takes --input once: an .npz file with an array for each input"),
    (["p.vta", "-o", "page.html", "--batch", "2"], "'p.vta' is a program: --batch goes with a model"),
    (["p.vta", "-o", "page.html", "--isa", "original"], "'p.vta' is a program: --isa goes with a model"),
    (["none.vta", "-o", "page.html", "--device", "fsim"], "cannot read program file 'none.vta': No such file or directory"),
    (["junk.vta", "-o", "page.html", "--device", "fsim"], "'junk.vta' is not a vtakit program file"),
    (["p.vta", "-o", "page.html", "--device", "fsim", "--input", "x"], "--input takes NAME=FILE, got 'x'"),
])
def test_mistakes_are_one_sentence(words, message, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    onnx.save(network(), "net.onnx")
    save(PRODUCT, "p.vta")
    (tmp_path / "junk.vta").write_bytes(b"junk")
    assert cli.main(["report", *words]) == 2
    assert capsys.readouterr().err == f"vtakit report: {message}\n"
    assert not (tmp_path / "page.html").exists()


def test_a_page_without_its_packages_says_what_brings_them(tmp_path, monkeypatch, capsys):
    monkeypatch.setitem(__import__("sys").modules, "jinja2", None)
    assert cli.main(["report", str(EXAMPLES / "conv2d.vta"), "-o", str(tmp_path / "page.html"), "--device", "fsim"]) == 2
    assert capsys.readouterr().err == "vtakit report: a page needs the package jinja2: pip install 'vtakit[plot]'\n"
