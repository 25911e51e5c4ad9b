"""Configurations: the table and constraints of ISA.md section 1, names, JSON, and everything that `load_config` takes."""

import json
from dataclasses import FrozenInstanceError, replace
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from support import configs, raises

from vtakit.hw.isa.config import DEFAULT, NAMED, VTAConfig, load_config, problems
from vtakit.hw.isa.errors import ConfigError

KEYS = (
    "LOG_INP_WIDTH", "LOG_WGT_WIDTH", "LOG_ACC_WIDTH", "LOG_BATCH", "LOG_BLOCK",
    "LOG_UOP_BUFF_SIZE", "LOG_INP_BUFF_SIZE", "LOG_WGT_BUFF_SIZE", "LOG_ACC_BUFF_SIZE",
)
ALL_KEYS = ", ".join(sorted(KEYS))
ALL_NAMES = ", ".join(sorted(NAMED))

# The table of ISA.md section 1, for the default.
DERIVED = {
    "batch": 1, "block": 16,
    "inp_bits": 8, "wgt_bits": 8, "acc_bits": 32, "out_bits": 8,
    "uop_bytes": 4, "inp_bytes": 16, "out_bytes": 16, "wgt_bytes": 256, "acc_bytes": 64, "acc8_bytes": 16,
    "uop_depth_log2": 13, "inp_depth_log2": 11, "wgt_depth_log2": 10, "acc_depth_log2": 11,
    "uop_depth": 8192, "inp_depth": 2048, "wgt_depth": 1024, "acc_depth": 2048,
    "src_depth_log2": 11, "uop_end_bits": 14, "has_acc8": True,
}

