"""Commands for gdb."""

def retro_begin():
    pass
