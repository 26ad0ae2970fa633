//! The real code that asks a platform for evidence, on emulated devices in a mount namespace of its own.
#![allow(clippy::unwrap_used, reason = "helpers of tests fail the test")]

use std::fs;
use std::os::unix::fs::FileTypeExt as _;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use sealane_attestation::{Anchor, Collateral, Evidence, Format, inspect};
use sealane_devices::{Behaviour, Devices};
use sealane_fixtures::keys::AUTHORITY;
use sealane_fixtures::skip;
use sealane_sidecar::evidence::{Platforms, Provider, ProviderError, ProviderInput, QuoteRequest};
use sealane_simulated::forge::Recipe;
use sealane_simulated::{Material, Platform};
use sealane_types::{Digest, Product, Provider as Word, UnixSeconds};

const REQUEST: QuoteRequest = QuoteRequest {
    report_data: [7; 64],
    tree_root: [8; 32],
    own_static: [9; 32],
    policy: Digest::new([0; 32]),
    trust: Digest::new([0; 32]),
    leaves: 1,
};
/// GHCB specification, §4.1.8.1.
const VCEK_GUID: u128 = 0x63da_758d_e664_4564_adc5_f4b9_3be8_accd;

/// Runs [`in_a_namespace_of_its_own`] in a mount namespace of its own.
#[test]
fn providers_on_emulated_devices() {
    if !Path::new("/dev/fuse").metadata().is_ok_and(|fuse| fuse.file_type().is_char_device()) {
        skip(concat!(module_path!(), "::providers_on_emulated_devices"), "this machine has no /dev/fuse");
        return;
    }
    let this = std::env::current_exe().unwrap();
    let root = nix::unistd::geteuid().is_root();
    let mut command = Command::new(if root { "unshare" } else { "sudo" });
    if !root {
        command.args(["-n", "unshare"]);
    }
    command.args(["--mount", "--propagation", "private"]).arg(this);
    command.args(["--exact", "in_a_namespace_of_its_own", "--ignored", "--nocapture"]);
    let status = command.status().unwrap();
    assert!(status.success(), "{command:?}: {status}");
}

fn run(program: &str, arguments: &[&str]) {
    let status = Command::new(program).args(arguments).status().unwrap();
    assert!(status.success(), "{program} {arguments:?}");
}

/// The guest's kernel: nothing of the machine's own shows through.
fn prepare(scratch: &Path) {
    let scratch = scratch.to_str().unwrap();
    run("mount", &["-t", "tmpfs", "tmpfs", "/sys/kernel"]);
    fs::create_dir_all("/sys/kernel/config/tsm/report").unwrap();
    let dev = &format!("{scratch}/dev");
    fs::create_dir(dev).unwrap();
    run("mount", &["-t", "tmpfs", "tmpfs", dev]);
    for device in ["null", "zero", "urandom", "random", "fuse"] {
        let file = &format!("{dev}/{device}");
        fs::write(file, []).unwrap();
        run("mount", &["--bind", &format!("/dev/{device}"), file]);
    }
    run("mount", &["--rbind", dev, "/dev"]);
}

struct Guest {
    devices: Devices,
    mountpoint: String,
    collateral: Collateral,
}

/// Chains that bear AMD's names under keys of the test, pinned for it.
fn material() -> Material {
    let recipe = Recipe { marked: false, ..Recipe::new(Product::Genoa).unwrap() };
    AUTHORITY.issue(&recipe).unwrap()
}

fn table(vcek: &[u8]) -> Vec<u8> {
    let (offset, length) = (48_u32, u32::try_from(vcek.len()).unwrap());
    let mut table = VCEK_GUID.to_be_bytes().to_vec();
    table.extend_from_slice(&offset.to_le_bytes());
    table.extend_from_slice(&length.to_le_bytes());
    table.extend_from_slice(&[0; 24]);
    table.extend_from_slice(vcek);
    table
}

impl Guest {
    fn start(scratch: &Path) -> Self {
        let material = material();
        let [vcek, ask, ark] = material.certificates();
        let collateral = Collateral::empty().with_anchor(Anchor::new(ark, ask).unwrap());
        let behaviour = Behaviour {
            provider: "sev_guest",
            table: table(vcek),
            sign: Box::new({
                let platform = Platform::new(material.clone(), None).unwrap();
                move |data| platform.quote(*data).unwrap().report
            }),
            raced: false,
            level: 0,
            entries: 0,
        };
        let mountpoint = scratch.join("devices");
        fs::create_dir(&mountpoint).unwrap();
        let devices = Devices::mount(&mountpoint, behaviour).unwrap();
        Self { devices, mountpoint: mountpoint.to_str().unwrap().to_owned(), collateral }
    }

    fn plug(&self, name: &str, path: &str) {
        if !Path::new(path).exists() {
            fs::write(path, []).unwrap();
        }
        run("mount", &["--bind", &format!("{}/{name}", self.mountpoint), path]);
    }

    fn unplug(path: &str) {
        run("umount", &[path]);
        if !Path::new(path).is_dir() {
            fs::remove_file(path).unwrap();
        }
    }
}

fn open(word: Word) -> Arc<dyn Provider> {
    Platforms::production().open(word, &ProviderInput::default()).unwrap()
}

