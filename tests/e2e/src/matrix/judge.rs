//! What must be true of a pod that admission gave the sidecar, whoever made it. Pure.

use std::collections::BTreeSet;

use serde_json::Value;

use super::{
    quantity::thousandths,
    rows::{Needs, Row},
};
use crate::faults::SIDECAR;

/// Where the door's socket is.
const DOOR: &str = "/run/sealane";
const LISTS: [&str; 2] = ["initContainers", "containers"];

/// What is wrong with `admitted`, which was asked for as `asked`; nothing, if nothing is.
#[must_use]
pub fn troubles(row: &Row, asked: &Value, admitted: &Value) -> Vec<String> {
    let mut troubles = Troubles(Vec::new());
    troubles.sidecar(admitted);
    troubles.applications(asked, admitted);
    troubles.names(admitted);
    troubles.row(row, admitted);
    troubles.0
}

struct Troubles(Vec<String>);

impl Troubles {
    fn unless(&mut self, holds: bool, words: impl FnOnce() -> String) {
        if !holds {
            self.0.push(words());
        }
    }

    /// There is one, it starts first, and it is within the restricted standard.
    fn sidecar(&mut self, admitted: &Value) {
        let count = containers(admitted).filter(|one| one["name"] == SIDECAR).count();
        self.unless(count == 1, || format!("{count} containers are called {SIDECAR}"));
        let Some(sidecar) = sidecar(admitted) else {
            self.0.push("no init container is the sidecar".to_owned());
            return;
        };
        let label = &admitted["metadata"]["labels"]["sealane.dev/injected"];
        self.unless(label == "true", || format!("label sealane.dev/injected is {label}"));
        self.unless(sidecar["restartPolicy"] == "Always", || "the sidecar is no native one".to_owned());
        let (own, of_pod) = (&sidecar["securityContext"], &admitted["spec"]["securityContext"]);
        let of_either = |field: &str| if own[field].is_null() { &of_pod[field] } else { &own[field] };
        let restricted = own["allowPrivilegeEscalation"] == false
            && own["readOnlyRootFilesystem"] == true
            && own["capabilities"]["drop"][0] == "ALL"
            && own["capabilities"]["add"].is_null()
            && *of_either("runAsNonRoot") == true
            && of_either("seccompProfile")["type"] == "RuntimeDefault";
        self.unless(restricted, || format!("the sidecar is not restricted: {own}"));
    }

    /// They are as they were, in their order and after the sidecar, and each has the door.
    fn applications(&mut self, asked: &Value, admitted: &Value) {
        for list in LISTS {
            let names = |pod: &Value| -> Vec<String> {
                listed(pod, list).map(|one| text(&one["name"]).to_owned()).collect()
            };
            let (wanted, found) = (names(asked), names(admitted));
            let kept: Vec<_> = found.iter().filter(|name| wanted.contains(name)).cloned().collect();
            self.unless(kept == wanted, || format!("{list} {wanted:?} became {found:?}"));
            let place = |name: &str| found.iter().position(|one| one == name);
            let first = wanted.iter().filter_map(|name| place(name)).min();
            let late = place(SIDECAR).zip(first).is_some_and(|(sidecar, first)| sidecar > first);
            self.unless(!late, || format!("the sidecar starts after the pod's own: {found:?}"));
        }
        for container in containers(asked) {
            let name = &container["name"];
            let Some(now) = containers(admitted).find(|one| one["name"] == *name) else { continue };
            for field in ["image", "command"] {
                self.unless(now[field] == container[field], || format!("{name} has another {field}"));
            }
            let doors = items(&now["volumeMounts"]).filter(|mount| mount["mountPath"] == DOOR).count();
            self.unless(doors == 1, || format!("{name} has {doors} doors"));
            let told = items(&now["env"]).filter(|one| one["name"] == "SEALANE_DOOR").count();
            self.unless(told == 1, || format!("{name} is told {told} times of the door"));
        }
    }

