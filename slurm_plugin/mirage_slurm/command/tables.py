"""Tables for a terminal: whole columns where they fit, wrapped cells where they do not."""

from mirage_slurm.command import terminal as screen

_UNICODE = (
    ("┏", "━", "┳", "┓"),
    ("┃", "┃"),
    ("┡", "━", "╇", "┩"),
    ("│", "│"),
    ("└", "─", "┴", "┘"),
)
_ASCII = (("+", "-", "-", "+"), ("|", "|"), ("|", "-", "+", "|"), ("|", "|"), ("+", "-", "-", "+"))
"""The top, the edge and divider of the head, the line below the head, the edge and divider of a row,
the bottom."""
_PADDING = 2


def render_table(names, rows, wrapped, terminal):
    """Yield the lines of a table as Lines. `rows`: texts. `wrapped`: the names of the columns whose cells
    may take several lines; a cell of another column is cut if the terminal is too narrow."""
    top, head, below, edge, bottom = _ASCII if terminal.ascii_only else _UNICODE
    widths = _choose_widths(names, rows, wrapped, terminal.width - len(names) - 1)
    yield screen.Line(_draw_border(top, widths))
    yield from _draw_row(names, names, widths, wrapped, head, "bold")
    yield screen.Line(_draw_border(below, widths))
    for row in rows:
        yield from _draw_row(row, names, widths, wrapped, edge, "")
    yield screen.Line(_draw_border(bottom, widths))


def _draw_border(characters, widths):
    left, middle, divider, right = characters
    return left + divider.join(middle * width for width in widths) + right


def _draw_row(cells, names, widths, wrapped, edges, style):
    columns = [
        _fit_cell(cell, max(0, width - _PADDING), name in wrapped)
        for cell, name, width in zip(cells, names, widths)
    ]
    height = max(len(lines) for lines in columns)
    edge, divider = edges
    for at in range(height):
        parts = [edge]
        for lines, width in zip(columns, widths):
            text = lines[at - height] if style and len(lines) > height - at - 1 else ""
            if not style:
                text = lines[at] if at < len(lines) else ""
            inner = max(0, width - _PADDING)
            text += " " * (inner - screen.count_cells(text))
            parts += [" ", (text, style), " ", divider]
        parts[-1] = edge
        yield screen.Line(*parts)


def _fit_cell(text, width, is_wrapped):
    """Return the lines of a cell. What is too long for a line ends in an ellipsis."""
    lines = screen.wrap_text(text, width, folds=False) if is_wrapped else [text]
    return [
        line if screen.count_cells(line) <= width else screen.cut_text(line, width - 1) + "…"
        for line in lines
    ]


def _choose_widths(names, rows, wrapped, most):
    """Return the widths of the columns, padding included, at most `most` in all where that is possible."""
    natural = [
        min(
            most,
            _PADDING + max(screen.count_cells(text) for text in [name] + [row[at] for row in rows]),
        )
        for at, name in enumerate(names)
    ]
    widths = _narrow_wrapped(natural, [name in wrapped for name in names], most)
    excess = sum(widths) - most
    return _reduce(excess, [1] * len(widths), widths, widths) if excess > 0 else widths


def _narrow_wrapped(widths, is_wrapped, most):
    """Narrow the widest of the wrapped columns, until all fit or these are equally narrow."""
    while any(is_wrapped) and sum(widths) > most:
        widest = max(width for width, may in zip(widths, is_wrapped) if may)
        second = max(
            width if may and width != widest else 0 for width, may in zip(widths, is_wrapped)
        )
        ratios = [int(may and width == widest) for width, may in zip(widths, is_wrapped)]
        excess = sum(widths) - most
        if widest == second:
            break
        widths = _reduce(excess, ratios, [min(excess, widest - second)] * len(widths), widths)
    return widths


def _reduce(total, ratios, most, widths):
    """Take `total` away from the widths in these ratios, from each at most as much as `most` says."""
    ratios = [ratio if limit else 0 for ratio, limit in zip(ratios, most)]
    left, reduced = sum(ratios), []
    for ratio, limit, width in zip(ratios, most, widths):
        if ratio and left > 0:
            part = min(limit, round(ratio * total / left))
            reduced.append(width - part)
            total -= part
            left -= ratio
        else:
            reduced.append(width)
    return reduced