async fn evidence(provider: &dyn Provider) -> Result<Evidence, ProviderError> {
    let format = provider.format().await?;
    let quote = provider.quote(REQUEST).await?;
    Ok(Evidence { format, report: quote.report, certificates: quote.certificates })
}

async fn refused(provider: &dyn Provider) -> String {
    evidence(provider).await.unwrap_err().to_string()
}

#[test]
#[ignore = "mounts over the machine's paths: run by `providers_on_emulated_devices`, in a namespace of its own"]
fn in_a_namespace_of_its_own() {
    let scratch = tempfile::tempdir().unwrap();
    // The devices are served from before /dev is hidden, so that nothing depends on the order below.
    let guest = Guest::start(scratch.path());
    prepare(scratch.path());
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    runtime.block_on(async {
        nothing_is_there().await;
        configfs(&guest).await;
        configfs_that_goes_wrong(&guest).await;
        sev_guest(&guest).await;
        nsm(&guest).await;
    });
}

async fn nothing_is_there() {
    assert!(matches!(evidence(&*open(Word::Auto)).await, Err(ProviderError::Unavailable)));
    for (word, named) in [
        (Word::ConfigfsTsm, "/sys/kernel/config/tsm/report"),
        (Word::SevGuest, "/dev/sev-guest"),
        (Word::Nsm, "/dev/nsm"),
    ] {
        let told = refused(&*open(word)).await;
        assert!(told.contains(named), "{told}");
    }
}

/// Evidence that a verifier accepts, its certificate out of the host's table.
async fn configfs(guest: &Guest) {
    guest.plug("report", "/sys/kernel/config/tsm/report");
    for word in [Word::ConfigfsTsm, Word::Auto] {
        let evidence = evidence(&*open(word)).await.unwrap();
        assert_eq!(evidence.format, Format::SevSnp);
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs();
        let claims = inspect(&evidence, &guest.collateral, UnixSeconds(now)).unwrap();
        assert_eq!(claims.report_data(), Some(&REQUEST.report_data));
    }
    assert_eq!(guest.devices.behaviour().entries, 0, "no entry is left behind");
}

async fn configfs_that_goes_wrong(guest: &Guest) {
    let provider = open(Word::ConfigfsTsm);
    evidence(&*provider).await.unwrap();
    guest.devices.behaviour().raced = true;
    assert!(refused(&*provider).await.contains("somebody else wrote"));
    guest.devices.behaviour().raced = false;

    guest.devices.behaviour().provider = "tdx_guest";
    assert!(refused(&*provider).await.contains("changed its provider"));
    guest.devices.behaviour().provider = "another_guest";
    assert!(refused(&*open(Word::ConfigfsTsm)).await.contains("does not know"));
    guest.devices.behaviour().provider = "sev_guest";

    // Certificates that cannot be read are no evidence against the report: a verifier may hold them.
    let whole = std::mem::replace(&mut guest.devices.behaviour().table, vec![0xff; 100]);
    assert!(evidence(&*provider).await.unwrap().certificates.is_empty());
    guest.devices.behaviour().table = whole;

    let honest = std::mem::replace(&mut guest.devices.behaviour().sign, Box::new(|_| vec![2; 1184]));
    assert!(refused(&*provider).await.contains("does not carry what it was asked for"));
    guest.devices.behaviour().sign = Box::new(|_| vec![2; 64 * 1024]);
    assert!(refused(&*provider).await.contains("more than any platform does"));
    guest.devices.behaviour().sign = honest;
    evidence(&*provider).await.unwrap();
    assert_eq!(guest.devices.behaviour().entries, 0, "no entry is left behind");
    Guest::unplug("/sys/kernel/config/tsm/report");
}

async fn sev_guest(guest: &Guest) {
    guest.plug("sev-guest", "/dev/sev-guest");
    for (word, level) in [(Word::SevGuest, 0), (Word::SevGuest, 2), (Word::Auto, 0)] {
        guest.devices.behaviour().level = level;
        let evidence = evidence(&*open(word)).await.unwrap();
        assert_eq!((evidence.format, evidence.certificates.len()), (Format::SevSnp, 0));
        assert_eq!(evidence.report[0x50..0x90], REQUEST.report_data);
    }
    guest.devices.behaviour().level = 4;
    assert!(refused(&*open(Word::SevGuest)).await.contains("refused to quote"));
    guest.devices.behaviour().level = 0;
}

/// An enclave comes before everything else, and its document is about all that Nitro evidence is bound to.
async fn nsm(guest: &Guest) {
    guest.plug("nsm", "/dev/nsm");
    for word in [Word::Nsm, Word::Auto] {
        let evidence = evidence(&*open(word)).await.unwrap();
        assert_eq!(evidence.format, Format::Nitro);
        let QuoteRequest { report_data, tree_root, own_static, policy: _, trust: _, leaves: _ } = REQUEST;
        let asked: Vec<u8> = report_data.into_iter().chain(tree_root).chain(own_static).collect();
        assert_eq!(evidence.report, asked);
    }
    Guest::unplug("/dev/nsm");
    Guest::unplug("/dev/sev-guest");
}
