# Steps a program instruction by instruction and writes down what a debugger sees: registers, the part of the stack
# that changed, and the call stack with the registers of each frame. Run by gdb; how many steps and where to write is in
# the environment.
import os

import gdb

COMPARED = ["rip", "rsp", "rbx", "rbp", "r12", "r13", "r14", "r15"]
NAMES = [
    "rax", "rdx", "rcx", "rbx", "rsi", "rdi", "rbp", "rsp",
    "r8", "r9", "r10", "r11", "r12", "r13", "r14", "r15", "rip",
]
CHUNK = 64
# Bytes of the variable `other_stack` of some programs.
OTHER_STACK = 16384


def number(value):
    return int(value) & (1 << 64) - 1


def register(frame, name):
    try:
        value = frame.read_register(name)
        return "%x" % number(value.cast(gdb.lookup_type("long")))
    except (gdb.error, gdb.MemoryError):
        return "-"


class Watched:
    """A part of memory whose changes are written down."""

    def __init__(self, start, end):
        self.start, self.end = start, end
        self.known = b""

    def changes(self, inferior):
        now = bytes(inferior.read_memory(self.start, self.end - self.start))
        for at in range(0, len(now), CHUNK):
            part = now[at:at + CHUNK]
            if part != self.known[at:at + CHUNK]:
                yield self.start + at, part
        self.known = now


def main():
    output = open(os.environ["STEPS_OUTPUT"], "w")
    inferior = gdb.selected_inferior()
    for line in open("/proc/%d/maps" % inferior.pid):
        fields = line.split(None, 5)
        if len(fields) == 6 and fields[5].startswith("/"):
            output.write("M %s %s %s %s\n" % (fields[0], fields[1], fields[2], fields[5].strip()))
        if len(fields) == 6 and fields[5].strip() == "[stack]":
            stack_end = int(fields[0].split("-")[1], 16)
    stack = number(gdb.parse_and_eval("$rsp"))
    watched = [Watched(stack - 16384 & -CHUNK, min(stack_end, stack + 8192) & -CHUNK)]
    try:
        address = number(gdb.parse_and_eval("(long)&other_stack"))
        watched.append(Watched(address, address + OTHER_STACK))
    except gdb.error:
        pass
    # Where the stack is when the function that it begins with has returned.
    returned = number(gdb.newest_frame().older().read_register("rsp"))
    for _ in range(int(os.environ["STEPS"])):
        write_moment(output, inferior, watched)
        try:
            gdb.execute("stepi", to_string=True)
        except gdb.error:
            break
        if not gdb.selected_thread() or not gdb.selected_thread().is_valid():
            break
        if returned <= number(gdb.parse_and_eval("$rsp")) < stack_end:
            break
    output.write("D\n")
    output.close()


def write_moment(output, inferior, watched):
    frame = gdb.newest_frame()
    values = [register(frame, name) for name in NAMES]
    output.write("S %s\n" % " ".join(values))
    for part in watched:
        for address, contents in part.changes(inferior):
            output.write("W %x %s\n" % (address, contents.hex()))
    while frame is not None and frame.is_valid():
        # What gdb concludes from the targets of calls: such a function has left nothing on the stack.
        if frame.type() == gdb.TAILCALL_FRAME:
            frame = frame.older()
            continue
        kind = {gdb.INLINE_FRAME: "I", gdb.SIGTRAMP_FRAME: "S"}.get(frame.type(), "N")
        place = frame.find_sal()
        function = frame.function()
        name = function.name if function is not None else "-"
        file = place.symtab.filename.split("/")[-1] if place.symtab is not None else "-"
        registers = " ".join(register(frame, name) for name in COMPARED)
        output.write("F %s %s %d %s %s\n" % (kind, registers, place.line, file, name))
        frame = frame.older()


main()
