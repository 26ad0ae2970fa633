//! Which container a process is in, by the text of its `/proc/PID/cgroup` (cgroups(7)).
//!
//! The kubelet and the runtime make the path: `…/pod<UID>/<container id>` with the cgroupfs driver, and
//! `…/kubepods-…-pod<UID>.slice/<runtime>-<container id>.scope` with systemd's. What lies below belongs to the container,
//! which may name it as it likes, so that the topmost pod counts and what follows it directly.

/// A text with more is none that a kernel writes for a process in a container.
pub(super) const TEXT_BYTES_MAX: usize = 64 * 1024;
/// Container ids are SHA-256 in hex in every runtime that the kubelet uses.
const ID_DIGITS: usize = 64;
/// What runtimes put before the id of a container under systemd. `crio-conmon-` is a monitor outside of it.
const RUNTIMES: [&str; 3] = ["cri-containerd-", "crio-", "docker-"];

/// The container that a process is in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Container {
    pub(super) pod_uid: String,
    pub(super) id: String,
}

impl Container {
    /// The container that every hierarchy which knows one agrees on; nothing if none does, or if two differ.
    pub(super) fn of(text: &str) -> Option<Self> {
        let mut found: Option<Self> = None;
        for line in text.lines() {
            // hierarchy:controllers:path; one line with an empty second field in version 2.
            let path = line.splitn(3, ':').nth(2)?;
            match (&found, Self::on(path)) {
                (_, None) => {}
                (None, container) => found = container,
                (Some(known), Some(other)) if *known == other => {}
                (Some(_), Some(_)) => return None,
            }
        }
        found
    }

    fn on(path: &str) -> Option<Self> {
        let mut parts = path.split('/');
        let pod_uid = parts.find_map(pod)?;
        Some(Self { pod_uid, id: container(parts.next()?)?.to_owned() })
    }
}

/// The uid, if this is a pod's component.
fn pod(part: &str) -> Option<String> {
    let uid = match part.strip_suffix(".slice") {
        // systemd separates levels by dashes, so that those of the uid became underscores.
        Some(slice) => slice.rsplit_once("-pod")?.1.replace('_', "-"),
        None => part.strip_prefix("pod")?.to_owned(),
    };
    let known = |byte: u8| byte.is_ascii_hexdigit() || byte == b'-';
    (!uid.is_empty() && uid.len() <= ID_DIGITS && uid.bytes().all(known)).then_some(uid)
}

fn container(part: &str) -> Option<&str> {
    let id = match part.strip_suffix(".scope") {
        Some(scope) => RUNTIMES.iter().find_map(|runtime| scope.strip_prefix(runtime))?,
        // CRI-O puts its name there with either driver.
        None => part.strip_prefix("crio-").unwrap_or(part),
    };
    let digits = id.bytes().all(|byte| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte));
    (id.len() == ID_DIGITS && digits).then_some(id)
}

#[cfg(test)]
mod tests {
    use super::*;

    const UID: &str = "6f1c8c0e-9d5e-4a51-8d6f-2f4f6e0c8a11";
    const UNDERSCORED: &str = "6f1c8c0e_9d5e_4a51_8d6f_2f4f6e0c8a11";
    const OTHER_UID: &str = "00000000-9d5e-4a51-8d6f-2f4f6e0c8a11";

    fn id(digit: char) -> String {
        digit.to_string().repeat(64)
    }

    #[track_caller]
    fn assert_found(text: &str) {
        let expected = Container { pod_uid: UID.to_owned(), id: id('a') };
        assert_eq!(Container::of(text), Some(expected), "{text}");
    }

    #[test]
    fn every_driver_and_runtime_is_known() {
        let a = id('a');
        for text in [
            // Version 2: cgroupfs, systemd with containerd, CRI-O and cri-dockerd, and a kubelet in a container of kind.
            format!("0::/kubepods/burstable/pod{UID}/{a}\n"),
            format!("0::/kubepods/pod{UID}/{a}\n"),
            format!("0::/kubepods/pod{UID}/crio-{a}\n"),
            format!(
                "0::/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod{UNDERSCORED}.slice/cri-containerd-{a}.scope\n"
            ),
            format!("0::/kubepods.slice/kubepods-pod{UNDERSCORED}.slice/crio-{a}.scope\n"),
            format!(
                "0::/kubepods.slice/kubepods-besteffort.slice/kubepods-besteffort-pod{UNDERSCORED}.slice/docker-{a}.scope"
            ),
            format!(
                "0::/kubelet.slice/kubelet-kubepods.slice/kubelet-kubepods-pod{UNDERSCORED}.slice/cri-containerd-{a}.scope"
            ),
            // As seen from a cgroup namespace of another container.
            format!("0::/../../pod{UID}/{a}"),
            // A container that divides its own cgroup.
            format!("0::/kubepods/burstable/pod{UID}/{a}/init.scope"),
            // Version 1, and both versions side by side.
            format!(
                "12:memory:/kubepods/burstable/pod{UID}/{a}\n3:cpu,cpuacct:/kubepods/burstable/pod{UID}/{a}\n1:name=systemd:/kubepods/burstable/pod{UID}/{a}\n"
            ),
            format!("2:devices:/kubepods/pod{UID}/{a}\n0::/system.slice/containerd.service\n"),
        ] {
            assert_found(&text);
        }
    }

    #[test]
    fn what_a_container_makes_below_itself_changes_nothing() {
        let (a, b) = (id('a'), id('b'));
        assert_found(&format!("0::/kubepods/pod{UID}/{a}/kubepods/pod{OTHER_UID}/{b}"));
        assert_found(&format!(
            "0::/kubepods.slice/kubepods-pod{UNDERSCORED}.slice/cri-containerd-{a}.scope/pod{OTHER_UID}/{b}"
        ));
    }

    proptest::proptest! {
        #[test]
        fn arbitrary_text_names_only_what_stands_in_it(text in "[0-9a-f:/.\\-_podslice\n]{0,400}") {
            if let Some(container) = Container::of(&text) {
                proptest::prop_assert!(text.contains(&container.id));
                proptest::prop_assert!(text.replace('_', "-").contains(&container.pod_uid));
            }
        }
    }

    #[test]
    fn hierarchies_that_disagree_say_nothing() {
        let (a, b) = (id('a'), id('b'));
        for other in [format!("pod{UID}/{b}"), format!("pod{OTHER_UID}/{a}")] {
            let text = format!("2:memory:/kubepods/pod{UID}/{a}\n1:devices:/kubepods/{other}\n");
            assert_eq!(Container::of(&text), None, "{text}");
        }
    }

    #[test]
    fn everything_else_is_in_no_container() {
        let a = id('a');
        for text in [
            String::new(),
            "0::/\n".to_owned(),
            "0::/system.slice/kubelet.service\n".to_owned(),
            format!("0::/kubepods/burstable/pod{UID}\n"),
            format!("0::/kubepods/burstable/pod{UID}/short\n"),
            format!("0::/kubepods/burstable/pod{UID}/{}\n", a.to_uppercase()),
            format!("0::/kubepods/burstable/pod/{a}\n"),
            format!("0::/kubepods/burstable/pod{UID}/between/{a}\n"),
            format!("0::/kubepods/burstable/{a}\n"),
            // The monitor of a container of CRI-O.
            format!("0::/kubepods.slice/kubepods-pod{UNDERSCORED}.slice/crio-conmon-{a}.scope\n"),
            // A container of the agent's own pod, seen from its namespace.
            format!("0::/../{a}\n"),
            format!("no line at all {a}"),
        ] {
            assert_eq!(Container::of(&text), None, "{text}");
        }
    }
}
