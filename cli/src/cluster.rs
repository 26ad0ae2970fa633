//! Access to a cluster, as kubectl would have it.

use std::ffi::OsString;
use std::path::PathBuf;

use anyhow::{Context, Result, anyhow, bail};
use k8s_openapi::api::core::v1::Namespace;
use kube::api::ListParams;
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Api, Client, Config};

use crate::nearest::suggestion;

/// Whoever writes what a command of ours writes.
pub(crate) const FIELD_MANAGER: &str = "kubectl-sealane";
/// The release namespace unless the user says otherwise.
pub(crate) const RELEASE_NAMESPACE: &str = "sealane-system";

const UNCONFIGURED: &str =
    "no cluster is configured: set KUBECONFIG, or name a file with --kubeconfig and a context with --context";

#[derive(Debug, Default, clap::Args)]
#[command(next_help_heading = "Cluster")]
pub(crate) struct Connection {
    /// The kubeconfig context to use.
    #[arg(long, global = true, value_name = "NAME")]
    context: Option<String>,
    /// The kubeconfig file to use instead of $KUBECONFIG or ~/.kube/config.
    #[arg(long, global = true, value_name = "FILE")]
    kubeconfig: Option<PathBuf>,
    /// The namespace; by default that of the kubeconfig context.
    #[arg(short, long, global = true, value_name = "NAMESPACE")]
    pub(crate) namespace: Option<String>,
}

impl Connection {
    /// Runs `work` with a client and the namespace in effect.
    pub(crate) fn with_client<T>(&self, work: impl AsyncFnOnce(Client, String) -> Result<T>) -> Result<T> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        runtime.context("cannot start the runtime")?.block_on(async {
            let config = self.config().await?;
            let namespace = self.namespace.clone().unwrap_or_else(|| config.default_namespace.clone());
            let client = Client::try_from(config).context("cannot use this kubeconfig")?;
            work(client, namespace).await
        })
    }

    /// The flags that make kubectl speak to the same cluster.
    pub(crate) fn kubectl_flags(&self) -> Vec<OsString> {
        let context = self.context.iter().flat_map(|context| ["--context".into(), context.into()]);
        let kubeconfig = self.kubeconfig.iter().flat_map(|file| ["--kubeconfig".into(), file.into()]);
        context.chain(kubeconfig).collect()
    }

    async fn config(&self) -> Result<Config> {
        let options = KubeConfigOptions { context: self.context.clone(), ..KubeConfigOptions::default() };
        let kubeconfig = match (&self.kubeconfig, &self.context) {
            (None, None) => return Config::infer().await.context(UNCONFIGURED),
            (None, Some(_)) => Kubeconfig::read().context(UNCONFIGURED)?,
            (Some(file), _) => {
                Kubeconfig::read_from(file).with_context(|| format!("cannot read {}", file.display()))?
            }
        };
        if let Some(context) = &self.context {
            let names: Vec<&str> = kubeconfig.contexts.iter().map(|one| one.name.as_str()).collect();
            demand_context(context, &names)?;
        }
        let config = Config::from_custom_kubeconfig(kubeconfig, &options).await;
        config.context("this kubeconfig names no cluster that can be used: look at `kubectl config view`")
    }
}

fn demand_context(context: &str, names: &[&str]) -> Result<()> {
    if names.contains(&context) {
        return Ok(());
    }
    let near = suggestion(context, names.iter().copied());
    bail!("the kubeconfig has no context {context}{near}; `kubectl config get-contexts` lists them")
}

/// Where nothing was found: whether that is because there is no such namespace. Whoever may not look at namespaces is not told.
///
/// # Errors
/// There is none of this name.
pub(crate) async fn demand_namespace(client: &Client, name: &str) -> Result<()> {
    let namespaces = Api::<Namespace>::all(client.clone());
    let found = namespaces.get_metadata(name).await;
    let mut near = String::new();
    if found.as_ref().is_err_and(is_absent) {
        // Names only add to what is known.
        let others = namespaces.list_metadata(&ListParams::default()).await;
        let others = others.iter().flat_map(|list| &list.items);
        let others: Vec<&str> = others.filter_map(|one| one.metadata.name.as_deref()).collect();
        near = suggestion(name, others.into_iter());
    }
    demand_found(name, found.as_ref().err(), &near)
}

fn demand_found(name: &str, error: Option<&kube::Error>, near: &str) -> Result<()> {
    match error {
        Some(error) if is_absent(error) => {
            bail!(
                "there is no namespace {name}{near}: name another with -n, or all of them with -A where a command has it"
            )
        }
        _ => Ok(()),
    }
}

