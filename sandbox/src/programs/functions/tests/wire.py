# Runs behind wire.py: values come back as they were, and bytes are a value or one of the exceptions that the examiner expects.

import random
from collections import Counter, OrderedDict, defaultdict, deque, namedtuple
from datetime import date, timedelta
from decimal import Decimal
from fractions import Fraction

CASES = 4000
EXPECTED = (Malformed, ValueError, TypeError, OverflowError, RecursionError)
PIECES = [
    b"xFraction;t2:i1;i0;", b"xdate;t3:i1;i2;i3;", b"xeval;t0:", b"xnamedtuple;t3:s1:At1:s1:xt1:N", b"xDecimal;t1:s1:x", b"xrange;",
    b"N", b"T", b"i-1f;", b"i;", b"fnan;", b"f0x1p-1074;", b"f1e9999;", b"f-inf;", b"c1,2;", b"c,;", b"r0;", b"r-1;", b"s2:\xed\xa0",
    b"s3:\xed\xa0\x80", b"b1:\xff", b"l2:", b"t1:", b"S2:", b"Z0:", b"d1:", b"C1:", b"O1:", b"D1:", b"q1:", b"y2:\xff\x00", b"a0,0;", b"w0;", b"l-1:", b"l999999999:", b"l 1:",
    b"b1_0:", b":", b";", b"i" + b"f" * 5000 + b";", b"l" + b"9" * 5000 + b":", b"l1:" * 99, b"l1:" * 120,
]

draw = random.Random(1)


def hashable(depth):
    kinds = [None, True, False, draw.getrandbits(80) - (1 << 79), draw.choice([0, 1, -1]), draw.random(), float("inf"), -0.0, 5e-324]
    kinds += [complex(draw.random(), -1), "".join(map(chr, draw.choices([0, 58, 233, 0xD800, 0x10FFFF], k=3))), draw.randbytes(3)]
    if depth and draw.random() < 0.3:
        items = [hashable(depth - 1) for _ in range(draw.randrange(4))]
        return draw.choice([tuple, frozenset])(items)
    return draw.choice(kinds)


def value(depth):
    if not depth or draw.random() < 0.3:
        return hashable(2)
    if draw.random() < 0.1:
        named = namedtuple("Named", "a b")(value(depth - 1), 3)
        library = [Fraction(draw.randrange(9), 7), Decimal("1.50"), date(2024, 2, 29), timedelta(5), range(3, 9, 2)]
        return draw.choice([named, *library])
    count = range(draw.randrange(4))
    kind = draw.choice([list, tuple, deque, set, dict, Counter, OrderedDict, defaultdict, bytearray])
    if kind is bytearray:
        return bytearray(draw.randbytes(3))
    if kind is set:
        return {hashable(2) for _ in count}
    if kind in (list, tuple, deque):
        return kind([value(depth - 1) for _ in count])
    pairs = {hashable(2): value(depth - 1) for _ in count}
    return defaultdict(list, pairs) if kind is defaultdict else kind(pairs)


def edited(data):
    data = bytearray(data)
    for _ in range(draw.randrange(1, 4)):
        at = draw.randrange(len(data) + 1)
        how = draw.randrange(4)
        if how == 0:
            data[at:at] = draw.choice(PIECES)
        elif how == 1:
            data[at : at + 1] = draw.randbytes(1)
        elif how == 2:
            data[at : at + draw.randrange(4)] = b""
        else:
            data[at : at + 1] = draw.choice(b"0123456789-:;,NTFifcsbyltSZdCODqraw").to_bytes(1, "big")
    return bytes(data)


def read(data):
    """How many values: none or one. What is read has one encoding."""
    try:
        found = decode(data)
    except EXPECTED:
        return 0
    written = encode(found)
    assert encode(decode(written)) == written, data
    return 1


read_at_all = 0
for _ in range(CASES):
    made = value(3)
    data = encode(made)
    again = decode(data)
    same = type(again) is type(made) or again._fields == made._fields
    assert again == made and same and encode(again) == data, made
    read_at_all += read(edited(data))
    read_at_all += read(b"".join(draw.choices(PIECES, k=draw.randrange(1, 5))))
    read_at_all += read(draw.randbytes(draw.randrange(8)))
# Most edits break something, and many do not.
assert CASES // 20 < read_at_all < 2 * CASES, read_at_all
print("ok")
