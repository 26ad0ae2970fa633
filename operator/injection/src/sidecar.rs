//! The injected container and its volumes.

use std::net::IpAddr;

use k8s_openapi::api::core::v1::{Pod, PodSpec};
use sealane_operator_api::well_known::{
    COLLATERAL_CONFIG_MAP, COLLATERAL_DIRECTORY, CONTROL_PORT, DOOR_DIRECTORY, DOOR_SOCKET, GRPC_SOCKET,
    SIDECAR_CONTAINER, TARGETS_DIRECTORY, control_name,
};
use serde_json::{Value, json};

use crate::context::InjectionContext;
use crate::pod_shape::{
    AGENT_VOLUME, COLLATERAL_VOLUME, DOOR_VOLUME, INITDATA_VOLUME, InjectError, KEY_VOLUME, STATE_VOLUME,
    TARGETS_VOLUME, TOKEN_VOLUME, admin_port, drain_seconds, has_cluster_dns, on_host_network,
    simulated_form,
};
use crate::sizing::Sizing;

/// What AF_XDP takes: to load a program and attach it to the device, to open the sockets, and to lock the memory that they
/// share with the kernel.
pub const CAPABILITIES: [&str; 4] = ["BPF", "IPC_LOCK", "NET_ADMIN", "NET_RAW"];

/// Mounts of the sidecar's own volumes.
const TOKEN_DIRECTORY: &str = "/var/run/secrets/sealane.dev";
const INITDATA_DIRECTORY: &str = "/run/sealane-initdata";
/// No other container mounts it.
const STATE_DIRECTORY: &str = "/var/lib/sealane";
const KEY_DIRECTORY: &str = "/run/sealane-key";
/// The private key in its Secret.
const KEY_FILE: &str = "key.pem";
/// Where the sidecar looks for the socket of the node agent.
const AGENT_DIRECTORY: &str = "/run/sealane-agent";
/// The node agent's driver; it makes a directory with one socket for this pod.
const AGENT_DRIVER: &str = "csi.sealane.dev";
/// The numeric user of the image; nothing in it is owned by another, and it runs as any.
const USER: i64 = 65532;

/// The native sidecar for `pod`.
pub(crate) fn container(
    pod: &Pod,
    spec: &PodSpec,
    sizing: &Sizing,
    context: &InjectionContext<'_>,
) -> Result<Value, InjectError> {
    let host_network = on_host_network(spec);
    let mut mounts = vec![
        json!({"name": DOOR_VOLUME, "mountPath": DOOR_DIRECTORY}),
        json!({"name": TOKEN_VOLUME, "mountPath": TOKEN_DIRECTORY, "readOnly": true}),
        json!({"name": COLLATERAL_VOLUME, "mountPath": COLLATERAL_DIRECTORY, "readOnly": true}),
        json!({"name": STATE_VOLUME, "mountPath": STATE_DIRECTORY}),
    ];
    if host_network {
        mounts.push(json!({"name": TARGETS_VOLUME, "mountPath": TARGETS_DIRECTORY}));
    }
    if context.initdata.is_some() {
        mounts.push(json!({"name": INITDATA_VOLUME, "mountPath": INITDATA_DIRECTORY, "readOnly": true}));
    }
    if context.key_secret.is_some() {
        mounts.push(json!({"name": KEY_VOLUME, "mountPath": KEY_DIRECTORY, "readOnly": true}));
    }
    // In no other container: only this one gets evidence, and none needs to try.
    if context.node_agent {
        mounts.push(json!({"name": AGENT_VOLUME, "mountPath": AGENT_DIRECTORY, "readOnly": true}));
    }
    Ok(json!({
        "name": SIDECAR_CONTAINER,
        "image": context.settings.image,
        "imagePullPolicy": context.settings.pull_policy,
        "args": ["run"],
        "restartPolicy": "Always",
        "env": environment(pod, spec, sizing, context)?,
        "ports": ports(host_network, context),
        "startupProbe": startup_probe(host_network, context),
        "resources": sizing.resources(),
        "securityContext": security(spec, context.af_xdp),
        "volumeMounts": mounts,
    }))
}

