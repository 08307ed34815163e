"""Seeds and words of the fuzzers of weights, for make_corpus.py: safetensors and what torch.save writes, without torch."""
import collections
import io
import json
import pickle
import struct
import sys
import types
import zipfile

def safetensors():
    sizes = {"F64": 8, "F32": 4, "BF16": 2, "F16": 2, "I64": 8, "I32": 4, "I16": 2, "I8": 1, "U8": 1, "BOOL": 1}
    header, begin = {"__metadata__": {"format": "pt"}}, 0
    for name, size in sizes.items():
        header[name] = {"dtype": name, "shape": [2, 3], "data_offsets": [begin, begin + 6 * size]}
        begin += 6 * size
    empty = {"a": {"dtype": "F32", "shape": [0, 4], "data_offsets": [0, 0]}, "b": {"dtype": "U8", "shape": [], "data_offsets": [0, 1]}}
    for document, size in ((header, begin), (empty, 1), ({}, 0)):
        text = json.dumps(document).encode()
        yield struct.pack("<Q", len(text)) + text + bytes(range(size))


class Storage(collections.namedtuple("Storage", "type key elements")):
    pass


class Tensor(collections.namedtuple("Tensor", "storage offset shape strides", defaults=[(), ()])):
    pass


class Parameter(collections.namedtuple("Parameter", "tensor")):
    pass


def stand_ins():
    """Modules of torch's names, for pickles to name what is in them."""
    torch, utils = types.ModuleType("torch"), types.ModuleType("torch._utils")
    for name in ("FloatStorage", "HalfStorage", "BFloat16Storage", "DoubleStorage", "LongStorage", "IntStorage", "ShortStorage", "CharStorage",
                 "ByteStorage", "BoolStorage"):
        setattr(torch, name, type(name, (), {"__module__": "torch"}))
    for name in ("_rebuild_tensor_v2", "_rebuild_parameter"):
        exec(f"def {name}(*arguments): pass", {"__name__": "torch._utils"}, utils.__dict__)
    sys.modules |= {"torch": torch, "torch._utils": utils}
    return torch, utils


TORCH, UTILS = stand_ins()


class Pickler(pickle.Pickler):
    def __init__(self, out, protocol, legacy):
        super().__init__(out, protocol)
        self.legacy = legacy

    def persistent_id(self, value):
        if isinstance(value, Storage):
            return ("storage", getattr(TORCH, value.type), value.key, "cpu", value.elements, *([None] if self.legacy else []))

    def reducer_override(self, value):
        hooks = collections.OrderedDict()
        if isinstance(value, Tensor):
            return UTILS._rebuild_tensor_v2, (value.storage, value.offset, value.shape, value.strides, False, hooks)
        if isinstance(value, Parameter):
            return UTILS._rebuild_parameter, (value.tensor, True, hooks)
        return NotImplemented


def pickled(value, protocol=2, legacy=False):
    out = io.BytesIO()
    Pickler(out, protocol, legacy).dump(value)
    return out.getvalue()


FLOATS, BOOLS = Storage("FloatStorage", "0", 6), Storage("BoolStorage", "1", 4)
STATES = [{"a": Tensor(FLOATS, 0, (2, 3), (3, 1)), "turned": Tensor(FLOATS, 0, (3, 2), (1, 3)), "part": Tensor(FLOATS, 1, (2,), (2,)),
           "number": Tensor(FLOATS, 5), "bits": Tensor(BOOLS, 0, (2, 2), (1, 2)), "repeated": Tensor(FLOATS, 0, (2, 2), (0, 0))},
          collections.OrderedDict(a=Parameter(Tensor(FLOATS, 0, (6,), (1,))), b=Tensor(BOOLS, 4, (0, 4), (4, 1))),
          {name: Tensor(Storage(f"{name}Storage", "0", 3), 0, (3,), (1,)) for name in ("Half", "BFloat16", "Double", "Long", "Int", "Short", "Char", "Byte")}]


