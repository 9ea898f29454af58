"""What Tutti has set out to reach. Ratios are Tutti's time ÷ the best of Debian's Open MPI and MPICH in the same run;
for memory that can be mapped, ÷ the ceiling."""

KIB, MIB = 1 << 10, 1 << 20
FIVE = ("all_reduce", "all_gather", "reduce_scatter", "all_to_all", "broadcast")
SIZES = (8, 256, 4 * KIB, 64 * KIB, MIB, 16 * MIB, 64 * MIB, 256 * MIB)

# Two ranks, each with a core of its own, plain memory, back-to-back: a row a size, columns as FIVE.
_TWO = {
    8: (0.42, 0.46, 0.47, 0.46, 0.90),
    256: (0.48, 0.53, 0.50, 0.50, 0.75),
    4 * KIB: (0.45, 0.55, 0.48, 0.55, 1.0),
    64 * KIB: (0.70, 0.92, 0.50, 0.93, 0.92),
    MIB: (0.59, 0.77, 0.56, 0.86, 0.48),
    16 * MIB: (0.55, 0.98, 0.49, 0.98, 0.53),
    64 * MIB: (0.30, 0.87, 0.18, 0.70, 0.50),
    256 * MIB: (0.36, 0.75, 0.26, 0.80, 0.68),
}
# What the two took on the machine where these were set: Debian's best and the ceiling, microseconds.
_THERE = {
    8: ((0.45, 0.12), (0.40, 0.13), (0.45, 0.12), (0.41, 0.12), (0.10, 0.12)),
    256: ((0.63, 0.12), (0.54, 0.13), (0.56, 0.12), (0.55, 0.12), (0.22, 0.12)),
    4 * KIB: ((2.07, 0.18), (1.02, 0.15), (1.16, 0.16), (1.01, 0.15), (0.39, 0.14)),
    64 * KIB: ((11, 1.71), (4.30, 1.87), (8.19, 1.08), (4.24, 1.81), (4.20, 1.06)),
    MIB: ((198, 43), (51, 35), (98, 19), (53, 36), (59, 13)),
    16 * MIB: ((3342, 904), (1302, 958), (2175, 684), (1310, 976), (1402, 472)),
    64 * MIB: ((26100, 3623), (6553, 3884), (25600, 2817), (8390, 3945), (5771, 1883)),
    256 * MIB: ((111300, 21800), (37300, 20300), (104000, 18200), (36000, 22700), (31500, 10700)),
}
# Ranks that outnumber the cores: all-reduce by (ranks, size).
_CROWDED = {
    (4, 16): 0.5, (4, 4 * KIB): 0.6, (4, MIB): 0.6, (4, 16 * MIB): 0.6,
    (8, 32): 0.4, (8, 4 * KIB): 0.5, (8, MIB): 0.6, (8, 16 * MIB): 0.6,
}
_CROWDED_OTHERS, _NO_COLLAPSE = 0.8, 1.0

MAPPED = 1.25
MAPPED_FROM = 64 * KIB


def to_peers(ranks, mode, collective, size, cores=2):
    """The ratio to stay within, or None where none was set."""
    if ranks > cores:
        if mode != "back":
            return None
        if collective != "all_reduce":
            return _CROWDED_OTHERS
        return _CROWDED.get((ranks, size), _NO_COLLAPSE)
    if ranks != 2 or collective not in FIVE:
        return None
    if mode == "used":
        return 0.7 if collective in ("all_reduce", "reduce_scatter") else 1.0
    row = _TWO.get(size) if mode == "back" else None
    return row[FIVE.index(collective)] if row else None


def there_to_ceiling(collective, size):
    """What a target of two ranks, back-to-back, came to on the machine where it was set: a multiple of the ceiling."""
    if size not in _TWO or collective not in FIVE:
        return None
    column = FIVE.index(collective)
    debian, ceiling = _THERE[size][column]
    return _TWO[size][column] * debian / ceiling


def to_ceiling(ranks, mode, size, cores=2):
    """The same for memory that peers can reach, against the ceiling."""
    return MAPPED if ranks <= cores and mode == "back" and size >= MAPPED_FROM else None
