"""SentencePiece's precompiled_charsmap of a few rules: a trie in darts-clone's double array, then the texts."""
import base64
import struct
import unicodedata

# Of one character and of clusters; some become longer, shorter or nothing.
RULES = {"\ufb01": "fi", "\u3000": " ", "\u00a0": " ", "\u200b": "", "\u2460": "1", "\u212b": "\u00c5", "o\u0302": "\u00f4", "e\u0301": "\u00e9",
         "\u0130": "i\u0307", "\u00bd": "1\u20442", "\t": " ", "\n": " ", "\uff0c": ",", "\uff01": "!", "\u0301": "", "\ufdfa": "\u0635\u0644\u0649 \u0627\u0644\u0644\u0647",
         "\u1100\u1173\u11af": "\uae00", **{chr(c): unicodedata.normalize("NFKC", chr(c)) for c in range(0xff10, 0xff5b)}}


def trie_of(values):
    """Units of 4 bytes: the label, 1 << 8 where a string ends at a node, and 10 bits up how far its children are (by exclusive or)."""
    units, used = {0: 0}, {0}
    nodes = [(0, b"")]
    while nodes:
        place, prefix = nodes.pop()
        labels = sorted({key[len(prefix)] if len(key) > len(prefix) else 0 for key in values if key.startswith(prefix)})
        offset = next(o for o in range(1, 1 << 20) if all(place ^ o ^ label not in used for label in labels))
        used.update(place ^ offset ^ label for label in labels)
        units[place] |= offset << 10 | (0 in labels) << 8
        for label in labels:
            child = place ^ offset ^ label
            units[child] = label if label else 1 << 31 | values[prefix]
            if label:
                nodes.append((child, prefix + bytes([label])))
    size = (max(units) | 255) + 257  # a look at any byte's child stays within
    return struct.pack(f"<{size}I", *(units.get(place, 0) for place in range(size)))


def charsmap():
    texts, values = b"", {}
    for key, text in RULES.items():
        values[key.encode()] = len(texts)
        texts += text.encode() + b"\0"
    trie = trie_of(values)
    return base64.b64encode(struct.pack("<I", len(trie)) + trie + texts).decode()
