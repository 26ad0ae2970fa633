//! What a real API server admits and refuses: the CEL rules and bounds of the schemas, and the validating webhook
//! behind them. Nothing here needs a pod.

use anyhow::{Context, Result, ensure};
use k8s_openapi::api::core::v1::Namespace;
use kube::api::{DeleteParams, DynamicObject, Patch, PatchParams, PostParams, ValidationDirective};
use kube::core::GroupVersionKind;
use kube::discovery::ApiResource;
use kube::{Api, Client};
use sealane_e2e::until;
use serde_json::{Value, json};

/// A namespace of its own, outside the webhook's reach only where a test says so.
struct Admission {
    client: Client,
    namespace: String,
}

impl Admission {
    async fn begin(test: &str) -> Result<Self> {
        let client = Client::try_default().await.context("KUBECONFIG does not lead to a cluster")?;
        let namespace = format!("admit-{test}");
        let described = serde_json::from_value(json!({"metadata": {"name": namespace}}))?;
        let namespaces: Api<Namespace> = Api::all(client.clone());
        // What an interrupted run left is good enough: every object has a name of its own.
        match namespaces.create(&PostParams::default(), &described).await {
            Ok(_) => {}
            Err(kube::Error::Api(status)) if status.code == 409 => {}
            Err(error) => return Err(error.into()),
        }
        Ok(Self { client, namespace })
    }

    async fn end(self) -> Result<()> {
        let namespaces: Api<Namespace> = Api::all(self.client);
        namespaces.delete(&self.namespace, &DeleteParams::background()).await?;
        Ok(())
    }

    fn api(&self, kind: &str) -> Api<DynamicObject> {
        let kind = GroupVersionKind::gvk("sealane.dev", "v1alpha1", kind);
        Api::namespaced_with(self.client.clone(), &self.namespace, &ApiResource::from_gvk(&kind))
    }

    /// The object as the API server would store it, or its words of refusal. Nothing is stored.
    async fn ask(&self, kind: &str, spec: Value) -> Result<Value, String> {
        self.create(kind, "asked", spec, true).await
    }

    async fn create(&self, kind: &str, name: &str, spec: Value, dry_run: bool) -> Result<Value, String> {
        let object = json!({
            "apiVersion": "sealane.dev/v1alpha1", "kind": kind, "metadata": {"name": name}, "spec": spec,
        });
        let object = serde_json::from_value(object).map_err(|error| error.to_string())?;
        let parameters = PostParams { dry_run, ..Default::default() };
        let api = self.api(kind);
        // The operator may still be writing its authority into the webhook configuration.
        until("the validating webhook answers", || async {
            match api.create(&parameters, &object).await {
                Ok(stored) => Ok(Ok(stored.data["spec"].clone())),
                Err(error) if error.to_string().contains("failed calling webhook") => Err(error.to_string()),
                Err(error) => Ok(Err(error.to_string())),
            }
        })
        .await
        .map_err(|error| error.to_string())?
    }

    /// What the API server says to a change of a stored object.
    async fn change(&self, kind: &str, name: &str, spec: Value) -> Result<(), String> {
        let patch = Patch::Merge(json!({"spec": spec}));
        let changed = self.api(kind).patch(name, &PatchParams::default(), &patch).await;
        changed.map(|_| ()).map_err(|error| error.to_string())
    }

    /// What kubectl's strict validation says to an object of which a field is misspelt.
    async fn misspelt(&self, kind: &str, spec: Value) -> Result<(), String> {
        let object = json!({
            "apiVersion": "sealane.dev/v1alpha1", "kind": kind, "metadata": {"name": "asked"}, "spec": spec,
        });
        let parameters = PatchParams {
            dry_run: true,
            field_manager: Some("admit".to_owned()),
            field_validation: Some(ValidationDirective::Strict),
            ..Default::default()
        };
        let applied = self.api(kind).patch("asked", &parameters, &Patch::Apply(object)).await;
        applied.map(|_| ()).map_err(|error| error.to_string())
    }

