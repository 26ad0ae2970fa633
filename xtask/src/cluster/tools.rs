//! The cluster's programs and base images: built from pinned sources of the Go module proxy, or taken from the
//! system's packages.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context, Result};

use super::{
    cache::{BUILDERS, Cache},
    clients,
    debs::{Debs, check_programs},
    golang,
    place::Place,
};
use crate::{
    oci::{Image, Layer},
    process::{check, find, require, text},
    progress::step,
};

pub(super) const KUBERNETES: &str = "1.36.3";
const COREDNS: &str = "1.14.7";

/// What every pod's network namespace is held by; named in containerd's configuration.
pub const PAUSE_IMAGE: &str = "localhost/pause:1";
/// A shell for tests and for looking around.
pub const BUSYBOX_IMAGE: &str = "localhost/busybox:1";

/// Names that the one Kubernetes program answers to, beside `kubectl` where no package has that.
const COMPONENTS: [&str; 6] =
    ["etcd", "kube-apiserver", "kube-controller-manager", "kube-proxy", "kube-scheduler", "kubelet"];

/// Programs that the init scripts, containerd or the kubelet call and that no one installs for them.
const EXPECTED: [&str; 12] = [
    "bash",
    "containerd",
    "containerd-shim-runc-v2",
    "ctr",
    "env",
    "ip",
    "mount",
    "nft",
    "nsenter",
    "runc",
    "umount",
    "unshare",
];

const HYPERKUBE_SOURCES: [(&str, &str); 4] = [
    ("main.go", include_str!("../../cluster/hyperkube/main.go")),
    ("kubectl.go", include_str!("../../cluster/hyperkube/kubectl.go")),
    ("go.mod", include_str!("../../cluster/hyperkube/go.mod")),
    ("go.sum", include_str!("../../cluster/hyperkube/go.sum")),
];
const COREDNS_SOURCES: [(&str, &str); 3] = [
    ("main.go", include_str!("../../cluster/coredns/main.go")),
    ("go.mod", include_str!("../../cluster/coredns/go.mod")),
    ("go.sum", include_str!("../../cluster/coredns/go.sum")),
];

#[derive(Clone, Debug)]
pub(super) struct Tools {
    pub(super) hyperkube: PathBuf,
    pub(super) kubectl: PathBuf,
    pub(super) coredns: PathBuf,
    pub(super) helm: PathBuf,
    pub(super) debs: Debs,
    /// Archives of `PAUSE_IMAGE` and `BUSYBOX_IMAGE`.
    pub(super) images: Vec<PathBuf>,
}

impl Tools {
    /// Builds or fetches whatever is not in the cache. Needs no root, except for `apt-get update` on a machine
    /// without package lists.
    pub(super) fn prepare(place: &Place) -> Result<Self> {
        let cache = Cache::open(place.tools())?;
        let debs = Debs::prepare(&cache)?;
        let clients = clients::of_package(&cache);
        let hyperkube = hyperkube(&cache, clients.is_none())?;
        let (kubectl, helm) = match clients {
            Some(folder) => (folder.join("kubectl"), folder.join("helm")),
            None => (hyperkube.clone(), clients::helm_of_source(&cache)?),
        };
        Ok(Self {
            images: vec![pause_image(&cache)?, busybox_image(&cache, &debs)?],
            coredns: coredns(&cache)?,
            helm,
            kubectl,
            hyperkube,
            debs,
        })
    }

    /// Links for the person: `bin` holds kubectl and helm. Links for the nodes: `programs` holds everything they
    /// call by name.
    pub(super) fn link(&self, bin: &Path, programs: &Path) -> Result<()> {
        let link = |target: &Path, folder: &Path, name: &str| {
            std::os::unix::fs::symlink(target, folder.join(name)).with_context(|| format!("link {name}"))
        };
        fs::create_dir(bin)?;
        link(&self.kubectl, bin, "kubectl")?;
        link(&self.helm, bin, "helm")?;
        fs::create_dir(programs)?;
        self.debs.link_programs(programs)?;
        for component in COMPONENTS {
            link(&self.hyperkube, programs, component)?;
        }
        link(&self.kubectl, programs, "kubectl")?;
        link(&self.coredns, programs, "coredns")?;
        check_programs(programs, &EXPECTED)
    }
}

/// Whether Kubernetes, which takes longest, was built before, if perhaps of other sources.
pub(super) fn are_built(place: &Place) -> Result<bool> {
    let Ok(entries) = fs::read_dir(place.tools()) else { return Ok(false) };
    for entry in entries {
        if entry?.file_name().to_string_lossy().starts_with("hyperkube-") {
            return Ok(true);
        }
    }
    Ok(false)
}

