#!/bin/sh
# `offpath lane run` as a user meets it. Usage: lane_run_test.sh OFFPATH
offpath=$1
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
failures=0
expect() { # expect "promise" wanted got
  if [ "$2" = "$3" ]; then
    echo "ok: $1"
  else
    echo "FAILED: $1 (wanted $2, got $3)"
    failures=$((failures + 1))
  fi
}
alive() { # a process that has not ended, or ended and not yet been collected
  state=$(sed 's/.*) //; s/ .*//' "/proc/$1/stat" 2>/dev/null)
  [ -n "$state" ] && [ "$state" != Z ]
}

"$offpath" lane run -- sh -c 'exit 7' 2>/dev/null
expect "the exit code is the command's" 7 $?

"$offpath" lane run -- "$folder/missing" 2>"$folder/error"
expect "a command that is missing is a failure" 1 $?
expect "and is named" 1 "$(grep -c "$folder/missing" "$folder/error")"

"$offpath" lane run --cores 2>/dev/null
expect "wrong usage is exit code 2" 2 $?

start() { # a lane whose command writes its process id and waits
  rm -f "$folder/pid"
  "$offpath" lane run --quota 50 -- sh -c "echo \$\$ >$folder/pid.new; mv $folder/pid.new $folder/pid; exec sleep 60" 2>/dev/null &
  lane=$!
  for _ in $(seq 200); do [ -e "$folder/pid" ] && break; sleep 0.05; done
  command=$(cat "$folder/pid")
}

start
kill -TERM "$lane"
wait "$lane"
expect "SIGTERM goes to the command" 143 $?

start
kill -KILL "$lane"
wait "$lane" 2>/dev/null
for _ in $(seq 200); do alive "$command" || break; sleep 0.05; done
expect "a killed lane takes its command with it" no "$(alive "$command" && echo yes || echo no)"

exit $((failures > 0))
