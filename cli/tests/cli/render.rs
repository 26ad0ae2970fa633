//! Manifests of guests of their own, as an owner renders them without a cluster.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Output;

use sealane_sidecar::config::environment;
use sealane_types::{RootSource, Roots};
use serde::Deserialize as _;
use serde_json::{Value, json};

use crate::folder::Folder;

const IMAGE: &str = "registry.example/sealane-sidecar@sha256:2222222222222222222222222222222222222222222222222222222222222222";
const POLICY: &str = "package agent_policy\ndefault CreateContainerRequest := false\n";
const INITDATA: &str = "io.katacontainers.config.hypervisor.cc_init_data";
const PARAMETERS: &str = "io.katacontainers.config.hypervisor.kernel_params";

/// A folder with a Pod, and what it is rendered with.
struct Desk(Folder);

impl Desk {
    fn new() -> Self {
        let desk = Self(Folder::new());
        desk.write("roots.json", &json!([roots()]).to_string());
        desk.write("ca.crt", "-----BEGIN CERTIFICATE-----\n");
        desk.write("policy.rego", POLICY);
        desk.write("pod.yaml", &pod().to_string());
        desk
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path(name)
    }

    fn write(&self, name: &str, text: &str) {
        self.0.write(name, text);
    }

    fn run(&self, file: &str, more: &[&str]) -> Output {
        self.0.run(&words(file, more))
    }

    /// The objects that were rendered, and what was said.
    #[track_caller]
    fn rendered(&self, file: &str, more: &[&str]) -> (Vec<Value>, String) {
        let output = self.run(file, more);
        let said = String::from_utf8(output.stderr).unwrap();
        assert!(output.status.success(), "{said}");
        (documents(&String::from_utf8(output.stdout).unwrap()), said)
    }

    #[track_caller]
    fn refused(&self, file: &str, more: &[&str]) -> String {
        self.0.bad(1, &words(file, more))
    }
}

/// The words that render `file`.
fn words<'w>(file: &'w str, more: &[&'w str]) -> Vec<&'w str> {
    let fixed = ["render", "--roots", "roots.json", "--image", IMAGE, "--control-ca", "ca.crt", "-f", file];
    [&fixed[..], more].concat()
}

fn documents(text: &str) -> Vec<Value> {
    serde_norway::Deserializer::from_str(text).map(|document| Value::deserialize(document).unwrap()).collect()
}

fn roots() -> Value {
    json!({"namespace": "models", "policy": "models", "threshold": 1, "keys": ["11".repeat(32)], "minimumEpoch": 1})
}

fn pod() -> Value {
    json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": "embedder-0", "namespace": "models", "labels": {"app": "embedder"}},
        "spec": {"containers": [{"name": "embedder", "image": "registry.example/embedder"}]},
    })
}

/// What the kubelet gives to the sidecar of `pod`, where a field of it is asked for, and `initdata` by the downward API.
fn variable(pod: &Value, initdata: &Path, name: &str) -> Option<String> {
    if name == "SEALANE_INITDATA" {
        return Some(initdata.to_string_lossy().into_owned());
    }
    let variables = pod["spec"]["initContainers"][0]["env"].as_array().unwrap();
    let found = variables.iter().find(|variable| variable["name"] == name)?;
    let field = &found["valueFrom"]["fieldRef"]["fieldPath"];
    Some(match field.as_str() {
        Some("metadata.namespace") => "models".to_owned(),
        Some("status.podIPs") => "10.0.0.1".to_owned(),
        Some(_) => "embedder-0".to_owned(),
        None => found["value"].as_str().unwrap().to_owned(),
    })
}

