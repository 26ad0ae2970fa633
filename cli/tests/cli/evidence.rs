//! Entries from evidence that is known to be good: genuine pieces, judged at their time.

use std::fs;
use std::path::{Path, PathBuf};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use sealane_attestation::{Evidence, Format};
use sealane_fixtures::keys::AUTHORITY;
use sealane_policy::{Document, Entry, NitroReference, Reference, SnpReference};
use sealane_simulated::forge::{Kind, REPORT_BYTES, Recipe};
use sealane_simulated::{Platform, host_data};
use sealane_types::{Assurance, Product};

use crate::folder::Folder;

/// When the pieces were genuine and in date.
const SNP_TIME: &str = "2026-11-20T00:00:00Z";
const TDX_TIME: &str = "2025-07-10T00:00:00Z";
const NITRO_TIME: &str = "2025-01-06T16:08:00Z";
const OWNER: &str = "8a88e3dd7409f195fd52db2d3cba5d72ca6709bf1d94121bf3748801b40f6f5c";

/// A folder in which policies are drafted.
struct Desk(Folder);

impl Desk {
    fn new() -> Self {
        Self(Folder::new())
    }

    /// The drafted document, and what was said about it.
    #[track_caller]
    fn drafted(&self, arguments: &[&str]) -> (Document, String) {
        let output = self.0.run(&init(arguments));
        let said = String::from_utf8(output.stderr).unwrap();
        assert!(output.status.success(), "{arguments:?}: {said}");
        (sealane_policy::read(output.stdout.trim_ascii_end()).unwrap(), said)
    }

    #[track_caller]
    fn refused(&self, arguments: &[&str], what: &str) {
        let said = self.0.bad(1, &init(arguments));
        assert!(said.contains(what), "{said}");
    }

    fn put(&self, name: &str, bytes: &[u8]) -> String {
        self.0.write(name, bytes);
        self.0.path(name).to_str().unwrap().to_owned()
    }
}

/// The words that draft a policy of one owner.
fn init<'w>(more: &[&'w str]) -> Vec<&'w str> {
    let fixed = ["policy", "init", "--namespace", "demo", "--name", "demo", "--owner-key", OWNER];
    [&fixed[..], more].concat()
}

fn vector(name: &str) -> String {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../protocol/attestation/tests");
    let path: PathBuf = folder.join(name);
    path.to_str().unwrap().to_owned()
}

#[track_caller]
fn entry<'d>(document: &'d Document, peer: &str) -> &'d Entry {
    &document.peers[&peer.parse().unwrap()].entries[0]
}

#[track_caller]
fn snp<'d>(document: &'d Document, peer: &str) -> &'d SnpReference {
    match &entry(document, peer).reference {
        Reference::SevSnp(snp) => snp,
        other => panic!("{other:?}"),
    }
}

/// A genuine Milan's report with its VCEK, where a Milan is permitted.
fn milan(more: &[&str]) -> Vec<String> {
    let (report, vek) = (vector("snp/milan-v2-vcek.report"), vector("snp/milan-v2-vcek.vcek.der"));
    let fixed = ["--peer", "embedder", "--from-evidence", &report, "--vek", &vek, "--at", SNP_TIME];
    let fixed = [&fixed[..], &["--allow", "Milan"]].concat();
    fixed.iter().chain(more).map(|argument| (*argument).to_owned()).collect()
}

fn borrowed(arguments: &[String]) -> Vec<&str> {
    arguments.iter().map(String::as_str).collect()
}

#[test]
fn a_genuine_report_becomes_an_entry_that_pins_it() {
    let (document, said) = Desk::new().drafted(&borrowed(&milan(&["--allow", "Smt"])));
    let report = fs::read(vector("snp/milan-v2-vcek.report")).unwrap();
    let pinned = snp(&document, "embedder");
    assert_eq!(entry(&document, "embedder").assurance, Assurance::Pod);
    assert_eq!(pinned.measurements.first().unwrap().as_bytes()[..], report[0x90..0xc0]);
    assert_eq!(pinned.host_data.first().unwrap().as_bytes()[..], report[0xc0..0xe0]);
    assert_eq!(pinned.products, [Product::Milan].into());
    let floor = pinned.min_tcb;
    assert_eq!(
        (floor.fmc, floor.bootloader, floor.tee, floor.snp, floor.microcode),
        (None, Some(3), Some(0), Some(8), Some(115))
    );
    assert!(pinned.chip_ids.is_empty() && pinned.permissions.smt && !pinned.permissions.debug);
    assert_eq!(entry(&document, "embedder").absent(), []);
    assert!(sealane_policy::lint(&document).is_empty());
    for word in [
        "genuine SevSnp evidence",
        "bootloader 3, TEE 0, SNP 8, microcode 115",
        "ALLOWED: SMT",
        "Milan, whose evidence may be forged",
        "revoked",
    ] {
        assert!(said.contains(word), "{word}: {said}");
    }
}

