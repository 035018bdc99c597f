"""Commands for gdb on a recorded run: time, seeking, who wrote what, calls, bookmarks.

The work is done by the server, which is asked by `monitor` commands. Moving works so: the server is told where to, then gdb
resumes, and the server answers that resumption with a stop at the wanted moment; so gdb itself forgets what it knew.

`retro gdb` loads this file. With any other connection to `retro gdbserver`: `source retro.py`.
"""

import re

import gdb


def _lines(command):
    """The server's answer to a command, as lines."""
    try:
        text = gdb.execute("monitor " + command, to_string=True)
    except gdb.error as error:
        raise gdb.GdbError("this needs a connection to a recording (retro gdb): %s" % error)
    if text.startswith("error: "):
        raise gdb.GdbError(text[len("error: "):].strip())
    return [line for line in text.splitlines() if line.strip()]


def _ask(command):
    """The server's answer to a command, as lines of words."""
    return [line.split() for line in _lines(command)]


def _now():
    return int(_ask("time")[0][0])


def _resume():
    """Lets gdb resume, which leads to the moment that the server was told."""
    is_reverse = "reverse" in gdb.execute("show exec-direction", to_string=True)
    said = gdb.execute("continue" if is_reverse else "reverse-continue", to_string=True)
    # The stop itself is shown; what is left is what the server has to say.
    gdb.write(said)
    # Libraries may have come and gone in between: then gdb may not have known where it stopped.
    was_known = gdb.newest_frame().name() is not None
    gdb.execute("sharedlibrary", to_string=True)
    if not was_known and gdb.newest_frame().name() is not None:
        gdb.execute("frame")


_trail = []


def _go(time):
    """Moves to a time."""
    before = _now()
    _ask("seek %s" % time)
    _arrive(before)


def _arrive(before):
    _trail.append(before)
    del _trail[:-100]
    _resume()


def _note_time(_event=None):
    """Sets $_retro_time."""
    try:
        gdb.set_convenience_variable("_retro_time", _now())
    except gdb.GdbError:
        gdb.set_convenience_variable("_retro_time", None)


def _memory_of(expression):
    """The value of an expression that is in memory."""
    try:
        value = gdb.parse_and_eval(expression)
    except gdb.error as error:
        raise gdb.GdbError(str(error))
    if value.address is None:
        raise gdb.GdbError("`%s` is not in memory, so that nothing can have written it" % expression)
    return value


def _place(pc):
    """Function and line of an address."""
    found = gdb.find_pc_line(pc)
    block = gdb.block_for_pc(pc)
    while block is not None and block.function is None:
        block = block.superblock
    name = block.function.print_name if block is not None else None
    if name is None:
        symbol = gdb.execute("info symbol %d" % pc, to_string=True)
        name = symbol.split(" in section ")[0] if " in section " in symbol else "?"
    if found.symtab is not None:
        return "%s at %s:%d" % (name, found.symtab.filename, found.line)
    return "%s (0x%x)" % (name, pc)


def _value(digits, kind):
    """Bytes in hexadecimal as a value of a type."""
    try:
        return str(gdb.Value(bytes.fromhex(digits), kind))
    except (gdb.error, ValueError):
        return "0x" + digits


def _count(words, otherwise):
    """The number at the end of some words, and the rest of them."""
    if len(words) > 1 and words[-1].isdigit():
        return " ".join(words[:-1]), int(words[-1])
    return " ".join(words), otherwise


class Retro(gdb.Command):
    """Commands for a recorded run.

Time is the number of instructions that the process has executed. Moving to a time works in both directions and takes
no longer if it is far. gdb's own commands work both ways, too: reverse-continue, reverse-step, reverse-next, reverse-stepi,
reverse-finish. $_retro_time is the time of the last stop."""

    def __init__(self):
        super().__init__("retro", gdb.COMMAND_RUNNING, prefix=True)


class When(gdb.Command):
    """Tell the time: how many instructions the process has executed.
Usage: retro when"""

    def __init__(self):
        super().__init__("retro when", gdb.COMMAND_STATUS)

    def invoke(self, argument, from_tty):
        gdb.write(" ".join(_ask("when")[0]) + "\n")


