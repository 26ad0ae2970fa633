//! `kubectl sealane restart`: makes pods again whose sidecars are of another version than the operator.

mod owner;

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Result, bail};
use kube::{Client, ResourceExt as _};
use sealane_operator_api::Peer;
use serde::Serialize;

use self::owner::Owner;
use crate::cluster::{Connection, demand_namespace, explain};
use crate::objects;
use crate::outdated::{self, Outdated};
use crate::output::{self, Format};

/// Says which workloads have sidecars of another version than the operator, and what would be done; nothing is changed
/// without --yes.
///
/// A rollout is asked for as `kubectl rollout restart` does it, by an annotation of the pod template. Its value is the
/// version that the pods are made again for, so that a second call changes nothing.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// Workloads with sidecars of another version than the operator.
    #[arg(long, required = true)]
    outdated: bool,
    /// Restart them.
    #[arg(long)]
    yes: bool,
    /// Every namespace.
    #[arg(short = 'A', long, conflicts_with = "namespace")]
    all_namespaces: bool,
    #[arg(short, long, value_enum, default_value_t)]
    output: Format,
}

/// What is to become of the pods of one owner.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
struct Step {
    namespace: String,
    /// `KIND/NAME`.
    object: String,
    /// Its pods with sidecars of another version, as far as status lists them.
    pods: Vec<String>,
    /// The version that they get.
    version: String,
    /// A rollout makes them again.
    rollout: bool,
    /// Who has to do what, where no rollout does it.
    #[serde(skip_serializing_if = "Option::is_none")]
    remedy: Option<String>,
    outcome: Outcome,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
enum Outcome {
    /// Nothing was done.
    Planned,
    Restarted,
    Failed,
}

pub(crate) fn run(arguments: &Arguments, connection: &Connection) -> Result<()> {
    let (steps, unlisted) = connection.with_client(async |client, namespace| {
        let namespace = (!arguments.all_namespaces).then_some(namespace);
        let peers = objects::list::<Peer>(&client, namespace.as_deref()).await;
        let peers = peers.map_err(|error| explain(&error, "Peers"))?;
        peers.strange.iter().for_each(|strange| output::say(&format!("note: {}", strange.text())));
        if let Some(namespace) = namespace.as_deref().filter(|_| peers.readable.is_empty()) {
            demand_namespace(&client, namespace).await?;
        }
        let found = outdated_of(&peers.readable);
        let unlisted = found.iter().filter(|(_, outdated)| !outdated.complete).count();
        let mut steps = planned(&client, &found).await?;
        if arguments.yes {
            for step in &mut steps {
                restart(&client, step).await;
            }
        }
        Ok((steps, unlisted))
    })?;
    match arguments.output {
        Format::Text => output::print(&text(&steps, arguments.yes))?,
        Format::Json => output::print_json(&steps)?,
    }
    if unlisted > 0 {
        output::say("note: a status lists 50 replicas at most: look again when these are made again");
    }
    let failed = steps.iter().filter(|step| step.outcome == Outcome::Failed).count();
    if failed > 0 {
        bail!("{failed} of {} workloads could not be restarted", steps.len());
    }
    Ok(())
}

fn outdated_of(peers: &[Peer]) -> Vec<(String, Outdated)> {
    let of = |peer: &Peer| Some((peer.namespace().unwrap_or_default(), outdated::of(peer)?));
    peers.iter().filter_map(of).collect()
}

/// One step for each owner, in the order of their names.
async fn planned(client: &Client, found: &[(String, Outdated)]) -> Result<Vec<Step>> {
    let mut owners: BTreeMap<(String, Owner), (BTreeSet<String>, String)> = BTreeMap::new();
    for (namespace, Outdated { operator, pods, .. }) in found {
        for pod in pods {
            let Some(owner) = owner::of(client, namespace, pod).await? else { continue };
            let step = owners.entry((namespace.clone(), owner)).or_default();
            step.0.insert(pod.clone());
            step.1.clone_from(operator);
        }
    }
    Ok(owners
        .into_iter()
        .map(|((namespace, owner), (pods, version))| step(namespace, &owner, pods, version))
        .collect())
}

fn step(namespace: String, owner: &Owner, pods: BTreeSet<String>, version: String) -> Step {
    let remedy = owner.remedy(&namespace);
    Step {
        object: owner.to_string(),
        pods: pods.into_iter().collect(),
        version,
        rollout: remedy.is_none(),
        remedy,
        outcome: Outcome::Planned,
        namespace,
    }
}

async fn restart(client: &Client, step: &mut Step) {
    if !step.rollout {
        return;
    }
    step.outcome = match owner::restart(client, &step.namespace, &step.object, &step.version).await {
        Ok(()) => Outcome::Restarted,
        Err(error) => {
            step.remedy = Some(format!("{error:#}"));
            Outcome::Failed
        }
    };
}

fn text(steps: &[Step], yes: bool) -> String {
    if steps.is_empty() {
        return "Every sidecar that is known is of the operator's version.\n".to_owned();
    }
    let mut text = String::new();
    for Step { namespace, object, pods, version, rollout: _, remedy, outcome } in steps {
        let what = match (outcome, remedy) {
            (Outcome::Restarted, _) => "restarted",
            (Outcome::Failed, _) => "FAILED",
            (Outcome::Planned, None) => "would restart",
            (Outcome::Planned, Some(_)) => "by hand",
        };
        let count = pods.len();
        let line = format!(
            "{what}  {namespace} {object}: {count} pods get sidecars of {version} ({})",
            pods.join(", ")
        );
        text.push_str(&format!("{}\n", output::printable(&line)));
        if let Some(remedy) = remedy {
            text.push_str(&format!("      -> {}\n", output::printable(remedy)));
        }
    }
    if !yes && steps.iter().any(|step| step.rollout) {
        text.push_str("Nothing was changed; --yes restarts them.\n");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn steps(owner: &Owner) -> Vec<Step> {
        vec![step("demo".to_owned(), owner, ["a-0".to_owned()].into(), "0.2.0".to_owned())]
    }

    #[test]
    fn nothing_is_changed_without_a_yes() {
        let steps = steps(&Owner::new("Deployment", "embedder"));
        let told = text(&steps, false);
        assert!(told.starts_with("would restart  demo deployment/embedder: 1 pods"), "{told}");
        assert!(told.ends_with("Nothing was changed; --yes restarts them.\n"), "{told}");
        assert!(!text(&steps, true).contains("--yes"));
        assert!(text(&[], false).contains("operator's version"));
    }

    #[test]
    fn a_plain_pod_is_named_with_what_to_do() {
        let told = text(&steps(&Owner::new("Pod", "a-0")), false);
        assert!(told.contains("by hand  demo pod/a-0"), "{told}");
        assert!(told.contains("kubectl -n demo delete pod a-0") && !told.contains("--yes"), "{told}");
    }
}
