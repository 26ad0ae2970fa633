//! What the operator is told at start: flags, or the environment that the chart sets. Parsed once.

use std::path::PathBuf;

use clap::Parser;
use ipnet::IpNet;
use k8s_openapi::api::core::v1::{EnvVar, ResourceRequirements};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use prometheus_client::encoding::EncodeLabelValue;
use sealane_injection::{
    ARENA_BYTES, REQUIRED_CPU_LIMIT, RESOURCES, SidecarSettings, Simulation, is_quantity,
};
use sealane_operator_api::well_known::{
    CONTROL_PORT, DATA_PORT, OPERATOR_ADMIN_PORT, SIDECAR_ADMIN_PORT, WEBHOOK_PORT,
};
use sealane_types::Namespace;

use crate::benchmark::{Runner, Settings};
use crate::webhook::{ClientAuthorities, parse_sources};

/// Operator of Sealane: injects sidecars, tells them whom to talk to, and shows what they report.
#[derive(Debug, Clone, Parser)]
#[command(name = "sealane-operator", version)]
pub struct Arguments {
    /// Namespace of the release.
    #[arg(long, env = "SEALANE_NAMESPACE")]
    namespace: Namespace,
    /// Name of the operator's own pod.
    #[arg(long, env = "SEALANE_POD_NAME")]
    pod_name: String,
    /// What to log: error, warn, info, debug, trace, or a filter such as `info,sealane_operator=debug`.
    #[arg(long, env = "SEALANE_LOG", default_value = "info")]
    pub log: String,
    /// What this process does: `Operator` leads and serves the control channel, `Webhook` serves admission, `All` does both.
    #[arg(long, env = "SEALANE_ROLE", value_enum, ignore_case = true, default_value_t)]
    role: Role,
    /// Port of the webhooks.
    #[arg(long, env = "SEALANE_WEBHOOK_PORT", default_value_t = WEBHOOK_PORT,
          value_parser = clap::value_parser!(u16).range(1..))]
    webhook_port: u16,
    /// Port of health and metrics.
    #[arg(long, env = "SEALANE_OPERATOR_ADMIN_PORT", default_value_t = OPERATOR_ADMIN_PORT,
          value_parser = clap::value_parser!(u16).range(1..))]
    admin_port: u16,
    /// Names and addresses under which the API server reaches the webhooks besides their Service, separated by commas.
    #[arg(long, env = "SEALANE_WEBHOOK_NAMES", value_delimiter = ',')]
    webhook_names: Vec<String>,
    /// Addresses or ranges that the API servers connect to the webhooks from, separated by commas; no other may connect
    /// then.
    #[arg(long, env = "SEALANE_WEBHOOK_SOURCES", value_delimiter = ',', value_parser = parse_sources)]
    webhook_sources: Vec<IpNet>,
    /// PEM of the authorities of the certificate that the API servers show to webhooks; nobody is let in without one then.
    #[arg(long, env = "SEALANE_WEBHOOK_CLIENT_CA", value_parser = ClientAuthorities::parse)]
    webhook_client_ca: Option<ClientAuthorities>,
    #[command(flatten)]
    sidecar: SidecarArguments,
    /// Image that measures nodes; without it Benchmarks are not run.
    #[arg(long, env = "SEALANE_BENCH_IMAGE")]
    bench_image: Option<String>,
    /// Namespaces in which the operator may make the Jobs of Benchmarks, separated by commas: its own without it.
    #[arg(long, env = "SEALANE_BENCHMARK_NAMESPACES", value_delimiter = ',')]
    benchmark_namespaces: Vec<Namespace>,
    /// Give injected pods the volume of the node agent, which runs on every node.
    #[arg(long, env = "SEALANE_NODE_AGENT")]
    node_agent: bool,
    /// Inject the simulated platform: software evidence that proves nothing.
    #[arg(long, env = "SEALANE_SIMULATED", requires = "simulation_file")]
    simulated: bool,
    /// File with the simulated platform, written by `sealane-sidecar-sim root`.
    #[arg(long, env = "SEALANE_SIMULATION_FILE", value_name = "FILE")]
    simulation_file: Option<PathBuf>,
}

