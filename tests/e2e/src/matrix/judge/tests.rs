use serde_json::json;

use super::*;
use crate::matrix::{ROWS, Scene, pod_of};

fn row(name: &str) -> &'static Row {
    ROWS.iter().find(|row| row.name == name).unwrap()
}

/// A row's pod as it is asked for, and as a webhook that does right admits it.
fn admitted(name: &str) -> (Value, Value) {
    let asked = pod_of(&row(name).object(&Scene::asked("image")));
    let mut pod = asked.clone();
    pod["metadata"]["labels"]["sealane.dev/injected"] = "true".into();
    for list in LISTS {
        for container in pod["spec"][list].as_array_mut().into_iter().flatten() {
            let mounts = container["volumeMounts"].as_array_mut().unwrap();
            mounts.push(json!({"name": "sealane-door", "mountPath": DOOR}));
            let env = container["env"].as_array_mut().unwrap();
            env.push(json!({"name": "SEALANE_DOOR", "value": "/run/sealane/door.sock"}));
        }
    }
    let resources =
        json!({"requests": {"cpu": "500m", "memory": "512Mi"}, "limits": {"cpu": "500m", "memory": "512Mi"}});
    let sidecar = json!({
        "name": SIDECAR, "restartPolicy": "Always", "resources": resources,
        "securityContext": {
            "runAsNonRoot": true, "readOnlyRootFilesystem": true, "allowPrivilegeEscalation": false,
            "capabilities": {"drop": ["ALL"]}, "seccompProfile": {"type": "RuntimeDefault"},
        },
        "ports": [{"name": "sealane-data", "containerPort": 14710}],
    });
    if pod["spec"]["initContainers"].is_null() {
        pod["spec"]["initContainers"] = json!([]);
    }
    pod["spec"]["initContainers"].as_array_mut().unwrap().insert(0, sidecar);
    pod["spec"]["volumes"].as_array_mut().unwrap().push(json!({"name": "sealane-door"}));
    (asked, pod)
}

fn found(name: &str, change: impl FnOnce(&mut Value)) -> String {
    let (asked, mut pod) = admitted(name);
    change(&mut pod);
    troubles(row(name), &asked, &pod).join("\n")
}

#[test]
fn a_pod_that_is_right_has_no_troubles_whoever_made_it() {
    for name in
        ["deployment", "start-ordinals", "daemon-set", "indexed-job", "cron-job", "init-sends", "name-of-253"]
    {
        assert_eq!(found(name, |_| ()), "", "{name}");
    }
}

type Change = fn(&mut Value);

#[test]
fn each_trouble_is_told() {
    let containers = |pod: &mut Value| pod["spec"]["initContainers"].as_array_mut().unwrap().clone();
    let cases: [(&str, &str, Change); 8] = [
        ("init-sends", "starts after", |pod| pod["spec"]["initContainers"].as_array_mut().unwrap().reverse()),
        ("bare-pod", "no init container is the sidecar", |pod| pod["spec"]["initContainers"] = json!([])),
        ("bare-pod", "not restricted", |pod| {
            pod["spec"]["initContainers"][0]["securityContext"]["allowPrivilegeEscalation"] = true.into();
        }),
        ("bare-pod", "has another command", |pod| pod["spec"]["containers"][0]["command"] = json!(["sh"])),
        ("bare-pod", "two volumes are called `ledger`", |pod| {
            pod["spec"]["volumes"].as_array_mut().unwrap().push(json!({"name": "ledger"}));
        }),
        ("host-network", "1 ports of the node", |_| ()),
        ("second-after", "0 containers are the second sidecar", |_| ()),
        ("limit-range", "more than the most", |pod| {
            pod["spec"]["initContainers"][0]["resources"]["limits"]["memory"] = "1Gi".into();
        }),
    ];
    for (name, words, change) in cases {
        let told = found(name, change);
        assert!(told.contains(words), "{name}: `{words}` is not in `{told}`");
    }
    let twice = found("bare-pod", |pod| {
        let again = containers(pod);
        pod["spec"]["initContainers"].as_array_mut().unwrap().extend(again);
    });
    assert!(twice.contains("2 containers are called sealane"), "{twice}");
    let guaranteed = found("guaranteed", |pod| pod["status"]["qosClass"] = "Burstable".into());
    assert!(guaranteed.contains("Burstable"), "{guaranteed}");
}
