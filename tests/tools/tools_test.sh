#!/bin/sh
# tools_test.sh ROOT: the scripts in front of the build, with stand-ins for the commands they call. TAP.
# Statuses are compared as numbers here: both answers are looked at.
# shellcheck disable=SC2181
set -u

root=$1
scratch=$(mktemp -d "${TMPDIR:-/tmp}/weir-tools.XXXXXX")
trap 'rm -rf "$scratch"' EXIT
number=0

# claim NAME STATUS-OF-THE-LAST-CHECK
claim() {
    number=$((number + 1))
    if [ "$2" = 0 ]; then
        echo "ok $number - $1"
    else
        echo "not ok $number - $1"
        sed 's/^/# /' "$scratch/said"
    fi
}

# A PATH of its own, in which only what a bare machine has is found.
bin=$scratch/bin
mkdir "$bin"
for tool in sh sed tr mktemp rm cat env grep tail; do
    ln -s "$(command -v "$tool")" "$bin/$tool"
done
stand_in() { # name, script
    printf '#!/bin/sh\n%s\n' "$2" >"$bin/$1"
    chmod +x "$bin/$1"
}
bootstrap() { # gateway|run|test|bench
    env -i PATH="$bin" TMPDIR="$scratch" sh "$root/tools/bootstrap.sh" "$1" >"$scratch/said" 2>&1
}

# Everything that is asked for is there: dpkg-query says so of each of its arguments.
# shellcheck disable=SC2016
all_there='for p in "$@"; do case $p in -*) ;; *) echo "ii  $p" ;; esac; done'
stand_in id 'echo 1000'
stand_in dpkg-query "$all_there"
bootstrap gateway
[ $? = 0 ] && [ ! -s "$scratch/said" ]
claim bootstrap__nothing_missing__says_nothing $?

stand_in dpkg-query 'echo "ii  gcc"'
bootstrap run
[ $? = 2 ] && grep -q 'apt-get install .* libc-ares-dev' "$scratch/said" &&
    ! grep -q 'install .* gcc' "$scratch/said"
claim bootstrap__neither_root_nor_sudo__names_the_packages_and_stops $?

stand_in dpkg-query "$all_there"
bootstrap test
[ $? = 2 ] && grep -q 'nodejs npm' "$scratch/said"
claim bootstrap__no_node__asks_for_node_and_npm $?

bootstrap run
[ $? = 2 ] && grep -q 'nodejs npm' "$scratch/said"
claim bootstrap__the_page_needs_node_too__but_the_gateway_does_not $?

stand_in node 'echo v16.20.0'
bootstrap test
[ $? = 2 ] && grep -q 'nodejs npm' "$scratch/said"
claim bootstrap__node_too_old__asks_for_node_and_npm $?

stand_in node 'echo v20.1.0'
bootstrap test
[ $? = 2 ] && grep -q 'install.* npm$' "$scratch/said" && ! grep -q nodejs "$scratch/said"
claim bootstrap__new_node_without_npm__asks_for_npm_alone $?

stand_in npm ''
bootstrap test
[ $? = 0 ] && [ ! -s "$scratch/said" ]
claim bootstrap__node_and_npm_of_another_distribution__are_enough $?

# shellcheck disable=SC2016
stand_in apt-get 'echo "apt-get $*" >>"'"$scratch"'/apt"'
# shellcheck disable=SC2016
stand_in sudo 'echo "sudo" >>"'"$scratch"'/apt"; exec "$@"'
stand_in dpkg-query 'echo "ii  gcc"'
bootstrap run
[ $? = 0 ] && grep -q '^sudo$' "$scratch/apt" &&
    grep -q 'apt-get .*install -y .*--no-install-recommends .*meson' "$scratch/apt"
claim bootstrap__not_root_with_sudo__installs_through_it $?

stand_in apt-get 'echo "E: no such host"; exit 100'
bootstrap run
[ $? = 2 ] && grep -q 'no such host' "$scratch/said"
claim bootstrap__apt_fails__shows_why_and_stops $?

# ---- what is said when the lab page cannot be built ----

site=$scratch/site
mkdir -p "$site/tools" "$site/web/node_modules/.bin" "$site/out"
cp "$root/tools/build_page.sh" "$site/tools"
echo one >"$site/web/package-lock.json"
echo '{}' >"$site/web/package.json"
for tool in dirname cksum; do
    ln -s "$(command -v "$tool")" "$bin/$tool"
done
fails() { # file: a stand-in that fails with words of its own
    printf '#!/bin/sh\necho "words of %s"\nexit 1\n' "$(basename "$1")" >"$1"
    chmod +x "$1"
}
works() {
    printf '#!/bin/sh\necho "%s" >>%s/called\n' "$(basename "$1")" "$scratch" >"$1"
    chmod +x "$1"
}
build_page() {
    env -i PATH="$bin" TMPDIR="$scratch" sh "$site/tools/build_page.sh" "$site/out" >"$scratch/said" 2>&1
}
# words of what failed, what it was, what to do
told() {
    grep -q "$1" "$scratch/said" && grep -q "^weir: the lab page (web/): $2" "$scratch/said" &&
        grep -q "$3.*-Dpages=false" "$scratch/said"
}