    /// Every case is refused with words that contain its second part.
    async fn refuses(&self, kind: &str, cases: &[(Value, &str)]) -> Result<()> {
        for (spec, expected) in cases {
            match self.ask(kind, spec.clone()).await {
                Ok(_) => anyhow::bail!("{kind} {spec} was admitted"),
                Err(words) => {
                    ensure!(words.contains(expected), "{kind} {spec}: `{expected}` is not in: {words}")
                }
            }
        }
        Ok(())
    }
}

fn admitted<T>(answer: Result<T, String>) -> Result<T> {
    answer.map_err(anyhow::Error::msg)
}

fn with(base: &Value, changes: Value) -> Value {
    let mut changed = base.clone();
    if let (Some(changed), Value::Object(changes)) = (changed.as_object_mut(), changes) {
        for (key, value) in changes {
            if value.is_null() {
                changed.remove(&key)
            } else {
                changed.insert(key, value)
            };
        }
    }
    changed
}

#[tokio::test]
async fn admit_peers() -> Result<()> {
    let cluster = Admission::begin("peers").await?;
    let peer = json!({"selector": {"matchLabels": {"app": "embedder"}}, "trustPolicyRef": {"name": "demo"}});
    let stored = admitted(cluster.ask("Peer", peer.clone()).await)?;
    ensure!(
        stored["attestation"] == json!({"provider": "Auto", "reattestAfter": "10m"}),
        "defaults: {stored}"
    );
    let expression = |operator: &str, values: Value| {
        let expression = with(&json!({"key": "app", "operator": operator}), json!({"values": values}));
        with(&peer, json!({"selector": {"matchExpressions": [expression]}}))
    };
    admitted(cluster.ask("Peer", expression("In", json!(["a"]))).await)?;
    admitted(cluster.ask("Peer", expression("Exists", Value::Null)).await)?;
    let outside = |change: Value| {
        let external = json!({"addresses": ["203.0.113.7:14710"], "publicKey": "0a".repeat(32)});
        with(&peer, json!({"selector": null, "external": with(&external, change)}))
    };
    admitted(cluster.ask("Peer", outside(json!({}))).await)?;
    admitted(
        cluster.ask("Peer", outside(json!({"addresses": ["[2001:db8::7]:1", "10.0.0.1:65535"]}))).await,
    )?;
    let keyed = json!({"attestation": {"provider": "Key", "keySecretRef": {"name": "embedder-key"}}});
    admitted(cluster.ask("Peer", with(&peer, keyed)).await)?;
    let many: serde_json::Map<_, _> = (0..17).map(|label| (format!("l{label}"), json!("x"))).collect();
    cluster
        .refuses(
            "Peer",
            &[
                (with(&peer, json!({"selector": {}})), "an empty selector would select every pod"),
                (
                    with(&peer, json!({"selector": {"matchLabels": {}}})),
                    "an empty selector would select every pod",
                ),
                (
                    with(&peer, json!({"selector": null})),
                    "a Peer is either pods or something outside of the cluster",
                ),
                (with(&peer, json!({"selector": {"matchLabels": many}})), "must have at most 16"),
                (expression("In", Value::Null), "values belong to In and NotIn"),
                (expression("Exists", json!(["a"])), "values belong to In and NotIn"),
                (expression("Like", json!(["a"])), "Unsupported value: \"Like\""),
                (
                    with(&peer, json!({"selector": {"matchLabels": {"app": "a b"}}})),
                    "`a b` is no label value",
                ),
                (with(&peer, json!({"selector": {"matchLabels": {"a b": "x"}}})), "`a b` is no label key"),
                (with(&peer, json!({"selector": "app=embedder"})), "spec.selector"),
                (with(&peer, json!({"trustPolicyRef": null})), "spec.trustPolicyRef: Required value"),
                (with(&peer, json!({"trustPolicyRef": "demo"})), "spec.trustPolicyRef"),
                (with(&peer, json!({"trustPolicyRef": {"name": ""}})), "for example embedder"),
                (with(&peer, json!({"trustPolicyRef": {"name": "Demo"}})), "spec.trustPolicyRef.name"),
                (with(&peer, json!({"trustPolicyRef": {"name": "Demo"}})), "for example embedder"),
                (
                    with(&peer, json!({"trustPolicyRef": {"name": "a".repeat(254)}})),
                    "spec.trustPolicyRef.name",
                ),
                (with(&peer, json!({"attestation": {"provider": "Tdx"}})), "Unsupported value: \"Tdx\""),
                (with(&peer, json!({"attestation": {"provider": 1}})), "spec.attestation.provider"),
                (
                    with(&peer, json!({"attestation": {"provider": "Key"}})),
                    "attestation: {provider: Key, keySecretRef: {name: embedder-key}}",
                ),
                (
                    with(&peer, json!({"attestation": {"keySecretRef": {"name": "k"}}})),
                    "no other provider uses one",
                ),
                (
                    with(
                        &peer,
                        json!({"external": {"addresses": ["203.0.113.7:1"], "publicKey": "0a".repeat(32)}}),
                    ),
                    "a Peer is either pods or something outside of the cluster",
                ),
                (outside(json!({"addresses": []})), "should have at least 1 items"),
                (outside(json!({"addresses": ["laptop:14710"]})), "for example 203.0.113.7:14710"),
                (outside(json!({"addresses": ["127.0.0.1:14710"]})), "spec.external.addresses[0]"),
                (outside(json!({"publicKey": "0A".repeat(32)})), "32 bytes in lower-case hex"),
                (
                    with(&outside(json!({})), json!({"attestation": {"provider": "Nsm"}})),
                    "leave provider and keySecretRef out",
                ),
                (
                    with(&peer, json!({"attestation": {"reattestAfter": "9s"}})),
                    "between 10s and 24h, for example 10m",
                ),
                (with(&peer, json!({"attestation": {"reattestAfter": "25h"}})), "between 10s and 24h"),
                (with(&peer, json!({"attestation": {"reattestAfter": "soon"}})), "between 10s and 24h"),
            ],
        )
        .await?;
    let misspelt = cluster.misspelt("Peer", with(&peer, json!({"atestation": {}}))).await;
    ensure!(misspelt.clone().is_err_and(|words| words.contains("spec.atestation")), "{misspelt:?}");
    cluster.end().await
}