#[derive(Debug, Clone, clap::Args)]
struct SidecarArguments {
    /// Image of the injected sidecar.
    #[arg(long, env = "SEALANE_SIDECAR_IMAGE")]
    sidecar_image: String,
    /// Pull policy of the injected sidecar.
    #[arg(long, env = "SEALANE_SIDECAR_PULL_POLICY", default_value = "IfNotPresent",
          value_parser = ["Always", "IfNotPresent", "Never"])]
    sidecar_pull_policy: String,
    /// Pull secrets added to injected pods, separated by commas.
    #[arg(long, env = "SEALANE_SIDECAR_PULL_SECRETS", value_delimiter = ',')]
    sidecar_pull_secrets: Vec<String>,
    /// Resources of the injected sidecar as JSON: {"requests": {…}, "limits": {…}}.
    #[arg(long, env = "SEALANE_SIDECAR_RESOURCES", value_parser = parse_resources,
          default_value = RESOURCES)]
    sidecar_resources: ResourceRequirements,
    /// CPU limit of the injected sidecar where it has to have one: in pods of the class Guaranteed, and where a
    /// ResourceQuota or LimitRange asks for it.
    #[arg(long, env = "SEALANE_SIDECAR_REQUIRED_CPU_LIMIT", default_value = REQUIRED_CPU_LIMIT, value_parser = parse_quantity)]
    sidecar_required_cpu_limit: Quantity,
    /// Bytes of tensors that may wait between application and sidecar of one pod.
    #[arg(long, env = "SEALANE_SIDECAR_ARENA_BYTES", default_value_t = ARENA_BYTES)]
    sidecar_arena_bytes: u64,
    #[arg(long, env = "SEALANE_SIDECAR_DATA_PORT", default_value_t = DATA_PORT,
          value_parser = clap::value_parser!(u16).range(1..))]
    sidecar_data_port: u16,
    #[arg(long, env = "SEALANE_SIDECAR_ADMIN_PORT", default_value_t = SIDECAR_ADMIN_PORT,
          value_parser = clap::value_parser!(u16).range(1..))]
    sidecar_admin_port: u16,
    /// Further environment of the injected sidecar as a JSON list of {"name": …, "value": …}; no name of Sealane's.
    #[arg(long, env = "SEALANE_SIDECAR_ENVIRONMENT", value_parser = parse_environment, default_value = "[]")]
    sidecar_environment: Variables,
    /// Log filter of the injected sidecar.
    #[arg(long, env = "SEALANE_SIDECAR_LOG", default_value = "info")]
    sidecar_log: String,
    /// OTLP collector that injected sidecars export traces to: http://… or https://…, gRPC.
    #[arg(long, env = "SEALANE_SIDECAR_OTLP_ENDPOINT")]
    sidecar_otlp_endpoint: Option<String>,
    /// PEM of the authorities of an https:// collector.
    #[arg(long, env = "SEALANE_SIDECAR_OTLP_CA")]
    sidecar_otlp_ca: Option<String>,
    #[command(flatten)]
    collateral: CollateralArguments,
}

/// Where injected sidecars get collateral from, beside bundles.
#[derive(Debug, Clone, clap::Args)]
struct CollateralArguments {
    /// Whether injected sidecars ask the vendors' services for collateral: `Vendor`, or `None` of them.
    #[arg(long, env = "SEALANE_SIDECAR_COLLATERAL_FETCH", default_value = "None",
          value_parser = ["None", "Vendor"])]
    sidecar_collateral_fetch: String,
    /// In place of AMD's key distribution service.
    #[arg(long, env = "SEALANE_SIDECAR_COLLATERAL_KDS")]
    sidecar_collateral_kds: Option<String>,
    /// In place of Intel's provisioning certification service, such as a PCCS.
    #[arg(long, env = "SEALANE_SIDECAR_COLLATERAL_PCS")]
    sidecar_collateral_pcs: Option<String>,
    /// Azure's THIM, asked first for the certificate of a pod's own chip.
    #[arg(long, env = "SEALANE_SIDECAR_COLLATERAL_THIM")]
    sidecar_collateral_thim: Option<String>,
    /// PEM of the authorities of these services, in place of those that the image trusts.
    #[arg(long, env = "SEALANE_SIDECAR_COLLATERAL_CA")]
    sidecar_collateral_ca: Option<String>,
}

fn parse_resources(text: &str) -> Result<ResourceRequirements, serde_json::Error> {
    serde_json::from_str(text)
}

/// A list of variables is one value to clap.
type Variables = std::sync::Arc<Vec<EnvVar>>;

fn parse_environment(text: &str) -> Result<Variables, String> {
    let variables: Vec<EnvVar> = serde_json::from_str(text).map_err(|error| error.to_string())?;
    match variables.iter().find(|variable| variable.name.starts_with("SEALANE_")) {
        Some(reserved) => Err(format!("`{}` is set by injection alone", reserved.name)),
        None => Ok(variables.into()),
    }
}

