//! Pushing images with the OCI distribution protocol: blobs that the registry lacks, then the manifest.
//!
//! TLS with the machine's own certificate authorities; plain HTTP only to this machine. Deliberately absent: chunked
//! uploads, cross-repository mounts and retries: pushing again skips what has arrived.

mod archive;
mod auth;
#[cfg(test)]
mod tests;

use std::{path::PathBuf, sync::Arc, time::Duration};

use anyhow::{Context, Result, bail, ensure};
use ureq::{
    Agent, AsSendBody, Body, SendBody,
    http::{Response, StatusCode},
    tls::{PemItem, RootCerts, TlsConfig},
};

use self::{archive::Blobs, auth::Credentials};
use super::{Image, timer::Timer};

const CONNECT_SECONDS_MAX: u64 = 20;
/// From the last byte sent to the first byte received: registries hash what they got before they answer.
const ANSWER_SECONDS_MAX: u64 = 300;
/// What an error repeats of a registry's answer.
const ANSWER_BYTES_MAX: u64 = 2048;
const CERTIFICATES: &str = "/etc/ssl/certs/ca-certificates.crt";

/// A registry, and the path in it that our images go below.
#[derive(Debug)]
pub(super) struct Registry {
    host: String,
    /// Scheme and host.
    base: String,
    path: String,
    agent: Agent,
    credentials: Option<Credentials>,
}

/// What a request is about; `what` words its error.
struct Ask<'a> {
    method: &'a str,
    url: &'a str,
    what: &'a str,
    authorization: Option<&'a str>,
    /// Content type and length.
    content: Option<(&'a str, u64)>,
}

impl Registry {
    /// `HOST[:PORT][/PATH]`, as in an image's name.
    pub(super) fn parse(text: &str) -> Result<Self> {
        let text = text.trim_end_matches('/');
        let (host, path) = text.split_once('/').unwrap_or((text, ""));
        let plain = |part: &str, more: &str| {
            !part.is_empty() && part.chars().all(|c| c.is_ascii_alphanumeric() || more.contains(c))
        };
        ensure!(
            plain(host, ".:-[]") && (path.is_empty() || path.split('/').all(|part| plain(part, "._-"))),
            "{text:?} is not a registry: expected HOST[:PORT][/PATH] without a scheme"
        );
        let local = is_this_machine(host);
        let base = format!("{}://{host}", if local { "http" } else { "https" });
        let agent = agent(local)?;
        Ok(Self {
            host: host.to_owned(),
            base,
            path: path.to_owned(),
            agent,
            credentials: Credentials::of_environment()?,
        })
    }

    /// Pushes `image` and returns it under its name in the registry.
    pub(super) fn push(&self, image: &Image) -> Result<Image> {
        let timer = Timer::start();
        let repository = [self.path.as_str(), image.short_name()].join("/");
        let repository = repository.trim_start_matches('/');
        let pushed = Image { name: format!("{}/{repository}", self.host), ..image.clone() };
        let sent =
            self.send_image(repository, image).with_context(|| format!("push {}", pushed.reference()))?;
        timer.done(format!("pushed {}", pushed.reference()), sent);
        Ok(pushed)
    }

    /// Returns how many bytes had to be sent.
    fn send_image(&self, repository: &str, image: &Image) -> Result<u64> {
        let blobs = Blobs::open(&image.archive)?;
        let manifest = blobs.manifest(image.digest.as_str())?;
        let mut sent = 0;
        for digest in &manifest.blobs {
            sent += self.send_blob(repository, &blobs, digest).with_context(|| format!("blob {digest}"))?;
        }
        let authorization = auth::authorize(self, repository)?;
        let length = manifest.bytes.len() as u64;
        self.ask(
            &Ask {
                method: "PUT",
                url: &format!("{}/v2/{repository}/manifests/{}", self.base, image.tag),
                what: "the manifest",
                authorization: authorization.as_deref(),
                content: Some((&manifest.media_type, length)),
            },
            manifest.bytes.as_slice(),
            &[StatusCode::CREATED],
        )?;
        Ok(sent + length)
    }