/// Whether the API server said that there is no such object, or no such resource.
pub(crate) fn is_absent(error: &kube::Error) -> bool {
    matches!(error, kube::Error::Api(status) if status.code == 404)
}

/// The API server's own words, without the structure around them.
pub(crate) fn words(error: &kube::Error) -> String {
    match error {
        kube::Error::Api(status) => status.message.clone(),
        other => {
            let causes = std::iter::successors(Some(other as &dyn std::error::Error), |error| error.source());
            causes.map(ToString::to_string).fold(String::new(), |said, cause| match said.as_str() {
                "" => cause,
                _ if said.contains(&cause) => said,
                _ => format!("{said}: {cause}"),
            })
        }
    }
}

/// Of a request that was forbidden: the right that its user lacks, as the API server puts it.
pub(crate) fn missing_right(words: &str) -> Option<&str> {
    let (_, rest) = words.split_once(" is forbidden: User ")?;
    Some(rest.split_once(" cannot ")?.1)
}

/// Explains a failed request for objects of the kind `what`.
pub(crate) fn explain(error: &kube::Error, what: &str) -> anyhow::Error {
    let words = words(error);
    match error {
        _ if is_absent(error) => {
            anyhow!("this cluster does not know {what}: is Sealane installed? `kubectl sealane check` tells")
        }
        kube::Error::Api(status) if status.code == 401 => {
            anyhow!(
                "the cluster does not know this kubeconfig's user ({words}): log in again, or name another --context"
            )
        }
        kube::Error::Api(_) => match missing_right(&words) {
            Some(right) => anyhow!(
                "this kubeconfig's user may not {right}: ask for a role with that right, or name a namespace of yours with -n"
            ),
            None => anyhow!("cannot read {what} from the cluster: {words}"),
        },
        _ => anyhow!(
            "cannot read {what}, the cluster does not answer ({words}): is it up, and is --context the right one?"
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(code: u16) -> kube::Error {
        let status = serde_json::from_value(serde_json::json!({
            "status": "Failure", "message": "no", "reason": "no", "code": code,
        }));
        kube::Error::Api(status.unwrap())
    }

    #[test]
    fn a_failed_request_says_in_one_line_what_to_do() {
        let refused = |code: u16, message: &str| {
            let status = serde_json::json!({
                "status": "Failure", "message": message, "reason": "no", "code": code,
            });
            let error = kube::Error::Api(serde_json::from_value(status).unwrap());
            explain(&error, "Peers").to_string()
        };
        let message = "peers.sealane.dev is forbidden: User \"u\" cannot list resource \"peers\" in API group \"sealane.dev\" at the cluster scope";
        let told = refused(403, message);
        assert!(told.contains("may not list resource \"peers\"") && told.contains("-n"), "{told}");
        assert!(refused(401, "Unauthorized").contains("--context"));
        assert!(refused(404, "not found").contains("is Sealane installed?"));
        let connect = kube::Error::Service(Box::new(std::io::Error::other("connection refused")));
        let told = explain(&connect, "Peers").to_string();
        assert!(told.contains("connection refused") && told.contains("is it up"), "{told}");
        assert!(!told.contains('\n'));
    }

    #[test]
    fn a_mistyped_context_is_told_with_the_one_that_is_like_it() {
        demand_context("kind-a", &["kind-a", "prod"]).unwrap();
        let told = demand_context("kind-b", &["kind-a", "prod"]).unwrap_err().to_string();
        assert!(told.contains("no context kind-b; did you mean kind-a?"), "{told}");
    }

    #[test]
    fn only_what_a_role_withholds_is_a_missing_right() {
        let right =
            missing_right("nodes is forbidden: User \"u\" cannot list resource \"nodes\" in API group \"\"");
        assert_eq!(right, Some("list resource \"nodes\" in API group \"\""));
        assert_eq!(missing_right("pods \"a\" is forbidden: exceeded quota: q"), None);
    }

    #[test]
    fn a_namespace_that_is_not_there_is_told_and_one_that_may_not_be_seen_is_believed() {
        let absent = demand_found("typo", Some(&answer(404)), "").unwrap_err().to_string();
        assert!(absent.starts_with("there is no namespace typo"), "{absent}");
        demand_found("demo", Some(&answer(403)), "").unwrap();
        demand_found("demo", None, "").unwrap();
    }
}