#[test]
fn a_pinned_key_is_not_thrown_away_for_the_evidence_of_others() {
    let desk = Desk::new();
    let key = "0a".repeat(32);
    let pinned = format!("laptop={key}");
    let others = ["--allow", "Smt", "--peer", "laptop", "--public-key", &pinned];
    let (document, _) = desk.drafted(&borrowed(&milan(&others)));
    assert_eq!(entry(&document, "laptop").reference, Reference::Key([key.parse().unwrap()].into()));
    assert_eq!(snp(&document, "embedder").products, [Product::Milan].into());
    let named = format!("laptop={}", vector("snp/milan-v2-vcek.report"));
    let both = milan(&[&others[..], &["--from-evidence", &named]].concat());
    desk.refused(&borrowed(&both), "Peer laptop has a pinned key");
    let host_data = format!("laptop={}", "01".repeat(32));
    desk.refused(
        &borrowed(&milan(&[&others[..], &["--host-data", &host_data]].concat())),
        "has no HOST_DATA",
    );
}

#[test]
fn a_chip_is_pinned_when_it_is_asked_for() {
    let (document, _) = Desk::new().drafted(&borrowed(&milan(&["--allow", "Smt", "--pin-chip"])));
    let report = fs::read(vector("snp/milan-v2-vcek.report")).unwrap();
    assert_eq!(snp(&document, "embedder").chip_ids.first().unwrap().as_bytes()[..], report[0x1a0..0x1e0]);
}

#[test]
fn weaknesses_are_permitted_only_when_asked_for() {
    let desk = Desk::new();
    desk.refused(&borrowed(&milan(&[])), "--allow Smt");
    let (report, vek) = (vector("snp/milan-v2-debug.report"), vector("snp/milan-v2-debug.vcek.der"));
    let debug = ["--peer", "a", "--from-evidence", &report, "--vek", &vek, "--at", SNP_TIME];
    desk.refused(&[&debug[..], &["--allow", "Smt"]].concat(), "--allow Debug");
    let debug = [&debug[..], &["--allow", "Smt", "--allow", "Debug"]].concat();
    desk.refused(&debug, "--allow Milan");
    let (document, said) = desk.drafted(&[&debug[..], &["--allow", "Milan"]].concat());
    assert!(snp(&document, "a").permissions.debug);
    assert!(said.contains("ALLOWED: debugging by the host"), "{said}");
    // What is allowed and not needed is not written.
    let (document, _) =
        desk.drafted(&borrowed(&milan(&["--allow", "Smt", "--allow", "Debug", "--allow", "Vmpl"])));
    let permissions = snp(&document, "embedder").permissions;
    assert!(permissions.smt && !permissions.debug && permissions.vmpl_max == 0);
}

#[test]
fn only_genuine_evidence_is_written() {
    let desk = Desk::new();
    let mut report = fs::read(vector("snp/milan-v2-vcek.report")).unwrap();
    report[0x90] ^= 1;
    let (forged, vek) = (desk.put("forged.bin", &report), vector("snp/milan-v2-vcek.vcek.der"));
    let with = |file: &str, more: &[&str]| {
        let fixed = ["--peer", "a", "--from-evidence", file, "--allow", "Smt"];
        fixed.iter().chain(more).map(|argument| (*argument).to_owned()).collect::<Vec<_>>()
    };
    desk.refused(&borrowed(&with(&forged, &["--vek", &vek, "--at", SNP_TIME])), "not genuine");
    let genuine = vector("snp/milan-v2-vcek.report");
    desk.refused(&borrowed(&with(&genuine, &["--at", SNP_TIME])), "--vek FILE");
    desk.refused(&borrowed(&with(&genuine, &["--vek", &vek, "--at", "2060-01-01T00:00:00Z"])), "--at TIME");
    let garbage = desk.put("garbage", b"garbage");
    desk.refused(&borrowed(&with(&garbage, &[])), "is no evidence");
    desk.refused(&borrowed(&with("/nonexistent", &[])), "cannot read /nonexistent");
}

