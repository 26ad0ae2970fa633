//! Makes the manifest of a guest of its own, with what its platform measures.

mod agent_policy;
mod initdata;
mod manifest;
mod yaml;

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use clap::ValueEnum;
use k8s_openapi::api::core::v1::Secret;
use kube::Api;
use sealane_injection::{Bounds, InjectionContext, SidecarSettings};
use sealane_operator_api::well_known::{AUTHORITIES_KEY, CERTIFICATES_SECRET};
use sealane_types::{INITDATA_BYTES_MAX, PeerName, Roots};
use serde_json::{Value, json};

use crate::cluster::{Connection, RELEASE_NAMESPACE, words};
use crate::output;
use crate::policy::reference::Reference;
use crate::source::{read_text, shown};
use initdata::Initdata;
use manifest::{Guest, Manifest};

/// What is left of an object's 256 KiB of annotations for this one, packed.
const ANNOTATION_BYTES_MAX: usize = 240 * 1024;

/// Writes a manifest with the sidecar in its pod and the initdata of its guest, for Confidential Containers: what a
/// webhook would add there the guest's agent would refuse. The initdata holds the owners' roots and the agent's policy;
/// the digest that the Sealane policy must pin is said on stderr.
///
/// The agent's policy has to permit the sidecar: render once without --agent-policy, generate the policy from what was
/// rendered (genpolicy), and render the result again with it.
#[derive(Debug, clap::Args)]
#[command(verbatim_doc_comment)]
pub(crate) struct Arguments {
    /// The manifest: pods, or workloads with a pod template; other objects stay as they are. `-` is stdin.
    #[arg(short, long, value_name = "FILE")]
    file: PathBuf,
    /// The platform of the guest.
    #[arg(long, value_enum)]
    guest: Platform,
    /// The owners' roots: a JSON list, the TrustPolicy, or a signed bundle. Get them from the owners, not from the cluster.
    #[arg(long, value_name = "FILE")]
    roots: PathBuf,
    /// The Peer that the pods belong to. It is measured with the rest: of two Peers with one guest image, it tells one from
    /// the other.
    #[arg(long, value_name = "NAME")]
    peer: Option<PeerName>,
    /// The sidecar's image, by digest (NAME@sha256:…): the agent's policy permits what it names.
    #[arg(long, value_name = "IMAGE")]
    image: String,
    /// The policy of the guest's agent, in Rego.
    #[arg(long, value_name = "FILE")]
    agent_policy: Option<PathBuf>,
    /// PEM of the authorities of the operator's certificate; by default asked of the cluster (Secret sealane-certificates).
    #[arg(long, value_name = "FILE")]
    control_ca: Option<PathBuf>,
    /// The namespace of the operator.
    #[arg(long, value_name = "NAMESPACE", default_value = RELEASE_NAMESPACE)]
    operator_namespace: String,
    /// The RuntimeClass of pods that name none; by default kata-qemu-snp or kata-qemu-tdx.
    #[arg(long, value_name = "NAME")]
    runtime_class: Option<String>,
    /// Write manifest.yaml, initdata.toml and entry.json (what the Sealane policy's entry pins) into this directory.
    #[arg(long, value_name = "DIRECTORY")]
    out: Option<PathBuf>,
}

/// Whose guest it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Platform {
    Snp,
    Tdx,
}

impl Platform {
    const fn runtime_class(self) -> &'static str {
        match self {
            Self::Snp => "kata-qemu-snp",
            Self::Tdx => "kata-qemu-tdx",
        }
    }

    /// The digest by which the platform measures initdata: HOST_DATA of SEV-SNP has 32 bytes, MRCONFIGID of TDX 48.
    const fn digest(self) -> initdata::Algorithm {
        match self {
            Self::Snp => initdata::Algorithm::Sha256,
            Self::Tdx => initdata::Algorithm::Sha384,
        }
    }

    /// What an entry of the policy pins it by.
    const fn member(self) -> &'static str {
        match self {
            Self::Snp => "hostData",
            Self::Tdx => "mrConfigId",
        }
    }
}