fn parse_quantity(text: &str) -> Result<Quantity, &'static str> {
    if is_quantity(text) { Ok(Quantity(text.to_owned())) } else { Err("not a quantity such as 500m or 2") }
}

/// What a process of the operator does.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, EncodeLabelValue, clap::ValueEnum)]
pub enum Role {
    #[default]
    All,
    Operator,
    Webhook,
}

impl Role {
    /// Whether it takes part in the election, and serves sidecars while it leads.
    #[must_use]
    pub const fn leads(self) -> bool {
        matches!(self, Self::All | Self::Operator)
    }

    /// Whether it serves admission.
    #[must_use]
    pub const fn admits(self) -> bool {
        matches!(self, Self::All | Self::Webhook)
    }
}

/// A configuration that cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    #[error("cannot read the simulated platform from {path}")]
    Simulation {
        path: PathBuf,
        #[source]
        source: std::io::Error,
    },
    #[error("{path} is not the JSON that `sealane-sidecar-sim root` writes")]
    SimulationJson {
        path: PathBuf,
        #[source]
        source: serde_json::Error,
    },
    #[error("--sidecar-data-port and --sidecar-admin-port must differ")]
    SamePorts,
    #[error("--webhook-port and --admin-port must differ from each other and from {CONTROL_PORT}")]
    OwnPorts,
    #[error(
        "--sidecar-otlp-endpoint must be http://HOST:PORT, or https://HOST:PORT together with --sidecar-otlp-ca"
    )]
    Traces,
    #[error("{flag} must be http://HOST[:PORT] or https://HOST[:PORT]")]
    Service { flag: &'static str },
}

/// Everything the operator is told.
#[derive(Debug, Clone)]
pub struct Config {
    pub namespace: Namespace,
    pub pod_name: String,
    pub role: Role,
    pub webhook_port: u16,
    pub admin_port: u16,
    /// Under which the webhooks are reached besides their Service.
    pub webhook_names: Vec<String>,
    /// Who may connect to the webhooks; everybody if it is empty.
    pub webhook_sources: Vec<IpNet>,
    /// Whose certificate a client of the webhooks has to show.
    pub webhook_client_ca: Option<ClientAuthorities>,
    pub sidecar: SidecarSettings,
    /// How Benchmarks are run; none if they are not.
    pub benchmarks: Option<Settings>,
}

impl Config {
    /// # Errors
    /// [`ConfigError`] when files or values do not fit.
    pub fn new(arguments: Arguments) -> Result<Self, ConfigError> {
        let Arguments {
            namespace,
            pod_name,
            log: _,
            role,
            webhook_port,
            admin_port,
            webhook_names,
            webhook_sources,
            webhook_client_ca,
            sidecar,
            bench_image,
            benchmark_namespaces,
            node_agent,
            simulated,
            simulation_file,
        } = arguments;
        if sidecar.sidecar_data_port == sidecar.sidecar_admin_port {
            return Err(ConfigError::SamePorts);
        }
        if role.admits() && [admin_port, CONTROL_PORT].contains(&webhook_port) || admin_port == CONTROL_PORT {
            return Err(ConfigError::OwnPorts);
        }
        let simulation = simulation_file.filter(|_| simulated).map(read_simulation).transpose()?;
        let sidecar = sidecar.settings(simulation, node_agent)?;
        let runner = bench_image.filter(|image| !image.is_empty()).map(|image| Runner {
            image,
            pull_policy: sidecar.pull_policy.clone(),
            pull_secrets: sidecar.pull_secrets.clone(),
        });
        let mut namespaces: Vec<String> =
            benchmark_namespaces.iter().map(|name| name.as_str().to_owned()).collect();
        if namespaces.is_empty() {
            namespaces.push(namespace.as_str().to_owned());
        }
        Ok(Self {
            benchmarks: runner.map(|runner| Settings { runner, namespaces }),
            namespace,
            pod_name,
            role,
            webhook_port,
            admin_port,
            webhook_names: webhook_names.into_iter().filter(|name| !name.is_empty()).collect(),
            webhook_sources,
            webhook_client_ca,
            sidecar,
        })
    }
}

