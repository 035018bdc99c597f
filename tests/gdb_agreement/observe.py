# What gdb sees in core files: for each line of stdin, the path of a core file, one line of JSON on stdout. Run by gdb.
#
# {"threads": [{"thread": 7, "frames": [FRAME, ...]}, ...]}, the thread that runs first.
# FRAME: {"kind", "pc", "function", "file", "line", "registers": {...}, "variables": [[name, value], ...] or null,
#         "expressions": [[text, value], ...]}; a value is {"text"} or {"error"}, with "trait" if it is of a variable that is
# hard to know: "entry" if it is where a parameter was when its function was called, "clobbered" if it is in a register that
# the called function may have changed, "empty" if its type has no size, "removed" if
# the compiler has removed the parameter and callers know its value.
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
CLOBBERED = re.compile(r"\$(rax|rcx|rdx|rsi|rdi|r8|r9|r10|r11|xmm\d+)\b")
REGISTERS = ["rsp", "rbp", "rbx", "r12", "r13", "r14", "r15"]

KINDS = {gdb.INLINE_FRAME: "inlined", gdb.SIGTRAMP_FRAME: "signal", gdb.TAILCALL_FRAME: "tail call"}
RECORDS = (gdb.TYPE_CODE_STRUCT, gdb.TYPE_CODE_UNION)
FAILURES = (gdb.error, gdb.MemoryError, RuntimeError, ValueError, UnicodeDecodeError)


def shown(get):
    try:
        value = get()
        return {"text": value.format_string(raw=True, deref_refs=True, max_elements=200, repeat_threshold=10,
                                           max_depth=20)}
    except FAILURES as error:
        return {"error": str(error)}


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
    pc = frame.pc() - (0 if frame.newer() is None or frame.newer().type() == gdb.SIGTRAMP_FRAME else 1)
    try:
        text = gdb.execute("info address " + symbol.name, to_string=True)
    except gdb.error:
        return ""
    for start, end, where in RANGE.findall(text):
        if int(start, 16) <= pc < int(end, 16):
            return where
    return "" if RANGE.search(text) else text


def trait(frame, symbol):
    """What makes it hard to know a variable, if something does."""
    where = location(frame, symbol)
    if symbol.type is not None and symbol.type.sizeof == 0:
        return "empty"
    if "entry_value" in where:
        return "entry"
    if "GNU_parameter_ref" in where:
        return "removed"
    if CLOBBERED.search(where) and not is_innermost(frame):
        return "clobbered"
    return None


def is_innermost(frame):
    newer = frame.newer()
    while newer is not None and newer.type() == gdb.INLINE_FRAME:
        newer = newer.newer()
    return newer is None or newer.type() == gdb.SIGTRAMP_FRAME


def variables(frame, found, traits):
    return [[symbol.name, dict(shown(lambda: symbol.value(frame)), trait=traits.get(symbol.name))] for symbol in found]


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
        yield "%s[1]" % name
        if not is_rust:
            yield "sizeof %s / sizeof %s[0]" % (name, name)
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


def expressions(found, traits, is_rust):
    result, seen = [], set()
    for symbol in found[:VARIABLES]:
        # gdb does not find all of them by their names.
        if symbol.name in seen or symbol.type is None or not is_found(symbol):
            continue
        seen.add(symbol.name)
        for text in expressions_of(symbol.name, symbol.type, is_rust):
            value = shown(lambda: gdb.parse_and_eval(text))
            # Not what gdb has no words for.
            if not value.get("error", "").startswith("Could not find field"):
                result.append([text, dict(value, trait=traits.get(symbol.name), of=symbol.name)])
    # As many of each variable as there is room for.
    return result[::max(1, -(-len(result) // EXPRESSIONS))]


def observed(frame, look_into):
    place = frame.find_sal()
    result = {
        "kind": KINDS.get(frame.type(), "normal"),
        "pc": frame.pc(),
        "function": frame.name(),
        "file": place.symtab.filename if place.symtab else None,
        "line": place.line,
        "registers": {name: register(frame, name) for name in REGISTERS},
        "variables": None,
        "expressions": [],
    }
    found = symbols(frame) if look_into else None
    if found is not None:
        frame.select()
        is_rust = gdb.parameter("language") == "rust" or frame.function() is not None and "rust" in language()
        traits = {symbol.name: trait(frame, symbol) for symbol in found}
        result["variables"] = variables(frame, found, traits)
        result["expressions"] = expressions(found, traits, is_rust)
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
                    "backtrace past-entry on", "print entry-values no"]:
        gdb.execute("set " + command)
    answers = sys.__stdout__
    for line in sys.stdin:
        # What gdb itself has to say must not mix with the answers.
        gdb.execute("core-file", to_string=True)
        gdb.execute("core-file " + line.strip(), to_string=True)
        answers.write(json.dumps({"threads": list(threads())}) + "\n")
        answers.flush()


main()