#[test]
fn a_certificate_may_be_pem_and_a_report_base64() {
    let desk = Desk::new();
    let wrapped = |bytes: &[u8]| {
        let text = STANDARD.encode(bytes);
        text.as_bytes()
            .chunks(64)
            .map(|line| format!("{}\n", String::from_utf8_lossy(line)))
            .collect::<String>()
    };
    let vek = wrapped(&fs::read(vector("snp/milan-v2-vcek.vcek.der")).unwrap());
    let vek = desk
        .put("vek.pem", format!("-----BEGIN CERTIFICATE-----\n{vek}-----END CERTIFICATE-----\n").as_bytes());
    let report = wrapped(&fs::read(vector("snp/milan-v2-vcek.report")).unwrap());
    let report = desk.put("report.txt", report.as_bytes());
    let (same, _) = desk.drafted(&[
        "--peer",
        "embedder",
        "--from-evidence",
        &report,
        "--vek",
        &vek,
        "--at",
        SNP_TIME,
        "--allow",
        "Smt",
        "--allow",
        "Milan",
    ]);
    let (document, _) = desk.drafted(&borrowed(&milan(&["--allow", "Smt"])));
    assert_eq!(snp(&same, "embedder"), snp(&document, "embedder"));
}

#[test]
fn each_peer_may_have_evidence_of_its_own() {
    let desk = Desk::new();
    let (report, vek) = (vector("snp/milan-v2-vcek.report"), vector("snp/milan-v2-vcek.vcek.der"));
    let named = format!("embedder={report}");
    let (document, said) = desk.drafted(&[
        "--session",
        "embedder:ranker",
        "--from-evidence",
        &named,
        "--vek",
        &vek,
        "--at",
        SNP_TIME,
        "--allow",
        "Smt",
        "--allow",
        "Milan",
    ]);
    assert_eq!(snp(&document, "embedder").measurements.len(), 1);
    assert!(snp(&document, "ranker").measurements.is_empty());
    assert!(said.contains("`peers.ranker.entries[0].measurements`"), "{said}");
    let stranger = format!("stranger={report}");
    let arguments = ["--peer", "a", "--from-evidence", &stranger, "--vek", &vek, "--at", SNP_TIME];
    let allowed = ["--allow", "Smt", "--allow", "Milan"];
    desk.refused(&[&arguments[..], &allowed].concat(), "not one of the Peers");
    // One image, two initdata: what the flags say of HOST_DATA comes first.
    let [first, second] = ["01", "02"].map(|byte| byte.repeat(32));
    let (a, b) = (format!("embedder={first}"), format!("ranker={second}"));
    let (document, _) = desk.drafted(&[
        "--session",
        "embedder:ranker",
        "--from-evidence",
        &report,
        "--vek",
        &vek,
        "--at",
        SNP_TIME,
        "--allow",
        "Smt",
        "--allow",
        "Milan",
        "--host-data",
        &a,
        "--host-data",
        &b,
    ]);
    assert_eq!(snp(&document, "embedder").host_data, [first.parse().unwrap()].into());
    assert_eq!(snp(&document, "ranker").host_data, [second.parse().unwrap()].into());
    assert_eq!(snp(&document, "embedder").measurements, snp(&document, "ranker").measurements);
}

/// Evidence as a simulated sidecar sends it, with everything that a report can say.
fn simulated(kind: Kind, edit: impl FnOnce(&mut [u8; REPORT_BYTES])) -> (Vec<u8>, Recipe) {
    let recipe = Recipe { kind, ..Recipe::new(Product::Turin).unwrap() };
    let material = AUTHORITY.issue(&recipe).unwrap();
    let guest = Platform::new(material, Some(b"initdata")).unwrap();
    let quote = guest.quote_edited([7; 64], edit).unwrap();
    let evidence =
        Evidence { format: Format::SimulatedSevSnp, report: quote.report, certificates: quote.certificates };
    (evidence.encode().unwrap(), recipe)
}

