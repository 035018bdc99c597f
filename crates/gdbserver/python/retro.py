"""Commands for gdb."""