# (what is changed from the default, the whole message after "illegal configuration: ")
ILLEGAL = {
    "inp width range": ({"log_inp_width": 5}, "LOG_INP_WIDTH must be from 0 to 4, got 5"),
    "wgt width range": ({"log_wgt_width": -1}, "LOG_WGT_WIDTH must be from 0 to 4, got -1"),
    "acc width low": ({"log_acc_width": 2}, "LOG_ACC_WIDTH must be from 3 to 5, got 2"),
    "acc width high": ({"log_acc_width": 6}, "LOG_ACC_WIDTH must be from 3 to 5, got 6"),
    "batch range": ({"log_batch": 9}, "LOG_BATCH must be from 0 to 8, got 9"),
    "block range": ({"log_block": 8}, "LOG_BLOCK must be from 0 to 7, got 8"),
    "uop size range": ({"log_uop_buff_size": 33}, "LOG_UOP_BUFF_SIZE must be from 0 to 32, got 33"),
    "inp size range": ({"log_inp_buff_size": -1}, "LOG_INP_BUFF_SIZE must be from 0 to 32, got -1"),
    "wgt size range": ({"log_wgt_buff_size": 33}, "LOG_WGT_BUFF_SIZE must be from 0 to 32, got 33"),
    "acc size range": ({"log_acc_buff_size": 33}, "LOG_ACC_BUFF_SIZE must be from 0 to 32, got 33"),
    "every range at once": (
        {"log_inp_width": 5, "log_block": 8}, "LOG_INP_WIDTH must be from 0 to 4, got 5; LOG_BLOCK must be from 0 to 7, got 8"),
    "inputs wider than accumulators": (
        {"log_inp_width": 4, "log_acc_width": 3, "log_acc_buff_size": 15},
        "LOG_INP_WIDTH 4 is larger than LOG_ACC_WIDTH 3, but STORE writes the low input-width bits of an accumulator"),
    "constraint 1, 4-bit weights": (
        {"log_wgt_width": 2},
        ("a micro-op needs 33 bits (dst 11, src 11, wgt 11) and has 32: lower LOG_WGT_BUFF_SIZE to 17, or LOG_ACC_BUFF_SIZE and "
         "LOG_INP_BUFF_SIZE; GEMM word 1 needs 66 bits (twice dst 11, src 11, wgt 11) and has 64: lower LOG_WGT_BUFF_SIZE, "
         "LOG_ACC_BUFF_SIZE or LOG_INP_BUFF_SIZE")),
    "constraint 1, 2-bit weights": (
        {"log_wgt_width": 1},
        ("a micro-op needs 34 bits (dst 11, src 11, wgt 12) and has 32: lower LOG_WGT_BUFF_SIZE to 16, or LOG_ACC_BUFF_SIZE and "
         "LOG_INP_BUFF_SIZE; GEMM word 1 needs 68 bits (twice dst 11, src 11, wgt 12) and has 64: lower LOG_WGT_BUFF_SIZE, "
         "LOG_ACC_BUFF_SIZE or LOG_INP_BUFF_SIZE")),
    "constraint 1 alone: src has the bits of acc": (
        {"log_inp_buff_size": 8, "log_wgt_buff_size": 19},
        ("a micro-op needs 33 bits (dst 11, src 11, wgt 11) and has 32: lower LOG_WGT_BUFF_SIZE to 18, or LOG_ACC_BUFF_SIZE and "
         "LOG_INP_BUFF_SIZE")),
    "constraint 1: src has the bits of inp": (
        {"log_inp_buff_size": 16},
        ("a micro-op needs 33 bits (dst 11, src 12, wgt 10) and has 32: lower LOG_WGT_BUFF_SIZE to 17, or LOG_ACC_BUFF_SIZE and "
         "LOG_INP_BUFF_SIZE; GEMM word 1 needs 66 bits (twice dst 11, src 12, wgt 10) and has 64: lower LOG_WGT_BUFF_SIZE, "
         "LOG_ACC_BUFF_SIZE or LOG_INP_BUFF_SIZE")),
    "constraint 3": (
        {"log_uop_buff_size": 16},
        "GEMM and ALU word 0 address at most 8192 micro-ops, not 16384: lower LOG_UOP_BUFF_SIZE to 15"),
    "constraint 4": (
        {"log_acc_buff_size": 18, "log_wgt_buff_size": 16},
        "ALU word 1 addresses at most 2048 accumulator elements, not 4096: lower LOG_ACC_BUFF_SIZE to 17"),
    "constraint 5, depth": (
        {"log_inp_buff_size": 21}, "LOG_INP_BUFF_SIZE 21 holds 131072 elements, more than 65536: lower it"),
    "constraint 5, depth of uop": (
        {"log_uop_buff_size": 19}, "LOG_UOP_BUFF_SIZE 19 holds 131072 elements, more than 65536: lower it"),
    "constraint 5, weight element": (
        {"log_block": 7, "log_inp_buff_size": 18, "log_acc_buff_size": 20, "log_wgt_buff_size": 22},
        "one wgt element has 16384 bytes, more than 4096: lower LOG_BLOCK or LOG_WGT_WIDTH"),
    "constraint 5, accumulator element": (
        {"log_batch": 7, "log_inp_buff_size": 20, "log_acc_buff_size": 22},
        "one acc element has 8192 bytes, more than 4096: lower LOG_BLOCK, LOG_BATCH or LOG_ACC_WIDTH"),
    "element of less than a byte": (
        {"log_inp_width": 0, "log_block": 2, "log_batch": 0, "log_inp_buff_size": 7},
        "one inp element has 4 bits and must have at least 8: raise LOG_BLOCK or LOG_INP_WIDTH"),
    "scratchpad of one element": (
        {"log_acc_buff_size": 6}, "LOG_ACC_BUFF_SIZE 6 holds fewer than 2 acc elements: raise it by 1"),
    "scratchpad of less than one element": (
        {"log_wgt_buff_size": 4}, "LOG_WGT_BUFF_SIZE 4 holds fewer than 2 wgt elements: raise it by 5"),
}


def restated(v: tuple[int, ...]) -> list[bool]:
    """The five constraints of ISA.md section 1, said anew, for nine values in its order."""
    inp_w, wgt_w, acc_w, batch, block, uop_size, inp_size, wgt_size, acc_size = v
    uop = uop_size + 3 - 5
    inp = inp_size + 3 - (batch + block + inp_w)
    wgt = wgt_size + 3 - (block + block + wgt_w)
    acc = acc_size + 3 - (batch + block + acc_w)
    element_bits = (batch + block + inp_w, block + block + wgt_w, batch + block + acc_w)
    return [
        acc + max(acc, inp) + wgt <= 32,
        2 * (acc + inp + wgt) <= 64,
        8 + uop + (uop + 1) + 28 <= 64,
        4 * acc + 20 <= 64,
        max(uop, inp, wgt, acc) <= 16 and max(element_bits) <= 3 + 12,
    ]


def meaningful(v: tuple[int, ...]) -> bool:
    """What ISA.md takes for granted: widths that exist, whole bytes, at least two elements, an output that fits."""
    inp_w, wgt_w, acc_w, batch, block, uop_size, inp_size, wgt_size, acc_size = v
    tiles = (batch + block + inp_w, block + block + wgt_w, batch + block + acc_w)
    return (
        0 <= inp_w <= 4 and 0 <= wgt_w <= 4 and 3 <= acc_w <= 5 and inp_w <= acc_w and 0 <= batch <= 8 and 0 <= block <= 7
        and min(tiles) >= 3 and uop_size >= 3
        and all(size + 3 - tile >= 1 for size, tile in zip((inp_size, wgt_size, acc_size), tiles, strict=True))
        and max(uop_size, inp_size, wgt_size, acc_size) <= 32
    )