mv "$bin/node" "$bin/node-away"
build_page
[ $? = 1 ] && told "no command 'node'" 'node is missing' 'bootstrap.sh run'
claim page__no_node__is_said_with_what_installs_it $?

stand_in node 'echo v16.20.0'
build_page
[ $? = 1 ] && told 'is Node.js v16.20.0' 'it needs Node.js 18 or newer' 'bootstrap.sh run'
claim page__an_old_node__is_named_with_what_to_do $?
stand_in node 'echo v18.20.4'

fails "$bin/npm"
build_page
[ $? = 1 ] && told 'words of npm' 'its packages could not be installed' 'registry'
claim page__npm_fails__is_said_with_npms_words_and_what_to_do $?

works "$bin/npm"
fails "$site/web/node_modules/.bin/tsc"
build_page
[ $? = 1 ] && told 'words of tsc' 'TypeScript found a mistake' 'mend it in web/'
claim page__a_mistake_in_a_type__is_said_with_the_compilers_words $?

works "$site/web/node_modules/.bin/tsc"
fails "$site/web/node_modules/.bin/vite"
build_page
[ $? = 1 ] && told 'words of vite' 'Vite could not build it (served)' 'mend it in web/'
claim page__the_bundler_fails__is_said_with_its_words $?

works "$site/web/node_modules/.bin/vite"
: >"$scratch/called"
build_page && build_page && ! grep -q npm "$scratch/called"
claim page__the_same_lock_file__npm_is_not_asked $?

echo two >"$site/web/package-lock.json"
build_page && [ "$(grep -c npm "$scratch/called")" = 1 ]
claim page__another_lock_file__npm_is_asked_again $?

# ---- the closing line of ./test ----

count() {
    python3 "$root/tools/count_tests.py" "$@" >"$scratch/said" 2>&1
}
cat >"$scratch/log.json" <<'LOG'
{"name": "a", "stdout": "1..3\nok 1 - x\nnot ok 2 - y\nok 3 - z # SKIP no disk\n", "result": "FAIL", "returncode": 1}
{"name": "b", "stdout": "words\n", "result": "OK", "returncode": 0}
{"name": "c", "stdout": "1..2\nok 1 - x\n", "result": "ERROR", "returncode": -11}
LOG
: >"$scratch/counts"
count meson "$scratch/log.json" "$scratch/counts"
[ "$(cat "$scratch/counts")" = "3 2 1" ]
claim count__cases_crashes_and_skips__are_each_counted $?

cat >"$scratch/log.json" <<'LOG'
{"name": "a", "stdout": "1..2\nok 1 - x\nnot ok 2 - y\n", "result": "EXPECTEDFAIL", "returncode": 1}
{"name": "b", "stdout": "1..1\nok 1 - x\n", "result": "UNEXPECTEDPASS", "returncode": 0}
LOG
: >"$scratch/counts"
count meson "$scratch/log.json" "$scratch/counts"
[ "$(cat "$scratch/counts")" = "2 1 0" ]
claim count__what_must_fail__passes_by_failing $?

printf '3 2 1\n' >"$scratch/counts"
count sum "$scratch/counts"
[ $? = 1 ] && [ "$(tail -n 1 "$scratch/said")" = "3 passed, 2 failed, 1 skipped" ]
claim count__a_failure__is_the_status $?

printf '# tests 5\n# pass 4\n# fail 0\n# cancelled 0\n# skipped 1\n# todo 0\n' >"$scratch/tap"
: >"$scratch/counts"
count node "$scratch/tap" "$scratch/counts"
count sum "$scratch/counts"
[ $? = 0 ] && [ "$(tail -n 1 "$scratch/said")" = "4 passed, 0 failed, 1 skipped" ]
claim count__node__by_its_summary $?

: >"$scratch/tap"
: >"$scratch/counts"
count node "$scratch/tap" "$scratch/counts"
[ "$(cat "$scratch/counts")" = "0 1 0" ]
claim count__a_runner_that_died__is_a_failure $?

: >"$scratch/counts"
count sum "$scratch/counts"
[ $? = 1 ]
claim count__nothing_ran__is_no_pass $?

count meson "$scratch/none.json" "$scratch/counts"
[ "$(cat "$scratch/counts")" = "0 1 0" ]
claim count__no_results__is_a_failure $?

# The scripts that others copy. shellcheck is looked at where it is installed.
for script in "$root"/deploy/ci/*.sh; do
    if command -v shellcheck >/dev/null 2>&1; then
        shellcheck "$script" >"$scratch/said" 2>&1
    else
        sh -n "$script" >"$scratch/said" 2>&1
    fi
    claim "deploy__$(basename "$script" .sh)__is_without_fault" $?
done

echo "1..$number"
