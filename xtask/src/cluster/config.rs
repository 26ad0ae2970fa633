//! All configuration of the cluster's components, as text. Pure: the same place, tools and layout give the same
//! files, and their hash tells whether a running cluster is what this program would start.

use std::{collections::BTreeMap, path::Path};

use serde_json::{Value, json};

use super::{
    cgroup::Layout,
    place::{NODES, Node, Place},
    tools::PAUSE_IMAGE,
};

/// File name in the state folder → content.
pub(super) type Files = BTreeMap<String, String>;

const SCRIPTS: [(&str, &str); 3] = [
    ("cluster-init.sh", include_str!("../../cluster/cluster-init.sh")),
    ("daemon.sh", include_str!("../../cluster/daemon.sh")),
    ("node-init.sh", include_str!("../../cluster/node-init.sh")),
];

pub(super) fn files(place: &Place, network_plugins: &Path, layout: &Layout) -> Files {
    let mut files: Files =
        SCRIPTS.iter().map(|(name, text)| ((*name).to_owned(), (*text).to_owned())).collect();
    files.insert("Corefile".to_owned(), corefile(&place.state));
    files.insert("bootstrap.json".to_owned(), bootstrap().to_string());
    for (index, node) in NODES.iter().enumerate() {
        let folder = place.state.join(node.name);
        let mut add = |name: &str, text: String| files.insert(format!("{}/{name}", node.name), text);
        add("containerd.toml", containerd(&folder, network_plugins));
        add("cni/10-pods.conflist", network(index + 1).to_string());
        add("kubelet.json", kubelet(&folder, layout).to_string());
        add("proxy.json", proxy(&place.state, node).to_string());
        add("resolv.conf", "nameserver 10.90.0.1\n".to_owned());
        add("pool", node.pool.to_owned());
    }
    files
}

