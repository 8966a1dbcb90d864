"""Checkpoints that would run code, crash or fill the memory, each written by a function.

``CHECKPOINTS[name](path, base, canary)`` writes a change of the checkpoint ``base`` to ``path``;
the file ``canary`` must not appear when it is read.
"""

import copy
import io
import os
import pickle
import struct
import tarfile
import zipfile
from functools import partial
from pathlib import Path

import torch

CHECKPOINTS = {}


def collected(function):
    CHECKPOINTS[function.__name__] = function
    return function


class Call:
    """An object that calls a function when it is unpickled."""

    def __init__(self, function, *arguments):
        self.call = function, arguments

    def __reduce__(self):
        return self.call


def good(base):
    return torch.load(base, weights_only=True)


def with_pickle(path, content):
    """Write a zip in the form of torch.save, with any pickle and a storage of 24 bytes."""
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("archive/data.pkl", content)
        archive.writestr("archive/byteorder", "little")
        archive.writestr("archive/data/0", bytes(24))
        archive.writestr("archive/version", "3\n")


def rewritten(path, base, change):
    """Rewrite a checkpoint's zip; ``change`` edits the archive before its index is written."""
    with zipfile.ZipFile(base) as old, zipfile.ZipFile(path, "w") as new:
        for name in old.namelist():
            new.writestr(name, old.read(name))
        change(new)


def pickled(text):
    """Return a pickle of protocol 2 with this body."""
    return b"\x80\x02" + text + b"."


def glob(name):
    module, _, function = name.rpartition(".")
    return f"c{module}\n{function}\n".encode()


def call(name, arguments, memo=b""):
    """Return a call of a function by its name, which instructions of the memo may follow."""
    return glob(name) + memo + b"(" + arguments + b"tR"


def string(text):
    encoded = text.encode()
    return b"X" + struct.pack("<I", len(encoded)) + encoded


def number(value):
    return b"\x8a" + bytes([9]) + value.to_bytes(9, "little", signed=True)


def model(value):
    """Return a pickle of {"model": {"weight": value}}."""
    return pickled(b"}" + string("model") + b"}" + string("weight") + value + b"ss")


def storage(length):
    """Return a persistent id like that of a tensor's storage."""
    kind, key, device = glob("torch.FloatStorage"), string("0"), string("cpu")
    return b"(" + string("storage") + kind + key + device + number(length) + b"tQ"


def tensor(length, shape, stride):
    sizes, strides = (b"(" + b"".join(map(number, part)) + b"t" for part in (shape, stride))
    arguments = storage(length) + number(0) + sizes + strides + b"\x89" + ORDERED
    return call("torch._utils._rebuild_tensor_v2", arguments)


ORDERED = glob("collections.OrderedDict") + b")R"


# --- Pickles in the form of torch.save ------------------------------------------------------------


def touch(canary):
    return Call(os.system, f"touch '{canary}'")


def command(canary):
    return string(f"touch '{canary}'")


def dtype(name):
    return call("numpy.dtype", string(name) + b"\x89\x88")


def raw_bytes(content):
    return call("_codecs.encode", string(content.decode("latin1")) + string("latin1"))


def beside(value):
    """Return a pickle of {"model": {}, "x": value}."""
    return pickled(b"}" + string("model") + b"}s" + string("x") + value + b"s")


def array_of(kind, content, shape=1):
    """Return an array as NumPy pickles it."""
    empty = glob("numpy.ndarray") + b"(" + number(0) + b"t" + raw_bytes(b"b")
    state = b"(" + number(1) + b"(" + number(shape) + b"t" + kind + b"\x89" + content + b"tb"
    return call("numpy._core.multiarray._reconstruct", empty) + state


def other_pickle(canary):
    buffer = io.BytesIO()
    torch.save(touch(canary), buffer)
    return b"B" + struct.pack("<I", len(buffer.getvalue())) + buffer.getvalue()


def key(value):
    """Return a pickle of {"model": {}, "x": {value: None}}."""
    return beside(b"}" + value + b"Ns")


def repeated(value, call, times=300):
    """Return a list of calls with one value, which is at entry 1 of the memo."""
    return beside(b"](" + value + b"q\x01" + call * times + b"e")


