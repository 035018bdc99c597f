"""A mix of what Python programs do: float arithmetic, dictionaries, strings, JSON, classes."""
import json
import sys


def nbody(steps):
    bodies = [
        [0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 39.47],
        [4.84, -1.16, -0.10, 0.60, 2.81, -0.02, 0.037],
        [8.34, 4.12, -0.40, -1.01, 1.82, 0.008, 0.011],
        [12.89, -15.11, -0.22, 1.08, 0.86, -0.01, 0.0017],
        [15.37, -25.91, 0.17, 0.97, 0.59, -0.03, 0.0020],
    ]
    pairs = [(a, b) for i, a in enumerate(bodies) for b in bodies[i + 1:]]
    for _ in range(steps):
        for a, b in pairs:
            dx, dy, dz = a[0] - b[0], a[1] - b[1], a[2] - b[2]
            magnitude = 0.001 * (dx * dx + dy * dy + dz * dz) ** -1.5
            weight = b[6] * magnitude
            a[3] -= dx * weight
            a[4] -= dy * weight
            a[5] -= dz * weight
            weight = a[6] * magnitude
            b[3] += dx * weight
            b[4] += dy * weight
            b[5] += dz * weight
        for body in bodies:
            body[0] += 0.001 * body[3]
            body[1] += 0.001 * body[4]
            body[2] += 0.001 * body[5]
    return [round(v, 9) for body in bodies for v in body[:3]]


class Random:
    def __init__(self, seed):
        self.state = seed

    def below(self, bound):
        self.state = (self.state * 1103515245 + 12345) & 0x7FFFFFFF
        return (self.state >> 8) % bound


def words(count):
    random = Random(7)
    syllables = ["ka", "lo", "mi", "ren", "tas", "vo", "el", "sum", "dra", "pi"]
    return ["".join(syllables[random.below(10)] for _ in range(1 + random.below(4)))
            for _ in range(count)]


def word_count(text):
    counts = {}
    for word in text.split():
        counts[word] = counts.get(word, 0) + 1
    return sorted(counts.items(), key=lambda item: (-item[1], item[0]))[:10]


def round_trip(count):
    random = Random(99)
    records = [{"id": i, "name": f"record-{random.below(1000)}", "tags": [random.below(50) for _ in range(4)],
                "score": random.below(10000) / 64} for i in range(count)]
    # An encoder with indentation is the pure-Python one.
    text = json.dumps(records, indent=1, sort_keys=True)
    back = json.loads(text)
    return len(text), sum(r["score"] for r in back if r["tags"][0] % 2)


def sieve(limit):
    flags = bytearray([1]) * limit
    for i in range(2, int(limit ** 0.5) + 1):
        if flags[i]:
            for j in range(i * i, limit, i):
                flags[j] = 0
    return sum(flags) - 2


part = 10 if "short" in sys.argv else 1
print(nbody(24000 // part))
print(word_count(" ".join(words(200000 // part)).replace("ka", "KA").lower()))
print(round_trip(20000 // part))
print(sieve(2000000 // part))
