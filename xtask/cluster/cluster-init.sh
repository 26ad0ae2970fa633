#!/bin/bash
# PID 1 of the cluster: the network between the nodes, the control plane, and one child per node.
#
# Started by `cluster/keeper.rs` in pid, mount, network and ipc namespaces of its own, so that the end of this process
# is the end of everything below it. All configuration was written beforehand by `cluster/config.rs`.
#
# Environment: STATE (the state folder), NODES ("node1 node2"), PATH with the cluster's programs first.
set -euo pipefail
cd "$STATE"
source daemon.sh

join control
# Pid files hold the machine's numbers, for its nsenter. Only the machine's /proc tells them, so the nodes find it
# beside the cluster's own; as /proc itself it would show tools here the wrong processes.
read -r pid _ < /proc/self/stat
echo "$pid" > init.pid
mkdir machine-proc
mount --bind /proc machine-proc
mount -t proc proc /proc

ip link set lo up
ip link add br0 type bridge
ip addr add 10.90.0.1/24 dev br0
ip link set br0 up
echo 1 > /proc/sys/net/ipv4/ip_forward

# The store lives in memory: the cluster ends with its processes anyway, and fsync would only slow it down.
mkdir -p etcd netns
mount -t tmpfs -o size=1g,mode=700 etcd etcd
daemon etcd etcd --data-dir etcd/data --unsafe-no-fsync --logger zap --log-level warn \
  --listen-client-urls http://127.0.0.1:2379 --advertise-client-urls http://127.0.0.1:2379 \
  --listen-peer-urls http://127.0.0.1:2380 --initial-advertise-peer-urls http://127.0.0.1:2380 \
  --initial-cluster default=http://127.0.0.1:2380
# InternalIP: logs, exec and port-forward reach the kubelets by address, as node names are in no DNS.
# Aggregator routing sends webhook calls straight to pod addresses, since no kube-proxy runs in this namespace.
daemon kube-apiserver kube-apiserver --etcd-servers=http://127.0.0.1:2379 \
  --bind-address=0.0.0.0 --secure-port=6443 --advertise-address=10.90.0.1 \
  --tls-cert-file=pki/apiserver.crt --tls-private-key-file=pki/apiserver.key \
  --token-auth-file=pki/tokens.csv --authorization-mode=Node,RBAC --allow-privileged=true \
  --service-account-issuer=https://kubernetes.default.svc.cluster.local \
  --service-account-key-file=pki/sa.pub --service-account-signing-key-file=pki/sa.key \
  --service-cluster-ip-range=10.96.0.0/16 --enable-aggregator-routing=true \
  --kubelet-preferred-address-types=InternalIP --profiling=false

index=0
for node in $NODES; do
  index=$((index + 1))
  touch "netns/$node"
  unshare --net="netns/$node" true
  ip link add "veth$index" type veth peer name eth0 netns "$STATE/netns/$node"
  ip link set "veth$index" master br0 up
  ip route add "10.91.$index.0/24" via "10.90.0.$((10 + index))"
  # The node's own cgroup must be joined before the cgroup namespace is made: it becomes that namespace's root.
  (
    join "$node"
    exec env NODE="$node" INDEX="$index" \
      nsenter --net="netns/$node" \
      unshare --fork --kill-child=KILL --pid --mount --uts --ipc --cgroup --propagation private \
      bash node-init.sh
  ) > "log/$node-init.log" 2>&1 &
done

export KUBECONFIG=$STATE/pki/admin.kubeconfig
until kubectl get --raw /readyz > /dev/null 2>&1; do sleep 0.05; done
# High client limits: the defaults throttle the first burst of controllers and cost several seconds.
daemon kube-controller-manager kube-controller-manager --kubeconfig=pki/controllers.kubeconfig \
  --kube-api-qps=1000 --kube-api-burst=2000 --leader-elect=false --bind-address=127.0.0.1 \
  --root-ca-file=pki/ca.crt --service-account-private-key-file=pki/sa.key \
  --use-service-account-credentials=true --flex-volume-plugin-dir="$STATE/flexvolume" \
  --cluster-signing-cert-file=pki/ca.crt --cluster-signing-key-file=pki/ca.key
daemon kube-scheduler kube-scheduler --kubeconfig=pki/scheduler.kubeconfig \
  --kube-api-qps=1000 --kube-api-burst=2000 --leader-elect=false --bind-address=127.0.0.1
daemon coredns coredns -conf Corefile

kubectl apply -f bootstrap.json > /dev/null
touch apiserver-ready
for node in $NODES; do kubectl wait --for=create --timeout=150s "node/$node" > /dev/null; done
kubectl wait --for=condition=Ready --timeout=150s node --all > /dev/null
# Pods cannot be created before their namespace has its default ServiceAccount.
kubectl -n default wait --for=create --timeout=60s serviceaccount/default > /dev/null
touch ready

while :; do wait -n || sleep 1; done