class Seek(gdb.Command):
    """Go to a time of the run.
Usage: retro seek TIME|PERCENT%|start|end|last|BOOKMARK

TIME is a number of instructions, with k, M or G if you like: retro seek 1.5M. `last` is the result of the last
retro last-write or retro goto."""

    def __init__(self):
        super().__init__("retro seek", gdb.COMMAND_RUNNING)

    def invoke(self, argument, from_tty):
        where = argument.strip()
        if not where:
            raise gdb.GdbError("a time is needed: retro seek 1.5M, retro seek 50%, retro seek start")
        _go(_bookmarks.get(where, where))

    def complete(self, text, word):
        return [name for name in ["start", "end", "last", *_bookmarks] if name.startswith(word)]


class Back(gdb.Command):
    """Go back to where you were before the last command that moved: seek, goto, last-write, caller.
Usage: retro back"""

    def __init__(self):
        super().__init__("retro back", gdb.COMMAND_RUNNING)

    def invoke(self, argument, from_tty):
        if not _trail:
            raise gdb.GdbError("there is nothing to go back to yet")
        time = _trail.pop()
        _ask("seek %d" % time)
        _resume()


class Caller(gdb.Command):
    """Go back to the call of the chosen frame.
Usage: retro caller

Like reverse-finish, but for functions that gdb does not know, too. Stops earlier at breakpoints, as that does."""

    def __init__(self):
        super().__init__("retro caller", gdb.COMMAND_RUNNING)

    def invoke(self, argument, from_tty):
        frame = gdb.selected_frame()
        while frame is not None and frame.type() == gdb.INLINE_FRAME:
            frame = frame.older()
        if frame is None or _return_slot(frame) is None:
            raise gdb.GdbError("this frame has no call that could be found: choose another with up or frame")
        before = _now()
        frame.select()
        _stepping(True)
        with _hint_kept():
            _arrive(before)


class LastWrite(gdb.Command):
    """Go to the write that made a variable what it is.
Usage: retro last-write [-n] EXPRESSION

Stops in front of the instruction that wrote; `stepi` shows the value change, `retro back` returns. With -n it only
tells."""

    def __init__(self):
        super().__init__("retro last-write", gdb.COMMAND_RUNNING, gdb.COMPLETE_EXPRESSION)

    def invoke(self, argument, from_tty):
        words = argument.split(None, 1)
        only_tell = bool(words) and words[0] == "-n"
        expression = (words[1] if len(words) > 1 else "") if only_tell else argument
        if not expression.strip():
            raise gdb.GdbError("an expression is needed: retro last-write account->branch")
        value = _memory_of(expression)
        address, kind, now = int(value.address), value.type, str(value)
        rows = _ask("last-write %d %d" % (address, kind.sizeof))
        if rows[0][0] == "none":
            gdb.write("%s was never written before this moment\n" % expression)
            return
        time, thread, pc = int(rows[0][0]), rows[0][1], int(rows[0][2], 16)
        gdb.write("%s was last written at time %d by thread %s\n" % (expression, time, thread))
        if only_tell:
            gdb.write("  to %s by %s\n" % (now, _place(pc)))
            return
        before = _now()
        _ask("seek %d" % time)
        _arrive(before)
        then = gdb.Value(address).cast(kind.pointer()).dereference()
        gdb.write("%s: %s -> %s\n" % (expression, then, now))


class History(gdb.Command):
    """List the writes to a variable up to now, with the values before and after.
Usage: retro history EXPRESSION [COUNT]

Lists the last 20 if there is no count. retro seek TIME goes to one of them."""

    def __init__(self):
        super().__init__("retro history", gdb.COMMAND_DATA, gdb.COMPLETE_EXPRESSION)

    def invoke(self, argument, from_tty):
        expression, count = _count(argument.split(), 20)
        if not expression:
            raise gdb.GdbError("an expression is needed: retro history account->cents")
        value = _memory_of(expression)
        kind = value.type
        rows = _ask("writes %d %d %d" % (int(value.address), kind.sizeof, count))
        if not rows:
            gdb.write("%s was never written before this moment\n" % expression)
        for time, thread, pc, old, new in rows:
            change = "%s -> %s" % (_value(old, kind), _value(new, kind))
            gdb.write("%14s  %s  %s\n" % (time, change, _place(int(pc, 16))))


