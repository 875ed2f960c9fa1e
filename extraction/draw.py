"""A folded snapshot as Graphviz text, and as an SVG picture laid out here: no other program is needed."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from extraction.fold import Box

# -- dot -----------------------------------------------------------------------------------------------------------------


def to_dot(boxes: Sequence[Box]) -> str:
    """The boxes as a graph in Graphviz's language; draw it with ``dot -Tsvg``."""
    lines = ["digraph egraph {", "  rankdir=TB;", '  node [shape=record, fontname="sans-serif", fontsize=10];']
    for b in boxes:
        fields = [f"<t> {_record(b.title)}", *(f"<n{i}> {_record(x.text)}" for i, x in enumerate(b.lines))]
        style = ', style=filled, fillcolor="#fff4dd"' if b.schedules else ""
        lines.append(f'  {b.name} [label="{{{"|".join(fields)}}}"{style}];')
    for b in boxes:
        for i, x in enumerate(b.lines):
            mark = ' [color="#c0392b", penwidth=2]' if x.taken else ""
            lines += [f"  {b.name}:n{i} -> {child}:t{mark};" for child in x.needs]
    return "\n".join([*lines, "}", ""])


def _record(text: str) -> str:
    """Text inside of a record label, its special characters escaped."""
    return "".join(f"\\{c}" if c in '\\{}|<>"' else c for c in text)


# -- layout --------------------------------------------------------------------------------------------------------------

_CHAR, _LINE, _PAD, _GAP_X, _GAP_Y = 6.7, 17.0, 8.0, 26.0, 46.0
_SWEEPS = 6
Place = tuple[float, float, float, float]
"""x, y, width and height of a box."""


def layers_of(boxes: Sequence[Box]) -> list[list[str]]:
    """Names of boxes by layer: each box below all that need it (a cycle is cut where it closes), ordered to keep edges short."""
    needs = {b.name: list(dict.fromkeys(c for x in b.lines for c in x.needs)) for b in boxes}
    needs = {b: [c for c in children if c in needs] for b, children in needs.items()}
    order, edges = _topological(needs)
    depth = dict.fromkeys(order, 0)
    for b in order:
        for c in edges[b]:
            depth[c] = max(depth[c], depth[b] + 1)
    layers: list[list[str]] = [[] for _ in range(max(depth.values(), default=-1) + 1)]
    for b in order:
        layers[depth[b]].append(b)
    parents: dict[str, list[str]] = {b: [] for b in needs}
    for b, children in edges.items():
        for c in children:
            parents[c].append(b)
    for sweep in range(_SWEEPS):
        down = sweep % 2 == 0
        for layer in layers if down else reversed(layers):
            _sort_by_neighbours(layer, parents if down else edges, layers)
    return layers


def _topological(needs: dict[str, list[str]]) -> tuple[list[str], dict[str, list[str]]]:
    """The boxes, each before what it needs, and the edges without those that close a cycle."""
    done: dict[str, None] = {}
    edges: dict[str, list[str]] = {b: [] for b in needs}
    for root in needs:
        if root in done:
            continue
        path, stack = {root}, [(root, iter(needs[root]))]
        while stack:
            b, children = stack[-1]
            c = next(children, None)
            if c is None:
                stack.pop()
                path.discard(b)
                done[b] = None
            elif c not in path:
                edges[b].append(c)
                if c not in done:
                    path.add(c)
                    stack.append((c, iter(needs[c])))
    return list(reversed(done)), edges


def _sort_by_neighbours(layer: list[str], neighbours: dict[str, list[str]], layers: list[list[str]]) -> None:
    """Order a layer by the mean position of each box's neighbours."""
    position = {b: i / max(1, len(x) - 1) for x in layers for i, b in enumerate(x)}
    keys = {}
    for b in layer:
        near = [position[c] for c in neighbours[b]]
        keys[b] = sum(near) / len(near) if near else position[b]
    layer.sort(key=lambda b: (keys[b], b))


