//! What the chart tells an agent: flags, or the environment. Parsed once.

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::path::PathBuf;

use clap::builder::{PossibleValuesParser, TypedValueParser as _};
use rustls::pki_types::ServerName;
use sealane_types::{Digest, Provider};

/// The node agent: evidence of this node for the sidecars of its pods, each under a statement of what its pod runs
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct AgentArguments {
    /// Name of this node
    #[arg(long, env = "SEALANE_NODE_NAME")]
    node: String,
    /// The node's platform
    #[arg(long, env = "SEALANE_AGENT_PROVIDER", default_value = "ConfigfsTsm", value_parser = providers())]
    provider: Provider,
    /// SHA-256 of sidecar images that may ask, of the manifests by which pods ask for them, separated by commas
    #[arg(long, env = "SEALANE_AGENT_SIDECAR_DIGESTS", value_delimiter = ',', required = true)]
    sidecar_digests: Vec<Digest>,
    /// The kubelet's folder, at the same path as on the node
    #[arg(long, env = "SEALANE_AGENT_KUBELET_DIRECTORY", default_value = "/var/lib/kubelet")]
    kubelet_directory: PathBuf,
    /// The kubelet's HTTPS address; loopback unless its authority is given
    #[arg(long, env = "SEALANE_AGENT_KUBELET_ADDRESS", default_value = "127.0.0.1:10250")]
    kubelet_address: SocketAddr,
    /// PEM of the authority that signed the kubelet's serving certificate
    #[arg(long, env = "SEALANE_AGENT_KUBELET_CA")]
    kubelet_ca: Option<String>,
    /// Name or address in that certificate
    #[arg(long, env = "SEALANE_AGENT_KUBELET_NAME")]
    kubelet_name: Option<String>,
    /// Socket of the node's container runtime, as CRI names it in the kubelet's configuration
    #[arg(long, env = "SEALANE_AGENT_RUNTIME_SOCKET", default_value = "/run/containerd/containerd.sock")]
    runtime_socket: PathBuf,
    /// Token that the kubelet is shown
    #[arg(
        long,
        env = "SEALANE_AGENT_TOKEN",
        default_value = "/var/run/secrets/kubernetes.io/serviceaccount/token"
    )]
    token: PathBuf,
    /// JSON of the simulated platform
    #[arg(long, env = "SEALANE_SIMULATED_PLATFORM", hide_env_values = true)]
    simulated_platform: Option<String>,
}

/// The platforms that a node has; an agent asks no other agent.
fn providers() -> impl clap::builder::TypedValueParser<Value = Provider> {
    let words = [Provider::ConfigfsTsm, Provider::SevGuest, Provider::Simulated].map(Provider::as_str);
    PossibleValuesParser::new(words).try_map(|word| word.parse::<Provider>())
}

/// The authority and the name go together.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ConfigError {
    #[error("--kubelet-ca needs --kubelet-name: the name or address in the kubelet's certificate")]
    NoName,
    #[error("--kubelet-name is no name or address")]
    Name(#[source] rustls::pki_types::InvalidDnsNameError),
}

/// Everything an agent is told.
#[derive(Debug, Clone)]
pub(crate) struct Config {
    pub(super) node: String,
    pub(super) provider: Provider,
    pub(super) sidecars: BTreeSet<Digest>,
    pub(super) kubelet_directory: PathBuf,
    pub(super) kubelet: super::kubelet::KubeletAddress,
    /// Of the container runtime.
    pub(super) runtime: PathBuf,
    pub(super) simulated_platform: Option<String>,
}

impl TryFrom<AgentArguments> for Config {
    type Error = ConfigError;

    fn try_from(arguments: AgentArguments) -> Result<Self, ConfigError> {
        let AgentArguments {
            node,
            provider,
            sidecar_digests,
            kubelet_directory,
            kubelet_address,
            kubelet_ca,
            kubelet_name,
            runtime_socket: runtime,
            token,
            simulated_platform,
        } = arguments;
        let given = |text: Option<String>| text.filter(|text| !text.is_empty());
        let authority = match (given(kubelet_ca), given(kubelet_name)) {
            (None, _) => None,
            (Some(_), None) => return Err(ConfigError::NoName),
            (Some(pem), Some(name)) => Some((pem, ServerName::try_from(name).map_err(ConfigError::Name)?)),
        };
        Ok(Self {
            node,
            provider,
            sidecars: sidecar_digests.into_iter().collect(),
            kubelet_directory,
            kubelet: super::kubelet::KubeletAddress { address: kubelet_address, authority, token },
            runtime,
            simulated_platform: given(simulated_platform),
        })
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Debug, Parser)]
    struct Line {
        #[command(flatten)]
        agent: AgentArguments,
    }

    fn parse(extra: &[&str]) -> Result<Config, String> {
        let digest = "0a".repeat(32);
        let base = ["agent", "--node", "node1", "--sidecar-digests", &digest];
        let line = Line::try_parse_from(base.iter().chain(extra)).map_err(|error| error.to_string())?;
        Config::try_from(line.agent).map_err(|error| error.to_string())
    }

    #[test]
    fn defaults_are_those_of_a_node() {
        let config = parse(&[]).unwrap();
        assert_eq!(config.provider, Provider::ConfigfsTsm);
        assert_eq!(config.sidecars.len(), 1);
        assert!(config.kubelet.address.ip().is_loopback() && config.kubelet.authority.is_none());
    }

    #[test]
    fn an_agent_asks_the_node_itself() {
        for word in ["Auto", "NodeAgent", "CocoAgent", "Nsm"] {
            assert!(parse(&["--provider", word]).unwrap_err().contains("SevGuest"), "{word}");
        }
        assert_eq!(parse(&["--provider", "SevGuest"]).unwrap().provider, Provider::SevGuest);
    }

    #[test]
    fn sidecars_are_pinned_by_digest() {
        assert!(Line::try_parse_from(["agent", "--node", "node1"]).is_err(), "none is not any");
        assert!(parse(&["--sidecar-digests", "latest"]).is_err());
        let two = format!("{},{}", "0b".repeat(32), "0c".repeat(32));
        assert_eq!(parse(&["--sidecar-digests", &two]).unwrap().sidecars.len(), 3);
    }

    #[test]
    fn an_authority_is_for_a_name() {
        assert!(parse(&["--kubelet-ca", "PEM"]).unwrap_err().contains("--kubelet-name"));
        assert!(
            parse(&["--kubelet-ca", "PEM", "--kubelet-name", "10.90.0.11"])
                .unwrap()
                .kubelet
                .authority
                .is_some()
        );
        assert!(parse(&["--kubelet-ca", ""]).unwrap().kubelet.authority.is_none(), "as the chart leaves it");
    }
}
