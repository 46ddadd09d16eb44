"""The page and the document of record.sh. usage: record.py BASE CARD DRIVER DATE COMMIT FOLDER [PEERS]"""
import json
import os
import sys

base, card, driver, date, commit, folder, peers = (sys.argv + [""])[1:8]
parts = {}
for part in ("ops", "step", "predict", "hvp", "bert"):
    path = os.path.join(folder, part + ".json")
    if os.path.exists(path) and os.path.getsize(path):
        with open(path) as file:
            parts[part] = json.load(file)
with open(base + ".json", "w") as file:
    json.dump({"card": card, "driver": driver, "date": date, "commit": commit, **parts}, file, indent=1)
    file.write("\n")


def title(target):
    return f"{target['device']} {target['dtype']}"


def line(cells):
    return "| " + " | ".join(cells) + " |"


def limits(document):
    for t in document["targets"]:
        if "missing" in t:
            yield f"* {title(t)}: not measured: {t['missing']}"
        else:
            yield f"* {title(t)}: {t['peak_flops'] / 1e12:.3g} TFLOP/s, {t['peak_bytes_per_s'] / 1e9:.0f} GB/s ({t['text']})"


def operators(document):
    """A line an operator, columns for each target."""
    there = [t for t in document["targets"] if "missing" not in t]
    rows = {}
    for row in document["rows"]:
        rows.setdefault(row["name"], {})[title(row)] = row
    heads = ["operator", "MFLOP", "MB"]
    for t in there:
        heads += [title(t) + " us", "of peak"] + (["transfer us", "faster"] if t["upload_bytes_per_s"] else [])
    yield line(heads)
    yield line(["---"] + ["---:"] * (len(heads) - 1))
    for name, found in rows.items():
        first = next(iter(found.values()))
        host = found.get("cpu f32")
        cells = [name, f"{first['flops'] / 1e6:.2f}", f"{first['bytes'] / 1e6:.2f}"]
        for t in there:
            row = found.get(title(t))
            cells += [f"{row['median_us']:.1f}", f"{100 * row['peak_fraction']:.0f} %"] if row else ["", ""]
            if t["upload_bytes_per_s"]:
                cells += [f"{row['transfer_us']:.1f}" if row else ""]
                cells += [f"{host['median_us'] / row['median_us']:.1f}x" if row and host else ""]
        yield line(cells)


def plain(document):
    """A line a row."""
    yield line(["name", "device", "dtype", "median us", "min", "max", "GFLOP/s", "of peak", "examples/s", "MFU", "time / gradient", "planned MB"])
    yield line(["---"] * 3 + ["---:"] * 9)
    peak = {title(t): t.get("peak_flops") for t in document["targets"]}
    for r in document["rows"]:
        rate = r["flops"] / r["median_us"] * 1e6
        yield line([r["name"], r["device"], r["dtype"], f"{r['median_us']:.1f}", f"{r['min_us']:.1f}", f"{r['max_us']:.1f}",
                    f"{rate / 1e9:.1f}", f"{100 * r['peak_fraction']:.0f} %",
                    f"{r['examples_per_s']:.0f}" if "examples_per_s" in r else "", f"{100 * rate / peak[title(r)]:.1f} %",
                    f"{r['time_ratio']:.2f}" if "time_ratio" in r else "",
                    f"{r['temporary_bytes'] / 1e6:.1f}" if "temporary_bytes" in r else ""])


words = {"ops": "Operators", "step": "SEAL-NCE training step, B = 32, K = 20", "predict": "Prediction, B = 4096",
         "hvp": "Hessian products", "bert": "BERT-base"}
with open(base + ".md", "w") as page:
    print(f"# {card}, {date}\n\nCommit {commit}{', driver ' + driver if driver else ''}. Medians; least and most times are in the "
          "JSON file. MFU: flops counted from the graph, of the peak of large products measured in the same run.\n"
          "On a GPU runs are recorded and repeated without waiting between them; transfers are apart.\n", file=page)
    for part, document in parts.items():
        print(f"## {words[part]}\n", file=page)
        print("\n".join(limits(document)) + "\n", file=page)
        print("\n".join((operators if part == "ops" else plain)(document)) + "\n", file=page)
        for remark in document.get("remarks", []):
            print(f"* {remark['name']} on {remark['device']} in {remark['dtype']}: {remark['text']}", file=page)
        if document.get("remarks"):
            print(file=page)
    ratios = os.path.join(peers, "ratios.txt") if peers else ""
    if ratios and os.path.exists(ratios):
        with open(ratios) as file:
            print("## Beside PyTorch and JAX, in the same run\n\n```\n" + file.read() + "```", file=page)
