#!/bin/sh
# Bring a bare Debian 12 to where sealgraph builds: packages, and oneDNN 3 where the system's is older. Does nothing on a
# machine that is ready.
set -eu
cd "$(dirname "$0")/.."

packages="build-essential cmake ninja-build pkg-config python3 python3-pip libprotobuf-c-dev protobuf-c-compiler
libcmocka-dev libyaml-dev libjansson-dev libutf8proc-dev zlib1g-dev libexpat1-dev libsleef-dev nettle-dev"

missing=""
for package in $packages; do
    dpkg-query -W -f '${Status}' "$package" 2>/dev/null | grep -q 'install ok installed' || missing="$missing $package"
done
# Tools that came another way are as good as Debian's.
for pair in cmake:cmake ninja:ninja-build pip3:python3-pip python3:python3 pkg-config:pkg-config; do
    if command -v "${pair%%:*}" >/dev/null 2>&1; then
        missing=$(echo "$missing" | sed "s/ ${pair##*:}\\b//")
    fi
done
if [ -n "$missing" ]; then
    if [ "$(id -u)" != 0 ]; then
        echo "sealgraph needs packages; type: sudo apt-get update && sudo apt-get install -y$missing" >&2
        exit 1
    fi
    echo "installing$missing" >&2
    apt-get update -qq
    # shellcheck disable=SC2086
    DEBIAN_FRONTEND=noninteractive DEBCONF_NOWARNINGS=yes \
        apt-get install -y -qq --no-install-recommends $missing >/dev/null
fi

system=$(dpkg-query -W -f '${Version}' libdnnl-dev 2>/dev/null || echo 0)
if dpkg --compare-versions "$system" ge 3 || [ -f build/deps/onednn/lib/cmake/dnnl/dnnl-config.cmake ]; then
    mkdir -p build
    exit 0
fi

# oneDNN 3.2 (CPU, GNU OpenMP, Apache-2.0) from PyPI's wheels, which unpack to an ordinary prefix.
echo "fetching oneDNN 3.2" >&2
mkdir -p build/deps/wheels
python3 -m pip download -q --disable-pip-version-check --no-deps -d build/deps/wheels \
    onednn-cpu-gomp==2023.2.0 onednn-devel-cpu-gomp==2023.2.0
(
    cd build/deps/wheels
    sha256sum --quiet -c - <<SUMS
2f22a54d6a890ed14bfa185d42a4be65d8b5b1df85dc1f0f3a9abe31620416fb  onednn_cpu_gomp-2023.2.0-py2.py3-none-manylinux1_x86_64.whl
9763c69e8c907e119056bd52ad918ca84ac9ba939d130a99dfa95ccca3e5e284  onednn_devel_cpu_gomp-2023.2.0-py2.py3-none-manylinux1_x86_64.whl
SUMS
)
rm -rf build/deps/onednn build/deps/unpacked
mkdir -p build/deps/unpacked
for wheel in build/deps/wheels/onednn*.whl; do
    python3 -m zipfile -e "$wheel" build/deps/unpacked
done
mkdir -p build/deps/onednn.part
cp -r build/deps/unpacked/*.data/data/. build/deps/onednn.part/
mv build/deps/onednn.part build/deps/onednn
rm -rf build/deps/unpacked
