#!/bin/sh
# with-weir.sh [arguments of weir serve] -- COMMAND [ARGUMENT...]
#
# Runs COMMAND with weir between it and an LLM API, and ends with COMMAND's status:
#
#   with-weir.sh --upstream https://api.openai.com/v1 --rate 2/s --burst 5 -- make summaries
#   with-weir.sh -c weir.yaml -- sh -c 'ls changes/*.diff | xargs -n 1 -P 14 ./summarise'
#
# weir takes free ports of this machine's loopback. COMMAND finds it through OPENAI_BASE_URL and
# ANTHROPIC_BASE_URL, which stock clients read. When COMMAND has ended, weir serves what is under way, stops,
# and its report is shown. However this script ends, weir ends with it.
#
# It leaves weir-report.json, weir-report.txt (the same to read) and weir-report.log: keep all three.
#
#   WEIR          the program (build/src/cli/weir beside this script's repository, else weir in PATH)
#   WEIR_REPORT   the report's name (weir-report.json)
#   WEIR_STATE    where keys and budgets live (unset: they are forgotten when the job is over)
#   WEIR_READY_S  longest time until weir serves, in seconds (30)
#   WEIR_STOP_S   longest time for what is under way at the end, in seconds (30)
#
# Status: COMMAND's; 125 when weir did not start, or did not last, or its report is lost, though COMMAND
# succeeded; 128 + n after signal n.

# Functions are called by traps too, which shellcheck does not see.
# shellcheck disable=SC2317
set -eu

say() {
    echo "with-weir: $*" >&2
}

give_up() {
    say "$*"
    exit 125
}

# ---- arguments ----

before=0
has_upstream=0
has_command=0
for argument in "$@"; do
    case $argument in
    --)
        has_command=1
        break
        ;;
    -h | --help)
        sed -n '2,/^$/s/^# \{0,1\}//p' "$0"
        exit 0
        ;;
    --upstream | --upstream=* | -c | --config | --config=*) has_upstream=1 ;;
    esac
    before=$((before + 1))
done
if [ "$has_command" = 0 ] || [ "$#" -le $((before + 1)) ]; then
    give_up "no command: with-weir.sh [arguments of weir serve] -- COMMAND [ARGUMENT...]"
fi
[ "$has_upstream" = 1 ] ||
    give_up "no API: say which with --upstream URL or -c FILE (to try without one: weir mock)"

: "${WEIR_READY_S:=30}" "${WEIR_STOP_S:=30}" "${WEIR_REPORT:=weir-report.json}"
for number in "$WEIR_READY_S" "$WEIR_STOP_S"; do
    case $number in
    '' | *[!0-9]*) give_up "WEIR_READY_S and WEIR_STOP_S are whole seconds, not '$number'" ;;
    esac
done
log=${WEIR_REPORT%.json}.log
text=${WEIR_REPORT%.json}.txt

if [ -z "${WEIR:-}" ]; then
    built=$(CDPATH='' cd -- "$(dirname -- "$0")/../.." && pwd)/build/src/cli/weir
    WEIR=weir
    [ ! -x "$built" ] || WEIR=$built
fi
command -v "$WEIR" >/dev/null 2>&1 ||
    give_up "no program '$WEIR': build it (sh tools/build.sh build), or say where it is in WEIR"

# ---- the end ----

scratch=$(mktemp -d "${TMPDIR:-/tmp}/with-weir.XXXXXX")
weir_pid=''
command_pid=''
caught=0
: "${WEIR_STATE:=$scratch/state}"
export WEIR_STATE

# A child that has ended is there until it is waited for: kill -0 would call it alive.
is_alive() {
    state=$(sed 's/.*) //' "/proc/$1/stat" 2>/dev/null) || return 1
    case $state in
    '' | Z* | X*) return 1 ;;
    esac
}

nap() {
    sleep 0.1 2>/dev/null || sleep 1
}

# Waits so many seconds at most; false: it is still there.
ends_within() { # pid, seconds
    tenths=$(($2 * 10))
    while is_alive "$1"; do
        [ "$tenths" -gt 0 ] || return 1
        tenths=$((tenths - 1))
        nap
    done
}

