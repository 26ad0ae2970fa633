#!/bin/bash
# PID 1 of one node: pid, mount, uts, ipc and cgroup namespaces of its own, inside the node's network namespace.
#
# Programs find their usual default paths here: /run, /var/lib and /var/log belong to the node alone, everything else
# is the machine's. Environment as for cluster-init.sh, and NODE (its name) and INDEX (its number, from 1).
set -euo pipefail
cd "$STATE"
source daemon.sh

read -r pid _ < machine-proc/self/stat
umount machine-proc
mount -t proc proc /proc
echo "$NODE" > /proc/sys/kernel/hostname

mount -t sysfs sysfs /sys
source cgroup/mounts.sh
if [ -d /sys/fs/bpf ]; then mount -t bpf bpf /sys/fs/bpf; fi
mkdir -p "$NODE/lib" "$NODE/log" "$NODE/sysctl"
mount -t tmpfs -o mode=755 tmpfs /run
mkdir /run/lock
mount --bind "$NODE/lib" /var/lib
mount --bind "$NODE/log" /var/log

# The kubelet writes these sysctls, which belong to the whole machine: it gets plain files in their place.
for name in vm/overcommit_memory vm/panic_on_oom kernel/panic kernel/panic_on_oops \
  kernel/keys/root_maxkeys kernel/keys/root_maxbytes; do
  if [ -e "/proc/sys/$name" ]; then
    file=$NODE/sysctl/${name//\//.}
    cat "/proc/sys/$name" > "$file"
    mount --bind "$file" "/proc/sys/$name"
  fi
done
mount --make-rshared /

ip link set lo up
ip addr add "10.90.0.$((10 + INDEX))/24" dev eth0
ip link set eth0 up
ip route add default via 10.90.0.1
other=0
for _ in $NODES; do
  other=$((other + 1))
  if [ $other != "$INDEX" ]; then ip route add "10.91.$other.0/24" via "10.90.0.$((10 + other))"; fi
done
echo 1 > /proc/sys/net/ipv4/ip_forward
# Traffic between pods of one node must pass kube-proxy's rules too, where the kernel has bridge netfilter.
if [ -e /proc/sys/net/bridge/bridge-nf-call-iptables ]; then
  echo 1 > /proc/sys/net/bridge/bridge-nf-call-iptables
fi

daemon "$NODE-containerd" containerd --config "$NODE/containerd.toml"
until ctr version > /dev/null 2>&1; do sleep 0.05; done
echo "$pid" > "$NODE.pid"
until [ -e apiserver-ready ]; do sleep 0.05; done
pool=$(cat "$NODE/pool")
daemon "$NODE-kubelet" kubelet --config="$NODE/kubelet.json" --kubeconfig="pki/$NODE.kubeconfig" \
  --hostname-override="$NODE" --node-ip="10.90.0.$((10 + INDEX))" \
  --node-labels="sealane.dev/pool=$pool,topology.kubernetes.io/zone=$pool" --v=1
daemon "$NODE-kube-proxy" kube-proxy --config="$NODE/proxy.json"

while :; do wait -n || sleep 1; done