def places_of(boxes: Sequence[Box]) -> dict[str, Place]:
    """Where each box lies; no two overlap."""
    by_name = {b.name: b for b in boxes}
    sizes = {b.name: _size(b) for b in boxes}
    layers = layers_of(boxes)
    widths = [sum(sizes[b][0] for b in layer) + _GAP_X * (len(layer) - 1) for layer in layers]
    found: dict[str, Place] = {}
    y = _PAD
    for layer, width in zip(layers, widths, strict=True):
        x = _PAD + (max(widths) - width) / 2
        for b in layer:
            found[b] = (x, y, *sizes[b])
            x += sizes[b][0] + _GAP_X
        y += max(sizes[b][1] for b in layer) + _GAP_Y
    assert found.keys() == by_name.keys()
    return found


def _size(b: Box) -> tuple[float, float]:
    longest = max(map(len, (b.title, *(x.text for x in b.lines))))
    return longest * _CHAR + 2 * _PAD, (1 + len(b.lines)) * _LINE + _PAD


# -- svg -----------------------------------------------------------------------------------------------------------------

_STYLE = (
    "text{font:11px sans-serif;fill:#1c2733}.t{font-weight:600}.k{fill:#c0392b;font-weight:600}"
    "rect{fill:#f7f9fb;stroke:#9aa7b3}.s rect{fill:#fff4dd;stroke:#d0a24c}"
    "path{fill:none;stroke:#a8b4bf}path.k{stroke:#c0392b;stroke-width:1.8;fill:none}"
)


def to_svg(boxes: Sequence[Box], title: str = "") -> str:
    """The boxes as a picture; what the plan takes is red."""
    places = places_of(boxes)
    width = max((x + w for x, _, w, _ in places.values()), default=0.0) + _PAD
    height = max((y + h for _, y, _, h in places.values()), default=0.0) + _PAD
    edges = [_edge(b, i, c, places) for b in boxes for i, x in enumerate(b.lines) for c in x.needs if c in places]
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width:.0f}" height="{height:.0f}" '
        f'viewBox="0 0 {width:.0f} {height:.0f}"><title>{escape(title or "e-graph")}</title><style>{_STYLE}</style>',
        '<rect width="100%" height="100%" style="fill:#ffffff;stroke:none"/>',
        *sorted(edges, key=lambda e: 'class="k"' in e),
        *(_box(b, places[b.name]) for b in boxes),
        "</svg>\n",
    ]
    return "\n".join(parts)


def _box(b: Box, place: Place) -> str:
    x, y, w, h = place
    mark = ' class="s"' if b.schedules else ""
    rows = [f'<text class="t" x="{x + _PAD:.1f}" y="{y + _LINE - 3:.1f}">{escape(b.title)}</text>']
    for i, line in enumerate(b.lines, 2):
        taken = ' class="k"' if line.taken else ""
        rows.append(f'<text{taken} x="{x + _PAD:.1f}" y="{y + i * _LINE - 2:.1f}">{escape(line.text)}</text>')
    frame = f'<rect x="{x:.1f}" y="{y:.1f}" width="{w:.1f}" height="{h:.1f}" rx="4"/>'
    return f"<g{mark}>{frame}{''.join(rows)}</g>"


def _edge(b: Box, i: int, child: str, places: dict[str, Place]) -> str:
    x, y, w, h = places[b.name]
    cx, cy, cw, _ = places[child]
    count = len(b.lines)
    sx, sy = x + w * (i + 1) / (count + 1), y + h
    tx, ty = cx + cw / 2, cy
    bend = max(20.0, abs(ty - sy) / 2)
    mark = ' class="k"' if b.lines[i].taken else ""
    return f'<path{mark} d="M{sx:.1f},{sy:.1f} C{sx:.1f},{sy + bend:.1f} {tx:.1f},{ty - bend:.1f} {tx:.1f},{ty:.1f}"/>'
