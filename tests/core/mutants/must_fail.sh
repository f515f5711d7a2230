#!/bin/sh
# must_fail.sh PROGRAM PROPERTY...: each property, run alone, must find what is broken in this program.
# A crash or a failed start is no finding: the runner's own report is asked for.
program=$1
shift
for property in "$@"; do
    said=$(WEIR_PROPERTY=$property WEIR_SHRINK=0 "$program" 2>&1)
    case $said in
    *"property $property fails: "*) echo "$said" | sed -n "s/^property $property fails/found/p" ;;
    *)
        echo "$said" | tail -20
        echo "$program: $property did not see what is broken"
        exit 1
        ;;
    esac
done
