//! Objects as tools of GitOps apply them: Argo CD's and Flux's field managers and flags, with kubectl. The tools themselves
//! are not run here.

use anyhow::{Context, Result};
use sealane_e2e::Cluster;
use serde_json::json;

/// Every structure that users write as `{}` although the API server fills it in.
fn empty_structures(namespace: &str) -> String {
    let object = |kind: &str, spec: serde_json::Value| {
        json!({"apiVersion": "sealane.dev/v1alpha1", "kind": kind,
               "metadata": {"name": "empty", "namespace": namespace}, "spec": spec})
    };
    let selector = json!({"matchLabels": {"app": "nobody"}});
    let between = json!({"from": {"peer": "a"}, "to": [{"peer": "b"}], "rekey": {}, "stream": {}});
    let items = [
        object("Peer", json!({"selector": selector, "trustPolicyRef": {"name": "p"}, "attestation": {}})),
        object("TransferSession", between),
        object(
            "Benchmark",
            json!({"suspend": true, "regression": {}, "nodePools": {}, "recommendation": {}}),
        ),
    ];
    json!({"apiVersion": "v1", "kind": "List", "items": items}).to_string()
}

/// The manager of whoever applied it first, of whoever does from then on, and that one's flags.
const MOVES: [(&str, &str, &[&str]); 3] = [
    // Argo CD, and what it does with the option ServerSideApply.
    ("argocd-controller", "argocd-controller", &["--force-conflicts"]),
    // Flux adopts what somebody applied by hand.
    ("kubectl-client-side-apply", "kustomize-controller", &["--force-conflicts"]),
    // By hand, which forces nothing.
    ("kubectl-client-side-apply", "kubectl", &[]),
];

#[tokio::test]
async fn admit_the_move_from_client_side_to_server_side_apply() -> Result<()> {
    let cluster = Cluster::connect()?;
    for (number, (first, then, flags)) in MOVES.into_iter().enumerate() {
        let sandbox = cluster.sandbox(&format!("gitops-{number}")).await?;
        let folder = tempfile::tempdir()?;
        let file = folder.path().join("objects.json");
        std::fs::write(&file, empty_structures(&sandbox.name))?;
        let file = file.to_string_lossy().into_owned();
        let (first, then) = (format!("--field-manager={first}"), format!("--field-manager={then}"));
        cluster.kubectl(&["apply", &first, "-f", &file]).await?;
        let apply = [&["apply", "--server-side", &then, "-f", &file], flags].concat();
        for time in ["first", "second", "third"] {
            cluster.kubectl(&apply).await.with_context(|| format!("the {time} time with {then}"))?;
        }
        // Nothing differs any more, by kubectl's own measure and by a dry run, which is how Argo CD and Flux look.
        let diff = [&["diff", "--server-side", &then, "-f", &file], flags].concat();
        cluster.kubectl(&diff).await.context("a difference")?;
        let dry = [&apply[..], &["--dry-run=server"]].concat();
        cluster.kubectl(&dry).await?;
        cluster.kubectl(&["delete", "--wait", "-f", &file]).await.context("pruning")?;
        sandbox.remove().await?;
    }
    Ok(())
}
