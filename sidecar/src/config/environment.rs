//! The environment that the webhook gives to an injected sidecar.

use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use sealane_collateral::{KDS, PCS, Sources};
use sealane_protocol::limits::LINKS_MAX;
use sealane_types::{PodIdentity, RootSource, Roots, SimulatedForm};

use super::initdata::Initdata;
use super::{
    ADMIN_PORT, ARENA_BYTES, Anchors, CollateralSources, Config, ConfigError, Control, DATA_PORT, DOOR,
    DRAIN, GRPC, Traces, default_links, read,
};
use crate::evidence::{KeyFile, ProviderInput};
use crate::link::xdp::Device;

/// Looks a variable up; `std::env::var(…).ok()` outside tests.
pub type Lookup<'a> = &'a dyn Fn(&'static str) -> Option<String>;

/// Parses the environment.
///
/// # Errors
/// [`ConfigError`] names the variable and what it should hold.
pub fn parse(lookup: Lookup<'_>) -> Result<Config, ConfigError> {
    let data_port = number(lookup, "SEALANE_DATA_PORT", DATA_PORT)?;
    let admin_port = number(lookup, "SEALANE_ADMIN_PORT", ADMIN_PORT)?;
    let admin_preferred = number(lookup, "SEALANE_ADMIN_PORT_PREFERRED", 0)?;
    let initdata = initdata(lookup)?;
    Ok(Config {
        pod: pod(lookup)?,
        node: lookup("SEALANE_NODE_NAME").unwrap_or_default(),
        addresses: addresses(lookup)?,
        // Dual stack: an IPv6 wildcard socket takes IPv4 too, and listening falls back where there is no IPv6.
        listen: SocketAddr::new(IpAddr::V6(Ipv6Addr::UNSPECIFIED), data_port),
        admin: SocketAddr::new(IpAddr::V6(Ipv6Addr::UNSPECIFIED), admin_port),
        admin_preferred: Some(admin_preferred).filter(|port| *port != 0),
        door: lookup("SEALANE_DOOR").map_or_else(|| PathBuf::from(DOOR), PathBuf::from),
        grpc: Some(lookup("SEALANE_GRPC").map_or_else(|| PathBuf::from(GRPC), PathBuf::from)),
        arena_bytes: number(lookup, "SEALANE_ARENA_BYTES", ARENA_BYTES)?,
        host_network: flag(lookup, "SEALANE_HOST_NETWORK")?,
        device: flag(lookup, "SEALANE_AF_XDP")?.then_some(Device::OfPod),
        links: links(lookup)?,
        drain: Duration::from_secs(number(lookup, "SEALANE_DRAIN_SECONDS", DRAIN.as_secs())?),
        control: Some(control(lookup)?),
        roots: roots(lookup, initdata.as_ref())?,
        fixed: None,
        platform: platform(lookup, initdata)?,
        traces: traces(lookup)?,
        collateral: collateral(lookup)?,
        state: lookup("SEALANE_STATE").filter(|value| !value.is_empty()).map(PathBuf::from),
    })
}

/// Where spans go: our own variable, or the ones that OpenTelemetry's programs read.
///
/// # Errors
/// As [`parse`].
pub fn traces(lookup: Lookup<'_>) -> Result<Option<Traces>, ConfigError> {
    let names =
        ["SEALANE_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT"];
    let set =
        |name: &&'static str| lookup(name).filter(|value| !value.is_empty()).map(|value| (*name, value));
    let Some((name, endpoint)) = names.iter().find_map(set) else { return Ok(None) };
    let authorities = lookup("SEALANE_OTLP_CA").filter(|text| !text.is_empty());
    if endpoint.starts_with("https://") && authorities.is_none() {
        return Err(ConfigError::Missing { name: "SEALANE_OTLP_CA" });
    }
    if !endpoint.starts_with("http://") && !endpoint.starts_with("https://") {
        return Err(ConfigError::Malformed {
            name,
            expected: "an http:// or https:// address",
            found: endpoint,
        });
    }
    Ok(Some(Traces { endpoint, authorities }))
}

/// The volume of an optional ConfigMap exists, empty, when there is none.
fn collateral(lookup: Lookup<'_>) -> Result<CollateralSources, ConfigError> {
    let set = |name: &'static str| lookup(name).filter(|value| !value.is_empty());
    let name = "SEALANE_COLLATERAL_FETCH";
    let fetch = match set(name).as_deref() {
        None | Some("None") => None,
        Some("Vendor") => Some(Sources {
            kds: set("SEALANE_COLLATERAL_KDS").unwrap_or_else(|| KDS.to_owned()),
            pcs: set("SEALANE_COLLATERAL_PCS").unwrap_or_else(|| PCS.to_owned()),
            thim: set("SEALANE_COLLATERAL_THIM"),
            authorities: set("SEALANE_COLLATERAL_CA"),
        }),
        Some(found) => {
            return Err(ConfigError::Malformed {
                name,
                expected: "`None` or `Vendor`",
                found: found.to_owned(),
            });
        }
    };
    Ok(CollateralSources { directory: set("SEALANE_COLLATERAL").map(PathBuf::from), fetch })
}

fn required(lookup: Lookup<'_>, name: &'static str) -> Result<String, ConfigError> {
    lookup(name).filter(|value| !value.is_empty()).ok_or(ConfigError::Missing { name })
}

fn number<T: FromStr>(lookup: Lookup<'_>, name: &'static str, default: T) -> Result<T, ConfigError> {
    let Some(text) = lookup(name).filter(|value| !value.is_empty()) else { return Ok(default) };
    text.parse().map_err(|_| ConfigError::Malformed { name, expected: "a number in range", found: text })
}

/// As many as there are threads to move their bytes, unless it is said.
fn links(lookup: Lookup<'_>) -> Result<u8, ConfigError> {
    let name = "SEALANE_LINKS";
    match number(lookup, name, default_links())? {
        links if (1..=LINKS_MAX).contains(&links) => Ok(links),
        found => Err(ConfigError::Malformed { name, expected: "1 to 4", found: found.to_string() }),
    }
}

fn flag(lookup: Lookup<'_>, name: &'static str) -> Result<bool, ConfigError> {
    let Some(text) = lookup(name).filter(|value| !value.is_empty()) else { return Ok(false) };
    text.parse().map_err(|_| ConfigError::Malformed { name, expected: "`true` or `false`", found: text })
}

fn pod(lookup: Lookup<'_>) -> Result<PodIdentity, ConfigError> {
    let namespace = required(lookup, "SEALANE_POD_NAMESPACE")?;
    let name = required(lookup, "SEALANE_POD_NAME")?;
    let uid = required(lookup, "SEALANE_POD_UID")?;
    PodIdentity::new(&namespace, &name, &uid)
        .map_err(|source| ConfigError::Name { name: "SEALANE_POD_NAMESPACE, _NAME or _UID", source })
}

fn addresses(lookup: Lookup<'_>) -> Result<Vec<IpAddr>, ConfigError> {
    let name = "SEALANE_POD_IPS";
    let text = lookup(name).unwrap_or_default();
    text.split(',')
        .filter(|part| !part.is_empty())
        .map(|part| {
            let malformed = || ConfigError::Malformed {
                name,
                expected: "a list of IP addresses",
                found: part.to_owned(),
            };
            part.trim().parse().map_err(|_| malformed())
        })
        .collect()
}

fn control(lookup: Lookup<'_>) -> Result<Control, ConfigError> {
    let name = "SEALANE_CONTROL_ADDRESS";
    let address = required(lookup, name)?;
    if !address.starts_with("https://") {
        return Err(ConfigError::Malformed { name, expected: "an https:// address", found: address });
    }
    Ok(Control {
        address,
        server_name: lookup("SEALANE_CONTROL_SERVER_NAME").filter(|name| !name.is_empty()),
        authorities: required(lookup, "SEALANE_CONTROL_CA")?,
        token: required(lookup, "SEALANE_CONTROL_TOKEN")?.into(),
    })
}

/// Initdata beats a file, since the guest measures it, and a file beats injected roots: whoever rendered the image or manifest
/// is nearer to the owner than the webhook.
fn roots(lookup: Lookup<'_>, initdata: Option<&Initdata>) -> Result<Anchors, ConfigError> {
    if let Some(roots) = initdata.map(Initdata::roots).transpose()?.flatten() {
        return Ok(Anchors { roots, source: RootSource::Initdata });
    }
    if let Some(path) = lookup("SEALANE_ROOTS_FILE").filter(|path| !path.is_empty()) {
        let bytes = read(path.as_ref())?;
        let name = "SEALANE_ROOTS_FILE";
        let roots: Vec<Roots> =
            serde_json::from_slice(&bytes).map_err(|source| ConfigError::Json { name, source })?;
        if roots.is_empty() {
            return Err(ConfigError::NoRoots { name });
        }
        return Ok(Anchors { roots, source: RootSource::File });
    }
    let name = "SEALANE_ROOTS";
    let roots: Vec<Roots> = match lookup(name).filter(|text| !text.is_empty()) {
        Some(text) => serde_json::from_str(&text).map_err(|source| ConfigError::Json { name, source })?,
        None => Vec::new(),
    };
    Ok(Anchors { roots, source: RootSource::Injected })
}

/// The volume of a downward API annotation exists, empty, when the annotation is absent.
fn initdata(lookup: Lookup<'_>) -> Result<Option<Initdata>, ConfigError> {
    let path = lookup("SEALANE_INITDATA").filter(|path| !path.is_empty()).map(PathBuf::from);
    let Some(path) = path.filter(|path| path.exists()) else { return Ok(None) };
    let bytes = Some(read(&path)?).filter(|bytes| !bytes.is_empty());
    Ok(bytes.map(|bytes| Initdata::read(&bytes)).transpose()?)
}

fn platform(lookup: Lookup<'_>, initdata: Option<Initdata>) -> Result<ProviderInput, ConfigError> {
    let simulated = lookup("SEALANE_SIMULATED_PLATFORM").filter(|text| !text.is_empty());
    let form = form(lookup)?;
    let key_file = lookup("SEALANE_KEY_FILE").filter(|path| !path.is_empty());
    let key_file = key_file.map(|path| KeyFile::mounted(path.into()));
    Ok(ProviderInput { simulated, form, initdata, key_file })
}

fn form(lookup: Lookup<'_>) -> Result<SimulatedForm, ConfigError> {
    let name = "SEALANE_SIMULATED_FORM";
    let Some(text) = lookup(name).filter(|text| !text.is_empty()) else {
        return Ok(SimulatedForm::default());
    };
    text.parse().map_err(|_| ConfigError::Malformed { name, expected: "SevSnp, Tdx or Nitro", found: text })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn complete(name: &'static str) -> Option<String> {
        let value = match name {
            "SEALANE_POD_NAMESPACE" => "demo",
            "SEALANE_POD_NAME" => "embedder-0",
            "SEALANE_POD_UID" => "6b5e",
            "SEALANE_POD_IPS" => "10.0.0.7,fd00::7",
            "SEALANE_CONTROL_ADDRESS" => "https://sealane-control.sealane-system.svc:14712",
            "SEALANE_CONTROL_CA" => "-----BEGIN CERTIFICATE-----",
            "SEALANE_CONTROL_TOKEN" => "/var/run/secrets/sealane.dev/token",
            _ => return None,
        };
        Some(value.to_owned())
    }

    /// The variables, with one that names a file of this content.
    fn with_file(name: &'static str, content: &str) -> Result<Config, ConfigError> {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("file");
        std::fs::write(&path, content).unwrap();
        let path = path.to_str().unwrap().to_owned();
        parse(&|asked| if asked == name { Some(path.clone()) } else { complete(asked) })
    }

    #[test]
    fn a_file_without_roots_is_refused() {
        let error = with_file("SEALANE_ROOTS_FILE", "[]").unwrap_err();
        assert!(error.to_string().contains("SEALANE_ROOTS_FILE lists no roots"), "{error}");
    }

    #[test]
    fn roots_in_the_initdata_come_before_all_others() {
        let roots = r#"[{"namespace":"demo","policy":"demo","threshold":1,"keys":[],"minimumEpoch":1}]"#;
        let initdata = format!("[data]\n\"sealane-roots.json\" = '''{roots}'''\n");
        let config = with_file("SEALANE_INITDATA", &initdata).unwrap();
        assert_eq!((config.roots.source, config.roots.roots.len()), (RootSource::Initdata, 1));
        let config = with_file("SEALANE_INITDATA", "nothing of ours").unwrap();
        assert_eq!(config.roots.source, RootSource::Injected);
        let none = initdata.replace(roots, "[]");
        assert!(with_file("SEALANE_INITDATA", &none).is_err());
    }

    #[test]
    fn the_environment_of_the_webhook_is_enough() {
        let config = parse(&complete).unwrap();
        assert_eq!(config.pod.as_str(), "demo/embedder-0/6b5e");
        assert_eq!(config.addresses.len(), 2);
        assert_eq!(config.listen.port(), DATA_PORT);
        assert_eq!(config.arena_bytes, ARENA_BYTES);
        assert!(config.roots.roots.is_empty());
        assert_eq!((config.admin_preferred, config.control.unwrap().server_name), (None, None));
    }

    #[test]
    fn on_the_hosts_network_the_operator_is_known_by_another_name_and_a_port_is_preferred() {
        let lookup = |name: &'static str| match name {
            "SEALANE_CONTROL_ADDRESS" => Some("https://10.96.0.7:14712".to_owned()),
            "SEALANE_CONTROL_SERVER_NAME" => Some("sealane-control.sealane-system.svc".to_owned()),
            "SEALANE_ADMIN_PORT" => Some("0".to_owned()),
            "SEALANE_ADMIN_PORT_PREFERRED" => Some("20007".to_owned()),
            _ => complete(name),
        };
        let config = parse(&lookup).unwrap();
        assert_eq!((config.admin.port(), config.admin_preferred), (0, Some(20_007)));
        let control = config.control.unwrap();
        assert_eq!(control.address, "https://10.96.0.7:14712");
        assert_eq!(control.server_name.as_deref(), Some("sealane-control.sealane-system.svc"));
    }

    #[test]
    fn each_required_variable_is_named_when_missing() {
        for missing in [
            "SEALANE_POD_NAMESPACE",
            "SEALANE_POD_NAME",
            "SEALANE_POD_UID",
            "SEALANE_CONTROL_ADDRESS",
            "SEALANE_CONTROL_CA",
            "SEALANE_CONTROL_TOKEN",
        ] {
            let error = parse(&|name| (name != missing).then(|| complete(name)).flatten()).unwrap_err();
            assert!(error.to_string().contains(missing), "{error}");
        }
    }

    #[test]
    fn spans_go_where_one_of_three_variables_says() {
        assert!(parse(&complete).unwrap().traces.is_none(), "off by default");
        let set = |name: &'static str, value: &'static str| {
            traces(&move |asked| (asked == name).then(|| value.to_owned()))
        };
        for name in
            ["SEALANE_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT"]
        {
            let found = set(name, "http://collector:4317").unwrap().unwrap();
            assert_eq!(found.endpoint, "http://collector:4317");
            assert!(set(name, "").unwrap().is_none());
            assert!(set(name, "collector:4317").unwrap_err().to_string().contains(name));
            assert!(set(name, "https://collector:4317").unwrap_err().to_string().contains("SEALANE_OTLP_CA"));
        }
    }

    #[test]
    fn the_form_of_a_simulation_is_said_or_sev_snp() {
        assert_eq!(parse(&complete).unwrap().platform.form, SimulatedForm::SevSnp);
        let tdx =
            |name| if name == "SEALANE_SIMULATED_FORM" { Some("Tdx".to_owned()) } else { complete(name) };
        assert_eq!(parse(&tdx).unwrap().platform.form, SimulatedForm::Tdx);
    }

    #[test]
    fn services_are_asked_only_where_that_is_said() {
        let set = |values: &'static [(&str, &str)]| {
            collateral(&|asked| {
                values.iter().find(|(name, _)| *name == asked).map(|(_, value)| (*value).to_owned())
            })
        };
        assert!(set(&[]).unwrap().fetch.is_none(), "off by default");
        assert!(set(&[("SEALANE_COLLATERAL_KDS", "http://kds")]).unwrap().fetch.is_none());
        let vendor =
            set(&[("SEALANE_COLLATERAL_FETCH", "Vendor"), ("SEALANE_COLLATERAL_PCS", "http://pccs")]);
        let sources = vendor.unwrap().fetch.unwrap();
        assert_eq!((sources.kds.as_str(), sources.pcs.as_str()), (KDS, "http://pccs"));
        let error = set(&[("SEALANE_COLLATERAL_FETCH", "yes")]).unwrap_err();
        assert!(error.to_string().contains("SEALANE_COLLATERAL_FETCH"), "{error}");
    }

    #[test]
    fn malformed_values_are_refused() {
        for (name, value) in [
            ("SEALANE_DATA_PORT", "70000"),
            ("SEALANE_POD_IPS", "10.0.0.7,example.org"),
            ("SEALANE_CONTROL_ADDRESS", "http://sealane-control:14712"),
            ("SEALANE_ROOTS", "[{}]"),
            ("SEALANE_POD_NAME", "Not_A_Name"),
            ("SEALANE_HOST_NETWORK", "yes"),
            ("SEALANE_AF_XDP", "eth0"),
            ("SEALANE_LINKS", "0"),
            ("SEALANE_LINKS", "5"),
            ("SEALANE_SIMULATED_FORM", "Sgx"),
        ] {
            let lookup = |asked: &'static str| {
                if asked == name { Some(value.to_owned()) } else { complete(asked) }
            };
            assert!(parse(&lookup).is_err(), "{name}");
        }
    }
}