fn hyperkube(cache: &Cache, with_kubectl: bool) -> Result<PathBuf> {
    // The components report this version, and the API server derives its compatibility from it.
    let version = "k8s.io/component-base/version";
    let (major, rest) = KUBERNETES.split_once('.').unwrap_or((KUBERNETES, ""));
    let minor = rest.split('.').next().unwrap_or_default();
    let flags = format!(
        "-s -w -X {version}.gitVersion=v{KUBERNETES} -X {version}.gitMajor={major} -X {version}.gitMinor={minor} \
         -X {version}.gitCommit=registry -X {version}.gitTreeState=clean \
         -X {version}.buildDate=2026-01-01T00:00:00Z -X k8s.io/client-go/pkg/version.gitVersion=v{KUBERNETES}"
    );
    let what = format!(
        "Building Kubernetes {KUBERNETES} (the first time 4 to 10 minutes, 2 GB of downloads and cache)"
    );
    let tags = if with_kubectl { "kubectl" } else { "" };
    go_build(cache, "hyperkube", &HYPERKUBE_SOURCES, &flags, tags, &what)
}

fn coredns(cache: &Cache) -> Result<PathBuf> {
    let what = format!("Building CoreDNS {COREDNS} (the first time 1 to 2 minutes)");
    go_build(cache, "coredns", &COREDNS_SOURCES, "-s -w", "", &what)
}

/// Builds a Go module from sources that are part of this program. `-trimpath` makes the result, and Go's own build
/// cache, independent of the folder.
fn go_build(
    cache: &Cache,
    name: &str,
    sources: &[(&str, &str)],
    flags: &str,
    tags: &str,
    what: &str,
) -> Result<PathBuf> {
    let texts = sources.iter().map(|(_, text)| text.as_bytes());
    let inputs: Vec<_> = texts.chain([flags.as_bytes(), tags.as_bytes()]).collect();
    let folder = cache.get(name, &inputs, |folder| {
        require(&BUILDERS)?;
        let module = tempfile::tempdir_in(folder)?;
        for (file, text) in sources {
            fs::write(module.path().join(file), text)?;
        }
        step(what, || {
            let mut go = golang();
            go.args(["build", "-trimpath", "-ldflags", flags, "-tags", tags, "-o"]);
            check(go.arg(folder.join(name)).arg(".").current_dir(module.path()).env("GOWORK", "off"))
        })
    })?;
    Ok(folder.join(name))
}

/// Kubernetes' own pause program, compiled without a C library to load.
fn pause_image(cache: &Cache) -> Result<PathBuf> {
    let folder = cache.get("pause", &[KUBERNETES.as_bytes(), b"1"], |folder| {
        require(&BUILDERS)?;
        #[derive(serde::Deserialize)]
        #[serde(rename_all = "PascalCase")]
        struct Module {
            dir: PathBuf,
        }
        let mut go = Command::new("go");
        go.args(["mod", "download", "-json", &format!("k8s.io/kubernetes@v{KUBERNETES}")])
            .current_dir(folder);
        let module: Module = serde_json::from_str(&text(go.env("GOWORK", "off").env_remove("GOFLAGS"))?)?;
        let program = folder.join("pause");
        let mut gcc = Command::new("gcc");
        gcc.args(["-Os", "-static", "-s", "-DVERSION=local", "-o"]).arg(&program);
        check(gcc.arg(module.dir.join("build/pause/linux/pause.c"))).context("compile the pause program")?;
        let layer = Layer::new().copy("pause", 0o755, program);
        Image::new(PAUSE_IMAGE)
            .layer(layer)
            .entrypoint(["/pause"])
            .user("65535:65535")
            .write(&folder.join("pause.tar"))?;
        Ok(())
    })?;
    Ok(folder.join("pause.tar"))
}

fn busybox_image(cache: &Cache, debs: &Debs) -> Result<PathBuf> {
    let program = debs.program("busybox").or_else(|error| find("busybox").ok_or(error))?;
    let folder = cache.get("busybox", &[&fs::read(&program)?, b"1"], |folder| {
        let mut layer = Layer::base().copy("bin/busybox", 0o755, &program);
        for applet in
            text(Command::new(&program).arg("--list"))?.lines().filter(|applet| *applet != "busybox")
        {
            layer = layer.link(format!("bin/{applet}"), "busybox");
        }
        Image::new(BUSYBOX_IMAGE).layer(layer).cmd(["sh"]).write(&folder.join("busybox.tar"))?;
        Ok(())
    })?;
    Ok(folder.join("busybox.tar"))
}