def encode(codec):
    return call("_codecs.encode", b"h\x01" + string(codec))


LONG = string("a" * (10 << 20))
EQUAL_HASHES = b"".join(
    b"\x8a\x0a" + (((1 << 61) - 1) * k).to_bytes(10, "little", signed=True) + b"N"
    for k in range(1, 40_001)
)
EIGHT, HUNDRED = raw_bytes(b"A" * 8), raw_bytes(b"a" * 99)
WITH_FIELDS = b"(" + number(3) + string("<") + b"N(" + string("a") + b"t}" + string("a")
WITH_FIELDS += dtype("O8") + number(0) + b"\x86s" + number(8) + number(8) + number(0) + b"tb"
PICKLES = {
    # an instruction that imports and calls
    "instance": lambda canary: b"(S'touch " + str(canary).encode() + b"'\nios\nsystem\n.",
    "from_memo": lambda canary: pickled(call("posix.system", command(canary), b"q\x01h\x01")),
    "name_made_of_parts": lambda canary: (
        b"\x80\x04\x8c\x05posix\x94\x8c\x06system\x94\x93(" + command(canary) + b"tR."
    ),
    # a function by way of an allowed module
    "chained_globals": lambda canary: pickled(call("torch._utils.os.system", command(canary))),
    "load_of_storage": lambda canary: pickled(
        call("torch.storage._load_from_bytes", other_pickle(canary))
    ),
    "rebuilt_by_any_function": lambda canary: model(
        call(
            "torch._tensor._rebuild_from_type_v2",
            glob("posix.system") + glob("torch.Tensor") + command(canary) + b"\x85}",
        )
    ),
    # attributes instead of methods
    "methods_of_an_ordered_dictionary": lambda canary: pickled(
        (b"}" + string("model") + ORDERED + b"}" + string("items"))
        + (glob("torch._utils._rebuild_tensor") + b"sbs")
    ),
    "function_as_setting": lambda canary: beside(glob("torch._utils._rebuild_tensor_v2")),
    "deep": lambda canary: beside(b"]" * 5000 + b"a" * 4999),
    # hashed without end, or for long
    "deep_tuple_as_key": lambda canary: key(b"N" + b"\x85" * 1_000_000),
    "tuple_of_itself_twice_as_key": lambda canary: key(b"N" + b"q\x01h\x01\x86" * 40),
    "tuple_in_a_set": lambda canary: beside(
        call("builtins.set", b"](N" + b"q\x01h\x01\x86" * 40 + b"e")
    ),
    "equal_hashes": lambda canary: beside(b"}(" + EQUAL_HASHES + b"u"),
    # copied, or built from few bytes each
    "string_encoded_often": lambda canary: repeated(LONG, encode("latin1")),
    "codec_that_doubles": lambda canary: repeated(HUNDRED, encode("hex") + b"q\x01", 40),
    "arrays_of_the_same_bytes": lambda canary: repeated(
        raw_bytes(b"a" * (10 << 20)), array_of(dtype("u1"), b"h\x01", 10 << 20)
    ),
    "set_of_what_grows": lambda canary: repeated(
        b"]q\x02\x85q\x01h\x02(" + b"K\x01" * 300_000 + b"e", glob("builtins.set") + b"h\x01R"
    ),
    # arrays of references to objects, which point anywhere
    "objects_from_bytes": lambda canary: beside(
        call("numpy.ndarray", b"(" + number(1) + b"t" + dtype("O8") + EIGHT)
    ),
    "objects_from_bytes_reconstructed": lambda canary: beside(array_of(dtype("O8"), EIGHT)),
    "array_larger_than_its_bytes": lambda canary: beside(array_of(dtype("f8"), EIGHT, 1 << 40)),
    "kind_with_fields": lambda canary: beside(array_of(dtype("f8") + WITH_FIELDS, EIGHT)),
    "item_set_in_a_tensor": lambda canary: model(tensor(6, [6], [1]) + number(5) + b"K\x01s"),
    "storage_shorter_than_declared": lambda canary: model(tensor(600, [600], [1])),
    "stride_beyond_the_storage": lambda canary: model(tensor(6, [2, 3], [1000, 1])),
    "one_number_for_a_trillion": lambda canary: model(tensor(6, [10**12], [0])),
    "storage_that_fills_the_memory": lambda canary: model(tensor(1 << 40, [1], [1])),
    "empty_tensor_by_size": lambda canary: model(call("torch.FloatTensor", number(1 << 36))),
    "bytes_by_size": lambda canary: model(call("builtins.bytearray", number(1 << 36))),
}