#[test]
fn everything_that_a_report_says_is_pinned() {
    let desk = Desk::new();
    let (evidence, _) = simulated(Kind::Vlek, |report| {
        report[0] = 5;
        report[0x04] = 7;
        report[0x10] = 1;
        report[0x20] = 2;
        report[0x40] = 0b0010_0100;
        report[0x48] = 1 << 2 | 1;
        report[0xe0..0x110].fill(3);
        report[0x110..0x140].fill(4);
        report[0x1a0..0x1e0].fill(0);
        (report[0x1f8], report[0x200]) = (0b11, 0b110);
        // The launch TCB lies below the reported one.
        report[0x1f0 + 7] -= 1;
    });
    let file = desk.put("evidence.bin", &evidence);
    let common = ["--peer", "a", "--from-evidence", &file];
    desk.refused(&common, "simulated evidence");
    desk.refused(&[&common[..], &["--simulated"]].concat(), "--allow Vlek");
    let arguments = [&common[..], &["--simulated", "--allow", "Vlek"]].concat();
    let (document, said) = desk.drafted(&arguments);
    assert_eq!(entry(&document, "a").assurance, Assurance::Simulated);
    assert!(entry(&document, "a").root.is_some());
    let pinned = snp(&document, "a");
    assert_eq!(pinned.host_data, [host_data(Some(b"initdata"))].into());
    assert_eq!(pinned.vlek_providers, ["simulated.example".to_owned()].into());
    assert_eq!(pinned.identity.id_keys.first().unwrap().as_bytes(), &[3; 48]);
    assert_eq!(pinned.identity.author_keys.first().unwrap().as_bytes(), &[4; 48]);
    assert_eq!(pinned.identity.family_ids.first().unwrap().as_bytes()[0], 1);
    assert_eq!(pinned.identity.image_ids.first().unwrap().as_bytes()[0], 2);
    assert_eq!(pinned.identity.min_guest_svn, Some(7));
    assert_eq!(pinned.mitigations.unwrap().bits(), 0b10);
    assert_eq!(pinned.min_tcb.microcode, Some(70));
    assert_eq!(pinned.min_tcb.fmc, Some(1));
    let protections: Vec<_> = pinned.protections.iter().map(ToString::to_string).collect();
    assert_eq!(protections, ["AliasCheck", "Ecc"]);
    for word in ["ID block was signed", "security version is at least 7", "simulated.example", "mitigations"]
    {
        assert!(said.contains(word), "{word}: {said}");
    }
    desk.refused(&[&arguments[..], &["--pin-chip"]].concat(), "masks the id of its chip");
}

#[test]
fn an_id_block_that_nobody_signed_is_not_pinned() {
    let desk = Desk::new();
    let (evidence, recipe) = simulated(Kind::Vcek, |report| {
        (report[0x04], report[0x10], report[0x20]) = (7, 1, 2);
    });
    let file = desk.put("evidence.bin", STANDARD.encode(evidence).as_bytes());
    let arguments = ["--peer", "a", "--from-evidence", &file, "--simulated", "--pin-chip"];
    let (document, _) = desk.drafted(&arguments);
    let pinned = snp(&document, "a");
    assert_eq!(pinned.identity, sealane_policy::SnpIdentity::default());
    assert_eq!(pinned.chip_ids, [recipe.chip.id].into());
    assert!(sealane_policy::lint(&document).is_empty());
}

