#!/bin/sh
# Puts a headless Chromium into .venv/browser, for the tests of pages; needs npm and node, no root. Without them the
# tests use a Chromium of the machine, or look at the page's structure alone.
set -eu
cd "$(dirname "$0")/.."
folder=.venv/browser
package=@sparticuz/chromium@147.0.0

if [ -x "$folder/chromium" ]; then
    exit 0
fi
if ! command -v npm >/dev/null || ! command -v node >/dev/null || [ "$(uname -sm)" != "Linux x86_64" ]; then
    echo "browser: no npm and node for Linux x86_64; pages are tested without a browser of their own" >&2
    exit 0
fi

echo "browser: installing Chromium into $folder"
rm -rf "$folder"
mkdir -p "$folder"
cd "$folder"
npm pack --silent "$package" >/dev/null
tar xzf ./*.tgz
node -e '
const { brotliDecompressSync } = require("zlib"), { readFileSync, writeFileSync } = require("fs");
for (const name of ["al2023.tar", "chromium"])
    writeFileSync(name + ".part", brotliDecompressSync(readFileSync("package/bin/" + name + ".br")));
'
tar xf al2023.tar.part
rm -rf package ./*.tgz al2023.tar.part
chmod +x chromium.part
mv chromium.part chromium
