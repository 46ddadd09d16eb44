"""Medians of sealgraph and its peers side by side. usage: compare.py OURS.json... PEER=FILE.json...: results of `sealgraph bench`
and of peers; a peer may have several files."""
import json
import os
import sys


def load(path):
    with open(path) as file:
        return json.load(file)


files = [argument for argument in sys.argv[1:] if "=" not in argument]
rows = [row for path in files for row in load(path)["rows"]]
kinds = {row["dtype"] for row in rows}
ours = {(row["name"], row["dtype"]): row["median_us"] / 1e6 for row in rows}
peers = {}
for argument in sys.argv[1:]:
    name, _, path = argument.partition("=")
    if path and os.path.exists(path) and os.path.getsize(path):
        document = load(path)
        peers.setdefault(f"{name} {document['version']}", {}).update(document["seconds"])

print(f"{'median':30s} {'sealgraph':>13s}" + "".join(f" {peer:>20s} {'ratio':>7s}" for peer in peers))
for (name, dtype), seconds in ours.items():
    line = f"{name + (' ' + dtype if len(kinds) > 1 else ''):30s} {seconds * 1e3:10.3f} ms"
    for times in peers.values():
        theirs = times.get(name) or times.get("/".join(name.split("/")[:2]))
        line += f" {theirs * 1e3:17.3f} ms {theirs / seconds:6.2f}x" if theirs else f" {'-':>20s} {'-':>7s}"
    print(line)
print("ratio: the peer's time over sealgraph's")
