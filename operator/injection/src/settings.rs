//! What every sidecar of an installation gets.

use k8s_openapi::api::core::v1::{EnvVar, ResourceRequirements};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use sealane_operator_api::well_known::{DATA_PORT, SIDECAR_ADMIN_PORT};

use crate::simulation::Simulation;

/// What a sidecar asks for unless an installation says otherwise.
pub const RESOURCES: &str = r#"{"requests":{"cpu":"50m","memory":"64Mi"},"limits":{"memory":"1Gi"}}"#;
/// The CPU limit of a sidecar that has to have one, unless an installation says otherwise.
pub const REQUIRED_CPU_LIMIT: &str = "500m";
/// Bytes of tensors that may wait in one pod, unless an installation says otherwise.
pub const ARENA_BYTES: u64 = 512 << 20;

/// How sidecars are injected.
#[derive(Debug, Clone)]
pub struct SidecarSettings {
    pub image: String,
    pub pull_policy: String,
    pub pull_secrets: Vec<String>,
    pub resources: ResourceRequirements,
    /// The limit where a pod or its namespace asks for one, and the least at which lanes are not slow.
    pub required_cpu_limit: Quantity,
    pub arena_bytes: u64,
    pub data_port: u16,
    pub admin_port: u16,
    /// What the chart adds to the environment.
    pub environment: Vec<EnvVar>,
    pub log: String,
    /// Environment for traces; empty without a collector.
    pub traces: Vec<(&'static str, String)>,
    /// Environment for services of collateral; empty if none is asked.
    pub collateral: Vec<(&'static str, String)>,
    /// The simulated platforms that injected sidecars get in their environment; none in earnest.
    pub simulation: Option<Simulation>,
    /// Whether a node agent runs on every node.
    pub node_agent: bool,
}

impl SidecarSettings {
    /// Those of an installation whose chart was given no values but the image.
    #[must_use]
    pub fn new(image: String) -> Self {
        Self {
            image,
            pull_policy: "IfNotPresent".to_owned(),
            pull_secrets: Vec::new(),
            resources: serde_json::from_str(RESOURCES).unwrap_or_default(),
            required_cpu_limit: Quantity(REQUIRED_CPU_LIMIT.to_owned()),
            arena_bytes: ARENA_BYTES,
            data_port: DATA_PORT,
            admin_port: SIDECAR_ADMIN_PORT,
            environment: Vec::new(),
            log: "info".to_owned(),
            traces: Vec::new(),
            collateral: Vec::new(),
            simulation: None,
            node_agent: false,
        }
    }
}