class Calls(gdb.Command):
    """List calls of a function around now, with arguments, results and callers.
Usage: retro calls FUNCTION [COUNT]

Lists the last 20 and the next 20 if there is no count. A star marks those before now. retro seek TIME goes to one of
them."""

    def __init__(self):
        super().__init__("retro calls", gdb.COMMAND_DATA, gdb.COMPLETE_LOCATION)

    def invoke(self, argument, from_tty):
        function, count = _count(argument.split(), 20)
        if not function:
            raise gdb.GdbError("a function is needed: retro calls transfer")
        try:
            entries = [int(gdb.parse_and_eval("&" + function).cast(gdb.lookup_type("long")))]
        except gdb.error:
            _, found = gdb.decode_line(function)
            blocks = [gdb.block_for_pc(place.pc) for place in found or ()]
            entries = [block.start for block in blocks if block is not None]
        if not entries:
            raise gdb.GdbError("no function %s" % function)
        lines = _lines("calls %d %s" % (count, " ".join(str(entry) for entry in entries)))
        if not lines:
            gdb.write("%s is never called\n" % function)
        now = _now()
        for line in lines:
            time, thread, caller, call = line.split(None, 3)
            mark = "*" if int(time) < now else " "
            called = "" if caller == "0x0" else "  from " + _place(int(caller, 16))
            gdb.write("%s %14s  thread %s  %s%s\n" % (mark, time, thread, call, called))


class Goto(gdb.Command):
    """Go to the moment that a query describes.
Usage: retro goto QUERY

  retro goto end backward func_enter transfer where cents > 40000
  retro goto now forward store account->balance
  retro goto now backward syscall write

docs/query-language.md describes the language."""

    WORDS = ["now", "start", "end", "last", "forward", "backward", "func_enter", "func_exit", "store", "load",
             "instruction", "line", "syscall", "signal", "map", "thread_start", "thread_end", "where"]

    def __init__(self):
        super().__init__("retro goto", gdb.COMMAND_RUNNING)

    def invoke(self, argument, from_tty):
        if not argument.strip():
            raise gdb.GdbError("a query is needed: retro goto end backward func_enter main")
        before = _now()
        _ask("goto " + argument.strip())
        _arrive(before)

    def complete(self, text, word):
        return [known for known in self.WORDS if known.startswith(word)]


_bookmarks = {}


class Bookmark(gdb.Command):
    """Remember moments by name.
Usage: retro bookmark [NAME]          remember this moment
       retro bookmark list            list what is remembered
       retro bookmark go NAME         go there (retro seek NAME does, too)
       retro bookmark delete NAME     forget it"""

    def __init__(self):
        super().__init__("retro bookmark", gdb.COMMAND_RUNNING)

    def invoke(self, argument, from_tty):
        words = argument.split()
        if words[:1] == ["list"]:
            if not _bookmarks:
                gdb.write("no bookmarks: retro bookmark NAME makes one\n")
            for name, time in sorted(_bookmarks.items(), key=lambda item: item[1]):
                gdb.write("%14d  %s\n" % (time, name))
        elif words[:1] == ["go"]:
            _go(self.known(words))
        elif words[:1] == ["delete"]:
            self.known(words)
            del _bookmarks[words[1]]
        elif len(words) > 1:
            raise gdb.GdbError("names are single words")
        else:
            name = words[0] if words else str(len(_bookmarks) + 1)
            _bookmarks[name] = _now()
            gdb.write("bookmark %s: time %d\n" % (name, _bookmarks[name]))

    def known(self, words):
        if len(words) != 2 or words[1] not in _bookmarks:
            raise gdb.GdbError("no such bookmark: retro bookmark list")
        return _bookmarks[words[1]]

    def complete(self, text, word):
        first = text.split()[:1]
        if first and first[0] in ("go", "delete"):
            return [name for name in _bookmarks if name.startswith(word)]
        return [name for name in ["list", "go", "delete"] if name.startswith(word)]


# Commands that gdb makes of breakpoints of its own, which mean one frame. `until` and `advance` mean any.
_STEPS = ["step", "next", "nexti", "reverse-step", "reverse-next", "reverse-nexti"]
_STEPS_OUT = ["finish", "reverse-finish"]
_OTHERS_THAT_RESUME = ["continue", "reverse-continue", "stepi", "reverse-stepi", "until", "advance"]


