"""Checkpoints that would run code, crash or fill the memory: each a function that writes one.

``CHECKPOINTS[name](path, base, canary)`` writes to ``path`` what is made of the good checkpoint
``base``; the file ``canary`` must not appear when it is read.
"""

import io
import os
import pickle
import shutil
import struct
import tarfile
import zipfile

import torch

CHECKPOINTS = {}


def collected(function):
    CHECKPOINTS[function.__name__] = function
    return function


class Call:
    """Calls a function when it is unpickled."""

    def __init__(self, function, *arguments):
        self.call = function, arguments

    def __reduce__(self):
        return self.call


def good(base):
    return torch.load(base, weights_only=True)


def saved(path, state, **options):
    torch.save(state, path, **options)


def with_pickle(path, content, storages=((b"\0" * 24),), **options):
    """A zip as of torch.save, with any pickle and the numbers of tensors."""
    with zipfile.ZipFile(path, "w", **options) as archive:
        archive.writestr("archive/data.pkl", content)
        archive.writestr("archive/byteorder", "little")
        for number, storage in enumerate(storages):
            archive.writestr(f"archive/data/{number}", storage)
        archive.writestr("archive/version", "3\n")


def rewritten(path, base, edit=lambda name, content: content, **options):
    """A checkpoint's zip written anew by Python's zipfile."""
    with zipfile.ZipFile(base) as old, zipfile.ZipFile(path, "w", **options) as new:
        for name in old.namelist():
            new.writestr(name, edit(name, old.read(name)))


def pickled(text):
    """A pickle of protocol 2 with this body."""
    return b"\x80\x02" + text + b"."


def glob(name):
    module, _, function = name.rpartition(".")
    return f"c{module}\n{function}\n".encode()


def string(text):
    encoded = text.encode()
    return b"X" + struct.pack("<I", len(encoded)) + encoded


def number(value):
    return b"\x8a" + bytes([9]) + value.to_bytes(9, "little", signed=True)


def model(value):
    """{"model": {"weight": value}} for a value that is given as a pickle's body."""
    return pickled(b"}" + string("model") + b"}" + string("weight") + value + b"ss")


def storage(length, kind="FloatStorage", key="0"):
    """A persistent id, as of a tensor's numbers."""
    parts = string("storage") + glob(f"torch.{kind}") + string(key) + string("cpu") + number(length)
    return b"(" + parts + b"tQ"


def tensor(length, shape, stride, offset=0):
    sizes, strides = (b"(" + b"".join(map(number, part)) + b"t" for part in (shape, stride))
    arguments = storage(length) + number(offset) + sizes + strides + b"\x89" + ORDERED + b"t"
    return glob("torch._utils._rebuild_tensor_v2") + b"(" + arguments + b"R"


ORDERED = glob("collections.OrderedDict") + b")R"


# --- pickles that run code -----------------------------------------------------------------------


def touch(canary):
    return Call(os.system, f"touch '{canary}'")


@collected
def legacy_pickle(path, base, canary):
    saved(path, good(base) | {"x": touch(canary)}, _use_new_zipfile_serialization=False)


for _protocol in range(6):

    def _raw(path, base, canary, protocol=_protocol):
        path.write_bytes(pickle.dumps({"model": {}, "x": touch(canary)}, protocol=protocol))

    def _zipped(path, base, canary, protocol=_protocol):
        with_pickle(path, pickle.dumps({"model": {}, "x": touch(canary)}, protocol=protocol))

    CHECKPOINTS[f"raw_protocol_{_protocol}"] = _raw
    CHECKPOINTS[f"zip_protocol_{_protocol}"] = _zipped


@collected
def in_settings(path, base, canary):
    state = good(base)
    state["cfg"]["task"]["data"] = touch(canary)
    saved(path, state)


@collected
def instance(path, base, canary):
    """The instruction INST, which imports and calls in one."""
    with_pickle(path, b"(S'touch " + str(canary).encode() + b"'\nios\nsystem\n.")


@collected
def from_memo(path, base, canary):
    """The function is put aside and called from there."""
    command = string(f"touch '{canary}'")
    with_pickle(path, pickled(glob("posix.system") + b"q\x01h\x01(" + command + b"tR"))