#[tokio::test]
async fn admit_transfer_sessions() -> Result<()> {
    let cluster = Admission::begin("sessions").await?;
    let session = json!({"from": {"peer": "embedder"}, "to": [{"peer": "ranker"}], "stream": {}});
    let stored = admitted(cluster.ask("TransferSession", session.clone()).await)?;
    ensure!(stored["stream"] == json!({"delivery": "RoundRobin", "fanout": 16}), "defaults: {stored}");
    ensure!(
        stored["rekey"] == json!({"bytes": "64Gi", "messages": 1_000_000_000, "interval": "10m"}),
        "defaults: {stored}"
    );
    ensure!(stored["carrier"] == "Auto" && stored["cipher"] == "Auto" && stored["suspend"] == false);
    ensure!(stored["congestion"] == "Cubic", "defaults: {stored}");
    let rekey = |rekey: Value| with(&session, json!({"rekey": rekey}));
    for good in [
        json!({"bytes": "64Gi"}),
        json!({"bytes": 1_048_576}),
        json!({"bytes": "1.5Gi"}),
        json!({"interval": "10s"}),
        json!({"interval": "59m59s"}),
    ] {
        admitted(cluster.ask("TransferSession", rekey(good)).await)?;
    }
    for carrier in ["Auto", "Tcp", "Udp", "AfXdp"] {
        admitted(cluster.ask("TransferSession", with(&session, json!({"carrier": carrier}))).await)?;
    }
    let crowd: Vec<_> = (0..17).map(|peer| json!({"peer": format!("p{peer}")})).collect();
    let bytes = "must be a quantity between 1Mi and 64Gi, for example 16Gi";
    let interval = "must be a duration between 10s and 1h, for example 10m";
    cluster
        .refuses(
            "TransferSession",
            &[
                (with(&session, json!({"stream": null})), "exactly one kind: set either stream"),
                (with(&session, json!({"to": []})), "spec.to"),
                (with(&session, json!({"to": crowd})), "must have at most 16 items"),
                (with(&session, json!({"to": [{"peer": "a"}, {"peer": "a"}]})), "Duplicate value"),
                (with(&session, json!({"to": [{"peer": "embedder"}]})), "a Peer cannot send to itself"),
                (with(&session, json!({"from": {"peer": "Embedder"}})), "spec.from.peer"),
                (with(&session, json!({"stream": {"fanout": 0}})), "greater than or equal to 1"),
                (with(&session, json!({"stream": {"delivery": "Random"}})), "Unsupported value: \"Random\""),
                (with(&session, json!({"carrier": "WebSocket"})), "Unsupported value: \"WebSocket\""),
                (with(&session, json!({"cipher": "None"})), "Unsupported value: \"None\""),
                (with(&session, json!({"congestion": "Reno"})), "Unsupported value: \"Reno\""),
                (rekey(json!({"bytes": "65Gi"})), bytes),
                (rekey(json!({"bytes": "1023Ki"})), bytes),
                (rekey(json!({"bytes": 1_048_575})), bytes),
                (rekey(json!({"bytes": "lots"})), bytes),
                (rekey(json!({"interval": "9s"})), interval),
                (rekey(json!({"interval": "61m"})), interval),
                (rekey(json!({"interval": "soon"})), interval),
                (rekey(json!({"interval": "1d"})), interval),
                (rekey(json!({"interval": ""})), interval),
                (rekey(json!({"interval": 600})), "spec.rekey.interval"),
                (rekey(json!({"messages": "many"})), "spec.rekey.messages"),
                (with(&session, json!({"suspend": "yes"})), "spec.suspend"),
                (with(&session, json!({"to": "ranker"})), "spec.to"),
                (with(&session, json!({"to": [{"peer": "Ranker"}]})), "for example embedder"),
                (with(&session, json!({"from": null})), "spec.from: Required value"),
                (with(&session, json!({"stream": {"fanout": 257}})), "less than or equal to 256"),
                (rekey(json!({"messages": 999})), "greater than or equal to 1000"),
            ],
        )
        .await?;

    let misspelt = cluster.misspelt("TransferSession", with(&session, json!({"steam": {}}))).await;
    ensure!(misspelt.clone().is_err_and(|words| words.contains("spec.steam")), "{misspelt:?}");

    admitted(cluster.create("TransferSession", "stored", session, false).await)?;
    let refused = cluster.change("TransferSession", "stored", json!({"from": {"peer": "other"}})).await;
    ensure!(refused.clone().is_err_and(|words| words.contains("from is immutable")), "{refused:?}");
    let forward = json!({"stream": null, "forward": {"listen": 18001, "target": 8001}});
    let refused = cluster.change("TransferSession", "stored", forward).await;
    ensure!(
        refused.clone().is_err_and(|words| words.contains("kind of a session is immutable")),
        "{refused:?}"
    );
    admitted(
        cluster
            .change("TransferSession", "stored", json!({"suspend": true, "to": [{"peer": "third"}]}))
            .await,
    )?;
    cluster.end().await
}