    /// Nothing has the name of something else, and no name is too long.
    fn names(&mut self, admitted: &Value) {
        let (metadata, spec) = (&admitted["metadata"], &admitted["spec"]);
        self.once("volumes", items(&spec["volumes"]).map(|one| text(&one["name"])));
        self.once("containers", containers(admitted).map(|one| text(&one["name"])));
        for container in containers(admitted) {
            let name = text(&container["name"]);
            self.once(
                &format!("variables of {name}"),
                items(&container["env"]).map(|one| text(&one["name"])),
            );
            let mounts = items(&container["volumeMounts"]).map(|one| text(&one["mountPath"]));
            self.once(&format!("mounts of {name}"), mounts);
        }
        let ports = containers(admitted).flat_map(|one| items(&one["ports"]));
        let ports: Vec<_> = ports.map(|port| text(&port["name"])).filter(|name| !name.is_empty()).collect();
        self.once("ports", ports.iter().copied());
        self.short(ports, 15);
        self.short(items(&spec["volumes"]).map(|one| text(&one["name"])), 63);
        self.short(containers(admitted).map(|one| text(&one["name"])), 63);
        self.short([text(&metadata["name"])], 253);
        self.short([text(&spec["hostname"])], 63);
        let labels = metadata["labels"].as_object().into_iter().flat_map(|labels| labels.values());
        self.short(labels.map(text), 63);
    }

    fn once<'a>(&mut self, what: &str, names: impl Iterator<Item = &'a str>) {
        let mut seen = BTreeSet::new();
        for name in names {
            self.unless(seen.insert(name), || format!("two {what} are called `{name}`"));
        }
    }

    fn short<'a>(&mut self, names: impl IntoIterator<Item = &'a str>, length_max: usize) {
        for name in names {
            self.unless(name.len() <= length_max, || format!("`{name}` is longer than {length_max}"));
        }
    }

    /// What the row is about.
    fn row(&mut self, row: &Row, admitted: &Value) {
        let Some(sidecar) = sidecar(admitted) else { return };
        let of = |part: &str, resource: &str| thousandths(&sidecar["resources"][part][resource]);
        let both = ["cpu", "memory"];
        match row.needs {
            Needs::Quota => {
                let stated =
                    both.iter().all(|one| of("limits", one).is_some() && of("requests", one).is_some());
                let told = &sidecar["resources"];
                self.unless(stated, || format!("a quota counts what is not stated: {told}"));
            }
            Needs::LimitRange => {
                let most = thousandths(&Value::from("512Mi"));
                let memory = of("limits", "memory");
                self.unless(memory.is_some() && memory <= most, || format!("more than the most: {sidecar}"));
            }
            Needs::Privileged => {
                let ports = items(&sidecar["ports"]).count();
                self.unless(ports == 0, || format!("{ports} ports of the node are taken for good"));
            }
            Needs::Second => {
                let count = containers(admitted).filter(|one| one["name"] == "second").count();
                self.unless(count == 1, || format!("{count} containers are the second sidecar"));
            }
            Needs::Nothing | Needs::DualStack => {}
        }
        if row.name == "guaranteed" {
            let class = &admitted["status"]["qosClass"];
            self.unless(class == "Guaranteed", || format!("the pod is {class}"));
            let equal = both
                .iter()
                .all(|one| of("limits", one).is_some() && of("limits", one) == of("requests", one));
            self.unless(equal, || format!("requests are not limits: {}", sidecar["resources"]));
        }
    }
}

fn items(list: &Value) -> impl Iterator<Item = &Value> {
    list.as_array().into_iter().flatten()
}

fn listed<'a>(pod: &'a Value, list: &str) -> impl Iterator<Item = &'a Value> {
    items(&pod["spec"][list])
}

fn containers(pod: &Value) -> impl Iterator<Item = &Value> {
    LISTS.into_iter().flat_map(|list| listed(pod, list))
}

fn sidecar(pod: &Value) -> Option<&Value> {
    listed(pod, "initContainers").find(|one| one["name"] == SIDECAR)
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

#[cfg(test)]
mod tests;