fn nitro<'d>(document: &'d Document, peer: &str) -> &'d NitroReference {
    match &entry(document, peer).reference {
        Reference::Nitro(nitro) => nitro,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_nitro_document_pins_its_image_and_role() {
    let desk = Desk::new();
    let file = vector("nitro/prod-2025.cbor");
    let common = ["--peer", "a", "--from-evidence", &file, "--at", NITRO_TIME];
    let (document, said) = desk.drafted(&common);
    let measured = nitro(&document, "a").measurements.first().unwrap();
    assert!(measured.image[0].to_string().starts_with("8bb159f202bb"), "{measured:?}");
    assert!(measured.registers.contains_key(&3) && !measured.registers.contains_key(&4));
    assert!(said.contains("genuine Nitro evidence"), "{said}");
    assert_eq!(entry(&document, "a").absent(), []);
    let (document, _) = desk.drafted(&[&common[..], &["--pin-chip"]].concat());
    assert!(nitro(&document, "a").measurements.first().unwrap().registers.contains_key(&4));
    desk.refused(&["--peer", "a", "--from-evidence", &file, "--at", "2026-01-01T00:00:00Z"], "--at TIME");
    let host_data = format!("a={}", "01".repeat(32));
    desk.refused(&[&common[..], &["--host-data", &host_data]].concat(), "has no HOST_DATA");
}

#[test]
fn a_tdx_quote_is_pinned_with_what_intel_says() {
    let desk = Desk::new();
    let (quote, collateral) = (vector("tdx/v4.quote"), vector("tdx/v4.collateral.json"));
    let common = ["--peer", "a", "--from-evidence", &quote, "--at", TDX_TIME];
    desk.refused(&common, "--collateral FILE");
    let judged = [&common[..], &["--collateral", &collateral]].concat();
    desk.refused(&judged, "--allow DynamicPlatform");
    let allowed =
        ["DynamicPlatform", "CachedKeys", "Smt", "Debug", "Perfmon"].map(|word| ["--allow", word]).concat();
    let (document, said) = desk.drafted(&[judged, allowed].concat());
    let Reference::Tdx(tdx) = &entry(&document, "a").reference else { panic!("{document:?}") };
    let bytes = fs::read(&quote).unwrap();
    assert_eq!(tdx.measurements.first().unwrap().mrtd.as_bytes()[..], bytes[48 + 136..48 + 184]);
    assert_eq!(tdx.fmspcs.first().unwrap().to_string(), "b0c06f000000");
    assert_eq!((tdx.tcb_statuses.len(), tdx.min_tcb_evaluation), (1, Some(17)));
    let permissions = &tdx.permissions;
    assert!(permissions.dynamic_platform && permissions.cached_keys && permissions.smt);
    assert!(!permissions.debug && !permissions.perfmon, "allowed, and not needed");
    assert_eq!(entry(&document, "a").absent(), []);
    assert!(said.contains("genuine Tdx evidence") && said.contains("b0c06f000000"), "{said}");
    let unused = desk.put("list", b"");
    let nitro = vector("nitro/prod-2025.cbor");
    let arguments = ["--peer", "a", "--from-evidence", &nitro, "--at", NITRO_TIME, "--collateral", &unused];
    desk.refused(&arguments, "takes no collateral");
}

/// `policy show` of the drafted document.
fn shown(desk: &Desk, arguments: &[&str]) -> String {
    let draft = desk.put("draft.json", desk.0.good(&init(arguments)).as_bytes());
    desk.0.good(&["policy", "show", &draft])
}

#[test]
fn a_policy_says_what_it_asks_for_and_what_it_does_not() {
    let desk = Desk::new();
    let text = shown(&desk, &borrowed(&milan(&["--allow", "Smt"])));
    for words in [
        "with firmware of at least bootloader 3, TEE 0, SNP 8, microcode 115",
        "not asked for: the chip, who signed the guest's ID block, mitigations, protections (AliasCheck, Ecc",
        "ALLOWED: SMT",
        "Milan, whose evidence may be forged",
        "memory on CXL devices",
        "Worth knowing before it is signed:",
        "accepts any Milan",
        "accepts zero",
        "BadRAM",
    ] {
        assert!(text.contains(words), "{words}: {text}");
    }
    let (evidence, _) = simulated(Kind::Vlek, |report| {
        (report[0], report[0x48]) = (5, 1 << 2 | 1);
        report[0x40] |= 1 << 4;
        report[0xe0..0x140].fill(3);
        report[0x1a0..0x1e0].fill(0);
        (report[0x1f8], report[0x200]) = (1, 1);
    });
    let file = desk.put("evidence.bin", &evidence);
    let arguments = ["--peer", "a", "--from-evidence", &file, "--simulated", "--allow", "Vlek"];
    let text = shown(&desk, &arguments);
    for words in [
        "its ID block was signed by the key with SHA-384 0303",
        "the key of its ID block was signed by the one with SHA-384 0303",
        "its FAMILY_ID is",
        "its IMAGE_ID is",
        "its own security version is at least 0",
        "whose mitigations 0000000000000001 were there at launch and still are",
        "its memory was checked for aliases",
        "the host cannot read its ciphertext",
        "keys held by the cloud provider (VLEK) simulated.example",
    ] {
        assert!(text.contains(words), "{words}: {text}");
    }
    // Any provider will do: said twice over.
    let draft = fs::read_to_string(desk.0.path("draft.json")).unwrap();
    let open =
        desk.put("open.json", draft.replace(r#","vlekProviders":["simulated.example"]"#, "").as_bytes());
    let text = desk.0.good(&["policy", "show", &open]);
    assert!(text.contains("keys held by ANY cloud provider (VLEK)"), "{text}");
    assert!(text.contains("shown as Degraded: vlekProviders"), "{text}");
}

#[test]
fn flags_that_evidence_answers_are_bad_usage() {
    let folder = Folder::new();
    folder.bad(2, &init(&["--peer", "a", "--from-evidence", "x", "--min-tcb", "snp=1"]));
    folder.bad(2, &init(&["--peer", "a", "--pin-chip"]));
}