#[tokio::test]
async fn admit_forwards() -> Result<()> {
    let cluster = Admission::begin("forwards").await?;
    let forward = json!({"from": {"peer": "client"}, "to": [{"peer": "triton"}],
                         "forward": {"listen": 18001, "target": 8001}});
    let stored = admitted(cluster.ask("TransferSession", forward.clone()).await)?;
    ensure!(stored["forward"]["perReplica"] == false, "defaults: {stored}");
    let ports = |ports: Value| with(&forward, json!({"forward": ports}));
    let reserved = "belong to Sealane or to the guest's own agents: choose another, for example 18001";
    cluster
        .refuses(
            "TransferSession",
            &[
                (with(&forward, json!({"stream": {}})), "exactly one kind: set either stream"),
                (
                    with(&forward, json!({"to": [{"peer": "a"}, {"peer": "b"}]})),
                    "a forward leads to exactly one Peer",
                ),
                (ports(json!({"listen": 18001})), "spec.forward.target: Required value"),
                (ports(json!({"target": 8001})), "spec.forward.listen: Required value"),
                (ports(json!({"listen": 14710, "target": 8001})), reserved),
                (ports(json!({"listen": 18001, "target": 8006})), reserved),
                (ports(json!({"listen": 18001, "target": 50001})), "spec.forward.target"),
                (ports(json!({"listen": 0, "target": 8001})), "spec.forward.listen"),
                (ports(json!({"listen": 65536, "target": 8001})), "less than or equal to 65535"),
                (ports(json!({"listen": "http", "target": 8001})), "spec.forward.listen"),
            ],
        )
        .await?;

    admitted(cluster.create("TransferSession", "first", forward.clone(), false).await)?;
    let taken = cluster.create("TransferSession", "second", forward.clone(), true).await;
    let named =
        |words: &String| words.contains("TransferSession `first`") && words.contains("for example 18002");
    ensure!(taken.as_ref().is_err_and(named), "{taken:?}");
    let free = ports(json!({"listen": 18002, "target": 8001}));
    admitted(cluster.create("TransferSession", "second", free, true).await)?;
    let other = with(&forward, json!({"from": {"peer": "another"}}));
    admitted(cluster.create("TransferSession", "second", other, true).await)?;
    // Whoever changes something else is not bothered.
    admitted(cluster.change("TransferSession", "first", json!({"suspend": true})).await)?;
    cluster.end().await
}