stop_weir() {
    weir_status=0
    [ -n "$weir_pid" ] || return 0
    was_alive=1
    is_alive "$weir_pid" || was_alive=0
    kill -s TERM "$weir_pid" 2>/dev/null || :
    # Whoever sent us a signal will not wait for long.
    limit=$WEIR_STOP_S
    [ "$caught" = 0 ] || limit=2
    if ! ends_within "$weir_pid" "$limit"; then
        say "requests are still under way after $limit s: they are cut"
        kill -s TERM "$weir_pid" 2>/dev/null || :
        ends_within "$weir_pid" 10 || kill -s KILL "$weir_pid" 2>/dev/null || :
    fi
    wait "$weir_pid" || weir_status=$?
    weir_pid=''
    [ "$was_alive" = 1 ] || say "weir ended before the command did, with status $weir_status"
    [ ! -f "$text" ] || cat "$text" >&2
    case $weir_status in
    0 | 130) [ "$was_alive" = 1 ] ;;
    *) false ;;
    esac || {
        say "weir's status is $weir_status; the end of $log:"
        tail -n 20 "$log" >&2
        return 1
    }
}

finish() {
    status=$?
    trap '' HUP INT TERM
    trap - EXIT
    stop_weir || [ "$status" != 0 ] || status=125
    rm -rf "$scratch"
    exit "$status"
}

on_signal() {
    caught=$1
    [ -z "$command_pid" ] || kill -s TERM "$command_pid" 2>/dev/null || :
}

trap finish EXIT
trap 'on_signal 129' HUP
trap 'on_signal 130' INT
trap 'on_signal 143' TERM

# ---- weir ----

serve() { # the script's own arguments: those before -- are weir's
    i=0
    for argument in "$@"; do
        shift
        i=$((i + 1))
        [ "$i" -gt "$before" ] || set -- "$@" "$argument"
    done
    exec "$WEIR" serve --listen 127.0.0.1:0 --admin 127.0.0.1:0 --with-parent \
        --ready-file "$scratch/ready" --report "$WEIR_REPORT" "$@"
}

(: >"$log") 2>/dev/null || give_up "cannot write $log: say where the report may lie in WEIR_REPORT"
rm -f "$text"
serve "$@" >"$log" 2>&1 </dev/null &
weir_pid=$!
tenths=$((WEIR_READY_S * 10))
while [ ! -f "$scratch/ready" ] && [ "$caught" = 0 ]; do
    if ! is_alive "$weir_pid"; then
        wait "$weir_pid" || say "weir did not start (status $?):"
        weir_pid=''
        cat "$log" >&2
        exit 125
    fi
    [ "$tenths" -gt 0 ] || give_up "weir did not serve within $WEIR_READY_S s (WEIR_READY_S); see $log"
    tenths=$((tenths - 1))
    nap
done
[ "$caught" = 0 ] || exit "$caught"

set -a
# shellcheck source=/dev/null
. "$scratch/ready"
# A proxy of the network cannot reach our loopback.
NO_PROXY=127.0.0.1,localhost${NO_PROXY:+,$NO_PROXY}
no_proxy=127.0.0.1,localhost${no_proxy:+,$no_proxy}
set +a
say "weir serves at $WEIR_URL"

# ---- the command ----

shift $((before + 1))
# In the background, so that a signal reaches us while it runs; with our standard input all the same.
if [ -e /proc/self/fd/0 ]; then
    exec 3<&0
else
    exec 3</dev/null
fi
"$@" <&3 3<&- &
command_pid=$!
exec 3<&-
[ "$caught" = 0 ] || kill -s TERM "$command_pid" 2>/dev/null || : # it came before there was a command
status=0
wait "$command_pid" || status=$?
while is_alive "$command_pid"; do # it was a signal that ended the wait
    status=0
    wait "$command_pid" || status=$?
done
[ "$caught" = 0 ] || status=$caught
exit "$status"
