#!/bin/sh
# run.sh TARGET|all [SECONDS]: builds the fuzz targets with coverage on stable Rust and runs one or
# all for SECONDS (20) each, two at a time, from the seeds in git and what earlier runs found. Fails
# on a crash and prints the line that replays it. More than one target: run.sh "isakmp ip" 5. Only
# to build: run.sh build.
set -eu
cd "$(dirname "$0")"
seconds=${2:-20}
what=${1:?usage: run.sh TARGET|all|build [SECONDS]}
targets=$what
if [ "$what" = all ] || [ "$what" = build ]; then
    targets=$(awk -F'"' '/^\[/ { is_target = $0 == "[[bin]]" }
        is_target && /^name = / { print $2 }' Cargo.toml)
fi

# What cargo-fuzz passes on nightly, without the sanitizer: panics are what we look for.
export RUSTFLAGS="-Cpasses=sancov-module \
-Cllvm-args=-sanitizer-coverage-level=4 \
-Cllvm-args=-sanitizer-coverage-inline-8bit-counters \
-Cllvm-args=-sanitizer-coverage-pc-table \
-Cllvm-args=-sanitizer-coverage-trace-compares \
--cfg fuzzing"
export CARGO_TARGET_DIR="$PWD/target"
# A named target keeps the flags away from build scripts and macros, which have no libFuzzer.
host=$(rustc -vV | sed -n 's/^host: //p')
export BINARIES="target/$host/release" SECONDS_EACH="$seconds"
# shellcheck disable=SC2046 # words
cargo build --locked --release --quiet --target "$host" --example seeds \
    $(printf -- '--bin %s ' $targets)
# Seeds that today's code would not write lead nowhere.
mkdir -p artifacts
"target/$host/release/examples/seeds" --check >artifacts/seeds.log 2>&1 ||
    { cat artifacts/seeds.log; exit 1; }
[ "$what" != build ] || exit 0

# shellcheck disable=SC2016 # for the shell that xargs starts
one='target=$0
mkdir -p "corpus/$target" "artifacts/$target"
log="artifacts/$target.log"
# A handshake with certificates is longer than a packet.
case $target in
    responder | station | ikev2_responder | ikev2_station) longest=8192 ;;
    *) longest=4096 ;;
esac
if "$BINARIES/$target" -max_total_time="$SECONDS_EACH" -max_len="$longest" -timeout=5 \
    -rss_limit_mb=1024 -artifact_prefix="artifacts/$target/" -print_final_stats=1 \
    "corpus/$target" "seeds/$target" >"$log" 2>&1; then
    runs=$(sed -n "s/^stat::number_of_executed_units: *//p" "$log")
    edges=$(sed -n "s/.*cov: \([0-9]*\).*/\1/p" "$log" | tail -n 1)
    echo "fuzz $target: $runs runs, $edges edges, no crash"
else
    input=$(sed -n "s/.*Test unit written to //p" "$log" | tail -n 1)
    echo "$(tail -n 30 "$log")
fuzz $target: FAILED; replay: (cd fuzz && $BINARIES/$target $input)"
    exit 1
fi'
printf '%s\n' $targets | xargs -P 2 -n 1 sh -c "$one"
