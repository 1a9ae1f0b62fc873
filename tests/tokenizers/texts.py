"""Test texts: hand-picked ones, and generated ones from a seed. Code points that Unicode 14 assigns only: ours and
the reference may know different later versions. Python's own tables are newer, so blocks with later additions are
left out by range."""
import random
import unicodedata

# First and last code point of stretches that were complete in Unicode 14.
SCRIPTS = {
    "ascii": (0x20, 0x7E), "latin1": (0xA1, 0xFF), "latin_extended": (0x100, 0x24F), "ipa": (0x250, 0x2AF),
    "greek": (0x391, 0x3C9), "cyrillic": (0x400, 0x45F), "armenian": (0x531, 0x556), "hebrew": (0x5D0, 0x5EA),
    "arabic": (0x620, 0x64A), "devanagari": (0x904, 0x939), "bengali": (0x985, 0x98C), "tamil": (0xB85, 0xB8A),
    "thai": (0xE01, 0xE3A), "georgian": (0x10D0, 0x10FA), "hangul_jamo": (0x1100, 0x1175), "ethiopic": (0x1200, 0x1248),
    "khmer": (0x1780, 0x17B3), "mongolian": (0x1820, 0x1842), "greek_extended": (0x1F00, 0x1F15),
    "hiragana": (0x3041, 0x3096), "katakana": (0x30A1, 0x30FA), "cjk": (0x4E00, 0x9FA5), "yi": (0xA000, 0xA48C),
    "hangul": (0xAC00, 0xD7A3), "compatibility": (0xF900, 0xFA6D), "half_width": (0xFF01, 0xFFBE),
    "gothic": (0x10330, 0x1034A), "mathematical": (0x1D400, 0x1D454), "cjk_b": (0x20000, 0x2A6D6),
}
MARKS = [*range(0x300, 0x34F), *range(0x591, 0x5BE), *range(0x64B, 0x653), 0x93C, 0x93E, 0x94D, 0x9BC, 0xE31, 0xE34,
         0xE48, 0x1AB0, 0x20D0, 0x3099, 0x309A, 0xFE0F, 0x200D, 0x302A]
DIGITS = [*range(0x30, 0x3A), *range(0x660, 0x66A), *range(0x966, 0x970), *range(0xFF10, 0xFF1A), 0xB2, 0xBD, 0x2160,
          0x2460, 0x3007, 0x0BF0, 0x1D7CE]
SPACES = [" ", " ", " ", "\t", "\n", "\n", "\r\n", "\r", "\u00a0", "\u2003", "\u3000", "\u2028", "\u0085", "\u000b",
          "\u000c", "\u1680", "\u205f"]
INVISIBLE = ["\u200b", "\u200d", "\u180e", "\ufeff", "\u00ad", "\u0000", "\u0001", "\u007f", "\u2060", "\u202e"]
EMOJI = ["😀", "🦙", "👩‍👩‍👧‍👦", "🏳️‍🌈", "👍🏽", "🇩🇪", "🇯🇵", "1️⃣", "❤️", "🧑‍🚀", "✅", "☺", "⌚", "🫠", "🀄"]
SYMBOLS = list("«»„“”‘’—–…•†‡¡¿€£¥©®™±×÷≠≤≥∑∫√∞←→⇒∀∃♠♥█░▁│┌「」『』、。，：；！？（）【】〜·")
WORDS = ("the Hello World I'm you're don't we'LL they've IT'S o'clock naïve Straße ŒUVRE ſtyle 'ſ Ǆ ŉ ﬁn İstanbul "
         "ΣΊΣΥΦΟΣ Привет мир שלום مرحبا नमस्ते สวัสดี こんにちは 世界 안녕하세요 Việt ngữ e\u0301 A\u030a n\u0303o "
         "中文分词 ελληνικά 3.14159 1,000,000 2026-11-30 0x1F 1e-9 v1.2.3 10% $5 #tag @user C++ a/b a\\b user@example.com "
         "https://example.org/a?b=c&d=%20 foo_bar camelCase SCREAMING_CASE kebab-case").split()
CODE = ["def f(x):\n    return x ** 2\n", "for (int i = 0; i < n; ++i) {\n\ta[i] += b[i];\n}\n", "if x:\n        pass\n\n\n",
        "SELECT * FROM t WHERE a='b' AND c != 3;", "<div class=\"x\">&nbsp;</div>", "{\"a\": [1, 2.5, null], \"b\": \"\\u00e9\"}",
        "#include <vector>\r\nint main() { return 0; }\r\n", "\t\t\tx\t\n  \n", "```python\nprint('hi')\n```", "$ ls -la | grep foo\n",
        "λ x → x", "//////////", "----------", "==========", "((((()))))", "......", "!!!???", "\\n\\t\\\\"]