    fn send_blob(&self, repository: &str, blobs: &Blobs, digest: &str) -> Result<u64> {
        // Asked for each blob: a token lives for minutes, a blob may take as long.
        let authorization = auth::authorize(self, repository)?;
        let authorization = authorization.as_deref();
        let url = format!("{}/v2/{repository}/blobs/{digest}", self.base);
        let head = Ask { method: "HEAD", url: &url, what: "looking for it", authorization, content: None };
        let held = [StatusCode::OK, StatusCode::TEMPORARY_REDIRECT, StatusCode::NOT_FOUND];
        if self.ask(&head, (), &held)?.status() != StatusCode::NOT_FOUND {
            return Ok(0);
        }
        let url = format!("{}/v2/{repository}/blobs/uploads/", self.base);
        let begin = Ask {
            method: "POST",
            url: &url,
            what: "beginning an upload",
            authorization,
            content: Some(("application/octet-stream", 0)),
        };
        let begun = self.ask(&begin, SendBody::none(), &[StatusCode::ACCEPTED])?;
        let location = begun.headers().get("location").and_then(|value| value.to_str().ok());
        let url =
            upload_url(&self.base, location.context("the registry names no place to upload to")?, digest)?;

        let (mut reader, length) = blobs.reader(digest)?;
        let upload = Ask {
            method: "PUT",
            url: &url,
            what: "uploading it",
            // Credentials are for the registry, not for wherever it stores blobs.
            authorization: authorization.filter(|_| url.starts_with(&format!("{}/", self.base))),
            content: Some(("application/octet-stream", length)),
        };
        self.ask(&upload, SendBody::from_reader(&mut reader), &[StatusCode::CREATED])?;
        Ok(length)
    }

    /// One request. An answer with another status than `expected` is an error with the registry's own words.
    fn ask(&self, ask: &Ask<'_>, body: impl AsSendBody, expected: &[StatusCode]) -> Result<Response<Body>> {
        let mut request = ureq::http::Request::builder().method(ask.method).uri(ask.url);
        if let Some(authorization) = ask.authorization {
            request = request.header("authorization", authorization);
        }
        if let Some((kind, length)) = ask.content {
            request = request.header("content-type", kind).header("content-length", length);
        }
        let request = request
            .body(body)
            .with_context(|| format!("{} has no usable address: {}", self.host, ask.url))?;
        let answer =
            self.agent.run(request).with_context(|| format!("{}: no answer from {}", ask.what, self.host))?;
        if expected.contains(&answer.status()) {
            return Ok(answer);
        }
        let status = answer.status();
        let words =
            answer.into_body().into_with_config().limit(ANSWER_BYTES_MAX).lossy_utf8(true).read_to_string();
        bail!("{}: {} answered {status} {}", ask.what, self.host, words.unwrap_or_default().trim())
    }
}

fn is_this_machine(host: &str) -> bool {
    let name = host.rsplit_once(':').filter(|(_, port)| !port.ends_with(']')).map_or(host, |(name, _)| name);
    matches!(name, "localhost" | "127.0.0.1" | "[::1]")
}

fn agent(local: bool) -> Result<Agent> {
    let config = Agent::config_builder()
        .http_status_as_error(false)
        .max_redirects(0)
        .max_redirects_will_error(false)
        .timeout_connect(Some(Duration::from_secs(CONNECT_SECONDS_MAX)))
        .timeout_recv_response(Some(Duration::from_secs(ANSWER_SECONDS_MAX)))
        .user_agent(concat!("sealane-xtask/", env!("CARGO_PKG_VERSION")));
    if local {
        // A proxy cannot reach this machine's own registry.
        return Ok(config.proxy(None).build().into());
    }
    let provider = rustls::crypto::aws_lc_rs::default_provider();
    let tls = TlsConfig::builder()
        .root_certs(authorities()?)
        .unversioned_rustls_crypto_provider(Arc::new(provider));
    Ok(config.https_only(true).tls_config(tls.build()).build().into())
}

/// The certificate authorities this machine trusts, where OpenSSL would look too.
fn authorities() -> Result<RootCerts> {
    let path = std::env::var_os("SSL_CERT_FILE").map_or_else(|| CERTIFICATES.into(), PathBuf::from);
    let text = std::fs::read(&path).with_context(|| {
        format!("read {} (install ca-certificates, or set SSL_CERT_FILE)", path.display())
    })?;
    let mut certificates = Vec::new();
    for item in ureq::tls::parse_pem(&text) {
        if let PemItem::Certificate(certificate) =
            item.with_context(|| format!("{} is damaged", path.display()))?
        {
            certificates.push(certificate);
        }
    }
    ensure!(!certificates.is_empty(), "{} holds no certificate", path.display());
    Ok(RootCerts::new_with_certs(&certificates))
}

/// Where to put a blob: the registry's `Location`, which may lack the host and may have a query, and the digest.
fn upload_url(base: &str, location: &str, digest: &str) -> Result<String> {
    let scheme = base.split("://").next().unwrap_or_default();
    let url = match location {
        path if path.starts_with('/') => format!("{base}{path}"),
        url if url.starts_with(&format!("{scheme}://")) => url.to_owned(),
        other => bail!("the registry wants the upload at {other:?}, which is not {scheme}"),
    };
    let separator = if url.contains('?') { '&' } else { '?' };
    Ok(format!("{url}{separator}digest={digest}"))
}
