//! `--test-roots`: evidence under simulated roots is judged as a vendor's, where its entry says so and nowhere else.

use std::{
    fs,
    path::Path,
    time::{SystemTime, UNIX_EPOCH},
};

use sealane_fixtures::keys::AUTHORITY;
use sealane_judge::{Line, judge};
use sealane_simulated::{
    Platform,
    forge::{Kind, Recipe},
    nitro, tdx,
};
use sealane_types::Product;
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::assert_line;

const TRUST: &str = "simulated root in this entry: nobody's hardware";
const REPORT_DATA: [u8; 64] = [7; 64];

/// One entry with its files in a folder of its own.
struct Case {
    folder: TempDir,
    entry: Value,
}

impl Case {
    fn new(kind: &str, files: &[(&str, &[u8])]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        for (name, bytes) in files {
            fs::write(folder.path().join(name), bytes).unwrap();
        }
        let names: serde_json::Map<_, _> =
            files.iter().map(|(name, _)| ((*name).to_owned(), json!(name))).collect();
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs();
        let entry =
            json!({"id": kind, "kind": kind, "files": names, "now": now, "trust": TRUST, "policy": {}});
        Self { folder, entry }
    }

    fn snp(recipe: &Recipe, edit: impl FnOnce(&mut [u8; sealane_simulated::forge::REPORT_BYTES])) -> Self {
        let material = AUTHORITY.issue(recipe).unwrap();
        let quote = Platform::new(material, None).unwrap().quote_edited(REPORT_DATA, edit).unwrap();
        let [vek, ask, ark] = <&[Vec<u8>; 3]>::try_from(quote.certificates.as_slice()).unwrap();
        Self::new("sev-snp", &[("report", &quote.report), ("vek", vek), ("ask", ask), ("ark", ark)])
    }

    fn tdx(marked: bool) -> Self {
        let recipe = tdx::forge::Recipe { marked, ..tdx::forge::Recipe::new().unwrap() };
        let material = tdx::forge::Authority::generate().unwrap().issue(&recipe).unwrap();
        let quote = tdx::Platform::new(material.clone(), None).unwrap().quote(REPORT_DATA).unwrap();
        let [_, _, root] = material.chain();
        let collateral = material.collateral_json();
        Self::new("tdx", &[("quote", &quote.report), ("collateral", collateral.as_bytes()), ("root", root)])
    }

    fn nitro(marked: bool) -> Self {
        let chain = nitro::Chain::issue(&nitro::Recipe { marked, ..nitro::Recipe::new().unwrap() }).unwrap();
        let root = chain.certificates()[0].clone();
        let enclave = nitro::Enclave::new(nitro::Material::from(chain), None);
        let document = enclave.quote(&REPORT_DATA, &[8; 32], &[9; 32]).unwrap();
        Self::new("nitro", &[("doc", &document), ("root", &root)])
    }

    fn every(marked: bool) -> [Self; 3] {
        [Self::snp(&recipe(marked), |_| {}), Self::tdx(marked), Self::nitro(marked)]
    }

    fn with(mut self, key: &str, value: Value) -> Self {
        self.entry[key] = value;
        self
    }

    fn path(&self) -> &Path {
        self.folder.path()
    }

    fn line(&self, test_roots: bool) -> Line {
        lines(self.path(), &[&self.entry], test_roots).remove(0)
    }
}

fn recipe(marked: bool) -> Recipe {
    Recipe { marked, kind: Kind::Vcek, ..Recipe::new(Product::Genoa).unwrap() }
}

fn lines(folder: &Path, entries: &[&Value], test_roots: bool) -> Vec<Line> {
    let index = folder.join("index.json");
    fs::write(&index, json!({"entries": entries}).to_string()).unwrap();
    judge(&index, test_roots).unwrap().collect()
}

#[test]
fn an_entry_s_root_counts_as_the_vendor_s_where_it_may() {
    for marked in [true, false] {
        for case in Case::every(marked) {
            assert_line(&case.line(true), "accept", "");
            assert_line(&case.line(false), "reject", "RootMismatch");
        }
    }
}

/// The flag changes nothing for entries that do not ask for it.
#[test]
fn a_test_root_is_its_entry_s_alone() {
    for case in Case::every(true) {
        for trust in ["AMD ARK", "Intel SGX Root CA", "AWS Nitro Enclaves Root-G1", "our own root"] {
            let mut other = case.entry.clone();
            other["trust"] = json!(trust);
            let [own, others] =
                <[Line; 2]>::try_from(lines(case.path(), &[&case.entry, &other], true)).unwrap();
            assert_line(&own, "accept", "");
            assert_line(&others, "reject", "EvidenceUntrusted");
        }
    }
}

#[test]
fn a_test_root_is_brought_by_its_entry() {
    for (case, file) in Case::every(true).into_iter().zip(["ark", "root", "root"]) {
        let mut files = case.entry["files"].clone();
        files.as_object_mut().unwrap().remove(file);
        assert_line(&case.with("files", files).line(true), "error", &format!("`{file}`"));
    }
}

#[test]
fn under_a_test_root_everything_else_is_checked() {
    let debuggable = |report: &mut [u8; 0x4a0]| report[0x0a] |= 1 << 3;
    let case = Case::snp(&recipe(true), debuggable);
    assert_line(&case.line(true), "reject", "DebugNotAllowed");
    assert_line(&case.with("policy", json!({"allow_debug": true})).line(true), "accept", "");
    let [snp, quote, document] = Case::every(true);
    for (case, file, offset) in [(snp, "report", 0x50), (quote, "quote", 0x100), (document, "doc", 0x100)] {
        let path = case.path().join(file);
        let mut bytes = fs::read(&path).unwrap();
        bytes[offset] ^= 1;
        fs::write(&path, bytes).unwrap();
        let line = case.line(true);
        assert_eq!(line.outcome, "reject", "{}", line.to_json());
    }
}

#[test]
fn min_tcb_bounds_every_part_of_firmware() {
    let case = |floor: Value| Case::snp(&recipe(true), |_| {}).with("policy", json!({"min_tcb": floor}));
    let chip = recipe(true).chip;
    let at = |more: u8| {
        json!({
            "bl": chip.tcb.bootloader + more, "tee": chip.tcb.tee + more,
            "snp": chip.tcb.snp + more, "uc": chip.tcb.microcode + more,
        })
    };
    assert_line(&case(at(0)).line(true), "accept", "");
    for part in ["bl", "tee", "snp", "uc"] {
        let floor = json!({ part: at(1)[part] });
        assert_line(&case(floor).line(true), "reject", "TcbTooLow");
    }
    for unread in [json!(4), json!({"bl": "four"}), json!({"bootloader": 4}), json!({"bl": 256})] {
        assert_line(&case(unread).line(true), "error", "min_tcb");
    }
}
