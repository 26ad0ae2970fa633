//! What is wrong with a policy of Kata's agent at first sight. It is Rego, and only the agent can say what it means; what is
//! looked for here is what makes every other line of it worthless.

/// Requests that whoever controls the host may make of the agent, and what each permits if it is permitted always.
const GRAVE: [(&str, &str); 5] = [
    ("AllowRequestsFailingPolicy", "everything that the policy refuses"),
    ("CreateContainerRequest", "any container, with any image and command, in the guest"),
    (
        "ExecProcessRequest",
        "any command in any container of the guest (kubectl exec), the sidecar's included",
    ),
    ("SetPolicyRequest", "another policy in the place of this one"),
    ("CopyFileRequest", "files of the host's choice in the guest"),
];

/// What whoever renders should know.
pub(super) fn warnings(policy: Option<&str>) -> Vec<String> {
    let Some(policy) = policy else {
        return vec![
            "without --agent-policy the guest's image says what its agent permits, and that of Confidential Containers permits everything: whoever controls the host can run any container beside the sidecar".to_owned(),
        ];
    };
    let lines: Vec<String> = policy.lines().map(words).collect();
    let mut said: Vec<String> = GRAVE
        .iter()
        .filter(|(request, _)| lines.iter().any(|line| permits(line, request)))
        .map(|(request, what)| {
            format!("the agent's policy has `default {request} := true`, which permits whoever controls the host {what}")
        })
        .collect();
    if !lines.iter().any(|line| line == "package agent_policy") {
        said.push(
            "the agent's policy is not of `package agent_policy`, and the agent reads no other".to_owned(),
        );
    }
    said
}

/// A line without its comment, its words one space apart, and one sign for every way to assign.
fn words(line: &str) -> String {
    let code = line.split('#').next().unwrap_or_default();
    code.replace(":=", "=").replace('=', " = ").split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Whether it answers `request` with yes, whatever is asked.
fn permits(line: &str, request: &str) -> bool {
    line.strip_prefix("default ").unwrap_or(line).strip_prefix(request) == Some(" = true")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_policy_that_permits_everything_is_warned_of() {
        for line in [
            "default ExecProcessRequest := true",
            "  default   ExecProcessRequest:=true  # for debugging",
            "default ExecProcessRequest = true",
            "ExecProcessRequest := true",
        ] {
            let said = warnings(Some(&format!("package agent_policy\n{line}\n")));
            assert!(matches!(&said[..], [one] if one.contains("ExecProcessRequest")), "{line}: {said:?}");
        }
        let all: String = GRAVE.iter().map(|(request, _)| format!("default {request} := true\n")).collect();
        assert_eq!(warnings(Some(&format!("package agent_policy\n{all}"))).len(), GRAVE.len());
    }

    #[test]
    fn a_policy_that_decides_is_not() {
        let policy = "package agent_policy\n# default ExecProcessRequest := true\ndefault ExecProcessRequest := false\ndefault CreateContainerRequest := false\nExecProcessRequest if {\n  input.command == \"true\"\n}\nCreateContainerRequest := {\"ops\": ops} if {\n}\n";
        assert_eq!(warnings(Some(policy)), [""; 0]);
    }

    #[test]
    fn what_the_agent_does_not_read_is_told() {
        assert!(warnings(None)[0].contains("--agent-policy"));
        assert!(warnings(Some("package policy\n"))[0].contains("package agent_policy"));
    }
}