def pickles(content, write, path, base, canary):
    write(path, content(canary))


def dumped(protocol, canary):
    return pickle.dumps({"model": {}, "x": touch(canary)}, protocol=protocol)


for _name, _content in PICKLES.items():
    CHECKPOINTS[_name] = partial(pickles, _content, with_pickle)
for _protocol in range(6):
    _content = partial(dumped, _protocol)
    CHECKPOINTS[f"zip_protocol_{_protocol}"] = partial(pickles, _content, with_pickle)
    CHECKPOINTS[f"raw_protocol_{_protocol}"] = partial(pickles, _content, Path.write_bytes)


# --- Changes of a good checkpoint -----------------------------------------------------------------


def with_setting(state, value):
    state["cfg"]["task"]["x"] = value
    return state


def laughs():
    """Return lists of lists, each twice in the next: small in the file, huge when copied."""
    laugh = ["ha"] * 2
    for _ in range(40):
        laugh = [laugh, laugh]
    return laugh


def endless():
    result = []
    result.append(result)
    return result


def sparse():
    indices, values = torch.zeros(2, 1, dtype=torch.long), torch.ones(1)
    return torch.sparse_coo_tensor(indices, values, (1 << 20, 1 << 20))


STATES = {
    "in_settings": lambda state, canary: with_setting(state, touch(canary)),
    "laughs": lambda state, canary: with_setting(state, laughs()),
    "endless": lambda state, canary: with_setting(state, endless()),
    "sparse_tensor": lambda state, canary: state | {"model": {"weight": sparse()}},
    "meta_tensor": lambda state, canary: (
        state | {"model": {"weight": torch.empty(1 << 40, device="meta")}}
    ),
    "tied_weights_ten_thousand_times": lambda state, canary: (
        state | {"model": dict.fromkeys(map(str, range(10_000)), torch.zeros(200_000))}
    ),
    # fairseq makes a meter of any name
    "metrics_by_any_name": lambda state, canary: (
        state
        | {"extra_state": state["extra_state"] | {"metrics": [("x", [(0, "loss", "time", {})])]}}
    ),
}


def changed(change, path, base, canary):
    torch.save(change(good(base), canary), path)


for _name, _change in STATES.items():
    CHECKPOINTS[_name] = partial(changed, _change)


@collected
def legacy_pickle(path, base, canary):
    torch.save(good(base) | {"x": touch(canary)}, path, _use_new_zipfile_serialization=False)


@collected
def legacy_storage_that_fills_the_memory(path, base, canary):
    buffer = io.BytesIO()
    state = {"model": {"weight": torch.zeros(2)}}
    torch.save(state, buffer, _use_new_zipfile_serialization=False)
    declared = b"K\x02"
    assert buffer.getvalue().count(declared + b"N") == 1
    path.write_bytes(buffer.getvalue().replace(declared + b"N", number(1 << 42) + b"N"))


@collected
def nested_load(path, base, canary):
    """Let torch.load read another pickle that may run code."""
    inner = path.parent / f"{path.name}.inner"
    torch.save(touch(canary), inner)
    with_pickle(path, pickled(glob("torch.load") + b"(" + string(str(inner)) + b"NNN\x89tR"))


@collected
def tar(path, base, canary):
    with tarfile.open(path, "w") as archive:
        for name in ("storages", "tensors", "pickle", "../outside"):
            content = pickle.dumps(touch(canary), protocol=2)
            member = tarfile.TarInfo(name)
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))


# --- zips ----------------------------------------------------------------------------------------