impl SidecarArguments {
    fn settings(
        self,
        simulation: Option<Simulation>,
        node_agent: bool,
    ) -> Result<SidecarSettings, ConfigError> {
        let Self {
            sidecar_image,
            sidecar_pull_policy,
            sidecar_pull_secrets,
            sidecar_resources,
            sidecar_required_cpu_limit,
            sidecar_arena_bytes,
            sidecar_data_port,
            sidecar_admin_port,
            sidecar_environment,
            sidecar_log,
            sidecar_otlp_endpoint,
            sidecar_otlp_ca,
            collateral: services,
        } = self;
        Ok(SidecarSettings {
            image: sidecar_image,
            pull_policy: sidecar_pull_policy,
            pull_secrets: sidecar_pull_secrets.into_iter().filter(|name| !name.is_empty()).collect(),
            resources: sidecar_resources,
            required_cpu_limit: sidecar_required_cpu_limit,
            arena_bytes: sidecar_arena_bytes,
            data_port: sidecar_data_port,
            admin_port: sidecar_admin_port,
            environment: sidecar_environment.to_vec(),
            log: sidecar_log,
            traces: traces(sidecar_otlp_endpoint, sidecar_otlp_ca)?,
            collateral: collateral(services)?,
            simulation,
            node_agent,
        })
    }
}

fn traces(
    endpoint: Option<String>,
    authorities: Option<String>,
) -> Result<Vec<(&'static str, String)>, ConfigError> {
    let given = |text: Option<String>| text.filter(|text| !text.is_empty());
    let Some(endpoint) = given(endpoint) else { return Ok(Vec::new()) };
    let authorities = given(authorities);
    if !(endpoint.starts_with("http://") || (endpoint.starts_with("https://") && authorities.is_some())) {
        return Err(ConfigError::Traces);
    }
    let authorities = authorities.map(|pem| ("SEALANE_OTLP_CA", pem));
    Ok([("SEALANE_OTLP_ENDPOINT", endpoint)].into_iter().chain(authorities).collect())
}

fn collateral(arguments: CollateralArguments) -> Result<Vec<(&'static str, String)>, ConfigError> {
    let CollateralArguments {
        sidecar_collateral_fetch: fetch,
        sidecar_collateral_kds: kds,
        sidecar_collateral_pcs: pcs,
        sidecar_collateral_thim: thim,
        sidecar_collateral_ca: authorities,
    } = arguments;
    if fetch == "None" {
        return Ok(Vec::new());
    }
    let services = [
        ("--sidecar-collateral-kds", "SEALANE_COLLATERAL_KDS", kds),
        ("--sidecar-collateral-pcs", "SEALANE_COLLATERAL_PCS", pcs),
        ("--sidecar-collateral-thim", "SEALANE_COLLATERAL_THIM", thim),
    ];
    let mut environment = vec![("SEALANE_COLLATERAL_FETCH", fetch)];
    for (flag, variable, address) in services {
        let Some(address) = address.filter(|text| !text.is_empty()) else { continue };
        // A sidecar that cannot read it would not start.
        if !(address.starts_with("http://") || address.starts_with("https://")) {
            return Err(ConfigError::Service { flag });
        }
        environment.push((variable, address));
    }
    let authorities = authorities.filter(|text| !text.is_empty());
    environment.extend(authorities.map(|pem| ("SEALANE_COLLATERAL_CA", pem)));
    Ok(environment)
}