HAND_PICKED = [
    "", " ", "  ", "   ", "\t", "\n", "\n\n", "\n\n\n", "\t\n", " \n \n", "\r\n\r\n", " \r\n x", "a ", " a", "  a", "   a  b   c",
    "Hello world", " Hello World!", "Hello, y'all! How are you 😁 ?我想在apple工作1314151天～", "ied 4 ½ months", "Äpfel",
    "w048 7tuijk dsdfhu", "нещо на Български", "' era", "'s 'S 'll 'LL ''s", "I'Ve", "1234567890", "12 345 6789", "١٢٣٤",
    "e\u0301", "\u0301", " \u0301x", "a\u0323\u0307", "a\u0307\u0323", "\u1e0b\u0323", "\uac00\u11a8", "\u1100\u1161\u11a8",
    "\u212b", "\u2126", "\ufb01", "\u0340", ">\u0338", "=\u0338", "<\u0338", "\u0958", "\u0f71\u0f72", "\u0f72\u0f71",
    "\u00a0\u00a0x", "\u3000\u3000", "x\u2028y\u2029z", "\u180ex", "a\u180e b", "\u200b\u200b", "\ufeffBOM", "\u0085\u0085 x",
    "\x00", "a\x00b", "\x7f", "\x1c\x1d\x1e\x1f", "🦙" * 5, "👩‍👩‍👧‍👦👩‍👩‍👧‍👦", "🏳️‍🌈 flag", "(((", "a" * 300, " " * 300, "\n" * 100, "ab" * 200,
    "0" * 100, "é" * 100, "中" * 100, " a" * 100, "\t " * 50, "…" * 30, "-" * 200, "=" * 129, "_" * 65, "aA" * 70, "\U0001f600" * 80,
    "\U0010ffff", "\ue000", "\ufffd", "<|", "|>", "<", "< |im_start| >", "&lt;|im_start|&gt;", "[INST]", "<s>", "</s>", "<unk>",
]


def _character(rng, low, high):
    while True:
        c = chr(rng.randint(low, high))
        if unicodedata.category(c) != "Cn":
            return c


def _part(rng):
    kind = rng.randrange(11)
    if kind == 0:
        low, high = rng.choice(list(SCRIPTS.values()))
        return "".join(_character(rng, low, high) for _ in range(rng.randint(1, 8)))
    if kind == 1:
        return "".join(_character(rng, *rng.choice(list(SCRIPTS.values()))) for _ in range(rng.randint(1, 5)))
    if kind == 2:
        return "".join(rng.choice(SPACES) for _ in range(rng.randint(1, 6)))
    if kind == 3:
        return "".join(chr(rng.choice(DIGITS)) for _ in range(rng.randint(1, 8)))
    if kind == 4:
        return rng.choice("aeonEAk中बक가") + "".join(chr(rng.choice(MARKS)) for _ in range(rng.randint(1, 4)))
    if kind == 5:
        return rng.choice(EMOJI) * rng.randint(1, 3)
    if kind == 6:
        return "".join(rng.choice(SYMBOLS) for _ in range(rng.randint(1, 4)))
    if kind == 7:
        return rng.choice(CODE)
    if kind == 8:
        return rng.choice(INVISIBLE)
    if kind == 9:
        return chr(rng.randint(0x20, 0x7E)) * rng.randint(1, 40)
    return (" " if rng.random() < 0.8 else "") + rng.choice(WORDS)


def texts(seed, count, extra=()):
    """`count` texts: the hand-picked ones, every pair of `extra` strings with surroundings, the rest generated."""
    rng = random.Random(seed)
    out = list(HAND_PICKED) + list(WORDS) + list(CODE) + list(EMOJI)
    for piece in extra:
        out += [piece, f"a{piece}b", f" {piece} ", f"{piece}{piece}", piece[:-1], piece[1:], f"\n{piece}\n", f"{piece}\u0338"]
    while len(out) < count:
        parts = [_part(rng) for _ in range(rng.randint(1, 12))]
        if extra and rng.random() < 0.05:
            parts.insert(rng.randrange(len(parts) + 1), rng.choice(list(extra)))
        out.append("".join(parts))
    return out
