#!/usr/bin/env bash
# What CI runs, in order of cost. Stops at the first stage that fails.
#   tools/check.sh              lint, build (preset dev, warnings are errors), tests
#   tools/check.sh lint         the lints alone: seconds, needs only python3
#   tools/check.sh asan | tsan  build and test under that sanitizer
#   tools/check.sh tidy [BASE]  clang-tidy on sources that differ from BASE (HEAD), untracked too
# COHORT_BUILD: folder that holds the build trees, default build/. COHORT_JOBS: default all cores.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
builds=${COHORT_BUILD:-build}
jobs=${COHORT_JOBS:-$(nproc)}

lint() {
  local failed=0 status
  for name in selftest layers caps headers docs dead words format examples; do
    status=0
    python3 -B "tools/lint/$name.py" || status=$?
    if [ "$status" -ne 0 ] && [ "$status" -ne 77 ]; then failed=1; fi
  done
  return "$failed"
}

configure() { # PRESET
  cmake --preset "$1" -B "$builds/$1" >"$builds/$1.configure.log" 2>&1 ||
    { tail -30 "$builds/$1.configure.log"; return 1; }
}

build_and_test() { # PRESET LABEL_OPTIONS...
  local preset=$1
  shift
  configure "$preset"
  cmake --build "$builds/$preset" -j "$jobs"
  # The lints have run already.
  ctest --test-dir "$builds/$preset" --output-on-failure -LE '^lint$' "$@"
}

changed_sources() { # BASE
  { git diff --name-only --diff-filter=d "$1"; git ls-files --others --exclude-standard; } |
    sort -u | grep -E '^(runtime|actors|algorithms|tools|bench)/.*\.cpp$' || true
}

tidy() { # BASE
  local tool database
  tool=$(command -v clang-tidy || command -v clang-tidy-14) ||
    { echo "check.sh: clang-tidy is not installed" >&2; return 1; }
  mapfile -t sources < <(changed_sources "$1")
  if [ "${#sources[@]}" -eq 0 ]; then
    echo "tidy: nothing differs from $1"
    return 0
  fi
  configure tidy
  database=$builds/tidy
  # Generated headers (protobuf) must exist before a source that includes them is parsed.
  if cmake --build "$database" --target help | grep -q '^cohort_proto:'; then
    cmake --build "$database" -j "$jobs" --target cohort_proto
  fi
  printf '%s\n' "${sources[@]}" | xargs -P "$jobs" -n 1 "$tool" --quiet -p "$database"
}

mkdir -p "$builds"
case ${1:-all} in
  all) lint && build_and_test dev ;;
  lint) lint ;;
  asan) build_and_test asan -L '^(unit|property|golden)$' ;;
  tsan) build_and_test tsan -L '^tsan$' ;;
  tidy) tidy "${2:-HEAD}" ;;
  *) sed -n '2,7s/^# //p' "$0" >&2; exit 2 ;;
esac