def test_the_default_derives_the_table_of_the_specification():
    assert {name: getattr(DEFAULT, name) for name in DERIVED} == DERIVED


def test_other_shapes_derive_theirs():
    cfg = NAMED["i4w4"]
    assert (cfg.inp_bits, cfg.out_bits, cfg.wgt_bits, cfg.acc_bits) == (4, 4, 4, 32)
    assert (cfg.inp_bytes, cfg.wgt_bytes, cfg.acc_bytes, cfg.acc8_bytes) == (8, 128, 64, 16)
    assert (cfg.uop_depth_log2, cfg.inp_depth_log2, cfg.wgt_depth_log2, cfg.acc_depth_log2) == (13, 11, 10, 11)
    cfg = NAMED["b4x8"]
    assert (cfg.batch, cfg.block, cfg.inp_bytes, cfg.wgt_bytes, cfg.acc_bytes, cfg.acc8_bytes) == (4, 8, 32, 64, 128, 32)
    assert (cfg.inp_depth, cfg.wgt_depth, cfg.acc_depth) == (1024, 4096, 1024)


def test_src_has_the_bits_of_the_larger_of_inp_and_acc():
    assert replace(DEFAULT, log_inp_buff_size=16, log_wgt_buff_size=17).src_depth_log2 == 12
    assert replace(DEFAULT, log_inp_buff_size=10).src_depth_log2 == 11


@pytest.mark.parametrize("name", ["w4", "w2", "i4w4"])
def test_the_specifications_narrow_configurations_are_legal_with_its_buffer_sizes(name):
    want = {
        "w4": replace(DEFAULT, log_wgt_width=2, log_wgt_buff_size=17),
        "w2": replace(DEFAULT, log_wgt_width=1, log_wgt_buff_size=16),
        "i4w4": replace(DEFAULT, log_inp_width=2, log_wgt_width=2, log_inp_buff_size=14, log_wgt_buff_size=17),
    }
    assert NAMED[name] == want[name]


@pytest.mark.parametrize("case", ILLEGAL)
def test_an_illegal_configuration_says_which_field_to_change(case):
    changes, message = ILLEGAL[case]
    values = {key: getattr(DEFAULT, key.lower()) for key in KEYS}
    values.update((key.upper(), value) for key, value in changes.items())
    with raises(ConfigError, f"illegal configuration: {message}"):
        VTAConfig(**{key.lower(): value for key, value in values.items()})
    with raises(ConfigError, f"illegal configuration: {message}"):
        VTAConfig.from_dict(values)


def test_replace_checks_too():
    with raises(ConfigError, "illegal configuration: LOG_BLOCK must be from 0 to 7, got 8"):
        replace(DEFAULT, log_block=8)


@pytest.mark.parametrize("value", [True, 4.0, "4", None])
def test_a_value_that_is_no_integer_is_refused_so_that_one_sees_why(value):
    with raises(ConfigError, f"illegal configuration: LOG_BLOCK … integer … 0 to 7 … {value!r}"):
        VTAConfig(log_block=value)
    with raises(ConfigError, f"configuration key 'LOG_BLOCK' … integer … {value!r}"):
        VTAConfig.from_dict({"LOG_BLOCK": value})


def test_a_legal_configuration_has_no_problems():
    assert [name for name, cfg in NAMED.items() if problems(cfg)] == []


def test_a_configuration_cannot_be_changed():
    with pytest.raises(FrozenInstanceError):
        DEFAULT.log_block = 3


NINE = st.tuples(*(
    st.integers(low, high)
    for low, high in ((-1, 5), (-1, 5), (2, 6), (-1, 9), (-1, 8), (1, 20), (-1, 34), (-1, 34), (-1, 34))
))
NEAR = st.builds(  # close to the bounds, where all but one or two constraints hold
    lambda cfg, at, by: tuple(v + (by if i == at else 0) for i, v in enumerate(cfg.to_dict().values())),
    configs(), st.integers(0, 8), st.integers(-2, 2),
)


