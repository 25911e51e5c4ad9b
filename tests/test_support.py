"""The comparison of an error's message with what a test expects."""

import pytest
from support import raises, says

TEXT = "buffer 'a' has 64 bytes but 63 bytes of data: give 64 bytes"


@pytest.mark.parametrize("wanted", [
    TEXT, "buffer 'a' … 64 bytes … 63 bytes … give 64 bytes", "… 'a' … 63 … 64 bytes", "buffer 'a' … 63 …", "… 63 …",
])
def test_a_message_says_its_parts_in_order(wanted):
    assert says(TEXT, wanted)


@pytest.mark.parametrize("wanted", [
    TEXT[:-1], "buffer 'a'", "buffer 'a' … 63", "'a' … 64 bytes",  # its end or beginning is another
    "… 63 … 'a' …", "… 63 … 63 …", "… 'b' …",  # another order, more often, another name
    "… 6 …", "… 3 …", "… buff …", "",  # parts of words
])
def test_a_message_with_another_part_does_not(wanted):
    assert not says(TEXT, wanted)


@pytest.mark.parametrize("text", [
    "it is -63 wide", "it is 63.5 wide", "it is 1.63 wide", "it is 163 wide", "it is x63 wide", "it\nis 63 wide",
])
def test_a_number_is_the_whole_number(text):
    assert says("it is 63 wide", "it … 63 … wide")
    assert not says(text, "it … 63 … wide")


def test_what_stands_in_brackets_is_no_gap():
    assert says("use numpy.array(…, 'float32')", "use … numpy.array(…, 'float32')")
    assert not says("use numpy.array(3, 'float32')", "use … numpy.array(…, 'float32')")


def test_raises_tells_another_message_and_another_class():
    with pytest.raises(AssertionError, match=r"^the message is 'it is 5', not 'it … 4'"), raises(ValueError, "it … 4"):
        raise ValueError("it is 5")
    with pytest.raises(AssertionError), raises(LookupError, "'a'"):
        raise KeyError("a")