def pickles():
    for state in STATES:
        for protocol in (2, 3, 4):
            yield pickled(state, protocol)
    yield pickled(0x1950a86a20f9469cfc6c)
    yield pickled({"little_endian": True, "protocol_version": 1001, "type_sizes": {"int": 4}})
    yield pickled(["0", "1", b"bytes", 1.5, -1, 1 << 40, None, ("nested", ((),))], 4)


def torch_files():
    storages = {"0": bytes(range(24)), "1": b"\1\0\1\1"}
    for state in STATES[:2]:
        for zip64 in (False, True):
            out = io.BytesIO()
            with zipfile.ZipFile(out, "w") as file:
                for name, data in {"data.pkl": pickled(state), "byteorder": b"little", **{f"data/{k}": v for k, v in storages.items()}, "version": b"3\n"}.items():
                    with file.open(zipfile.ZipInfo(f"archive/{name}"), "w", force_zip64=zip64) as entry:
                        entry.write(data)
            yield out.getvalue()
        keys = b"".join(struct.pack("<q", size) + storages[key] for key, size in (("0", 6), ("1", 4)))
        yield (pickled(0x1950a86a20f9469cfc6c) + pickled(1001) + pickled({"little_endian": True}) + pickled(state, legacy=True)
               + pickled(["0", "1"]) + keys)


GLOBALS = [f"c{module}\n{name}\n" for module, name in (
    ("collections", "OrderedDict"), ("torch._utils", "_rebuild_tensor_v2"), ("torch._utils", "_rebuild_tensor_v3"),
    ("torch._utils", "_rebuild_parameter"), ("torch", "Size"), ("torch", "float32"), ("torch.storage", "UntypedStorage"), ("torch", "FloatStorage"),
    ("torch", "BoolStorage"), ("posix", "system"))]
def ggufs():
    """gguf_golden.py's files where there is numpy, which it needs."""
    try:
        import gguf_golden
    except ImportError:
        return
    import numpy
    generator = numpy.random.default_rng(0)
    metadata = {"general.architecture": "llama", "llama.embedding_length": 64, "llama.attention.head_count": 2, "a.texts": ["a", "b"], "a.flag": True,
                "a.number": 0.5}
    tensors = {f"blk.0.ffn_up.{kind}": ((2, 256), kind, gguf_golden.random_data((2, 256), kind, generator)) for kind in gguf_golden.BLOCKS}
    yield gguf_golden.gguf(metadata, tensors)
    yield gguf_golden.gguf(metadata, {"blk.1.attn_q.weight": ((64, 32), 8, gguf_golden.random_data((64, 32), 8, generator))})
    yield gguf_golden.gguf(metadata, {})


SEEDS = {"gguf": list(ggufs()), "safetensors": list(safetensors()), "pickle": list(pickles()), "torch_file": list(torch_files())}
PICKLE_WORDS = [*GLOBALS, "storage", "cpu", ")R", b"\x85", b"\x86", b"\x87", b"\x93", b"\x94", b"\x80\x02", b"\x8a\x08", b"\x8d", b"\x95"]
DICTIONARIES = {"gguf": ["GGUF", "general.architecture", "general.alignment", "llama", "gemma3", "output_norm.weight", "blk.0.attn_k.weight", "token_embd.weight", b"\3\0\0\0",
                         b"\x09\0\0\0\x08\0\0\0", b"\xff\xff\xff\xff"], "safetensors": ['"dtype"', '"shape"', '"data_offsets"', '"__metadata__"', '"F32"', '"BF16"', '"I8"', '"BOOL"', "[0,0]", "18446744073709551615"],
                "pickle": PICKLE_WORDS,
                "torch_file": [*PICKLE_WORDS, "PK\3\4", "PK\1\2", "PK\5\6", "PK\6\6", "PK\6\7", "archive/data/0", "data.pkl", "byteorder", b"\xff\xff\xff\xff"]}