pub(crate) fn run(arguments: &Arguments, connection: &Connection) -> Result<()> {
    let Arguments { guest, agent_policy, .. } = arguments;
    let mut manifest =
        Manifest::read(&read_text(&arguments.file)?).with_context(|| shown(&arguments.file))?;
    let policy = agent_policy.as_deref().map(read_text).transpose()?;
    let initdata = Initdata::new(&initdata::Contents {
        roots: &roots(&arguments.roots)?,
        peer: arguments.peer.as_ref(),
        agent_policy: policy.as_deref(),
        algorithm: guest.digest(),
    });
    let authorities = match &arguments.control_ca {
        Some(file) => read_text(file)?,
        None => authorities(connection, &arguments.operator_namespace)?,
    };
    let settings = SidecarSettings::new(arguments.image.clone());
    let bounds = Bounds::default();
    let namespace = connection.namespace.as_deref().unwrap_or("default");
    let context = InjectionContext {
        settings: &settings,
        operator_namespace: &arguments.operator_namespace,
        control_ip: None,
        admin_port: settings.admin_port,
        authorities: &authorities,
        namespace,
        peer: None,
        initdata: Some(manifest::INITDATA),
        node_agent: false,
        roots: None,
        key_secret: None,
        af_xdp: false,
        bounds: &bounds,
    };
    let runtime_class = arguments.runtime_class.as_deref().unwrap_or(guest.runtime_class());
    let annotation = initdata.annotation();
    ensure!(
        annotation.len() <= ANNOTATION_BYTES_MAX && initdata.text().len() <= INITDATA_BYTES_MAX,
        "the initdata has {} bytes, and {} packed: a sidecar reads at most {INITDATA_BYTES_MAX}, and all annotations of a pod have at most 256 KiB together",
        initdata.text().len(),
        annotation.len()
    );
    let warnings = manifest.render(&context, &Guest { runtime_class, initdata: &annotation })?;
    let pinned = json!({guest.member(): [initdata.digest()]});
    match &arguments.out {
        Some(directory) => write(directory, &manifest, &initdata, &pinned)?,
        None => output::print(&manifest.to_yaml())?,
    }
    let of_policy = agent_policy::warnings(policy.as_deref());
    for warning in warnings.into_iter().chain(of_image(&arguments.image)).chain(of_policy) {
        output::say(&format!("warning: {warning}"));
    }
    let (member, digest) = (guest.member(), initdata.digest());
    output::say(&format!(
        "the policy's entry for this guest pins its initdata: \"{member}\": [\"{digest}\"]"
    ));
    Ok(())
}

/// A JSON list, or whatever else roots are read from.
fn roots(file: &Path) -> Result<Vec<Roots>> {
    let listed = match serde_json::from_str::<Vec<Roots>>(&read_text(file)?) {
        Ok(listed) => listed,
        Err(_) => vec![Reference::read(file)?.roots],
    };
    ensure!(!listed.is_empty(), "{} lists no roots", shown(file));
    Ok(listed)
}

/// What the operator's certificate is signed by, as the cluster has it: the control channel decides nothing that has to be
/// proved.
fn authorities(connection: &Connection, namespace: &str) -> Result<String> {
    connection.with_client(async |client, _| {
        let secret = Api::<Secret>::namespaced(client, namespace).get(CERTIFICATES_SECRET).await;
        let secret = secret.map_err(|error| {
            anyhow::anyhow!(
                "Secret {CERTIFICATES_SECRET} of namespace {namespace} cannot be read ({}): name the operator's namespace with --operator-namespace, or give its {AUTHORITIES_KEY} with --control-ca",
                words(&error)
            )
        })?;
        let bundle = secret.data.as_ref().and_then(|data| data.get(AUTHORITIES_KEY));
        let bundle = bundle.with_context(|| format!("Secret {CERTIFICATES_SECRET} has no {AUTHORITIES_KEY}"))?;
        String::from_utf8(bundle.0.clone()).context("the operator's authorities are not PEM")
    })
}

fn write(directory: &Path, manifest: &Manifest, initdata: &Initdata, pinned: &Value) -> Result<()> {
    fs::create_dir_all(directory).with_context(|| shown(directory))?;
    for (name, text) in [
        ("manifest.yaml", manifest.to_yaml()),
        ("initdata.toml", initdata.text().to_owned()),
        ("entry.json", format!("{pinned:#}\n")),
    ] {
        let file = directory.join(name);
        fs::write(&file, text).with_context(|| format!("cannot write {}", file.display()))?;
        output::say(&format!("wrote {}", file.display()));
    }
    Ok(())
}

fn of_image(image: &str) -> Option<String> {
    (!image.contains("@sha256:")).then(|| {
        format!("{image} is a tag, which may name another image tomorrow: the agent's policy and the Sealane policy want a digest (NAME@sha256:…)")
    })
}
