"""A report as one HTML file that needs nothing else: no script, no font, no picture from elsewhere."""

from __future__ import annotations

import html
import io
import re
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_STYLE = """
body { font: 15px/1.5 system-ui, sans-serif; color: #1c2733; max-width: 76rem; margin: 2rem auto; padding: 0 1rem; }
h1 { font-size: 1.6rem; } h2 { font-size: 1.2rem; margin-top: 2.2rem; border-bottom: 1px solid #d6dde4; padding-bottom: .2rem; }
p { max-width: 60rem; }
.wide { overflow-x: auto; }
table { border-collapse: collapse; font-size: 13px; font-variant-numeric: tabular-nums; }
th, td { padding: .2rem .6rem; border-bottom: 1px solid #e6ebf0; text-align: left; vertical-align: top; }
th { background: #f3f6f9; } td.r, th.r { text-align: right; white-space: nowrap; }
figure { margin: 1rem 0; } figure svg { max-width: 100%; height: auto; } figcaption { color: #55636f; font-size: 13px; }
details { margin: 1rem 0; } summary { cursor: pointer; color: #2b5c8a; }
"""


def page(title: str, parts: Iterable[str]) -> str:
    """The whole file."""
    head = f'<meta charset="utf-8"><title>{html.escape(title)}</title>'
    head += f'<meta name="viewport" content="width=device-width, initial-scale=1"><style>{_STYLE}</style>'
    body = "\n".join(parts)
    return (
        f'<!DOCTYPE html>\n<html lang="en"><head>{head}</head>\n<body>\n<h1>{html.escape(title)}</h1>\n{body}\n</body></html>\n'
    )


def section(title: str, *parts: str) -> str:
    """A heading and what is under it."""
    return "\n".join([f"<h2>{html.escape(title)}</h2>", *parts])


def text(paragraph: str) -> str:
    """A paragraph."""
    return f"<p>{html.escape(paragraph.strip())}</p>"


def table(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table; a column name that begins with ">" is aligned right."""
    right = [c.startswith(">") for c in columns]

    def line(cells: Sequence[str], tag: str) -> str:
        inside = (
            f'<{tag} class="r">{html.escape(x)}</{tag}>' if r else f"<{tag}>{html.escape(x)}</{tag}>"
            for x, r in zip(cells, right, strict=True)
        )
        return f"<tr>{''.join(inside)}</tr>"

    head = line([c.removeprefix(">") for c in columns], "th")
    body = "\n".join(line(r, "td") for r in rows)
    return f'<div class="wide"><table><thead>{head}</thead><tbody>\n{body}\n</tbody></table></div>'


def folded(summary: str, inside: str) -> str:
    """Something long behind a line that opens it."""
    return f"<details><summary>{html.escape(summary)}</summary>\n{inside}\n</details>"


def figure(svg: str, caption: str) -> str:
    """A picture with the sentence that says what it shows."""
    return f"<figure>{svg}<figcaption>{html.escape(caption)}</figcaption></figure>"


def svg_of(drawn: Figure) -> str:
    """A matplotlib figure as SVG to put into a page: the same bytes every time."""
    import matplotlib

    out = io.StringIO()
    with matplotlib.rc_context({"svg.hashsalt": "tilesat", "svg.fonttype": "none", "font.family": "sans-serif"}):
        drawn.savefig(out, format="svg", metadata={"Date": None, "Creator": None})
    return bare(out.getvalue(), str(drawn.get_label()))


def bare(svg: str, label: str) -> str:
    """An SVG file as it stands inside of HTML: without its head, metadata and namespaces, so that it names no address at all, and
    with ids of its own (``label`` is unique in its page)."""
    inside = re.sub(r"<metadata>.*?</metadata>\s*", "", svg[svg.index("<svg") :].strip(), flags=re.DOTALL)
    inside = re.sub(r"""\sxmlns(:\w+)?=("[^"]*"|'[^']*')""", "", inside).replace(" xlink:href=", " href=")
    used = set(re.findall(r"[\"'(]#([^\"')]+)", inside))
    inside = re.sub(r' id="([^"]+)"', lambda m: f' id="{label}-{m[1]}"' if m[1] in used else "", inside)
    return re.sub(r"([\"'(]#)([^\"')]+)", lambda m: f"{m[1]}{label}-{m[2]}", inside)


def new_figure(label: str, width: float, height: float) -> tuple[Figure, Any]:
    """An empty matplotlib figure (``label`` is unique in its page) and its axes. Raises ImportError without matplotlib."""
    from matplotlib.figure import Figure

    made = Figure(figsize=(width, height), layout="constrained", label=label)
    return made, made.subplots()


#: What a report says in place of pictures.
NO_PLOTS = "Pictures need matplotlib, which is the extra 'plots': pip install 'tilesat[plots]', then run the study again."


def has_plots() -> bool:
    """Is matplotlib here?"""
    try:
        import matplotlib  # noqa: F401
    except ImportError:
        return False
    return True
