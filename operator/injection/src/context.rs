//! What injection depends on besides the pod.

use std::net::IpAddr;

use sealane_types::PeerName;

use crate::bounds::Bounds;
use crate::settings::SidecarSettings;

/// Everything that injection depends on besides the pod.
#[derive(Debug, Clone)]
pub struct InjectionContext<'a> {
    pub settings: &'a SidecarSettings,
    /// Namespace of the operator, where the control channel is.
    pub operator_namespace: &'a str,
    /// Address of the Service of the control channel, for pods that cannot look up its name; nothing where it is not known.
    pub control_ip: Option<IpAddr>,
    /// Where a sidecar on the host's network serves its metrics, if nothing else on the node has that port.
    pub admin_port: u16,
    /// PEM of the authorities that the sidecar trusts for the control channel.
    pub authorities: &'a str,
    /// The pod's namespace: the pod itself may not state it at admission.
    pub namespace: &'a str,
    pub peer: Option<&'a PeerName>,
    /// The annotation with the initdata of the pod's guest, which its sidecar reads; none where no guest has any.
    pub initdata: Option<&'a str>,
    /// Whether the sidecar reaches the agent of its node.
    pub node_agent: bool,
    /// JSON list of the roots of the Peer's TrustPolicy; absent while there is none.
    pub roots: Option<String>,
    /// Secret with the Peer's private key, of a Peer that proves itself by one.
    pub key_secret: Option<&'a str>,
    /// Whether the sidecar gets what AF_XDP takes.
    pub af_xdp: bool,
    /// What the namespace demands of containers.
    pub bounds: &'a Bounds,
}
