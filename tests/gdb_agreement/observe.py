# What gdb sees in core files: for each line of stdin, the path of a core file, one line of JSON on stdout. Run by gdb.
#
# {"threads": [{"thread": 7, "frames": [FRAME, ...]}, ...]}, the thread that runs first.
# FRAME: {"kind", "pc", "callee" (the "pc" of what it has called), "function", "file", "line", "registers": {...}, "variables": [[name, value], ...] or null,
#         "expressions": [[text, value], ...]}; a value is {"text"} or {"error"}, with "lost" if the compiler has
# not kept all of it, "in_memory" if it has an address, "where" it is in gdb's words, and "trait" if it is of a variable that is
# hard to know: "entry" if it is where a parameter was when its function was called, "clobbered" if it is in a register that
# the called function may have changed, "empty" if its type has no size, "removed" if the compiler has removed the parameter
# and callers know its value, "uncovered" if its place is not said of all its bytes, "variant" if it is
# an enumeration of Rust in several places. "lines" are those of the rows
# where the "line" begins and right before that.
import json
import re
import sys

import gdb

FRAMES = 100
# The innermost frames of the first thread, whose variables are shown.
LOOKED_INTO = 5
# Variables of a frame that expressions are made of, and expressions of a frame.
VARIABLES = 40
EXPRESSIONS = 24
RANGE = re.compile(r"Range (0x[0-9a-f]+)-(0x[0-9a-f]+): ((?:.|\n(?!  Range))*)")
PIECE = re.compile(r"(\d+)-byte piece")
CLOBBERED = re.compile(r"\$(rax|rcx|rdx|rsi|rdi|r8|r9|r10|r11|xmm\d+)\b")
REGISTERS = ["rsp", "rbp", "rbx", "r12", "r13", "r14", "r15"]

KINDS = {gdb.INLINE_FRAME: "inlined", gdb.SIGTRAMP_FRAME: "signal", gdb.TAILCALL_FRAME: "tail call"}
# Expressions that gdb cannot say in Rust: members of an enumeration's variants by the variant's name.
WORDLESS = ("Could not find field", "Attempting to access named field")
RECORDS = (gdb.TYPE_CODE_STRUCT, gdb.TYPE_CODE_UNION)
FAILURES = (gdb.error, gdb.MemoryError, RuntimeError, ValueError, UnicodeDecodeError)


def shown(get):
    lost, in_memory = False, False
    try:
        value = get()
        lost, in_memory = value.is_optimized_out, value.address is not None
        text = value.format_string(raw=True, deref_refs=True, max_elements=200, repeat_threshold=10, max_depth=20)
        return {"text": text, "lost": lost, "in_memory": in_memory,
                "trait": "empty" if value.type.sizeof == 0 else None}
    except FAILURES as error:
        return {"error": str(error), "lost": lost, "in_memory": in_memory, "trait": None}


def register(frame, name):
    try:
        value = frame.read_register(name)
        if value.is_optimized_out:
            return None
        return int(value.cast(gdb.lookup_type("unsigned long")))
    except FAILURES:
        return None


def symbols(frame):
    """What is in scope in a function, innermost block first; None without debug information."""
    try:
        block = frame.block()
    except RuntimeError:
        return None
    found = []
    while block is not None:
        found.extend(symbol for symbol in block if is_wanted(symbol))
        if block.function is not None:
            break
        block = block.superblock
    return found


def is_wanted(symbol):
    if symbol.is_constant:
        # A variable whose value is known when it is compiled, or an enumerator.
        names = [field.name for field in symbol.type.fields()] if symbol.type.code == gdb.TYPE_CODE_ENUM else []
        return symbol.name not in names
    return symbol.is_argument or symbol.is_variable and symbol.addr_class != gdb.SYMBOL_LOC_LABEL


def location(frame, symbol):
    """Where a variable is, in gdb's words."""
    pc = frame.pc() - (0 if is_innermost(frame) else 1)
    try:
        text = gdb.execute("info address " + symbol.name, to_string=True)
    except gdb.error:
        return ""
    for start, end, where in RANGE.findall(text):
        if int(start, 16) <= pc < int(end, 16):
            return where
    return text