fn read_simulation(path: PathBuf) -> Result<Simulation, ConfigError> {
    let text = std::fs::read_to_string(&path)
        .map_err(|source| ConfigError::Simulation { path: path.clone(), source })?;
    Simulation::parse(&text).map_err(|source| ConfigError::SimulationJson { path, source })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(extra: &[&str]) -> Result<Arguments, clap::Error> {
        let base = [
            "sealane-operator",
            "--namespace",
            "sealane-system",
            "--pod-name",
            "operator-0",
            "--sidecar-image",
            "localhost/sealane-sidecar:1",
        ];
        Arguments::try_parse_from(base.iter().chain(extra))
    }

    #[test]
    fn defaults_are_complete() {
        let config = Config::new(parse(&[]).unwrap()).unwrap();
        assert_eq!((config.sidecar.data_port, config.sidecar.admin_port), (14710, 14711));
        assert!(config.sidecar.resources.limits.unwrap().contains_key("memory"));
        assert_eq!(config.sidecar.required_cpu_limit, Quantity("500m".to_owned()));
        assert_eq!((config.role, config.webhook_port, config.admin_port), (Role::All, 14713, 14714));
        assert!(config.sidecar.simulation.is_none());
        assert!(config.sidecar.traces.is_empty());
    }

    #[test]
    fn a_collector_is_told_to_sidecars_with_what_its_address_needs() {
        let traces = |extra: &[&str]| Config::new(parse(extra).unwrap()).map(|config| config.sidecar.traces);
        let plain = ["--sidecar-otlp-endpoint", "http://collector:4317"];
        assert_eq!(traces(&plain).unwrap(), [("SEALANE_OTLP_ENDPOINT", "http://collector:4317".to_owned())]);
        let secured = ["--sidecar-otlp-endpoint", "https://collector:4317", "--sidecar-otlp-ca", "PEM"];
        assert_eq!(traces(&secured).unwrap()[1], ("SEALANE_OTLP_CA", "PEM".to_owned()));
        assert!(traces(&secured[..2]).is_err(), "nobody would know whom to trust");
        assert!(traces(&["--sidecar-otlp-endpoint", "collector:4317"]).is_err());
        assert!(traces(&["--sidecar-otlp-endpoint", ""]).unwrap().is_empty(), "as the chart leaves it");
    }

    #[test]
    fn simulation_needs_its_file_and_both_to_be_meant() {
        assert!(parse(&["--simulated"]).is_err());
        let file = std::env::temp_dir().join(format!("sealane-simulation-{}.json", std::process::id()));
        std::fs::write(&file, "{ \"a\": 1 }").unwrap();
        let path = file.to_str().unwrap();
        let unmeant = Config::new(parse(&["--simulation-file", path]).unwrap()).unwrap();
        assert_eq!(unmeant.sidecar.simulation, None);
        let meant = Config::new(parse(&["--simulated", "--simulation-file", path]).unwrap()).unwrap();
        assert_eq!(meant.sidecar.simulation, Some(Simulation::parse("{\"a\":1}").unwrap()));
        std::fs::write(&file, "not json").unwrap();
        assert!(Config::new(parse(&["--simulated", "--simulation-file", path]).unwrap()).is_err());
        std::fs::remove_file(file).unwrap();
    }

    #[test]
    fn services_of_collateral_are_asked_only_where_that_is_said() {
        let environment = |extra: &[&str]| {
            Config::new(parse(extra)?).map(|config| config.sidecar.collateral).map_err(anyhow::Error::from)
        };
        let kds = "http://kds:8080";
        assert_eq!(environment(&["--sidecar-collateral-kds", kds]).unwrap(), []);
        let asked = environment(&["--sidecar-collateral-fetch", "Vendor", "--sidecar-collateral-kds", kds]);
        let expected =
            [("SEALANE_COLLATERAL_FETCH", "Vendor".to_owned()), ("SEALANE_COLLATERAL_KDS", kds.to_owned())];
        assert_eq!(asked.unwrap(), expected);
        for wrong in [["--sidecar-collateral-fetch", "yes"], ["--sidecar-collateral-pcs", "pccs"]] {
            let both = ["--sidecar-collateral-fetch", "Vendor"].iter().chain(&wrong).copied();
            let last: Vec<_> = if wrong[1] == "yes" { wrong.to_vec() } else { both.collect() };
            assert!(environment(&last).is_err(), "{wrong:?}");
        }
    }

    #[test]
    fn a_process_does_what_its_role_says_at_ports_that_differ() {
        let config = |extra: &[&str]| Config::new(parse(extra).unwrap());
        let webhook =
            config(&["--role", "Webhook", "--webhook-port", "10250", "--webhook-names", "a.example,"]);
        let webhook = webhook.unwrap();
        assert!(webhook.role.admits() && !webhook.role.leads());
        assert_eq!((webhook.webhook_port, webhook.webhook_names), (10250, vec!["a.example".to_owned()]));
        let operator = config(&["--role", "Operator"]).unwrap().role;
        assert!(operator.leads() && !operator.admits());
        assert!(Role::All.leads() && Role::All.admits());
        assert!(config(&["--webhook-port", "14712"]).is_err());
        assert!(config(&["--webhook-port", "14714"]).is_err());
        assert!(config(&["--admin-port", "14712", "--role", "Operator"]).is_err());
        assert!(parse(&["--role", "leader"]).is_err());
    }

    #[test]
    fn usage_errors_are_found_before_anything_starts() {
        assert!(parse(&["--sidecar-data-port", "0"]).is_err());
        assert!(parse(&["--sidecar-resources", "{"]).is_err());
        assert!(parse(&["--sidecar-required-cpu-limit", "lots"]).is_err());
        let variable = |name: &str| format!(r#"[{{"name": "{name}", "value": "x"}}]"#);
        assert!(parse(&["--sidecar-environment", &variable("SEALANE_ROOTS")]).is_err());
        assert!(parse(&["--sidecar-environment", &variable("TZ")]).is_ok());
        assert!(parse(&["--namespace", "Not_A_Name"]).is_err());
        assert!(Config::new(parse(&["--sidecar-data-port", "14711"]).unwrap()).is_err());
    }
}
