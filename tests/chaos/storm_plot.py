# SPDX-License-Identifier: Apache-2.0
"""A plot as SVG text, with nothing but Python: acknowledged pushes per second over time, faults as
marks above, recoveries as bars below."""

from xml.sax.saxutils import escape

WIDTH, HEIGHT = 1200, 420
LEFT, RIGHT, TOP, BOTTOM = 80, 20, 110, 110
ROWS = ["kill_server", "kill_trainer", "kill_etcd", "stop/end", "disk", "network"]
COLOURS = {"kill_server": "#c0392b", "kill_trainer": "#8e44ad", "kill_etcd": "#d35400",
           "stop/end": "#2c3e50", "disk": "#16a085", "network": "#2980b9"}


def row_of(kind):
    if kind in ROWS:
        return kind
    if kind.startswith("cut"):
        return "network"
    return "stop/end" if kind in ("stop_server", "end_server", "zombie") else "disk"


def nice_step(top):
    step = 1
    while top / step > 6:
        step *= 2 if str(step)[0] in "15" else 2.5
    return int(step) or 1


def throughput(times, seconds):
    """Pushes in each half second."""
    bins = [0] * (int(seconds * 2) + 1)
    for time in times:
        if 0 <= time < seconds:
            bins[int(time * 2)] += 1
    return [2 * count for count in bins]


class Plot:
    def __init__(self, seconds, top):
        self.seconds = max(seconds, 1)
        self.top = max(top, 1)
        self.parts = []

    def x(self, second):
        return LEFT + (WIDTH - LEFT - RIGHT) * second / self.seconds

    def y(self, value):
        return HEIGHT - BOTTOM - (HEIGHT - TOP - BOTTOM) * value / self.top

    def text(self, x, y, words, anchor="start", colour="#333"):
        self.parts.append(f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" fill="{colour}">'
                          f'{escape(words)}</text>')

    def line(self, x1, y1, x2, y2, colour="#ddd"):
        self.parts.append(f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" '
                          f'stroke="{colour}"/>')

    def axes(self):
        step = nice_step(self.top)
        for value in range(0, int(self.top) + 1, step):
            self.line(LEFT, self.y(value), WIDTH - RIGHT, self.y(value))
            self.text(LEFT - 6, self.y(value) + 4, str(value), "end")
        step = nice_step(self.seconds)
        for second in range(0, int(self.seconds) + 1, step):
            self.text(self.x(second), HEIGHT - BOTTOM + 16, f"{second} s", "middle")

    def faults(self, marks):
        for number, row in enumerate(ROWS):
            y = 34 + 12 * number
            self.text(LEFT - 6, y + 4, row.replace("_", " "), "end", COLOURS[row])
        for second, kind in marks:
            row = row_of(kind)
            y = 34 + 12 * ROWS.index(row)
            self.parts.append(f'<circle cx="{self.x(second):.1f}" cy="{y}" r="3" '
                              f'fill="{COLOURS[row]}"><title>{kind} at {second:.1f} s</title>'
                              '</circle>')

    def curve(self, bins):
        points = " ".join(f"{self.x(i / 2):.1f},{self.y(value):.1f}"
                          for i, value in enumerate(bins))
        self.parts.append(f'<polyline points="{points}" fill="none" stroke="#27ae60" '
                          'stroke-width="1.2"/>')

    def bars(self, recoveries):
        """(shard, from, until): while nobody served the shard."""
        shards = sorted({shard for shard, _, _ in recoveries})
        for number, shard in enumerate(shards):
            self.text(LEFT - 6, HEIGHT - BOTTOM + 37 + 14 * number, f"shard {shard}", "end")
        for shard, start, end in recoveries:
            y = HEIGHT - BOTTOM + 28 + 14 * shards.index(shard)
            width = max(self.x(end) - self.x(start), 1)
            self.parts.append(f'<rect x="{self.x(start):.1f}" y="{y}" width="{width:.1f}" '
                              f'height="10" fill="#e67e22"><title>shard {shard}: '
                              f'{end - start:.2f} s</title></rect>')

    def render(self, title):
        body = "\n".join(self.parts)
        return (f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{HEIGHT}" '
                f'font-family="sans-serif" font-size="11">\n'
                f'<rect width="100%" height="100%" fill="white"/>\n'
                f'<text x="{LEFT}" y="16" font-size="14">{escape(title)}</text>\n{body}\n</svg>\n')


def draw(title, seconds, ack_times, marks, recoveries, heal):
    bins = throughput(ack_times, seconds)
    plot = Plot(seconds, max(bins, default=1) * 1.1)
    plot.axes()
    plot.line(plot.x(heal), TOP - 5, plot.x(heal), HEIGHT - BOTTOM, "#27ae60")
    plot.text(plot.x(heal), TOP - 8, "faults end", "middle", "#27ae60")
    plot.faults(marks)
    plot.curve(bins)
    plot.bars(recoveries)
    plot.text(LEFT, HEIGHT - 12, "line: acknowledged pushes per second; dots: faults; bars: from a "
              "shard's loss until it is served again")
    return plot.render(title)
