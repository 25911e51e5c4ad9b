"""Encodings of integers of few bits as words of bits, for bit-serial products.

A word is a uint32 that holds one bit of each of up to 32 channels, the first channel in the lowest bit. Data of A bits has A
planes: ``x = sum over i < A of 2**i * bit i``. Weights have digits, ``w = sum over d < D of 2**d * digit d``, in one of four
encodings:

    unipolar   digits 0 and 1          one word: the digit            popcount(x & b)
    bipolar    digits 1 and -1         one word: 1 for a digit of -1  popcount(x ^ v)
    ternary    digits -1, 0 and 1      two words: 1 for -1; 1 for what is not 0                popcount((x ^ v) & m)
    signed     two's complement        one word: the bit; the last digit counts negative       popcount(x & b)

For a bit x and a digit s of 1 or -1 whose v is 0 or 1, ``x ^ v`` is ``x * s + v``. So bipolar and ternary sums are too large by
the number of a filter's digits that are -1, in every plane: the `excess` of a filter, which does not depend on the data. AND and
popcount of unipolar numbers are those of Chen et al., "TVM" (OSDI'18, section 6.2) and Cowan et al., "Automating Generation of
Low Precision Deep Learning Operators" (2018), who spend two popcounts on a bipolar digit.
"""

WORDS = {"unipolar": 1, "bipolar": 1, "ternary": 2, "signed": 1}  # of a digit, by encoding
WORD_BITS = 32
MOST_BITS = 8  # planes of data, and digits of weights
