"""Characters that `tokenizers` takes for others than we do, since its tables are of older versions of Unicode."""
import functools
import unicodedata

from tokenizers import normalizers, pre_tokenizers


def assigned():
    return [chr(c) for c in range(1, 0x110000) if unicodedata.category(chr(c)) not in ("Cn", "Cs")]


def is_ascii_punctuation(c):
    return c < "\x7f" and c.isprintable() and not c.isalnum() and c != " "


@functools.lru_cache(maxsize=None)
def disputed():
    """Those whose category or decomposition is another one in Python's unicodedata: added to Unicode after its version 8."""
    clean = normalizers.BertNormalizer(clean_text=True, handle_chinese_chars=False, strip_accents=False, lowercase=False)
    forms = {name: getattr(normalizers, name)() for name in ("NFD", "NFKD", "NFC", "NFKC")}
    accents = normalizers.BertNormalizer(clean_text=False, handle_chinese_chars=False, strip_accents=True, lowercase=False)
    marks, lower = normalizers.StripAccents(), normalizers.Lowercase()
    punctuation, numbers = pre_tokenizers.Punctuation(), pre_tokenizers.Digits(individual_digits=True)
    words = pre_tokenizers.Whitespace()
    found = set()
    for c in assigned():
        category = unicodedata.category(c)
        checks = (
            (clean.normalize_str(f"a{c}b") == "ab", category[0] == "C" and c not in "\t\n\r" or c == "\ufffd"),
            (accents.normalize_str(f"a{c}b") == "ab", category == "Mn"),
            (marks.normalize_str(f"a{c}b") == "ab", category[0] == "M"),
            (len(punctuation.pre_tokenize_str(f"a{c}b")) == 3, category[0] == "P" or is_ascii_punctuation(c)),
            (len(numbers.pre_tokenize_str(f"a{c}b")) == 3, category[0] == "N"),
            (lower.normalize_str(c), c.lower()),
            *((form.normalize_str(c), unicodedata.normalize(name, c)) for name, form in forms.items()),
        )
        if any(ours != theirs for theirs, ours in checks):
            found.add(c)
    return found