@given(NINE | NEAR)
@example((3, 2, 5, 0, 4, 15, 15, 18, 17))
@example((3, 3, 5, 0, 4, 16, 15, 18, 17))
@example((3, 3, 5, 0, 4, 15, 15, 17, 18))
def test_nine_values_are_legal_exactly_if_the_constraints_hold(values):
    want = meaningful(values) and all(restated(values))
    try:
        cfg = VTAConfig.from_dict(dict(zip(KEYS, values, strict=True)))
    except ConfigError:
        assert not want
    else:
        assert want
        assert tuple(cfg.to_dict().values()) == values


@given(configs())
def test_json_reads_back_to_the_same_configuration(cfg):
    assert VTAConfig.from_json(cfg.to_json()) == cfg
    assert VTAConfig.from_dict(cfg.to_dict()) == cfg
    assert hash(VTAConfig.from_dict(cfg.to_dict())) == hash(cfg)


def test_json_has_the_originals_keys_one_a_line():
    assert DEFAULT.to_json() == (
        '{\n  "LOG_INP_WIDTH": 3,\n  "LOG_WGT_WIDTH": 3,\n  "LOG_ACC_WIDTH": 5,\n  "LOG_BATCH": 0,\n  "LOG_BLOCK": 4,\n'
        '  "LOG_UOP_BUFF_SIZE": 15,\n  "LOG_INP_BUFF_SIZE": 15,\n  "LOG_WGT_BUFF_SIZE": 18,\n  "LOG_ACC_BUFF_SIZE": 17\n}\n'
    )


def test_the_originals_configuration_file_is_read():
    text = """{"TARGET": "sim", "HW_VER": "0.0.2", "LOG_INP_WIDTH": 3, "LOG_WGT_WIDTH": 3, "LOG_ACC_WIDTH": 5, "LOG_BATCH": 1,
               "LOG_BLOCK": 4, "LOG_UOP_BUFF_SIZE": 15, "LOG_INP_BUFF_SIZE": 15, "LOG_WGT_BUFF_SIZE": 18,
               "LOG_ACC_BUFF_SIZE": 17}"""
    assert VTAConfig.from_json(text) == NAMED["b2x16"]


def test_the_originals_older_keys_are_read():
    values = {"HW_FREQ": 100, "HW_CLK_TARGET": 8, "LOG_BLOCK_IN": 5, "LOG_BLOCK_OUT": 5, "LOG_INP_WIDTH": 3, "LOG_OUT_WIDTH": 3}
    sizes = {"log_inp_buff_size": 16, "log_wgt_buff_size": 20, "log_acc_buff_size": 18}
    assert VTAConfig.from_dict(values | sizes) == NAMED["blk32"]


def test_older_keys_that_disagree_are_refused():
    with raises(ConfigError, "configuration gives LOG_BLOCK twice, as 4 and as 5: blocks are square … gemm_passes"):
        VTAConfig.from_dict({"LOG_BLOCK_IN": 4, "LOG_BLOCK_OUT": 5})
    with raises(ConfigError, "configuration gives LOG_INP_WIDTH twice, as 3 and as 4"):
        VTAConfig.from_dict({"LOG_INP_WIDTH": 3, "LOG_OUT_WIDTH": 4})
    with raises(ConfigError, "configuration gives LOG_BATCH twice, as 0 and as 1"):
        VTAConfig.from_dict({"LOG_BATCH": 0, "log_batch": 1})


def test_absent_keys_keep_the_default():
    assert VTAConfig.from_dict({}) == DEFAULT
    assert VTAConfig.from_dict({"LOG_BATCH": 1}) == NAMED["b2x16"]


def test_an_unknown_key_is_named_with_the_nearest_known_one():
    with raises(ConfigError, f"unknown configuration key 'LOG_BLOK'; did you mean 'LOG_BLOCK'? Known: {ALL_KEYS}"):
        VTAConfig.from_dict({"LOG_BLOK": 4})
    with raises(ConfigError, f"unknown configuration key 'log_uop_size'; did you mean 'LOG_UOP_BUFF_SIZE'? Known: {ALL_KEYS}"):
        VTAConfig.from_dict({"log_uop_size": 4})
    with raises(ConfigError, f"unknown configuration key 'xyz'; known: {ALL_KEYS}"):
        VTAConfig.from_dict({"xyz": 4})
    with raises(ConfigError, f"unknown configuration key 7; known: {ALL_KEYS}"):
        VTAConfig.from_dict({7: 4})


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3), max_leaves=5,
)


@given(st.dictionaries(st.sampled_from(KEYS) | st.text(max_size=12), JSON) | JSON)
def test_any_json_gives_a_configuration_or_a_configuration_error(values):
    try:
        cfg = VTAConfig.from_json(json.dumps(values))
    except ConfigError:
        return
    assert problems(cfg) == []


