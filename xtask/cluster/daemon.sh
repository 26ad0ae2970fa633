# Shared by cluster-init.sh and node-init.sh; both have STATE as their working folder.

# join GROUP: moves the calling shell into its cgroup in every hierarchy. A 0 means the writing process, whatever
# number it has in the current pid namespace.
join() {
  local file
  while read -r file; do echo 0 > "$file"; done < "cgroup/$1"
}

# daemon NAME COMMAND...: keeps a program running in the background, its output in log/NAME.log.
daemon() {
  local name=$1
  shift
  (
    while :; do
      "$@" || true
      echo "$name ended and is started again"
      sleep 1
    done
  ) >> "log/$name.log" 2>&1 < /dev/null &
}
