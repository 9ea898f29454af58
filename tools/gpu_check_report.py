"""The results of tools/gpu_check as a table, for people; the JSON file beside it has the same."""


def number(value):
    return "" if value is None else f"{value:.4g}"


def table(title, heads, rows):
    """Lines; none if there are no rows."""
    if not rows:
        return []
    cells = [heads, *[[str(cell) for cell in row] for row in rows]]
    widths = [max(len(row[i]) for row in cells) for i in range(len(heads))]
    return ["", title, *["  ".join(cell.ljust(width) for cell, width in zip(row, widths)).rstrip() for row in cells]]


def driver_rows(record):
    return [(row["verdict"], row["what"], row["found"], row["assumed"], number(row.get("ms")), row["when"])
            for row in record.get("driver_facts", ())]


def measured_rows(record):
    return [(row["what"], number(row["measured"]), row["unit"], number(row.get("model")), number(row.get("ratio")),
             row.get("constant") or "", "".join(f"{word} {row[key]}" for key, word in (("at_most", "at most"), ("at_least", "at least"))
                                                if key in row)) for row in record.get("measured", ())]


def phase_rows(record):
    return [(row["call"], row["blocks"], row["phase"], *(number(row[key]) for key in ("least", "middle", "most")))
            for row in record.get("phases", ())]


def report(record, fake):
    lines = [f"{record.get('date', '')}, part {record.get('part', '')}: {record.get('device', '?')}, driver {record.get('driver', '?')}"]
    if fake:
        lines.append("On the stand-in for NVIDIA's driver: no time and no ratio here means anything.")
    lines += table("What the driver does beside a kernel, and what is assumed",
                   ("verdict", "what", "found", "assumed", "ms", "when the library does so"), driver_rows(record))
    lines += table("Measured, and what the cost model says", ("what", "measured", "unit", "model", "ratio", "constant", "aim"),
                   measured_rows(record))
    lines += table("Phases of a call, in microseconds: start and end after the first start; of all blocks of all ranks",
                   ("call", "blocks", "phase", "least", "middle", "most"), phase_rows(record))
    for name, boards in record.get("boards", {}).items():
        lines += ["", f"{'HUNG' if name in record.get('hung', {}) else 'FAILED'}  {name}; while no call ended, its ranks wrote:",
                  *[f"  {board}" for board in boards or ["nothing: none waited for a second in a call on a GPU"]]]
    for title, key in (("FAILED", "failed"), ("left out", "left_out"), ("passed", "passed")):
        lines += ["", *[f"{title}  {text}" for text in record.get(key, ())]]
    return "\n".join(lines) + "\n"