def trait(frame, symbol, where, found):
    """What makes it hard to know a variable, if something does."""
    is_one_of_many = sum(other.name == symbol.name for other in found) > 1
    if symbol.type is not None and symbol.type.sizeof == 0:
        return "empty"
    if "entry_value" in where:
        return "entry"
    if "GNU_parameter_ref" in where:
        return "removed"
    # Of several with the same name gdb tells the place of one.
    if (CLOBBERED.search(where) or is_one_of_many) and not is_innermost(frame):
        return "clobbered"
    if is_uncovered(symbol, where):
        return "uncovered"
    if PIECE.search(where) and symbol.type.dynamic:
        return "variant"
    return None


def is_uncovered(symbol, where):
    pieces = [int(size) for size in PIECE.findall(where)]
    covered = sum(pieces) if pieces else 8 if "DW_OP_stack_value" in where else symbol.type.sizeof
    return covered < symbol.type.sizeof


def is_innermost(frame):
    newer = frame.newer()
    while newer is not None and newer.type() == gdb.INLINE_FRAME:
        newer = newer.newer()
    return newer is None or newer.type() == gdb.SIGTRAMP_FRAME


def variables(frame, found, traits, places):
    return [[symbol.name, dict(shown(lambda: symbol.value(frame)), trait=traits.get(symbol.name),
                               where=places.get(symbol.name))]
            for symbol in found]


def is_in_memory(name):
    try:
        return gdb.parse_and_eval(name).address is not None
    except FAILURES:
        return False


def expressions_of(name, type, is_rust):
    type = type.strip_typedefs()
    code = type.code
    if code in (gdb.TYPE_CODE_REF, gdb.TYPE_CODE_RVALUE_REF):
        yield "&" + name
        return
    if code == gdb.TYPE_CODE_PTR:
        target = type.target().strip_typedefs()
        if target.code in RECORDS:
            yield "*" + name
            for field in named_fields(target):
                yield "(*%s).%s" % (name, field) if is_rust else "%s->%s" % (name, field)
        elif target.code not in (gdb.TYPE_CODE_VOID, gdb.TYPE_CODE_FUNC):
            yield "*" + name
            if not is_rust:
                yield "%s[1]" % name
                yield "*%s@3" % name
        if not is_rust:
            yield "%s == 0" % name
            yield "(unsigned long) %s + 16" % name
            yield "!%s" % name
    elif code in RECORDS:
        for field in named_fields(type):
            yield "%s.%s" % (name, field)
        if not is_rust:
            yield "&" + name
            yield "sizeof %s" % name
    elif code == gdb.TYPE_CODE_ARRAY:
        if not is_rust:
            yield "sizeof %s / sizeof %s[0]" % (name, name)
        # gdb loses the elements of arrays that are in several places.
        if is_in_memory(name):
            yield "%s[%d]" % (name, min(1, max(0, type.range()[1])))
            if not is_rust:
                yield "*(%s + 1)" % name
    elif code == gdb.TYPE_CODE_ENUM and not is_rust:
        yield "(int) " + name
        yield "%s == 1" % name
    elif code == gdb.TYPE_CODE_FLT:
        yield "%s * 2.5" % name
        yield "%s < 1.0" % name
    elif code == gdb.TYPE_CODE_INT:
        if is_rust:
            yield "%s + 1" % name
            yield "%s as u8" % name
            yield "%s == 3" % name
        else:
            yield "%s * 3 - 7" % name
            yield "(unsigned char) %s" % name
            yield "%s / 7 + %s %% 7" % (name, name)
            yield "%s > 10 && %s < 1000" % (name, name)
            yield "~%s >> 2 ^ 5" % name
            yield "-%s" % name


def named_fields(type):
    names = [field.name for field in type.fields()
             if field.name and not field.is_base_class and not field.artificial and hasattr(field, "bitpos")]
    return [name for name in names if name.replace("_", "a").isalnum() and not name[0].isdigit()][:4]