@collected
def name_made_of_parts(path, base, canary):
    command = string(f"touch '{canary}'")
    body = b"\x8c\x05posix\x94\x8c\x06system\x94\x93(" + command + b"tR"
    with_pickle(path, b"\x80\x04" + body + b".")


@collected
def chained_globals(path, base, canary):
    """A function by way of one that is allowed."""
    command = string(f"touch '{canary}'")
    with_pickle(path, pickled(glob("torch._utils.os.system") + b"(" + command + b"tR"))


@collected
def nested_load(path, base, canary):
    """A pickle that has torch.load read another one, and says that it may run."""
    inner = path.parent / f"{path.name}.inner"
    torch.save(touch(canary), inner)
    arguments = string(str(inner)) + b"NNN\x89"
    with_pickle(path, pickled(glob("torch.load") + b"(" + arguments + b"tR"))


@collected
def load_of_storage(path, base, canary):
    buffer = io.BytesIO()
    torch.save(touch(canary), buffer)
    body = b"B" + struct.pack("<I", len(buffer.getvalue())) + buffer.getvalue()
    with_pickle(path, pickled(glob("torch.storage._load_from_bytes") + b"(" + body + b"tR"))


@collected
def rebuilt_by_any_function(path, base, canary):
    arguments = glob("posix.system") + glob("torch.Tensor") + string(f"touch {canary}") + b"\x85}"
    with_pickle(path, model(glob("torch._tensor._rebuild_from_type_v2") + b"(" + arguments + b"tR"))


@collected
def methods_of_an_ordered_dictionary(path, base, canary):
    """Attributes in the place of methods."""
    body = ORDERED + b"}" + string("items") + glob("torch._utils._rebuild_tensor") + b"sb"
    with_pickle(path, pickled(b"}" + string("model") + body + b"s"))


@collected
def function_as_setting(path, base, canary):
    body = glob("torch._utils._rebuild_tensor_v2")
    with_pickle(path, pickled(b"}" + string("model") + b"}s" + string("cfg") + body + b"s"))


@collected
def script(path, base, canary):
    class Module(torch.nn.Module):
        def forward(self, x):
            return x

    torch.jit.script(Module()).save(str(path))


@collected
def tar(path, base, canary):
    with tarfile.open(path, "w") as archive:
        for name in ("storages", "tensors", "pickle", "../outside"):
            content = pickle.dumps(touch(canary), protocol=2)
            member = tarfile.TarInfo(name)
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))


# --- NumPy ---------------------------------------------------------------------------------------


def dtype(name):
    return glob("numpy.dtype") + b"(" + string(name) + b"\x89\x88tR"


def raw_bytes(content):
    return (
        glob("_codecs.encode") + b"(" + string(content.decode("latin1")) + string("latin1") + b"tR"
    )


@collected
def objects_from_bytes(path, base, canary):
    """An array of references to objects, which point anywhere."""
    shape = b"(" + number(1) + b"t"
    body = glob("numpy.ndarray") + b"(" + shape + dtype("O8") + raw_bytes(b"A" * 8) + b"tR"
    with_pickle(path, pickled(b"}" + string("model") + b"}s" + string("x") + body + b"s"))


def _array_of(kind, content, shape=1):
    begun = glob("numpy._core.multiarray._reconstruct") + b"("
    begun += glob("numpy.ndarray") + b"(" + number(0) + b"t" + raw_bytes(b"b") + b"tR"
    state = b"(" + number(1) + b"(" + number(shape) + b"t" + kind + b"\x89" + content + b"tb"
    return pickled(b"}" + string("model") + b"}s" + string("x") + begun + state + b"s")


@collected
def objects_from_bytes_reconstructed(path, base, canary):
    with_pickle(path, _array_of(dtype("O8"), raw_bytes(b"A" * 8)))


@collected
def array_larger_than_its_bytes(path, base, canary):
    with_pickle(path, _array_of(dtype("f8"), raw_bytes(b"A" * 8), shape=1 << 40))


@collected
def array_of_records(path, base, canary):
    with_pickle(path, _array_of(dtype("O,O"), raw_bytes(b"A" * 16)))


@collected
def kind_with_fields(path, base, canary):
    """State that makes another type of a simple one."""
    state = b"(" + number(3) + string("<") + b"N" + b"(" + string("a") + b"t"
    state += b"}" + string("a") + dtype("O8") + number(0) + b"\x86s"
    kind = dtype("f8") + state + number(8) + number(8) + number(0) + b"tb"
    with_pickle(path, _array_of(kind, raw_bytes(b"A" * 8)))


