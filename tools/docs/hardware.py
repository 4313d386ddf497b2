#!/usr/bin/env python3
"""Makes what docs/HARDWARE.md shows: pictures in docs/images and the tables between its marks, by the `cairn` command.

usage: tools/docs/hardware.py [--check] [--measured]      (CAIRN_BUILD_DIR: where the command was built)

--check writes nothing and fails where something would change. Pictures of what was measured differ from run to run:
--measured makes those, too; --check leaves them out.
"""
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
CAIRN = pathlib.Path(os.environ.get("CAIRN_BUILD_DIR", ROOT / "build" / "default")).resolve() / "cairn"
PAGE = ROOT / "docs" / "HARDWARE.md"
IMAGES = ROOT / "docs" / "images"
SMALL = "--rows 4 --cols 4 --bandwidth 0"
PICTURES = {"systolic": f"systolic --product 4,8,4 {SMALL} --animated",
            "systolic_weights": f"systolic --product 4,8,4 {SMALL}",
            "systolic_outputs": f"systolic --product 4,8,4 {SMALL} --dataflow outputs",
            "systolic_resnet50": "systolic resnet50 --batch 8", "systolic_mobilenet": "systolic mobilenet_v2 --batch 8",
            "systolic_mlp0": "systolic examples/tpu/mlp0.cfg --batch 200",
            "tensorcore": "tensorcore 1000,1000,1000", "tensorcore_odd": "tensorcore 130,77,130"}
MEASURED = {"roofline_resnet18": "roofline resnet18 --threads 1"}
# name, batch, and of the paper: TOPS (the last row of its table 3), cycles in which the array works and in which it
# waits for weights, in percent
SIX = [("MLP0", 200, 12.3, 12.7, 53.9), ("MLP1", 168, 9.7, 10.6, 44.2), ("LSTM0", 64, 3.7, 8.2, 58.1),
       ("LSTM1", 96, 2.8, 10.5, 62.1), ("CNN0", 8, 86.0, 78.2, 0.0), ("CNN1", 32, 14.1, 46.2, 28.1)]
CHOSEN = "7742,9654,Pi 5,V100,A100,4090,H200,B200,TPU v1,TPU v4,v6e,TPU v7"


def cairn(*args):
    done = subprocess.run([str(CAIRN), *args], check=False, capture_output=True, text=True, encoding="utf-8", cwd=ROOT)
    if done.returncode:
        sys.exit(f"hardware: cairn {' '.join(args)}: {done.stderr}")
    return done.stdout


def six():
    """The first TPU's networks: the paper's figures, and those of the closed form."""
    yield ("| network | batch | weights | multiply-adds a weight | bound by | streaming | used | TOPS | "
           "paper: active | stalled | TOPS |")
    yield "|" + "---|" * 11
    for name, batch, tops, active, stalled in SIX:
        net = json.loads(cairn("systolic", f"examples/tpu/{name.lower()}.cfg", "--batch", str(batch), "--json"))
        held = sum(layer["k"] * layer["n"] for layer in net["layers"])
        by = {}
        for layer in net["layers"]:
            by[layer["bound"]] = by.get(layer["bound"], 0) + layer["cycles"] / net["cycles"]
        bound = ", ".join(f"{what}" if part > 0.995 else f"{what} {100 * part:.0f} %"
                          for what, part in sorted(by.items(), key=lambda x: -x[1]))
        yield (f"| {name} | {batch} | {held / 1e6:.0f} M | {net['multiply_adds'] / held:.0f} | {bound} | "
               f"{100 * net['streaming_cycles'] / net['cycles']:.1f} % | {100 * net['utilisation']:.1f} % | "
               f"{2e-12 * net['multiply_adds'] / net['seconds']:.1f} | {active} % | {stalled} % | {tops} |")


def amount(x, unit):
    for size, prefix in ((1, ""), (1e-3, "m"), (1e-6, "µ"), (1e-9, "n")):
        if x >= size:
            return f"{x / size:.3g} {prefix}{unit}"
    return f"{x:.3g} {unit}"


def compared(*args):
    yield "| processor | type | time | memory bound | launches | switching | design power |"
    yield "|---|---|---|---|---|---|---|"
    for row in json.loads(cairn("devices", "--compare", *args, "--facts", "--only", CHOSEN, "--json"))["processors"]:
        e = row["estimate"]
        cells = [amount(e["seconds"], "s"), f"{100 * e['seconds_memory_bound'] / e['seconds']:.0f} %",
                 f"{100 * e['seconds_of_launches'] / e['seconds']:.0f} %"]
        joules = (e["joules_of_switching"], e["joules_of_design_power"])
        cells += [amount(value, "J") if value else "unknown" for value in joules]
        yield f"| {row['name']} | {e['type']} | {' | '.join(cells)} |"


def processors():
    def number(x, unit=1, digits=4):
        return "" if x is None else f"{x / unit:.{digits}g}"
    yield ("| processor | year | nm | units | GHz | memory | GB | GB/s | W | $ | fp64 | fp32 | tf32 | 16 bits | fp8 | "
           "int8 | fp4 |")
    yield "|" + "---|" * 17
    for r in json.loads(cairn("devices", "--compare", "--facts", "--json"))["processors"]:
        cells = [r["year"], number(r["nanometres"]), number(r["units"]), number(r["hertz"], 1e9, 3), r["memory"],
                 number(r["memory_bytes"], 1e9), number(r["bytes_per_second"], 1e9), number(r["watts"]),
                 number(r["launch_dollars"], digits=6)] + [number(v, 1e12) for v in r["peaks"].values()]
        yield f"| {r['name']} | {' | '.join(map(str, cells))} |"


TABLES = {"six": six, "processors": processors, "resnet50": lambda: compared("resnet50", "--batch", "1"),
          "resnet50-64": lambda: compared("resnet50", "--batch", "64"),
          "training": lambda: compared("resnet50", "--batch", "64", "--train"),
          "gpt2": lambda: compared("gpt2", "--batch", "1", "--input", "64")}


def page():
    text = PAGE.read_text(encoding="utf-8")
    for name, make in TABLES.items():
        mark = re.compile(rf"(<!-- table {name} -->\n).*?(<!-- end -->)", re.S)
        if len(mark.findall(text)) != 1:
            sys.exit(f"hardware: docs/HARDWARE.md has no place for the table {name}")
        rows = "\n".join(make())
        text = mark.sub(lambda m, rows=rows: f"{m.group(1)}\n{rows}\n\n{m.group(2)}", text)
    return text


def picture(command):
    with tempfile.TemporaryDirectory() as folder:
        out = pathlib.Path(folder) / "out.svg"
        cairn(*command.split(), "-o", str(out))
        return out.read_text(encoding="utf-8")


def main():
    check = "--check" in sys.argv[1:]
    wanted = {IMAGES / f"{name}.svg": picture(command) for name, command in PICTURES.items()}
    if "--measured" in sys.argv[1:]:
        wanted.update({IMAGES / f"{name}.svg": picture(command) for name, command in MEASURED.items()})
    wanted[PAGE] = page()
    stale = [path for path, text in wanted.items()
             if not path.is_file() or path.read_text(encoding="utf-8") != text]
    for path in stale:
        print(f"hardware: {path.relative_to(ROOT)} {'would change' if check else 'written'}")
        if not check:
            path.write_text(wanted[path], encoding="utf-8")
    return 1 if check and stale else 0


if __name__ == "__main__":
    sys.exit(main())