def is_found(symbol):
    found = gdb.lookup_symbol(symbol.name)[0]
    return found is not None and found.is_variable | found.is_argument and found.line == symbol.line


def has_no_size(text):
    """What is of no size needs no memory, but gdb looks for it."""
    try:
        return "empty" if gdb.parse_and_eval("sizeof(%s)" % text) == 0 else None
    except FAILURES:
        return None


def expressions(found, traits, places, is_rust):
    result, seen = [], set()
    for symbol in found[:VARIABLES]:
        # gdb does not find all of them by their names.
        if symbol.name in seen or symbol.type is None or not is_found(symbol):
            continue
        seen.add(symbol.name)
        for text in expressions_of(symbol.name, symbol.type, is_rust):
            value = shown(lambda: gdb.parse_and_eval(text))
            # Not what gdb has no words for.
            if not value.get("error", "").startswith(WORDLESS):
                hard = value["trait"] or "error" in value and has_no_size(text) or traits.get(symbol.name)
                result.append([text, dict(value, trait=hard, of=symbol.name, where=places.get(symbol.name))])
    # As many of each variable as there is room for.
    return result[::max(1, -(-len(result) // EXPRESSIONS))]


LINES = {}


def lines(place):
    """The lines of the rows at the address where a place begins, and of those right before it."""
    if place.symtab is None or not place.line or place.pc is None:
        return []
    key = (place.symtab.filename, place.pc)
    if key not in LINES:
        LINES[key] = lines_at(place.symtab.linetable(), place)
    return LINES[key]


def lines_at(table, place):
    try:
        # Refused where there is no table; to go through one that is not there would be the end of gdb.
        table.has_line(place.line)
    except FAILURES:
        return []
    rows = [(entry.pc, entry.line) for entry in table if entry.pc <= place.pc]
    before = max((pc for pc, _ in rows if pc < place.pc), default=None)
    return sorted({line for pc, line in rows if pc in (place.pc, before)})


def observed(frame, look_into):
    place = frame.find_sal()
    result = {
        "kind": KINDS.get(frame.type(), "normal"),
        "pc": frame.pc(),
        "callee": frame.newer().pc() if frame.newer() is not None else None,
        "function": frame.name(),
        "file": place.symtab.filename if place.symtab else None,
        "line": place.line,
        "lines": lines(place),
        "registers": {name: register(frame, name) for name in REGISTERS},
        "variables": None,
        "expressions": [],
    }
    found = symbols(frame) if look_into else None
    if found is not None:
        frame.select()
        is_rust = gdb.parameter("language") == "rust" or frame.function() is not None and "rust" in language()
        places = {symbol.name: location(frame, symbol) for symbol in found}
        traits = {symbol.name: trait(frame, symbol, places[symbol.name], found) for symbol in found}
        result["variables"] = variables(frame, found, traits, places)
        result["expressions"] = expressions(found, traits, places, is_rust)
    return result


def language():
    return gdb.execute("show language", to_string=True)


def threads():
    # Cores name the one that runs first.
    for thread in sorted(gdb.selected_inferior().threads(), key=lambda thread: thread.num):
        thread.switch()
        frames, frame = [], gdb.newest_frame()
        while frame is not None and len(frames) < FRAMES:
            frames.append(observed(frame, thread.num == 1 and len(frames) < LOOKED_INTO))
            try:
                frame = frame.older()
            except FAILURES:
                frame = None
        yield {"thread": thread.ptid[1] or thread.ptid[0], "frames": frames}


def main():
    for command in ["confirm off", "pagination off", "style enabled off", "width 0", "backtrace past-main on",
                    "backtrace past-entry on", "print entry-values no", "max-value-size 16777216"]:
        gdb.execute("set " + command)
    answers = sys.__stdout__
    for line in sys.stdin:
        # What gdb itself has to say must not mix with the answers.
        gdb.execute("core-file", to_string=True)
        gdb.execute("core-file " + line.strip(), to_string=True)
        answers.write(json.dumps({"threads": list(threads())}) + "\n")
        answers.flush()


main()