@collected
def object_number(path, base, canary):
    body = glob("numpy._core.multiarray.scalar") + b"(" + dtype("O8") + raw_bytes(b"A" * 8) + b"tR"
    with_pickle(path, pickled(b"}" + string("model") + b"}s" + string("x") + body + b"s"))


# --- tensors -------------------------------------------------------------------------------------


@collected
def item_set_in_a_tensor(path, base, canary):
    with_pickle(path, model(tensor(6, [6], [1]) + number(5) + number(1) + b"s"))


@collected
def storage_shorter_than_declared(path, base, canary):
    with_pickle(path, model(tensor(600, [600], [1])))


@collected
def stride_beyond_the_storage(path, base, canary):
    with_pickle(path, model(tensor(6, [2, 3], [1000, 1])))


@collected
def offset_beyond_the_storage(path, base, canary):
    with_pickle(path, model(tensor(6, [6], [1], offset=1 << 40)))


@collected
def negative_stride(path, base, canary):
    with_pickle(path, model(tensor(6, [3], [-2], offset=5)))


@collected
def one_number_for_a_trillion(path, base, canary):
    with_pickle(path, model(tensor(6, [10**12], [0])))


@collected
def a_tensor_a_thousand_times(path, base, canary):
    """Tied weights, each of which would be copied."""
    state = good(base)
    weight = torch.zeros(200_000)
    state["model"] = {f"{name}": weight for name in range(10_000)}
    saved(path, state)


@collected
def storage_that_fills_the_memory(path, base, canary):
    body = model(tensor(1 << 40, [1], [1]))
    with_pickle(path, body)


@collected
def legacy_storage_that_fills_the_memory(path, base, canary):
    state = {"model": {"weight": torch.zeros(2)}}
    buffer = io.BytesIO()
    torch.save(state, buffer, _use_new_zipfile_serialization=False)
    declared = b"K\x02"
    assert buffer.getvalue().count(declared + b"N") == 1
    path.write_bytes(buffer.getvalue().replace(declared + b"N", number(1 << 42) + b"N"))


@collected
def empty_tensor_by_size(path, base, canary):
    with_pickle(path, model(glob("torch.FloatTensor") + b"(" + number(1 << 36) + b"tR"))


@collected
def bytes_by_size(path, base, canary):
    with_pickle(path, model(glob("builtins.bytearray") + b"(" + number(1 << 36) + b"tR"))


@collected
def sparse_tensor(path, base, canary):
    indices, values = torch.zeros(2, 1, dtype=torch.long), torch.ones(1)
    weight = torch.sparse_coo_tensor(indices, values, (1 << 20, 1 << 20))
    saved(path, good(base) | {"model": {"weight": weight}})


@collected
def meta_tensor(path, base, canary):
    saved(path, good(base) | {"model": {"weight": torch.empty(1 << 40, device="meta")}})


# --- zips ----------------------------------------------------------------------------------------


@collected
def bomb(path, base, canary):
    """26 MB would become 6.4 GB; this is a tenth of it."""
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
def checksum(path, base, canary):
    """A bit of a tensor's numbers has changed on the way."""
    content = bytearray(base.read_bytes())
    with zipfile.ZipFile(base) as archive:
        numbers = [member for member in archive.infolist() if "/data/" in member.filename]
        largest = max(numbers, key=lambda member: member.file_size)
        name_length = len(largest.filename)
    place = content.index(largest.filename.encode(), largest.header_offset) + name_length + 200
    content[place] ^= 0x10
    path.write_bytes(content)


@collected
def twice_the_same_name(path, base, canary):
    shutil.copy(base, path)
    with zipfile.ZipFile(base) as archive:
        name = next(name for name in archive.namelist() if name.endswith("data.pkl"))
    with zipfile.ZipFile(path, "a") as archive:
        archive.writestr(name, pickle.dumps(touch(canary), protocol=2))


@collected
def pickle_in_capitals(path, base, canary):
    """PyTorch finds ``data.pkl`` in either case."""
    body = pickled(b"}" + string("x") + glob("builtins.bytearray") + b"(" + number(3 * 10**9))
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("archive/DATA.PKL", body[:-1] + b"tRs.")
        archive.writestr("archive/version", "3\n")