@collected
def bomb(path, base, canary):
    """Write a tenth of a file of 26 MB that would become 6.4 GB."""
    options = {"compression": zipfile.ZIP_DEFLATED, "compresslevel": 1}
    length = 160 << 20
    with zipfile.ZipFile(path, "w", **options) as archive:
        archive.writestr("archive/data.pkl", model(tensor(length, [length], [1])))
        archive.writestr("archive/byteorder", "little")
        with archive.open("archive/data/0", "w") as member:
            for _ in range(640):
                member.write(bytes(1 << 20))
        archive.writestr("archive/version", "3\n")


@collected
def pickle_in_capitals(path, base, canary):
    """Write a name that PyTorch finds in either case."""
    body = pickled(b"}" + string("x") + call("builtins.bytearray", number(3 * 10**9)) + b"s")
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("archive/DATA.PKL", body)
        archive.writestr("archive/version", "3\n")


@collected
def two_indexes(path, base, canary):
    """Write one index for Python's zipfile and another for PyTorch."""
    with open(path, "wb") as file, zipfile.ZipFile(file, "w") as last:
        with zipfile.ZipFile(base) as source:
            for name in source.namelist():
                last.writestr(name, source.read(name))
        with zipfile.ZipFile(file, "w") as first:
            first.writestr("archive/data.pkl", pickled(b"}" + string("other") + b"]s"))
            first.writestr("archive/version", "3\n")
        end = file.tell()
        length = end - 22 - first.start_dir
        file.write(
            struct.pack("<4sQHHII", b"PK\6\6", 44, 45, 45, 0, 0)
            + struct.pack("<QQQQ", 2, 2, length, first.start_dir)
        )
        last.infolist()[-1].comment = struct.pack("<4sIQI", b"PK\6\7", 0, end, 1)
        last.start_dir = file.tell()


@collected
def code_behind_the_contents(path, base, canary):
    """Put code into the last of the five pickles of a file without zip."""
    buffer = io.BytesIO()
    torch.save({"model": {}}, buffer, _use_new_zipfile_serialization=False)
    last = pickle.dumps([], protocol=2)
    assert buffer.getvalue().endswith(last)
    content = buffer.getvalue().removesuffix(last)
    path.write_bytes(content + pickle.dumps([touch(canary)], protocol=2))


def add_pickle(name):
    """Return a change that adds a pickle of this name beside the good pickle."""

    def change(archive, canary):
        top = archive.namelist()[0].partition("/")[0]
        archive.writestr(f"{top}/{name}", pickle.dumps(touch(canary), protocol=2))

    return change


def add_member(name, content):
    """Return a change that adds a member or replaces the member of that name."""

    def change(archive, canary):
        top = archive.namelist()[0].partition("/")[0]
        archive.filelist = [info for info in archive.filelist if info.filename != f"{top}/{name}"]
        archive.NameToInfo = {info.filename: info for info in archive.filelist}
        archive.writestr(f"{top}/{name}", content)

    return change


def set_in_index(name, value):
    """Return a change of an attribute in each entry of the index."""

    def change(archive, canary):
        for entry in archive.filelist:
            setattr(entry, name, value(entry) if callable(value) else value)

    return change


def overlap(archive, canary):
    """Name one member a thousand times in the index."""
    largest = max(archive.filelist, key=lambda entry: entry.file_size)
    for number in range(1000):
        archive.filelist.append(copy.copy(largest))
        archive.filelist[-1].filename = f"{largest.filename}{number}"


for _name, _change in {
    "twice_the_same_name": add_pickle("data.pkl"),
    "pickle_in_capitals_beside_another": add_pickle("DATA.PKL"),
    "absolute_names": set_in_index("filename", lambda entry: f"/{entry.filename}"),
    "checksum": set_in_index("CRC", 1),
    "encrypted_by_flag": set_in_index("flag_bits", 1),
    "unknown_method": set_in_index("compress_type", 0x55),
    "overlapping_members": overlap,
    "alignment_of_storages": add_member(".storage_alignment", b"0"),
}.items():
    CHECKPOINTS[_name] = lambda path, base, canary, change=_change: rewritten(
        path, base, partial(change, canary=canary)
    )
