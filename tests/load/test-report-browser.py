#!/usr/bin/python3
"""A browser shows the report's plots."""
import shutil
import struct
import subprocess
import zlib

import harness
import nbdload


def pixels(png):
    """Rows of RGB triples of an 8-bit PNG without interlacing."""
    with open(png, "rb") as file:
        data = file.read()
    width, height, depth, colour = struct.unpack(">IIBB", data[16:26])
    harness.expect(depth == 8 and colour in (2, 6), depth, colour)
    size, place, packed = {2: 3, 6: 4}[colour], 8, b""
    while place < len(data):
        length, = struct.unpack(">I", data[place:place + 4])
        if data[place + 4:place + 8] == b"IDAT":
            packed += data[place + 8:place + 8 + length]
        place += length + 12
    raw, before, rows = zlib.decompress(packed), bytearray(width * size), []
    for y in range(height):
        start = y * (width * size + 1)
        kind, row = raw[start], bytearray(raw[start + 1:start + 1 + width * size])
        for i, value in enumerate(row):
            left = row[i - size] if i >= size else 0
            up, corner = before[i], before[i - size] if i >= size else 0
            if kind == 1:
                value += left
            elif kind == 2:
                value += up
            elif kind == 3:
                value += (left + up) // 2
            elif kind == 4:
                guess = left + up - corner
                near = min((abs(guess - left), 0, left), (abs(guess - up), 1, up), (abs(guess - corner), 2, corner))
                value += near[2]
            row[i] = value & 255
        rows.append([tuple(row[x:x + 3]) for x in range(0, width * size, size)])
        before = row
    return rows


browser = next(filter(None, map(shutil.which, ("chromium-headless-shell", "chromium"))), None)
if browser is None:
    harness.skip("there is no chromium to look at the page with")
page = harness.path("report.html")
with nbdload.nbdkit("memory", "16M") as server:
    nbdload.run("--pattern", "mixed", "--clients", 4, "--duration", "1s", "--report", page, server.uri,
                expect=nbdload.DONE)
picture = harness.path("page.png")
subprocess.run([browser, "--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--window-size=800,1400",
                f"--user-data-dir={harness.path('profile')}", f"--screenshot={picture}", f"file://{page}"],
               stdin=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=True, timeout=100)
rows = pixels(picture)
colours = {}
for row in rows:
    for pixel in row:
        colours[pixel] = colours.get(pixel, 0) + 1
harness.expect(colours.get((255, 255, 255), 0) > 0.5 * len(rows) * len(rows[0]), "the page is not white")
# The first two lines' colours, more or less, as edges are smoothed: a plot that is not drawn has neither.
for colour in ((0x0b, 0x5f, 0xa5), (0xc2, 0x41, 0x0c)):
    near = sum(n for seen, n in colours.items() if all(abs(a - b) < 50 for a, b in zip(seen, colour)))
    harness.expect(near > 200, "no line of colour", colour, near)