@collected
def pickle_in_capitals_beside_a_good_one(path, base, canary):
    rewritten(path, base)
    with zipfile.ZipFile(path) as archive:
        top = archive.namelist()[0].partition("/")[0]
    with zipfile.ZipFile(path, "a") as archive:
        archive.writestr(f"{top}/DATA.PKL", pickled(glob("builtins.bytearray") + b")R"))


@collected
def two_indexes(path, base, canary):
    """Python's zipfile reads the last index, and PyTorch the one before it."""
    with open(path, "wb") as file, zipfile.ZipFile(file, "w") as last:
        with zipfile.ZipFile(base) as good_one:
            for name in good_one.namelist():
                last.writestr(name, good_one.read(name))
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
    """In the last of the five pickles of a file without zip."""
    buffer = io.BytesIO()
    torch.save({"model": {}}, buffer, _use_new_zipfile_serialization=False)
    last = pickle.dumps([], protocol=2)
    assert buffer.getvalue().endswith(last)
    content = buffer.getvalue().removesuffix(last)
    path.write_bytes(content + pickle.dumps([touch(canary)], protocol=2))


@collected
def absolute_names(path, base, canary):
    with zipfile.ZipFile(base) as old, zipfile.ZipFile(path, "w") as new:
        for name in old.namelist():
            new.writestr(f"/{name}", old.read(name))


@collected
def names_that_climb(path, base, canary):
    rewritten(path, base)
    with zipfile.ZipFile(path, "a") as archive:
        archive.writestr("../../outside", "x")


def _flagged(path, base, flag=0, method=0):
    """Set a flag or a method in each entry of the index."""
    rewritten(path, base)
    content = bytearray(path.read_bytes())
    start = content.find(b"PK\1\2")
    while start >= 0:
        content[start + 8] |= flag
        content[start + 10] |= method
        start = content.find(b"PK\1\2", start + 4)
    path.write_bytes(content)


@collected
def encrypted_by_flag(path, base, canary):
    _flagged(path, base, flag=1)


@collected
def unknown_method(path, base, canary):
    _flagged(path, base, method=0x55)


@collected
def overlapping_members(path, base, canary):
    """The index names one member a thousand times, by several names."""
    rewritten(path, base)
    content = path.read_bytes()
    start = content.index(b"PK\1\2")
    end = content.rindex(b"PK\5\6")
    with zipfile.ZipFile(path) as archive:
        largest = max(archive.infolist(), key=lambda member: member.file_size)
    entry_start = content.index(b"PK\1\2", start)
    while largest.filename.encode() not in content[entry_start : entry_start + 200]:
        entry_start = content.index(b"PK\1\2", entry_start + 4)
    entry = content[entry_start : entry_start + 46 + len(largest.filename)]
    name = largest.filename.encode()
    copies = [entry.replace(name, name[:-3] + f"{n:03}".encode()) for n in range(1000)]
    index = content[start:end] + b"".join(copies)
    count = struct.unpack("<H", content[end + 10 : end + 12])[0] + len(copies)
    record = struct.pack("<4sHHHHIIH", b"PK\5\6", 0, 0, count, count, len(index), start, 0)
    path.write_bytes(content[:start] + index + record)


# --- what is in it -------------------------------------------------------------------------------


@collected
def laughs(path, base, canary):
    """Lists of lists, each twice in the next: small in the file, endless when they are copied."""
    laugh = ["ha"] * 2
    for _ in range(40):
        laugh = [laugh, laugh]
    state = good(base)
    state["cfg"]["task"]["laughs"] = laugh
    saved(path, state)


@collected
def endless(path, base, canary):
    """A list that holds itself."""
    state = good(base)
    state["extra_state"]["metrics"] = endless = []
    endless.append(endless)
    saved(path, state)


@collected
def deep(path, base, canary):
    with_pickle(
        path,
        pickled(
            b"}"
            + string("model")
            + b"}" * 1
            + b"s"
            + string("x")
            + b"]" * 5000
            + b"a" * 4999
            + b"s"
        ),
    )


@collected
def metrics_by_any_name(path, base, canary):
    """fairseq makes a meter of whatever name it finds there."""
    state = good(base)
    state["extra_state"]["metrics"] = [("train", [(0, "loss", "time", {})])]
    saved(path, state)
