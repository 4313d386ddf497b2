"""A few shapes as SVG text, for the pictures of the documentation. Sizes are in pixels, y grows downwards."""
import html

FONT = "font-family='Helvetica, Arial, sans-serif'"


class Drawing:
    def __init__(self, width, height, title):
        self.size, self.title, self.parts = (width, height), title, []

    def box(self, x, y, w, h, fill, stroke="none", radius=6):
        self.parts.append(f"<rect x='{x}' y='{y}' width='{w}' height='{h}' rx='{radius}' fill='{fill}' "
                          f"stroke='{stroke}'/>")

    def text(self, x, y, text, size=13, fill="#222", anchor="middle", weight="normal"):
        self.parts.append(f"<text x='{x}' y='{y}' {FONT} font-size='{size}' font-weight='{weight}' fill='{fill}' "
                          f"text-anchor='{anchor}'>{html.escape(text)}</text>")

    def line(self, points, stroke="#666", width=1.5, dash="", end=False):
        path = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
        extra = (f" stroke-dasharray='{dash}'" if dash else "") + (" marker-end='url(#arrow)'" if end else "")
        self.parts.append(f"<polyline points='{path}' fill='none' stroke='{stroke}' stroke-width='{width}' "
                          f"stroke-linejoin='round'{extra}/>")

    def svg(self):
        w, h = self.size
        arrow = ("<defs><marker id='arrow' viewBox='0 0 8 8' refX='7' refY='4' markerWidth='7' markerHeight='7' "
                 "orient='auto'><path d='M0,0 L8,4 L0,8 z' fill='#666'/></marker></defs>")
        body = "\n".join(self.parts)
        return (f"<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 {w} {h}' width='{w}' height='{h}' role='img'>\n"
                f"<title>{html.escape(self.title)}</title>\n{arrow}\n"
                f"<rect width='{w}' height='{h}' fill='#ffffff'/>\n{body}\n</svg>\n")
