# Starting an interpreter and loading modules, and little else.
import argparse
import collections
import dataclasses
import email.message
import json
import logging
import re
import tempfile
import unittest

parser = argparse.ArgumentParser()
parser.add_argument("--number", type=int, default=7)
print(json.dumps(vars(parser.parse_args([]))), len(re.findall("a", "banana")), collections.Counter("aab").most_common(1))
