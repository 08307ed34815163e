"""Seeds and words of the fuzzers of HDF5, for make_corpus.py. Whole files are written by h5py, where that is installed."""
import io
import struct
import zlib


def padded(data):
    return data + bytes(-len(data) % 8)


def heap(*texts):
    """A collection of strings, and what refers to each: its length, where the collection is, its number."""
    objects = b"".join(struct.pack("<HHIQ", i + 1, 1, 0, len(text)) + padded(text) for i, text in enumerate(texts))
    size = 16 + len(objects) + 16
    collection = b"GCOL\1\0\0\0" + struct.pack("<Q", size) + objects + struct.pack("<HHIQ", 0, 0, 0, 16)
    references = b"".join(struct.pack("<IQI", len(text), 8, i + 1) for i, text in enumerate(texts))
    return references, bytes(8) + collection


def attribute(version, name, value):
    """A message of an object's header; what says type and space is not looked at."""
    pad = padded if version == 1 else bytes
    head = struct.pack("<BBHHH", version, 0, len(name), 8, 8) + (b"\0" if version == 3 else b"")
    return head + pad(name) + bytes(16) + value


def header(messages, is_old):
    """An object's header in one part."""
    if is_old:
        body = b"".join(struct.pack("<HHBBH", kind, len(padded(data)), 0, 0, 0) + padded(data) for kind, data in messages)
        return struct.pack("<BBHIII", 1, 0, len(messages), 1, len(body), 0) + body
    body = b"".join(struct.pack("<BHB", kind, len(data), 0) + data for kind, data in messages)
    return b"OHDR\2\2" + struct.pack("<I", len(body)) + body + bytes(4)


def parts():
    """The first byte says which part of the reader they are for (hdf5_parts.cc)."""
    references, file = heap(b"a", b"two words", b"x" * 40)
    yield b"\0\3\0" + references + file
    yield b"\0\1\x08" + references[:16] + bytes(8) + file
    chunks = struct.pack("<BBBQIII", 3, 2, 3, 64, 4, 3, 8)
    for is_old in (True, False):
        for version in (1, 2, 3):
            messages = [(0x0C, attribute(version, b"other\0", b"1")), (8, chunks), (0x0C, attribute(version, b"name\0", b"value"))]
            yield b"\1\0" + struct.pack("<Q", 16) + bytes(8) + header(messages, is_old)
        continued = header([(0x10, struct.pack("<QQ", 200, 40))], is_old)
        yield b"\1\0" + struct.pack("<Q", 0) + continued.ljust(200, b"\0") + (b"" if is_old else b"OCHK") + header([], is_old)
    values = struct.pack("<8f", *range(8))
    shuffled = bytes(values[4 * i + k] for k in range(4) for i in range(8))
    for filters, data in (([0], zlib.compress(values)), ([1], shuffled), ([1, 0], zlib.compress(shuffled)), ([2], values + bytes(4)), ([], values)):
        yield b"\2" + bytes([len(filters), *filters]) + b"\0\3" + struct.pack("<H", 32) + data
    for kind in range(3):
        for width in range(4):
            yield bytes([3, kind, width, kind % 2]) + values


def files():
    """The first byte says which read fails (hdf5.cc): none."""
    try:
        import h5py
        import numpy
    except ImportError:
        return

    def trial(file):
        group = file.create_group("trial_0000")
        group.create_dataset("features", data=numpy.arange(60, dtype="f4").reshape(15, 4), chunks=(4, 4), compression="gzip", shuffle=True, fletcher32=True)
        group.create_dataset("ids", data=numpy.arange(9, dtype=">i2"))
        group.attrs["length"] = 15
        group.attrs["sentence"] = "Ein Satz."

    def layouts(file):
        file.create_dataset("grown", data=numpy.ones((6, 2), "u1"), maxshape=(None, 2), chunks=(2, 2))
        file.create_dataset("two_ways", data=numpy.ones((3, 3), "f8"), maxshape=(None, None), chunks=(2, 2))
        file.create_dataset("sparse", (9, 9), "i4", chunks=(3, 3), fillvalue=7)[4, 4] = 1
        file["scalar"] = 2.5
        file["link"] = h5py.SoftLink("/grown")

    def strings(file):
        file.create_dataset("any", data=["", "a", "two words"], dtype=h5py.string_dtype())
        file.create_dataset("fixed", data=numpy.array([b"abc", b"d"], "S4"), chunks=(1,))
        file.attrs["list"] = ["x", "yz"]
        file["compound"] = numpy.zeros(2, [("a", "f4"), ("b", "i2")])

    for bounds in ("earliest", ("v108", "v108"), ("v110", "v110")):
        for write in (trial, layouts, strings):
            out = io.BytesIO()
            with h5py.File(out, "w", libver=bounds, track_order=False) as file:
                write(file)
            yield b"\0" + out.getvalue()


SEEDS = {"hdf5": list(files()), "hdf5_parts": list(parts())}
SIGNATURES = [b"\x89HDF\r\n\x1a\n", b"TREE", b"HEAP", b"SNOD", b"OHDR\2", b"OCHK", b"GCOL\1", b"FRHP", b"FHDB", b"BTHD", b"BTLF", b"FAHD", b"FADB", b"EAHD",
              b"EAIB", b"EASB", b"\xff\xff\xff\xff\xff\xff\xff\xff", b"\0\0\0\0\0\0\0\0"]
DICTIONARIES = {"hdf5": SIGNATURES, "hdf5_parts": [b"OHDR\2", b"OCHK", b"GCOL\1", b"name\0", b"\x10\0\x10\0", b"\xff\xff\xff\xff\xff\xff\xff\xff"]}
