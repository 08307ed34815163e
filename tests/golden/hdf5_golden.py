"""HDF5 files as h5py writes them, with what they hold as JSON beside them; also files that are refused.  hdf5_golden.py FOLDER"""
import json
import random
import sys
from pathlib import Path

import h5py
import numpy as np

random.seed(11)
rng = np.random.default_rng(11)
OUT = Path(sys.argv[1])
OUT.mkdir(parents=True, exist_ok=True)
FILTERS = {"plain": {}, "gzip": {"compression": "gzip"}, "shuffle": {"compression": "gzip", "shuffle": True},
           "fletcher32": {"fletcher32": True}, "all": {"compression": "gzip", "compression_opts": 9, "shuffle": True, "fletcher32": True}}
TYPES = ["f2", "f4", "f8", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", ">f2", ">f4", ">f8", ">i2", ">i4", ">i8", ">u8"]
VERSIONS = {"earliest": "earliest", "v108": ("v108", "v108"), "v110": ("v110", "v110")}


def numbers(dtype, shape):
    if np.dtype(dtype).kind == "f":
        return rng.standard_normal(shape).astype(dtype)
    info = np.iinfo(dtype)
    least, most = max(info.min, -(2**52)), min(info.max, 2**52)
    return rng.integers(least, most, shape, endpoint=True).astype(dtype)


def plain(value):
    """As JSON has it: floats exactly, in the shortest text that stands for them."""
    if isinstance(value, bytes):
        return value.decode()
    if isinstance(value, (np.generic, np.ndarray)):
        return plain(value.tolist())
    if isinstance(value, list):
        return [plain(item) for item in value]
    return int(value) if isinstance(value, bool) else value


def describe(path):
    """Written from what h5py reads, not from what was meant to be written."""
    found = {"datasets": [], "attributes": {}}

    def visit(name, item):
        attributes = {key: plain(value) for key, value in item.attrs.items() if not isinstance(value, h5py.Empty)}
        if attributes:
            found["attributes"]["/" + name] = attributes
        if not isinstance(item, h5py.Dataset):
            return
        string = h5py.check_string_dtype(item.dtype)
        values = item.asstr()[()] if string and string.encoding == "utf-8" else item[()]
        if string:
            flat = [plain(value) for value in np.ravel(values).tolist()] if item.shape else [plain(values)]
        else:
            flat = plain(np.ravel(values))
        filters = [n for on, n in ((item.shuffle, "shuffle"), (item.compression == "gzip", "gzip"), (item.fletcher32, "fletcher32")) if on]
        found["datasets"].append({"name": "/" + name, "shape": list(item.shape), "chunk": list(item.chunks or []),
                                  "filters": filters, "string": bool(string), "values": flat})

    with h5py.File(path, "r") as file:
        visit("", file)
        file.visititems(visit)
    path.with_suffix(".json").write_text(json.dumps(found))


def trial(file, number, frames, **options):
    group = file.create_group(f"trial_{number:04d}")
    group.create_dataset("input_features", data=rng.standard_normal((frames, 16)).astype("f4"), **options)
    ids = np.zeros(50, "i4")
    count = random.randrange(1, 50)
    ids[:count] = rng.integers(1, 41, count)
    group.create_dataset("seq_class_ids", data=ids)
    group.create_dataset("transcription", data=np.frombuffer(f"sentence {number}".ljust(50, "\0").encode(), "u1").astype("i4"))
    group.attrs["n_time_steps"] = frames
    group.attrs["seq_len"] = count
    group.attrs["session"] = "t15.2023.08.11"
    group.attrs["sentence_label"] = f"Sentence {number}, with ü."
    group.attrs["block_num"] = np.int64(number // 20)
    group.attrs["threshold"] = np.float32(-4.5)


def types(file):
    for name in TYPES:
        file.create_dataset(f"types/contiguous/{name}", data=numbers(name, (7, 3)))
        file.create_dataset(f"types/chunked/{name}", data=numbers(name, (7, 3)), chunks=(2, 2), **FILTERS["all"])
    file["types/bool"] = np.array([True, False, True])
    file["types/scalar"] = 3.25
    file["types/nothing"] = np.zeros((0, 4), "f4")


def layouts(file):
    for filters, options in FILTERS.items():
        for shape, chunk in [((17,), (5,)), ((9, 11), (4, 3)), ((3, 5, 7), (2, 2, 3)), ((40, 8), (40, 8)), ((2, 3, 2, 3), (1, 3, 2, 2))]:
            name = f"{filters}/{'x'.join(map(str, shape))}"
            file.create_dataset(name, data=numbers("i2", shape), chunks=chunk, **options)
            sparse = file.create_dataset(name + "_sparse", shape, "f4", chunks=chunk, fillvalue=-1.5, **options)
            sparse[tuple(size // 2 for size in shape)] = 2
    file.create_dataset("grown", data=numbers("f4", (6, 4)), maxshape=(None, 4), chunks=(4, 4))
    file["grown"].resize((11, 4))
    file["grown"][6:] = numbers("f4", (5, 4))
    file.create_dataset("two_ways", data=numbers("f4", (6, 4)), maxshape=(None, None), chunks=(4, 3))
    file.create_dataset("unwritten", (5, 5), "i4", fillvalue=9)
    file.create_dataset("long", data=numbers("f4", (3000, 5)), chunks=(7, 5), compression="gzip")
    compact = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
    compact.set_layout(h5py.h5d.COMPACT)
    space = h5py.h5s.create_simple((6, 2))
    h5py.Dataset(h5py.h5d.create(file.id, b"compact", h5py.h5t.STD_I32LE, space, compact))[...] = numbers("i4", (6, 2))
    file["linked"] = h5py.SoftLink("/grown")
    file["twice"] = file["compact"]


def strings(file):
    words = ["", "a", "two words", "ü", "日本語", "x" * 3000]
    file.create_dataset("any", data=words * 40, dtype=h5py.string_dtype())
    file.create_dataset("chunked", data=words * 40, dtype=h5py.string_dtype(), chunks=(7,), compression="gzip")
    file.create_dataset("one", data="alone", dtype=h5py.string_dtype())
    file.create_dataset("fixed", data=np.array([b"abc", b"", b"abcdefgh"], "S8"))
    file.create_dataset("fixed_utf8", data=np.array(["ü".encode(), b"abc"], h5py.string_dtype("utf-8", 6)))
    file.create_dataset("never", (3,), dtype=h5py.string_dtype(), chunks=(2,))
    file.attrs["list"] = words
    file.attrs["fixed"] = np.bytes_(b"fixed")
    file.attrs["numbers"] = np.arange(6).reshape(2, 3)
    file.attrs["float"] = 0.1
    file.attrs["flag"] = True
    file.attrs["none"] = h5py.Empty("f4")


def many(file):
    """More links and attributes than a group's description holds."""
    for i in range(300):
        file.create_group(f"group_{i:03d}")["x"] = np.int32(i)
    for i in range(100):
        file.attrs[f"attribute_{i:03d}"] = i


for version, bounds in VERSIONS.items():
    for what in (types, layouts, strings, many):
        path = OUT / f"{what.__name__}_{version}.hdf5"
        with h5py.File(path, "w", libver=bounds) as file:
            what(file)
        describe(path)
    for filters, options in FILTERS.items():
        path = OUT / f"trials_{version}_{filters}.hdf5"
        with h5py.File(path, "w", libver=bounds) as file:
            for number in range(12):
                trial(file, number, random.randrange(20, 90), **options)
        describe(path)
path = OUT / "userblock.hdf5"
with h5py.File(path, "w", libver="earliest", userblock_size=1024) as file:
    layouts(file)
    strings(file)
with open(path, "r+b") as file:
    file.write(b"text before the file")
describe(path)

with h5py.File(OUT / "refused.hdf5", "w", libver="earliest") as file:
    file["compound"] = np.zeros(3, [("a", "f4"), ("b", "i4")])
    file["complex"] = np.zeros(3, "c8")
    file.create_dataset("reference", data=[file["compound"].ref], dtype=h5py.ref_dtype)
    file.create_dataset("ragged", (2,), h5py.vlen_dtype("f4"))[0] = [1, 2]
    file["opaque"] = np.zeros(2, "V3")
    file["array"] = np.zeros(2, [("a", "f4", 3)])["a"]
    file.create_dataset("lzf", data=np.zeros((10, 10)), compression="lzf")
    file.create_dataset("scaleoffset", data=np.zeros((10, 10), "i4"), scaleoffset=4)
    file["empty"] = h5py.Empty("f4")
    file["external"] = h5py.ExternalLink("types_earliest.hdf5", "/types")
    file["dangling"] = h5py.SoftLink("/nothing")
    file.create_dataset("elsewhere", (3,), "f4", external=[("values.bin", 0, 12)])
    layout = h5py.VirtualLayout((3,), "f4")
    layout[:] = h5py.VirtualSource("types_earliest.hdf5", "types/contiguous/f4", (3,))[:]
    file.create_dataset("huge_chunks", (2**20, 2**10), "f4", chunks=(2**17, 2**10))
    file.create_dataset("whole_floats", data=np.array([1.0, 2.0, 2.0**31 - 128], "f4"))
    file.create_dataset("floats", data=np.array([1.0, 2.5, np.nan]))
    file.create_dataset("large", data=np.array([2**53 + 1, -1, 300], "i8"))
    file.create_dataset("larger", data=np.array([2**64 - 1], "u8"))
    file.create_dataset("wide", data=np.array([1e300]))
with h5py.File(OUT / "virtual.hdf5", "w", libver=("v110", "v110")) as file:
    file.create_virtual_dataset("virtual", layout)
with h5py.File(OUT / "latest.hdf5", "w", libver="latest") as file:
    file.create_dataset("x", data=np.zeros((10, 10), "f4"), chunks=(3, 3), maxshape=(None, None))
    file["z"] = np.zeros(3, "c8")