#[test]
fn a_rendered_pod_begins_with_the_owners_roots_and_its_digest_is_said() {
    let desk = Desk::new();
    for (guest, class, member, digits) in
        [("snp", "kata-qemu-snp", "hostData", 64), ("tdx", "kata-qemu-tdx", "mrConfigId", 96)]
    {
        let out = desk.path(guest);
        let more = ["--guest", guest, "--agent-policy", "policy.rego", "--peer", "embedder", "--out"];
        let output = desk.run("pod.yaml", &[&more[..], &[out.to_str().unwrap()]].concat());
        let said = String::from_utf8(output.stderr).unwrap();
        assert!(output.status.success() && !said.contains("warning"), "{said}");
        let rendered = documents(&fs::read_to_string(out.join("manifest.yaml")).unwrap());
        let [rendered] = &rendered[..] else { panic!("{rendered:?}") };
        assert_eq!(rendered["spec"]["runtimeClassName"], class);
        assert_eq!(rendered["metadata"]["labels"]["sealane.dev/inject"], "false", "the webhook leaves it");
        assert_eq!(rendered["metadata"]["labels"]["app"], "embedder");
        assert_eq!(rendered["metadata"]["annotations"][PARAMETERS], "agent.guest_components_rest_api=all");
        let entry: Value = serde_json::from_slice(&fs::read(out.join("entry.json")).unwrap()).unwrap();
        let digest = entry[member][0].as_str().unwrap();
        assert_eq!(digest.len(), digits);
        assert!(said.contains(digest), "{said}");

        // What the sidecar makes of it.
        let annotation = desk.path("annotation");
        fs::write(&annotation, rendered["metadata"]["annotations"][INITDATA].as_str().unwrap()).unwrap();
        let config = environment::parse(&|name| variable(rendered, &annotation, name)).unwrap();
        let expected: Roots = serde_json::from_value(roots()).unwrap();
        assert_eq!((config.roots.source, config.roots.roots), (RootSource::Initdata, vec![expected]));
        let measured = config.platform.initdata.unwrap();
        assert_eq!(measured.measured(), fs::read(out.join("initdata.toml")).unwrap());
        if guest == "snp" {
            assert_eq!(sealane_policy::digest_of(measured.measured()).to_string(), digest);
        }
    }
}

#[test]
fn what_is_no_pod_stays_and_templates_are_rendered() {
    let desk = Desk::new();
    let template = json!({"metadata": {"labels": {"app": "ranker"}}, "spec": pod()["spec"]});
    let service = json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "ranker"}, "spec": {"clusterIP": "None"}});
    let deployment = json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "ranker"},
        "spec": {"selector": {"matchLabels": {"app": "ranker"}}, "template": template.clone()},
    });
    let cron = json!({
        "apiVersion": "batch/v1", "kind": "CronJob", "metadata": {"name": "nightly"},
        "spec": {"schedule": "0 3 * * *", "jobTemplate": {"spec": {"template": template}}},
    });
    desk.write("all.yaml", &format!("{service}\n---\n{deployment}\n---\n{cron}\n"));
    let (rendered, said) = desk.rendered("all.yaml", &["--guest", "snp"]);
    assert_eq!(rendered[0], service);
    for pod in [&rendered[1]["spec"]["template"], &rendered[2]["spec"]["jobTemplate"]["spec"]["template"]] {
        assert_eq!(pod["spec"]["initContainers"][0]["image"], IMAGE);
        assert_eq!(pod["spec"]["runtimeClassName"], "kata-qemu-snp");
    }
    assert!(said.contains("2 objects have pods"), "{said}");
    assert!(said.contains("without --agent-policy"), "{said}");
}

#[test]
fn rendering_again_exchanges_the_initdata_alone() {
    let desk = Desk::new();
    let (first, _) = desk.rendered("pod.yaml", &["--guest", "snp"]);
    desk.write("first.yaml", &first[0].to_string());
    let (second, said) = desk.rendered("first.yaml", &["--guest", "snp", "--agent-policy", "policy.rego"]);
    assert!(said.contains("has its sidecar already"), "{said}");
    let without = |pod: &Value| {
        let mut pod = pod.clone();
        pod["metadata"]["annotations"][INITDATA].take();
        pod
    };
    assert_ne!(first[0], second[0]);
    assert_eq!(without(&first[0]), without(&second[0]));
}

