#!/usr/bin/env python3
"""Takes docs/images/site.png: four pages of the built site as a real browser shows them, in one picture.

usage: tools/docs/screenshot.py [SITE [PICTURE]]      SITE: build/site; wants chromium
"""
import pathlib
import shutil
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
PAGES = ("START_PYTHON.html", "reference/ops/convolution.html#conv2d", "GUIDE.html#a-network-a-training-loop",
         "ARCHITECTURE.html")
WIDTH, HEIGHT, SCALE, GAP = 1280, 860, 0.75, 8


def main():
    site = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else ROOT / "build" / "site").resolve()
    picture = pathlib.Path(sys.argv[2] if len(sys.argv) > 2 else ROOT / "docs" / "images" / "site.png").resolve()
    browser = next((b for b in ("chromium", "chromium-browser", "google-chrome") if shutil.which(b)), None)
    if not browser or not (site / "index.html").is_file():
        print(f"screenshot: wants chromium, and a site at {site} (make docs)", file=sys.stderr)
        return 1
    w, h = int(WIDTH * SCALE), int(HEIGHT * SCALE)
    frames = "".join(f"<div style='width:{w}px;height:{h}px;overflow:hidden'><iframe src='{site.as_uri()}/{page}' "
                     f"style='width:{WIDTH}px;height:{HEIGHT}px;border:0;transform:scale({SCALE});"
                     "transform-origin:0 0'></iframe></div>" for page in PAGES)
    style = f"display:grid;grid-template-columns:{w}px {w}px;gap:{GAP}px;margin:0;background:#cfd8dc"
    with tempfile.TemporaryDirectory() as folder:
        page = pathlib.Path(folder) / "page.html"
        page.write_text(f"<!doctype html><body style='{style}'>{frames}</body>", encoding="utf-8")
        subprocess.run([browser, "--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars",
                        f"--user-data-dir={folder}/profile", "--virtual-time-budget=8000",
                        f"--window-size={2 * w + GAP},{2 * h + GAP}", f"--screenshot={picture}", page.as_uri()],
                       check=True, stderr=subprocess.DEVNULL)
    print(f"{picture}: {picture.stat().st_size} bytes")
    return 0


if __name__ == "__main__":
    sys.exit(main())