#[tokio::test]
async fn admit_trust_policies() -> Result<()> {
    let cluster = Admission::begin("policies").await?;
    let key = |digits: &str| digits.repeat(32);
    let policy = json!({
        "roots": {"threshold": 1, "keys": [key("ab"), key("cd")]},
        "document": "e30=",
        "signatures": [{"keyId": key("ab"), "signature": format!("{}==", "A".repeat(86))}],
    });
    let roots = |roots: Value| with(&policy, json!({"roots": with(&policy["roots"], roots)}));
    cluster
        .refuses(
            "TrustPolicy",
            &[
                (roots(json!({"threshold": 3})), "threshold exceeds the number of keys"),
                (roots(json!({"threshold": 0})), "greater than or equal to 1"),
                (roots(json!({"keys": []})), "spec.roots.keys"),
                (roots(json!({"keys": [key("ab"), key("ab")]})), "Duplicate value"),
                (roots(json!({"keys": [key("AB")]})), "spec.roots.keys[0]"),
                (roots(json!({"keys": [key("AB")]})), "must be 32 bytes in lower-case hex"),
                (roots(json!({"keys": ["ab"]})), "as kubectl sealane policy keygen prints them"),
                (roots(json!({"keys": key("ab")})), "spec.roots.keys"),
                (roots(json!({"threshold": "two"})), "spec.roots.threshold"),
                (with(&policy, json!({"roots": null})), "spec.roots: Required value"),
                (with(&policy, json!({"document": null})), "spec.document: Required value"),
                (with(&policy, json!({"document": ""})), "spec.document"),
                (with(&policy, json!({"document": "%%%%"})), "spec.document: not standard base64"),
                (roots(json!({"minimumEpoch": 0})), "greater than or equal to 1"),
                (with(&policy, json!({"document": "%"})), "spec.document"),
                (with(&policy, json!({"document": "A".repeat((1 << 20) + 4)})), "spec.document"),
                (with(&policy, json!({"signatures": []})), "spec.signatures"),
                (
                    with(&policy, json!({"signatures": [{"keyId": key("ab"), "signature": "short"}]})),
                    "must be 64 bytes in standard base64",
                ),
                (
                    with(&policy, json!({"signatures": [{"keyId": "alice", "signature": format!("{}==", "A".repeat(86))}]})),
                    "spec.signatures[0].keyId",
                ),
                // Well-formed for the schema; the webhook reads the document and names the fault in it.
                (policy.clone(), "spec.document: "),
            ],
        )
        .await?;
    cluster.end().await
}