/// kubectl reads YAML 1.1, in which these are no texts.
#[test]
fn texts_stay_texts_for_every_reader() {
    let desk = Desk::new();
    let mut plain = pod();
    plain["spec"]["containers"][0]["args"] = json!(["on", "no", "1_000", "0400"]);
    plain["metadata"]["annotations"] = json!({"io.katacontainers.config.agent.policy": "cGFja2FnZQ=="});
    let list = json!({"apiVersion": "v1", "kind": "List", "items": [plain]});
    desk.write("list.yaml", &list.to_string());
    let output = desk.run("list.yaml", &["--guest", "snp"]);
    let text = String::from_utf8(output.stdout).unwrap();
    for quoted in ["- \"on\"", "- \"no\"", "- \"1_000\"", "- \"0400\""] {
        assert!(text.contains(quoted), "{quoted}: {text}");
    }
    let rendered = documents(&text);
    assert_eq!(rendered[0]["kind"], "Pod");
    assert_eq!(rendered[0]["metadata"]["annotations"]["io.katacontainers.config.agent.policy"], Value::Null);
    assert!(String::from_utf8(output.stderr).unwrap().contains("is taken out"));
}

#[test]
fn what_render_does_not_change_is_not_passed_over_in_silence() {
    let desk = Desk::new();
    let (first, _) = desk.rendered("pod.yaml", &["--guest", "snp"]);
    let mut other = first[0].clone();
    other["spec"]["initContainers"][0]["image"] = json!("registry.example/older@sha256:00");
    desk.write("older.yaml", &other.to_string());
    assert!(desk.refused("older.yaml", &["--guest", "snp"]).contains("another image"));
    let strange = json!({"apiVersion": "x/v1", "kind": "Fleet", "metadata": {"name": "f"}, "spec": {"pod": pod()["spec"]}});
    desk.write("strange.yaml", &format!("{}\n---\n{strange}\n", pod()));
    let (rendered, said) = desk.rendered("strange.yaml", &["--guest", "snp"]);
    assert_eq!(rendered[1], strange);
    assert!(said.contains("Fleet f has containers"), "{said}");
    desk.write("huge.rego", &"# \u{1f980}\n".repeat(300_000));
    assert!(
        desk.refused("pod.yaml", &["--guest", "snp", "--agent-policy", "huge.rego"])
            .contains("at most 1048576")
    );
}

#[test]
fn what_makes_no_guest_is_refused_and_what_weakens_it_is_said() {
    let desk = Desk::new();
    let mut host = pod();
    host["spec"]["hostNetwork"] = json!(true);
    desk.write("host.yaml", &host.to_string());
    assert!(desk.refused("host.yaml", &["--guest", "snp"]).contains("host's network"));
    desk.write("none.yaml", "apiVersion: v1\nkind: ConfigMap\n");
    assert!(desk.refused("none.yaml", &["--guest", "snp"]).contains("has no Pod"));
    desk.write("roots.json", "[]");
    assert!(desk.refused("pod.yaml", &["--guest", "snp"]).contains("roots"));
    desk.write("roots.json", &json!([roots()]).to_string());
    desk.write("open.rego", "package agent_policy\ndefault ExecProcessRequest := true\n");
    let mut own = pod();
    own["spec"]["runtimeClassName"] = json!("kata-qemu");
    own["metadata"]["annotations"] = json!({PARAMETERS: "quiet agent.guest_components_rest_api=resource"});
    desk.write("own.yaml", &own.to_string());
    let (rendered, said) = desk.rendered("own.yaml", &["--guest", "snp", "--agent-policy", "open.rego"]);
    assert_eq!(rendered[0]["spec"]["runtimeClassName"], "kata-qemu", "what its author wrote stays");
    for part in
        ["ExecProcessRequest", "RuntimeClass is kata-qemu", "agent.guest_components_rest_api=resource"]
    {
        assert!(said.contains(part), "{part}: {said}");
    }
}