/// The `restricted` standard, except where the sidecar is to take hold of a network device.
///
/// The image's user is enough where nothing else is said, and platforms that give each namespace users of its own can
/// give it another. That may be the application's: what keeps it from the sidecar's keys is that neither sees the other's
/// processes, and that no volume of the sidecar with something in it to hide is mounted elsewhere. So a user is named, and no
/// platform's taken, wherever processes are seen; and root is none that the sidecar runs as.
fn security(spec: &PodSpec, af_xdp: bool) -> Value {
    let mut context = json!({
        "runAsNonRoot": !af_xdp, "readOnlyRootFilesystem": true, "allowPrivilegeEscalation": false,
        "capabilities": {"drop": ["ALL"]},
        "seccompProfile": {"type": "RuntimeDefault"},
    });
    if af_xdp {
        context["capabilities"]["add"] = json!(CAPABILITIES);
    }
    let of_pod = spec.security_context.as_ref().and_then(|context| context.run_as_user);
    let user = match of_pod {
        _ if af_xdp => Some(0),
        Some(0) => Some(USER),
        _ => sees_processes(spec).then_some(USER),
    };
    if let Some(user) = user {
        (context["runAsUser"], context["runAsGroup"]) = (json!(user), json!(user));
    }
    context
}

/// Whether containers of this pod see the sidecar's processes: under the same user they could trace them, and read their memory.
fn sees_processes(spec: &PodSpec) -> bool {
    spec.share_process_namespace == Some(true) || spec.host_pid == Some(true)
}

fn environment(
    pod: &Pod,
    spec: &PodSpec,
    sizing: &Sizing,
    context: &InjectionContext<'_>,
) -> Result<Vec<Value>, InjectError> {
    let settings = context.settings;
    let host_network = on_host_network(spec);
    let plain = |name: &str, value: String| json!({"name": name, "value": value});
    let field =
        |name: &str, path: &str| json!({"name": name, "valueFrom": {"fieldRef": {"fieldPath": path}}});
    // On the host's network fixed ports would collide between pods: the sidecar picks free ones and reports them.
    let port = |port: u16| if host_network { 0 } else { port }.to_string();
    let name = control_name(context.operator_namespace);
    let ip = context.control_ip.filter(|_| !has_cluster_dns(spec));
    let host = match ip {
        Some(IpAddr::V6(ip)) => format!("[{ip}]"),
        Some(IpAddr::V4(ip)) => ip.to_string(),
        None => name.clone(),
    };
    // Of two with one name the later counts: what the chart adds changes nothing that injection says.
    let mut environment: Vec<Value> = settings.environment.iter().map(|variable| json!(variable)).collect();
    environment.extend([
        plain("SEALANE_CONTROL_ADDRESS", format!("https://{host}:{CONTROL_PORT}")),
        plain("SEALANE_CONTROL_CA", context.authorities.to_owned()),
        plain("SEALANE_CONTROL_TOKEN", format!("{TOKEN_DIRECTORY}/token")),
        field("SEALANE_POD_NAMESPACE", "metadata.namespace"),
        field("SEALANE_POD_NAME", "metadata.name"),
        field("SEALANE_POD_UID", "metadata.uid"),
        field("SEALANE_POD_IPS", "status.podIPs"),
        field("SEALANE_NODE_NAME", "spec.nodeName"),
        plain("SEALANE_COLLATERAL", COLLATERAL_DIRECTORY.to_owned()),
        plain("SEALANE_STATE", STATE_DIRECTORY.to_owned()),
        plain("SEALANE_DOOR", DOOR_SOCKET.to_owned()),
        plain("SEALANE_GRPC", GRPC_SOCKET.to_owned()),
        plain("SEALANE_DATA_PORT", port(settings.data_port)),
        plain("SEALANE_ADMIN_PORT", port(settings.admin_port)),
        plain("SEALANE_DRAIN_SECONDS", drain_seconds(pod).to_string()),
        plain("SEALANE_ARENA_BYTES", sizing.arena_bytes.to_string()),
        plain("RUST_LOG", settings.log.clone()),
    ]);
    if ip.is_some() {
        // The certificate is for the name.
        environment.push(plain("SEALANE_CONTROL_SERVER_NAME", name));
    }
    if host_network {
        // 127.0.0.1 is the node's: forwards use sockets on the door volume.
        environment.push(plain("SEALANE_HOST_NETWORK", "true".to_owned()));
        let port = admin_port(pod, context.admin_port)?;
        environment.push(plain("SEALANE_ADMIN_PORT_PREFERRED", port.to_string()));
    }
    if context.af_xdp {
        environment.push(plain("SEALANE_AF_XDP", "true".to_owned()));
    }
    let services = settings.traces.iter().chain(&settings.collateral);
    environment.extend(services.map(|(name, value)| plain(name, value.clone())));
    if let Some(roots) = &context.roots {
        environment.push(plain("SEALANE_ROOTS", roots.clone()));
    }
    if context.key_secret.is_some() {
        environment.push(plain("SEALANE_KEY_FILE", format!("{KEY_DIRECTORY}/{KEY_FILE}")));
    }
    if let Some(simulation) = &settings.simulation {
        let form = simulated_form(pod)?;
        let platform = simulation.of(form).ok_or(InjectError::FormMissing(form))?;
        environment.push(plain("SEALANE_SIMULATED_PLATFORM", platform.to_owned()));
        environment.push(plain("SEALANE_SIMULATED_FORM", form.to_string()));
    }
    if context.initdata.is_some() {
        environment.push(plain("SEALANE_INITDATA", format!("{INITDATA_DIRECTORY}/initdata")));
    }
    Ok(environment)
}