/// Format version 2 is what containerd 1.6 and 1.7 read, and what 2.x converts.
fn containerd(folder: &Path, network_plugins: &Path) -> String {
    let folder = folder.display();
    let plugins = network_plugins.display();
    // Without CAP_SYS_RESOURCE, which many containers and test machines lack, a process cannot lower its OOM score
    // and no pod would start: hence restrict_oom_score_adj.
    format!(
        r#"version = 2
disabled_plugins = ["io.containerd.internal.v1.opt"]

[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "{PAUSE_IMAGE}"
  restrict_oom_score_adj = true

  [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
    runtime_type = "io.containerd.runc.v2"

    [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc.options]
      SystemdCgroup = false

  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = "{plugins}"
    conf_dir = "{folder}/cni"
"#
    )
}

/// Pods of one node share a bridge; the nodes route to each other's bridges, so no address is ever translated.
fn network(number: usize) -> Value {
    json!({
        "cniVersion": "0.4.0",
        "name": "pods",
        "plugins": [
            {
                "type": "bridge",
                "bridge": "cni0",
                "isGateway": true,
                "ipMasq": false,
                "hairpinMode": true,
                "ipam": {
                    "type": "host-local",
                    "ranges": [[{"subnet": format!("10.91.{number}.0/24")}]],
                    "routes": [{"dst": "0.0.0.0/0"}],
                },
            },
            {"type": "portmap", "capabilities": {"portMappings": true}},
        ],
    })
}

fn kubelet(folder: &Path, layout: &Layout) -> Value {
    json!({
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "kind": "KubeletConfiguration",
        "address": "0.0.0.0",
        // Only the cluster's own network namespace can reach the kubelets.
        "authentication": {"anonymous": {"enabled": true}, "webhook": {"enabled": false}},
        "authorization": {"mode": "AlwaysAllow"},
        "cgroupDriver": "cgroupfs",
        "failCgroupV1": layout.version() == 2,
        "failSwapOn": false,
        "containerRuntimeEndpoint": "unix:///run/containerd/containerd.sock",
        "clusterDomain": "cluster.local",
        "clusterDNS": ["10.90.0.1"],
        "resolvConf": folder.join("resolv.conf"),
        "volumePluginDir": "/var/lib/kubelet/volumeplugins",
        // A deleted image could not be pulled again, and the disk is the person's own.
        "imageGCHighThresholdPercent": 100,
        "evictionHard": {
            "memory.available": "50Mi",
            "nodefs.available": "1%",
            "imagefs.available": "1%",
            "nodefs.inodesFree": "1%",
        },
        "nodeStatusUpdateFrequency": "10s",
        // Tests kill a container several times, and the usual minutes of waiting would prove nothing.
        "crashLoopBackOff": {"maxContainerRestartPeriod": "2s"},
        "oomScoreAdj": 0,
    })
}

fn proxy(state: &Path, node: &Node) -> Value {
    json!({
        "apiVersion": "kubeproxy.config.k8s.io/v1alpha1",
        "kind": "KubeProxyConfiguration",
        "mode": "nftables",
        "hostnameOverride": node.name,
        "clientConnection": {"kubeconfig": state.join("pki/proxy.kubeconfig")},
        "clusterCIDR": "10.91.0.0/16",
        // Zero leaves the machine's connection tracking limits alone.
        "conntrack": {"maxPerCore": 0, "min": 0, "tcpEstablishedTimeout": "0s", "tcpCloseWaitTimeout": "0s"},
        "healthzBindAddress": "127.0.0.1:10256",
        "metricsBindAddress": "127.0.0.1:10249",
        "oomScoreAdj": 0,
    })
}

fn corefile(state: &Path) -> String {
    let kubeconfig = state.join("pki/coredns.kubeconfig");
    format!(
        ".:53 {{\n  bind 10.90.0.1\n  errors\n  kubernetes cluster.local in-addr.arpa {{\n    kubeconfig {}\n    \
         pods verified\n    ttl 2\n  }}\n}}\n",
        kubeconfig.display()
    )
}

/// Rights of the two clients that Kubernetes has no built-in binding for.
fn bootstrap() -> Value {
    let bind = |name: &str, role: &str, user: &str| {
        json!({
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": "ClusterRoleBinding",
            "metadata": {"name": name},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": role},
            "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": user}],
        })
    };
    let watch = ["list", "watch"];
    json!({
        "apiVersion": "v1",
        "kind": "List",
        "items": [
            bind("kube-proxy", "system:node-proxier", "system:kube-proxy"),
            bind("coredns", "coredns", "system:coredns"),
            {
                "apiVersion": "rbac.authorization.k8s.io/v1",
                "kind": "ClusterRole",
                "metadata": {"name": "coredns"},
                "rules": [
                    {"apiGroups": [""], "resources": ["services", "pods", "namespaces"], "verbs": watch},
                    {"apiGroups": ["discovery.k8s.io"], "resources": ["endpointslices"], "verbs": watch},
                ],
            },
        ],
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const V1: &str = "35 31 0:32 / /sys/fs/cgroup/memory rw,relatime - cgroup cgroup rw,memory\n";
    const V2: &str = "30 23 0:26 / /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw\n";

    fn all(mountinfo: &str) -> Files {
        let place = Place { cache: "/cache".into(), state: "/cache/cluster".into() };
        files(&place, Path::new("/cni"), &Layout::parse(mountinfo).unwrap())
    }

    #[test]
    fn each_node_has_its_own_addresses_and_folders() {
        let files = all(V1);
        for (node, subnet) in [("node1", "10.91.1.0/24"), ("node2", "10.91.2.0/24")] {
            assert!(files[&format!("{node}/cni/10-pods.conflist")].contains(subnet));
            assert!(
                files[&format!("{node}/containerd.toml")].contains(&format!("/cache/cluster/{node}/cni"))
            );
            assert!(
                files[&format!("{node}/proxy.json")].contains(&format!("\"hostnameOverride\":\"{node}\""))
            );
        }
        assert_ne!(files["node1/pool"], files["node2/pool"]);
    }

    #[test]
    fn the_kubelet_accepts_version_1_of_cgroups_only_where_it_must() {
        let kubelet =
            |mountinfo| -> Value { serde_json::from_str(&all(mountinfo)["node1/kubelet.json"]).unwrap() };
        assert_eq!(kubelet(V1)["failCgroupV1"], false);
        assert_eq!(kubelet(V2)["failCgroupV1"], true);
        assert_eq!(kubelet(V2)["cgroupDriver"], "cgroupfs");
    }

    #[test]
    fn scripts_are_valid_shell() {
        for (name, text) in SCRIPTS {
            let status = std::process::Command::new("bash").args(["-n", "-c", text]).status().unwrap();
            assert!(status.success(), "{name}");
        }
    }
}