class _Hint:
    """What the server knows of the command that gdb executes. It must not outlive the command: the breakpoints of the next
    one would be taken for gdb's own."""

    is_given = False
    is_kept = False


def _stepping(is_out=False):
    """Tells the server which breakpoints are the user's, so that gdb's own do not stop in every frame of a recursion."""
    _stepping_ends()
    try:
        listed = gdb.execute("info breakpoints", to_string=True)
        slot = _return_slot(gdb.selected_frame()) if is_out else None
        command = "stepping" if slot is None else "stepping-out %d" % slot
        _Hint.is_given = True
        _ask(" ".join([command, *sorted(set(re.findall(r"\b0x[0-9a-f]+", listed)))]))
    except (gdb.error, gdb.GdbError):
        # It is slower then, and as right.
        pass


def _return_slot(frame):
    """Where the return address of a frame lies. None if it has none of its own."""
    caller = frame.older()
    if frame.type() != gdb.NORMAL_FRAME or caller is None or caller.type() == gdb.SIGTRAMP_FRAME:
        return None
    return int(caller.read_register("rsp")) - 8


def _stepping_ends(_event=None):
    """A command that steps is over, or was refused, or another one begins."""
    if not _Hint.is_given or _Hint.is_kept:
        return
    _Hint.is_given = False
    try:
        _ask("stepping-ends")
    except gdb.GdbError:
        pass


class _hint_kept:
    """While a command of ours resumes by one of gdb's."""

    def __enter__(self):
        _Hint.is_kept = True

    def __exit__(self, *_):
        _Hint.is_kept = False
        _stepping_ends()


class RefuseRecord(gdb.Command):
    """Refuse to record a run that is recorded already. What `record` calls first."""

    def __init__(self):
        super().__init__("retro refuse-record", gdb.COMMAND_OBSCURE)

    def invoke(self, argument, from_tty):
        try:
            _now()
        except gdb.GdbError:
            # Not a recording: gdb may record it.
            return
        # gdb would follow the replay instruction by instruction, and to go back it would try to change memory.
        raise gdb.GdbError("this run is recorded already: reverse-continue, reverse-step and the like work without `record`")


def _hook(command, action, purpose="Tell the server of recorded runs that a step begins or is over."):
    """Lets a command of gdb do something before it begins."""
    *prefixes, name = command.split()
    hook = " ".join([*prefixes, "hook-" + name])
    try:
        gdb.execute("show user " + hook, to_string=True)
    except gdb.error:
        gdb.execute("define %s\n%s\nend" % (hook, action))
        gdb.execute("document %s\n%s\nend" % (hook, purpose))


def _forbid(permission):
    """Lets gdb itself refuse what cannot be: of a refused write to memory it would only say that it cannot be accessed."""
    try:
        gdb.execute("set %s off" % permission, to_string=True)
    except gdb.error:
        # gdb is connected already, or too old.
        pass


def retro_begin():
    """Says where the view stands, once gdb is connected."""
    # Without the program gdb does not look for its libraries by itself.
    gdb.execute("sharedlibrary", to_string=True)
    _note_time()
    gdb.write("retro: %s; reverse-continue and the like go back, `help retro` lists more\n"
              % " ".join(_ask("when")[0]))


for command in (Retro, When, Seek, Back, Caller, LastWrite, History, Calls, Goto, Bookmark, RefuseRecord):
    command()
for command in _STEPS:
    _hook(command, "python _stepping()")
for command in _STEPS_OUT:
    _hook(command, "python _stepping(True)")
for command in _OTHERS_THAT_RESUME:
    _hook(command, "python _stepping_ends()")
for command in ("record", "record full", "record btrace", "target record-full", "target record-btrace"):
    _hook(command, "retro refuse-record", "Refuse to record a run that is recorded already.")
gdb.events.stop.connect(_stepping_ends)
gdb.events.before_prompt.connect(_stepping_ends)
gdb.events.stop.connect(_note_time)
for permission in ("may-call-functions", "may-write-memory"):
    _forbid(permission)