fn ports(host_network: bool, context: &InjectionContext<'_>) -> Value {
    if host_network {
        return json!([]);
    }
    json!([
        {"name": "sealane-data", "containerPort": context.settings.data_port, "protocol": "TCP"},
        {"name": "sealane-udp", "containerPort": context.settings.data_port, "protocol": "UDP"},
        {"name": "sealane-admin", "containerPort": context.settings.admin_port, "protocol": "TCP"},
    ])
}

/// Started means: configuration parsed and door listening. Kata denies exec probes, so HTTP where a port is known.
fn startup_probe(host_network: bool, context: &InjectionContext<'_>) -> Value {
    let mut probe = json!({"periodSeconds": 1, "timeoutSeconds": 1, "failureThreshold": 60});
    if host_network {
        let simulated = context.settings.simulation.is_some();
        let program = if simulated { "/usr/bin/sealane-sidecar-sim" } else { "/usr/bin/sealane-sidecar" };
        probe["exec"] = json!({"command": [program, "probe"]});
    } else {
        probe["httpGet"] = json!({"path": "/startupz", "port": "sealane-admin"});
    }
    probe
}

/// Volumes that the sidecar needs.
pub(crate) fn volumes(spec: &PodSpec, context: &InjectionContext<'_>) -> Vec<Value> {
    let mut volumes = vec![
        json!({"name": DOOR_VOLUME, "emptyDir": {"medium": "Memory", "sizeLimit": "16Mi"}}),
        json!({"name": TOKEN_VOLUME, "projected": {"sources": [{"serviceAccountToken": {
            "audience": sealane_operator_api::well_known::CONTROL_AUDIENCE,
            "expirationSeconds": 3600, "path": "token",
        }}]}}),
        // What the sidecar saw of collateral survives its restarts. On a disk it would keep the cluster's autoscaler from ending
        // the node, and outside of a guest's memory.
        json!({"name": STATE_VOLUME, "emptyDir": {"medium": "Memory", "sizeLimit": "16Mi"}}),
    ];
    if on_host_network(spec) {
        volumes.push(json!({"name": TARGETS_VOLUME, "emptyDir": {"medium": "Memory", "sizeLimit": "1Mi"}}));
    }
    if let Some(secret) = context.key_secret {
        // No other container mounts it. The image's user could not read a file of root's that is for root alone.
        volumes.push(json!({"name": KEY_VOLUME, "secret": {
            "secretName": secret, "defaultMode": 0o444, "items": [{"key": KEY_FILE, "path": KEY_FILE}],
        }}));
    }
    if let Some(annotation) = context.initdata {
        let field = format!("metadata.annotations['{annotation}']");
        volumes.push(json!({"name": INITDATA_VOLUME, "downwardAPI": {"items": [
            {"path": "initdata", "fieldRef": {"fieldPath": field}},
        ]}}));
    }
    if context.node_agent {
        volumes.push(json!({"name": AGENT_VOLUME, "csi": {"driver": AGENT_DRIVER, "readOnly": true}}));
    }
    // Optional: without it the pod starts all the same, and it appears in the pod when somebody makes it.
    volumes.push(
        json!({"name": COLLATERAL_VOLUME, "configMap": {"name": COLLATERAL_CONFIG_MAP, "optional": true}}),
    );
    volumes
}