@given(st.text())
@example("[" * 100_000)
@example("9" * 5000)
@example("{\"LOG_BLOCK\": " + "9" * 4000 + "}")
def test_any_text_gives_a_configuration_or_a_configuration_error(text):
    try:
        cfg = VTAConfig.from_json(text)
    except ConfigError:
        return
    assert problems(cfg) == []


def test_text_that_is_no_json_object_says_where():
    with raises(ConfigError, "a.json is not valid JSON: Expecting value: line 1 column 1 (char 0)"):
        VTAConfig.from_json("nonsense", "a.json")
    with raises(ConfigError, "a.json is not valid JSON: key 'LOG_BLOCK' occurs twice"):
        VTAConfig.from_json('{"LOG_BLOCK": 4, "LOG_BATCH": 0, "LOG_BLOCK": 5}', "a.json")
    with raises(ConfigError, "configuration must hold a JSON object of LOG_… keys, got list"):
        VTAConfig.from_json("[1]")


@pytest.mark.parametrize("name", NAMED)
def test_a_name_loads_that_configuration(name):
    assert load_config(name) is NAMED[name]


def test_load_config_takes_a_configuration_a_mapping_and_paths(tmp_path):
    cfg = NAMED["blk8"]
    assert load_config(cfg) is cfg
    assert load_config(cfg.to_dict()) == cfg
    path = tmp_path / "mine.json"
    path.write_text(cfg.to_json())
    assert load_config(path) == cfg
    assert load_config(str(path)) == cfg
    without_ending = tmp_path / "mine"
    without_ending.write_text(cfg.to_json())
    assert load_config(str(without_ending)) == cfg


def test_a_path_that_looks_like_a_name_is_a_path(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "tiny").write_text(NAMED["w2"].to_json())
    assert load_config("tiny") == NAMED["tiny"]
    assert load_config(Path("tiny")) == NAMED["w2"]
    assert load_config("./tiny") == NAMED["w2"]


def test_an_unknown_name_is_refused_with_the_nearest():
    with raises(ConfigError, f"unknown configuration 'tiny_b3'; did you mean 'tiny_b2'? Known: {ALL_NAMES}, or the path of a "
                             f".json file"):
        load_config("tiny_b3")
    with raises(ConfigError, f"unknown configuration ''; known: {ALL_NAMES}, or the path of a .json file"):
        load_config("")


@pytest.mark.parametrize(("what", "kind"), [(7, "int"), (None, "NoneType"), (b"default", "bytes"), (["default"], "list")])
def test_an_argument_of_another_type_is_refused(what, kind):
    with raises(ConfigError, f"a configuration … VTAConfig, a name, a mapping or a path … {kind}"):
        load_config(what)


def test_an_unreadable_file_is_refused(tmp_path):
    missing, binary = tmp_path / "missing.json", tmp_path / "binary.json"
    binary.write_bytes(b"\xff\xfe\x00{")
    with raises(ConfigError, f"cannot read configuration file {str(missing)!r}: No such file or directory"):
        load_config(missing)
    with raises(ConfigError, f"cannot read configuration file {str(missing)!r}: No such file or directory"):
        load_config(str(missing))
    with raises(ConfigError, f"cannot read configuration file {str(tmp_path)!r}: Is a directory"):
        load_config(tmp_path)
    with raises(ConfigError, f"cannot read configuration file {str(binary)!r}: it is not UTF-8 text"):
        load_config(binary)
    with raises(ConfigError, "cannot read configuration file 'a\\x00.json': embedded null byte"):
        load_config("a\0.json")


def test_a_file_with_wrong_contents_is_named(tmp_path):
    path = tmp_path / "wrong.json"
    for text, message in {
        "{": f"configuration file {str(path)!r} is not valid JSON: Expecting property name enclosed in double quotes: "
             f"line 1 column 2 (char 1)",
        "3": f"configuration file {str(path)!r} must hold a JSON object of LOG_… keys, got int",
        '{"LOG_BLOCK": 8}': f"configuration file {str(path)!r}: illegal configuration: LOG_BLOCK must be from 0 to 7, got 8",
        '{"LOG_BLOK": 8}': f"configuration file {str(path)!r}: unknown configuration key 'LOG_BLOK'; did you mean 'LOG_BLOCK'? "
                           f"Known: {ALL_KEYS}",
    }.items():
        path.write_text(text)
        with raises(ConfigError, message):
            load_config(path)
