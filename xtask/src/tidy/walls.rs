//! Which crate may use which: the table of ARCHITECTURE.md, checked against `cargo metadata`.

use std::{collections::BTreeSet, path::Path, process::Command};

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use super::Finding;

/// One crate's wall. Dev-dependencies may cross it: tests look at a crate from all sides.
struct Wall {
    name: &'static str,
    /// Crates of this workspace that it may depend on.
    ours: &'static [&'static str],
    /// Crates from outside that it must not depend on directly.
    never: &'static [&'static str],
}

const SHELL: &[&str] = &["tokio", "hyper", "axum", "tonic", "rustix", "kube", "k8s-openapi"];

const WALLS: &[Wall] = &[
    Wall {
        name: "sealane-types",
        ours: &[],
        never: &["tokio", "kube", "k8s-openapi", "aws-lc-rs", "snow", "rustls"],
    },
    Wall { name: "sealane-aead", ours: &[], never: SHELL },
    Wall { name: "sealane-policy", ours: &["sealane-types"], never: SHELL },
    Wall { name: "sealane-attestation", ours: &["sealane-types", "sealane-policy"], never: SHELL },
    Wall { name: "sealane-simulated", ours: &["sealane-types"], never: SHELL },
    Wall {
        name: "sealane-protocol",
        ours: &["sealane-aead", "sealane-attestation", "sealane-policy", "sealane-types"],
        never: SHELL,
    },
    Wall { name: "sealane-sidecar-api", ours: &[], never: &["kube", "k8s-openapi"] },
    Wall {
        name: "sealane-collateral",
        ours: &["sealane-attestation", "sealane-types"],
        never: &["kube", "k8s-openapi", "snow"],
    },
    Wall { name: "sealane-http", ours: &[], never: &["kube", "k8s-openapi", "snow"] },
    Wall { name: "sealane-arena", ours: &["sealane-aead"], never: &["tokio", "kube", "k8s-openapi", "snow"] },
    Wall { name: "sealane-xdp", ours: &[], never: SHELL },
    Wall {
        name: "sealane-sidecar",
        ours: &[
            "sealane-arena",
            "sealane-attestation",
            "sealane-collateral",
            "sealane-http",
            "sealane-policy",
            "sealane-protocol",
            "sealane-sidecar-api",
            "sealane-types",
            "sealane-xdp",
        ],
        never: &["kube", "k8s-openapi", "snow"],
    },
    Wall {
        name: "sealane-sidecar-sim",
        ours: &["sealane-attestation", "sealane-sidecar", "sealane-simulated", "sealane-types"],
        never: &["kube", "k8s-openapi", "snow"],
    },
    Wall { name: "sealane-operator-api", ours: &["sealane-types"], never: &["tokio"] },
    Wall {
        name: "sealane-injection",
        ours: &["sealane-operator-api", "sealane-types"],
        never: &["kube", "tokio", "snow"],
    },
    Wall {
        name: "sealane-operator",
        ours: &[
            "sealane-http",
            "sealane-injection",
            "sealane-operator-api",
            "sealane-policy",
            "sealane-results",
            "sealane-sidecar-api",
            "sealane-types",
        ],
        never: &["snow"],
    },
    Wall {
        name: "kubectl-sealane",
        ours: &[
            "sealane-attestation",
            "sealane-collateral",
            "sealane-injection",
            "sealane-operator-api",
            "sealane-policy",
            "sealane-protocol",
            "sealane-results",
            "sealane-sidecar-api",
            "sealane-types",
        ],
        never: &["snow"],
    },
    Wall { name: "sealane-results", ours: &[], never: SHELL },
    Wall {
        name: "sealane-bench",
        ours: &[
            "sealane-results",
            "sealane-attestation",
            "sealane-policy",
            "sealane-protocol",
            "sealane-sidecar",
            "sealane-simulated",
            "sealane-types",
            "sealane-xdp",
        ],
        never: &["kube", "k8s-openapi", "snow"],
    },
    Wall { name: "sealane-fixtures", ours: &["sealane-simulated", "sealane-types"], never: SHELL },
    Wall {
        name: "sealane-support",
        ours: &[
            "sealane-attestation",
            "sealane-fixtures",
            "sealane-policy",
            "sealane-protocol",
            "sealane-simulated",
            "sealane-types",
        ],
        never: SHELL,
    },
    Wall {
        name: "sealane-sim",
        ours: &["sealane-policy", "sealane-protocol", "sealane-support", "sealane-types"],
        never: SHELL,
    },
    Wall {
        name: "sealane-fuzz",
        ours: &[
            "sealane-attestation",
            "sealane-fixtures",
            "sealane-operator",
            "sealane-policy",
            "sealane-protocol",
            "sealane-sidecar",
            "sealane-sidecar-api",
            "sealane-simulated",
            "sealane-support",
            "sealane-types",
        ],
        never: SHELL,
    },
];

pub(crate) fn check(root: &Path) -> Result<Vec<Finding>> {
    let output = Command::new(env!("CARGO"))
        .args(["metadata", "--format-version=1", "--no-deps", "--locked"])
        .current_dir(root)
        .output()
        .context("running cargo metadata")?;
    ensure!(output.status.success(), "cargo metadata: {}", String::from_utf8_lossy(&output.stderr));
    let metadata: Value = serde_json::from_slice(&output.stdout).context("reading cargo metadata")?;
    Ok(breaches(&metadata))
}

/// Compares the workspace's direct dependencies with [`WALLS`].
fn breaches(metadata: &Value) -> Vec<Finding> {
    let packages: Vec<&Value> = metadata["packages"].as_array().into_iter().flatten().collect();
    let ours: BTreeSet<&str> = packages.iter().filter_map(|package| package["name"].as_str()).collect();
    let mut findings = Vec::new();
    for package in packages {
        let Some(name) = package["name"].as_str() else { continue };
        let Some(wall) = WALLS.iter().find(|wall| wall.name == name) else { continue };
        for dependency in package["dependencies"].as_array().into_iter().flatten() {
            if dependency["kind"] == "dev" {
                continue;
            }
            let Some(used) = dependency["name"].as_str() else { continue };
            let inside = ours.contains(used) && !wall.ours.contains(&used);
            if inside || wall.never.contains(&used) {
                findings.push(Finding {
                    place: name.to_owned(),
                    message: format!(
                        "must not depend on {used}; see the table of walls in ARCHITECTURE.md and move the code to the room it belongs to"
                    ),
                });
            }
        }
    }
    findings
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn package(name: &str, uses: &[(&str, Value)]) -> Value {
        let dependencies: Vec<Value> =
            uses.iter().map(|(name, kind)| json!({"name": name, "kind": kind})).collect();
        json!({"name": name, "dependencies": dependencies})
    }

    #[test]
    fn a_wall_stops_our_crates_and_named_strangers() {
        let metadata = json!({"packages": [
            package("sealane-types", &[]),
            package("sealane-protocol", &[
                ("sealane-types", Value::Null),
                ("tokio", Value::Null),
                ("sealane-sidecar", Value::Null),
                ("sealane-simulated", json!("dev")),
            ]),
            package("sealane-sidecar", &[]),
            package("sealane-simulated", &[]),
        ]});
        let messages: Vec<String> = breaches(&metadata).into_iter().map(|finding| finding.message).collect();
        assert_eq!(messages.len(), 2, "{messages:?}");
        assert!(messages[0].contains("tokio") && messages[1].contains("sealane-sidecar"), "{messages:?}");
    }
}
